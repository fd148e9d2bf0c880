/* Kernels for tests/stress.py: one that computes, and ways to go wrong whose errors carry a number. */
#include <stddef.h>
#include <stdlib.h>

#include "okk.h"

typedef struct {
    unsigned long long in, out;
    int n;
    float number;
    unsigned tag;
} __attribute__((packed)) args_t;

void compute(const void *args) {
    const args_t *a = args;
    dim4 shape = {1, 64, 1, a->n};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, a->in, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, a->number, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(a->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(compute)

void says(const void *args) {
    const args_t *a = args;
    OKKERNEL_LOG("tag %u\n", a->tag);
}
OKKERNEL_FUNC_REGISTER(says)

void refused(const void *args) { /* the message has the address */
    const args_t *a = args;
    dim4 shape = {1, 1, 1, 1};
    okk_initialize();
    okk_bdc_rsqrt(a->tag % 1000 * 128 + 4, 0x10000, &shape);
}
OKKERNEL_FUNC_REGISTER(refused)

void illegal(const void *args) { /* refused by the engines: the message has the address */
    const args_t *a = args;
    dim4 shape = {1, 64, 448, 256};
    okk_initialize();
    okk_bdc_add_C(0x20000 + a->tag % 1000 * 128, 0, 1.0f, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(illegal)

static volatile int sink, zero;

void crashes(const void *args) {
    (void)args;
    int *volatile nowhere = NULL;
    *nowhere = 1;
}
OKKERNEL_FUNC_REGISTER(crashes)

void aborts(const void *args) {
    (void)args;
    abort();
}
OKKERNEL_FUNC_REGISTER(aborts)

void divides(const void *args) {
    (void)args;
    sink = sink / zero;
}
OKKERNEL_FUNC_REGISTER(divides)

void endless(const void *args) {
    (void)args;
    for (;;) sink++;
}
OKKERNEL_FUNC_REGISTER(endless)
