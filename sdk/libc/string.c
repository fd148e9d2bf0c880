/* The rest of string.h: looking and comparing, byte by byte. */
#include <string.h>

#include "libc_internal.h"

FW_PLAIN_LOOPS int memcmp(const void *a, const void *b, size_t bytes) {
    const uint8_t *x = a, *y = b;
    for (; bytes != 0; bytes--, x++, y++)
        if (*x != *y) return *x < *y ? -1 : 1;
    return 0;
}

FW_PLAIN_LOOPS void *memchr(const void *in, int value, size_t bytes) {
    for (const uint8_t *at = in; bytes != 0; bytes--, at++)
        if (*at == (uint8_t)value) return (void *)(uintptr_t)at;
    return NULL;
}

FW_PLAIN_LOOPS size_t strlen(const char *text) {
    const char *at = text;
    while (*at != '\0') at++;
    return (size_t)(at - text);
}

FW_PLAIN_LOOPS size_t strnlen(const char *text, size_t limit) {
    size_t length = 0;
    while (length < limit && text[length] != '\0') length++;
    return length;
}

FW_PLAIN_LOOPS int strncmp(const char *a, const char *b, size_t limit) {
    const uint8_t *x = (const uint8_t *)a, *y = (const uint8_t *)b;
    for (; limit != 0; limit--, x++, y++) {
        if (*x != *y) return *x < *y ? -1 : 1;
        if (*x == 0) break;
    }
    return 0;
}

int strcmp(const char *a, const char *b) { return strncmp(a, b, SIZE_MAX); }

FW_PLAIN_LOOPS char *strcpy(char *restrict to, const char *restrict from) {
    char *at = to;
    while ((*at++ = *from++) != '\0') {
    }
    return to;
}

FW_PLAIN_LOOPS char *strncpy(char *restrict to, const char *restrict from, size_t bytes) {
    size_t i = 0;
    for (; i < bytes && from[i] != '\0'; i++) to[i] = from[i];
    for (; i < bytes; i++) to[i] = '\0';
    return to;
}

FW_PLAIN_LOOPS char *strncat(char *restrict to, const char *restrict from, size_t limit) {
    char *at = to;
    while (*at != '\0') at++;
    for (; limit != 0 && *from != '\0'; limit--) *at++ = *from++;
    *at = '\0';
    return to;
}

FW_PLAIN_LOOPS char *strcat(char *restrict to, const char *restrict from) {
    char *at = to;
    while (*at != '\0') at++;
    while ((*at++ = *from++) != '\0') {
    }
    return to;
}

FW_PLAIN_LOOPS char *strchr(const char *text, int character) {
    for (;; text++) {
        if (*text == (char)character) return (char *)(uintptr_t)text;
        if (*text == '\0') return NULL;
    }
}

FW_PLAIN_LOOPS char *strrchr(const char *text, int character) {
    const char *found = NULL;
    for (;; text++) {
        if (*text == (char)character) found = text;
        if (*text == '\0') return (char *)(uintptr_t)found;
    }
}

FW_PLAIN_LOOPS char *strstr(const char *text, const char *part) {
    for (;; text++) {
        size_t same = 0;
        while (part[same] != '\0' && part[same] == text[same]) same++;
        if (part[same] == '\0') return (char *)(uintptr_t)text;
        if (*text == '\0') return NULL;
    }
}
