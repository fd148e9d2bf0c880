/* The controller's C library as a table of functions, for tests that call them by name. The library's
 * own names are hidden, so what a test gets is never the function of the machine's C library.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fw_format.h"
#include "fw_heap.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- what the firmware gives the library ---- */

EXPORT char failed[512];
EXPORT char logged[8192];
static void *unwind_to[5];

/* Leaves the call that made_to_fail made. */
EXPORT __attribute__((noreturn)) void fw_assert_failed(const char *assertion, const char *file, int line,
                                                       const char *function) {
    (void)file, (void)line;
    snprintf(failed, sizeof failed, "%s: %s", function, assertion);
    __builtin_longjmp(unwind_to, 1);
}

EXPORT __attribute__((noreturn)) void fw_heap_misused(const char *function, const char *why, const void *caller) {
    (void)caller;
    snprintf(failed, sizeof failed, "%s: %s", function, why);
    __builtin_longjmp(unwind_to, 1);
}

EXPORT __attribute__((noreturn)) void fw_heap_damaged(const char *function) {
    snprintf(failed, sizeof failed, "%s: memory was written beyond a block", function);
    __builtin_longjmp(unwind_to, 1);
}

EXPORT __attribute__((noreturn)) void fw_stack_damaged(const void *where) {
    (void)where;
    for (;;) __builtin_trap();
}

EXPORT void fw_log(int level, char *format, ...) {
    (void)level;
    va_list arguments;
    va_start(arguments, format);
    size_t used = strlen(logged);
    fw_format(logged + used, sizeof logged - used, format, arguments);
    va_end(arguments);
}

/* ---- functions of the tests ---- */

/* function(a, b), or what ended it. */
static uintptr_t made_to_fail(uintptr_t (*function)(uintptr_t, uintptr_t), uintptr_t a, uintptr_t b) {
    failed[0] = '\0';
    if (__builtin_setjmp(unwind_to) != 0) return 0;
    return function(a, b);
}

/* printf's functions with the arguments of a test: two of any kind. */
static int format_ints(char *text, size_t capacity, const char *format, uint32_t a, uint32_t b) {
    return snprintf(text, capacity, format, a, b);
}
static int format_wide(char *text, size_t capacity, const char *format, uint64_t *value) {
    return snprintf(text, capacity, format, *value);
}
static int format_double(char *text, size_t capacity, const char *format, double *value) {
    return snprintf(text, capacity, format, *value);
}
static int format_starred(char *text, size_t capacity, const char *format, int *numbers, double *value) {
    return snprintf(text, capacity, format, numbers[0], numbers[1], *value);
}
static int format_text(char *text, size_t capacity, const char *format, const char *argument) {
    return snprintf(text, capacity, format, argument);
}
static int format_same(char *text, size_t capacity, const char *format, int i) {
    return snprintf(text, capacity, format, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i);
}
static int format_many(char *text) {
    int none = 5;
    return sprintf(text, "%" PRId8 " %" PRIi16 " %" PRIu32 " %" PRIx64 " %" PRIdPTR " %s%n %5.2f|%-6s|%c%%", (int8_t)-1,
                   (int16_t)-2, (uint32_t)3, UINT64_C(0x123456789abcdef0), (intptr_t)-4, "text", &none, 2.5, "ab",
                   'c') * (none == 5);
}
static int log_text(const char *format, const char *argument) { return printf(format, argument); }

static int compare_words(const void *a, const void *b) {
    int32_t x, y;
    memcpy(&x, a, 4);
    memcpy(&y, b, 4);
    return x < y ? -1 : x > y;
}
static int compare_bytes(const void *a, const void *b) { return memcmp(a, b, 3); }
static void sort_words(void *base, size_t count) { qsort(base, count, 4, compare_words); }
static void sort_triples(void *base, size_t count) { qsort(base, count, 3, compare_bytes); }
static const void *search_words(const void *key, const void *base, size_t count) {
    return bsearch(key, base, count, 4, compare_words);
}

static void divided(int *result, int a, int b) {
    div_t by = div(a, b);
    ldiv_t by_long = ldiv(a, b);
    lldiv_t by_long_long = lldiv(a, b);
    result[0] = by.quot, result[1] = by.rem;
    result[2] = (int)by_long.quot, result[3] = (int)by_long.rem;
    result[4] = (int)by_long_long.quot, result[5] = (int)by_long_long.rem;
}
static void parsed(const char *text, int base, long long *signed_value, unsigned long long *value, char **end) {
    *signed_value = strtoll(text, &end[0], base);
    *value = strtoull(text, &end[1], base);
}

typedef struct {
    const char *name;
    void *function;
} entry;

#define E(name) {#name, (void *)(uintptr_t)name}
EXPORT const entry functions[] = {
    E(memcpy),        E(memmove),      E(memset),        E(memcmp),       E(memchr),      E(strlen),
    E(strnlen),       E(strcmp),       E(strncmp),       E(strcpy),       E(strncpy),     E(strcat),
    E(strncat),       E(strchr),       E(strrchr),       E(strstr),       E(abs),         E(labs),
    E(llabs),         E(divided),      E(parsed),        E(atoi),         E(atol),        E(atoll),
    E(strtol),        E(strtoul),      E(rand),          E(srand),        E(abort),       E(malloc),
    E(calloc),        E(realloc),      E(free),          E(fw_heap_init), E(fw_heap_check), E(strdup), E(strndup), E(sort_words),  E(sort_triples),
    E(search_words),  E(format_ints),  E(format_wide),   E(format_text),  E(format_many), E(format_double),
    E(format_starred), E(log_text),    E(puts),          E(putchar),      E(made_to_fail),
    E(format_same),
    {NULL, NULL},
};
