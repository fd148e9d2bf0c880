/* stdlib.h of the controller. malloc, calloc and realloc share one heap; a block that is
 * freed twice, or a pointer that did not come from there, ends the request with a message. */
#ifndef FW_LIBC_STDLIB_H
#define FW_LIBC_STDLIB_H

#include <stddef.h>

#define RAND_MAX 0x7fffffff
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1

typedef struct {
    int quot, rem;
} div_t;
typedef struct {
    long quot, rem;
} ldiv_t;
typedef struct {
    long long quot, rem;
} lldiv_t;

int abs(int value);
long labs(long value);
long long llabs(long long value);
div_t div(int numerator, int denominator);
ldiv_t ldiv(long numerator, long denominator);
lldiv_t lldiv(long long numerator, long long denominator);

/* Not stable: elements that compare equal may change places. */
void qsort(void *base, size_t count, size_t bytes, int (*compare)(const void *, const void *));
void *bsearch(const void *key, const void *base, size_t count, size_t bytes,
              int (*compare)(const void *, const void *));

/* A number out of range becomes the nearest one in range; there is no errno. */
int atoi(const char *text);
long atol(const char *text);
long long atoll(const char *text);
long strtol(const char *restrict text, char **restrict end, int base);
long long strtoll(const char *restrict text, char **restrict end, int base);
unsigned long strtoul(const char *restrict text, char **restrict end, int base);
unsigned long long strtoull(const char *restrict text, char **restrict end, int base);

int rand(void); /* 0..RAND_MAX; the same numbers after the same srand */
void srand(unsigned value);

void abort(void) __attribute__((noreturn)); /* ends the request */
void exit(int status) __attribute__((noreturn)); /* also that: there is nothing to return to */

/* Blocks are aligned to 16 bytes; NULL when the heap has no room. malloc(0) gives a block too. */
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *memory, size_t bytes);
void free(void *memory);

#endif
