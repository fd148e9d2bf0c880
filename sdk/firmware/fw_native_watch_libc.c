/* Functions of the C library as watched code calls them (fw_watched_names.h): what they read and write is noted.
 * A kernel may have a function of its own by such a name, which is the one then.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fw_native_watch.h"

#pragma GCC visibility push(hidden)

#define TWIN(TYPE, NAME, PARAMETERS, ...)                                                                     \
    __attribute__((weak)) TYPE fw_watched_##NAME PARAMETERS;                                                  \
    TYPE fw_watched_##NAME PARAMETERS { __VA_ARGS__ }
#define READS(start, size) FW_WATCHED_RANGE(start, size, false)
#define WRITES(start, size) FW_WATCHED_RANGE(start, size, true)

static size_t text_bytes(const char *text) { return strlen(text) + 1; }

static size_t text_within(const char *text, size_t limit) {
    size_t length = strnlen(text, limit);
    return length < limit ? length + 1 : limit;
}

static size_t differs(const void *a, const void *b, size_t bytes) {
    const char *x = a, *y = b;
    size_t i = 0;
    while (i < bytes && x[i] == y[i]) i++;
    return i < bytes ? i + 1 : bytes;
}

/* Up to where two texts differ; that byte is read. */
static size_t compared(const char *a, const char *b, size_t limit) {
    size_t i = 0;
    while (i < limit && a[i] == b[i] && a[i] != 0) i++;
    return i < limit ? i + 1 : limit;
}

TWIN(void *, memcpy, (void *to, const void *from, size_t bytes),
     READS(from, bytes);
     WRITES(to, bytes);
     return memcpy(to, from, bytes);)
TWIN(void *, memmove, (void *to, const void *from, size_t bytes),
     READS(from, bytes);
     WRITES(to, bytes);
     return memmove(to, from, bytes);)
TWIN(void *, memset, (void *start, int value, size_t bytes), WRITES(start, bytes); return memset(start, value, bytes);)
TWIN(int, memcmp, (const void *a, const void *b, size_t bytes),
     READS(a, differs(a, b, bytes));
     READS(b, differs(a, b, bytes));
     return memcmp(a, b, bytes);)
TWIN(void *, memchr, (const void *in, int value, size_t bytes),
     const char *found = memchr(in, value, bytes);
     READS(in, found != NULL ? (size_t)(found - (const char *)in) + 1 : bytes);
     return (void *)(uintptr_t)found;)

TWIN(size_t, strlen, (const char *text), size_t length = strlen(text); READS(text, length + 1); return length;)
TWIN(size_t, strnlen, (const char *text, size_t limit), READS(text, text_within(text, limit)); return strnlen(text, limit);)
TWIN(int, strcmp, (const char *a, const char *b),
     READS(a, compared(a, b, SIZE_MAX));
     READS(b, compared(a, b, SIZE_MAX));
     return strcmp(a, b);)
TWIN(int, strncmp, (const char *a, const char *b, size_t limit),
     READS(a, compared(a, b, limit));
     READS(b, compared(a, b, limit));
     return strncmp(a, b, limit);)
TWIN(char *, strcpy, (char *to, const char *from),
     READS(from, text_bytes(from));
     WRITES(to, text_bytes(from));
     return strcpy(to, from);)
TWIN(char *, strncpy, (char *to, const char *from, size_t bytes),
     READS(from, text_within(from, bytes));
     WRITES(to, bytes);
     return strncpy(to, from, bytes);)
TWIN(char *, strcat, (char *to, const char *from),
     READS(to, text_bytes(to));
     READS(from, text_bytes(from));
     WRITES(to + strlen(to), text_bytes(from));
     return strcat(to, from);)
TWIN(char *, strncat, (char *to, const char *from, size_t limit),
     READS(to, text_bytes(to));
     READS(from, text_within(from, limit));
     WRITES(to + strlen(to), strnlen(from, limit) + 1);
     return strncat(to, from, limit);)
TWIN(char *, strchr, (const char *text, int character), 
     const char *found = strchr(text, character);
     READS(text, found != NULL ? (size_t)(found - text) + 1 : text_bytes(text));
     return (char *)(uintptr_t)found;)
TWIN(char *, strrchr, (const char *text, int character), READS(text, text_bytes(text)); return (char *)(uintptr_t)strrchr(text, character);)
TWIN(char *, strstr, (const char *text, const char *part),
     const char *found = strstr(text, part);
     READS(text, found != NULL ? (size_t)(found - text) + strlen(part) : text_bytes(text));
     READS(part, text_bytes(part));
     return (char *)(uintptr_t)found;)
TWIN(char *, strdup, (const char *text), READS(text, text_bytes(text)); return strdup(text);)
TWIN(char *, strndup, (const char *text, size_t limit), READS(text, text_within(text, limit)); return strndup(text, limit);)

typedef int comparison(const void *, const void *);

/* What the comparison itself reads may be a copy. */
TWIN(void, qsort, (void *base, size_t count, size_t bytes, comparison *compare),
     READS(base, count * bytes);
     WRITES(base, count * bytes);
     qsort(base, count, bytes, compare);)

/* What %s takes is not noted. */
TWIN(int, vsnprintf, (char *to, size_t room, const char *format, va_list arguments),
     int length = vsnprintf(to, room, format, arguments);
     WRITES(to, length < 0 || room == 0 ? 0 : (size_t)length < room ? (size_t)length + 1 : room);
     return length;)

__attribute__((weak)) int fw_watched_snprintf(char *to, size_t room, const char *format, ...);
int fw_watched_snprintf(char *to, size_t room, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(to, room, format, arguments);
    va_end(arguments);
    WRITES(to, length < 0 || room == 0 ? 0 : (size_t)length < room ? (size_t)length + 1 : room);
    return length;
}

__attribute__((weak)) int fw_watched_sprintf(char *to, const char *format, ...);
int fw_watched_sprintf(char *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsprintf(to, format, arguments);
    va_end(arguments);
    WRITES(to, length < 0 ? 0 : (size_t)length + 1);
    return length;
}

#pragma GCC visibility pop
