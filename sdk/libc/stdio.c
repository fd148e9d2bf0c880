/* stdio.h: formatting into memory, and text for the device log. */
#include "include/stdio.h"

#include <limits.h>
#include <string.h>

#include "libc_internal.h"
#include "libc_port.h"

/* ---- into memory ---- */

int vsnprintf(char *restrict text, size_t capacity, const char *restrict format, va_list arguments) {
    return fw_format(text, capacity, format, arguments);
}

int vsprintf(char *restrict text, const char *restrict format, va_list arguments) {
    return fw_format(text, INT_MAX, format, arguments);
}

int snprintf(char *restrict text, size_t capacity, const char *restrict format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = fw_format(text, capacity, format, arguments);
    va_end(arguments);
    return length;
}

int sprintf(char *restrict text, const char *restrict format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = fw_format(text, INT_MAX, format, arguments);
    va_end(arguments);
    return length;
}

/* ---- to the log, in pieces that it takes whole ---- */

enum { PIECE = 256 };

static void to_log(fw_sink *sink) {
    size_t length = 0;
    for (size_t i = 0; i < sink->used; i++)
        if (sink->text[i] != '\0') sink->text[length++] = sink->text[i];
    sink->text[length] = '\0';
    if (length != 0) fw_log(0, (char *)"%s", sink->text);
    sink->used = 0;
}

int vprintf(const char *restrict format, va_list arguments) {
    char text[PIECE + 1];
    fw_sink sink = {.text = text, .capacity = PIECE, .full = to_log};
    _Bool fits = fw_format_to(&sink, format, arguments);
    to_log(&sink);
    return fits ? (int)sink.total : -1;
}

int printf(const char *restrict format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vprintf(format, arguments);
    va_end(arguments);
    return length;
}

/* Not printf: a compiler may make puts and putchar of its calls. */
static void print(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
}

int puts(const char *text) {
    print("%s\n", text);
    return 0;
}

int putchar(int character) {
    print("%c", character);
    return (unsigned char)character;
}

/* ---- streams ---- */

struct fw_file {
    char unused;
};

static FILE log_stream;
FILE *const fw_stdout = &log_stream, *const fw_stderr = &log_stream;

int vfprintf(FILE *restrict stream, const char *restrict format, va_list arguments) {
    (void)stream;
    return vprintf(format, arguments);
}

int fprintf(FILE *restrict stream, const char *restrict format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vfprintf(stream, format, arguments);
    va_end(arguments);
    return length;
}

int fputs(const char *restrict text, FILE *restrict stream) {
    (void)stream;
    print("%s", text);
    return 0;
}

int fputc(int character, FILE *stream) {
    (void)stream;
    return putchar(character);
}

int fflush(FILE *stream) {
    (void)stream;
    return 0;
}
