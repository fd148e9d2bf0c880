/* stdlib.h but for the heap: integers, sorting, numbers from text, random numbers. */
#include "include/stdlib.h"

#include <limits.h>
#include <string.h>

#include "libc_internal.h"
#include "libc_port.h"

int abs(int value) { return value < 0 ? (int)(0u - (unsigned)value) : value; }
long labs(long value) { return value < 0 ? (long)(0ul - (unsigned long)value) : value; }
long long llabs(long long value) { return value < 0 ? (long long)(0ull - (unsigned long long)value) : value; }

div_t div(int numerator, int denominator) {
    return (div_t){numerator / denominator, numerator % denominator};
}
ldiv_t ldiv(long numerator, long denominator) {
    return (ldiv_t){numerator / denominator, numerator % denominator};
}
lldiv_t lldiv(long long numerator, long long denominator) {
    return (lldiv_t){numerator / denominator, numerator % denominator};
}

void abort(void) {
#if defined __arm__
    __asm__ volatile(".word 0xE7F0ABF0"); /* undefined, and known to firmware_sim/arm/machine.py */
#endif
    fw_assert_failed("abort was not called", __FILE__, __LINE__, __func__);
}

void exit(int status) {
    (void)status;
#if defined __arm__
    __asm__ volatile(".word 0xE7F0EBF0"); /* as above */
#endif
    fw_assert_failed("exit was not called", __FILE__, __LINE__, __func__);
}

/* ---- sorting: a heap needs neither memory nor luck ---- */

static void swap(char *a, char *b, size_t bytes) {
    for (; bytes != 0; bytes--, a++, b++) {
        char kept = *a;
        *a = *b;
        *b = kept;
    }
}

static void sink(char *base, size_t root, size_t count, size_t bytes, int (*compare)(const void *, const void *)) {
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count) return;
        if (child + 1 < count && compare(base + child * bytes, base + (child + 1) * bytes) < 0) child++;
        if (compare(base + root * bytes, base + child * bytes) >= 0) return;
        swap(base + root * bytes, base + child * bytes, bytes);
        root = child;
    }
}

void qsort(void *base, size_t count, size_t bytes, int (*compare)(const void *, const void *)) {
    for (size_t root = count / 2; root-- > 0;) sink(base, root, count, bytes, compare);
    for (size_t last = count; last-- > 1;) {
        swap(base, (char *)base + last * bytes, bytes);
        sink(base, 0, last, bytes, compare);
    }
}

void *bsearch(const void *key, const void *base, size_t count, size_t bytes,
              int (*compare)(const void *, const void *)) {
    const char *low = base;
    while (count != 0) {
        const char *middle = low + count / 2 * bytes;
        int order = compare(key, middle);
        if (order == 0) return (void *)(uintptr_t)middle;
        if (order > 0) low = middle + bytes;
        count = order > 0 ? count - count / 2 - 1 : count / 2;
    }
    return NULL;
}

/* ---- numbers from text ---- */

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
    return INT_MAX;
}

/* The number's size, at most `most` (`most_negative` behind a minus sign). */
static unsigned long long parse(const char *text, char **end, int base, unsigned long long most,
                                unsigned long long most_negative, _Bool *negative, _Bool *over) {
    const char *at = text;
    while (*at == ' ' || (*at >= '\t' && *at <= '\r')) at++;
    *negative = *at == '-';
    if (*at == '-' || *at == '+') at++;
    if ((base == 0 || base == 16) && at[0] == '0' && (at[1] | 32) == 'x' && digit_of(at[2]) < 16) {
        at += 2;
        base = 16;
    } else if (base == 0) {
        base = *at == '0' ? 8 : 10;
    }
    unsigned long long limit = *negative ? most_negative : most, value = 0;
    const char *first = at;
    for (*over = 0; digit_of(*at) < base; at++) {
        unsigned digit = (unsigned)digit_of(*at);
        if (*over || digit > limit || value > (limit - digit) / (unsigned)base) {
            *over = 1;
            value = limit;
        } else {
            value = value * (unsigned)base + digit;
        }
    }
    if (end != NULL) *end = (char *)(uintptr_t)(at == first ? text : at);
    return value;
}

long long strtoll(const char *restrict text, char **restrict end, int base) {
    _Bool negative, over;
    unsigned long long value = parse(text, end, base, LLONG_MAX, 0ull - (unsigned long long)LLONG_MIN, &negative, &over);
    return (long long)(negative ? 0 - value : value);
}

long strtol(const char *restrict text, char **restrict end, int base) {
    _Bool negative, over;
    unsigned long long value = parse(text, end, base, LONG_MAX, 0ull - (unsigned long long)LONG_MIN, &negative, &over);
    return (long)(negative ? 0 - value : value);
}

/* A minus sign negates what came before the limit, as C says; beyond it the limit stays as it is. */
unsigned long long strtoull(const char *restrict text, char **restrict end, int base) {
    _Bool negative, over;
    unsigned long long value = parse(text, end, base, ULLONG_MAX, ULLONG_MAX, &negative, &over);
    return negative && !over ? 0 - value : value;
}

unsigned long strtoul(const char *restrict text, char **restrict end, int base) {
    _Bool negative, over;
    unsigned long value = (unsigned long)parse(text, end, base, ULONG_MAX, ULONG_MAX, &negative, &over);
    return negative && !over ? 0 - value : value;
}

int atoi(const char *text) {
    long long value = strtoll(text, NULL, 10);
    return value > INT_MAX ? INT_MAX : value < INT_MIN ? INT_MIN : (int)value;
}
long atol(const char *text) { return strtol(text, NULL, 10); }
long long atoll(const char *text) { return strtoll(text, NULL, 10); }

/* ---- random numbers: a 64-bit linear congruence, its upper bits ---- */

static uint64_t seed = 1;

void srand(unsigned value) { seed = value; }

int rand(void) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (int)(seed >> 33);
}
