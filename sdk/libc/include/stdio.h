/* stdio.h of the controller: text goes to the device log or into memory. Conversions: d i u x X o c s p
 * f F e E g G %, flags - + space # 0, width, precision, *, lengths hh h l ll j z t L. %n stores nothing. */
#ifndef FW_LIBC_STDIO_H
#define FW_LIBC_STDIO_H

#include <stdarg.h>
#include <stddef.h>

#define EOF (-1)

int snprintf(char *restrict text, size_t capacity, const char *restrict format, ...)
    __attribute__((format(printf, 3, 4)));
int vsnprintf(char *restrict text, size_t capacity, const char *restrict format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
int sprintf(char *restrict text, const char *restrict format, ...) __attribute__((format(printf, 2, 3)));
int vsprintf(char *restrict text, const char *restrict format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* To the device log. A NUL character (%c of 0) is left out. */
int printf(const char *restrict format, ...) __attribute__((format(printf, 1, 2)));
int vprintf(const char *restrict format, va_list arguments) __attribute__((format(printf, 1, 0)));
int puts(const char *text);
int putchar(int character);

#endif
