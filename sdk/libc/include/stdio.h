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

/* There are two streams, and both are the device log; nothing is kept back, so there is nothing to flush. */
typedef struct fw_file FILE;
extern FILE *const fw_stdout, *const fw_stderr;
#define stdout fw_stdout
#define stderr fw_stderr
int fprintf(FILE *restrict stream, const char *restrict format, ...) __attribute__((format(printf, 2, 3)));
int vfprintf(FILE *restrict stream, const char *restrict format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
int fputs(const char *restrict text, FILE *restrict stream);
int fputc(int character, FILE *stream);
#define putc fputc
int fflush(FILE *stream);

#endif
