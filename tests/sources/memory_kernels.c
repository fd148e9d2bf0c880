/* Kernels with a mistake in their use of memory; the lines that checks have to name end with the mistake's name. */
#include "okk.h"

typedef struct {
    unsigned long long x, y;
    int n;
} args_t;

void copy_rows(const void *args) { // NEVER
    const args_t *p = args;
    dim4 shape = {1, 64, 1, p->n};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->x, &shape, NULL, NULL); // READS
    if (p->y) okk_gdma_32bit_cpy_L2S(p->y, 0, &shape, NULL, NULL); // WRITES
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(copy_rows)

/* The even words, then the odd ones: a loop of either writes memory that lies apart. */
void write_apart(const void *args) {
    const args_t *p = args;
    volatile int *y = (volatile int *)okk_global_mem_addr(p->y);
    for (int i = 0; i < p->n; i += 2) y[i] = i;
    for (int i = 1; i < p->n; i += 2) y[i] = i;
}
OKKERNEL_FUNC_REGISTER(write_apart)

void sum_words(const void *args) {
    const args_t *p = args;
    const volatile int *x = (const volatile int *)okk_global_mem_addr(p->x);
    volatile int *y = (volatile int *)okk_global_mem_addr(p->y);
    int sum = 0;
    for (int i = 0; i < p->n; i++) sum += x[i]; // POINTER
    y[0] = sum;
}
OKKERNEL_FUNC_REGISTER(sum_words)

void crash(const void *args) {
    (void)args;
    *(volatile int *)0 = 1;
}
OKKERNEL_FUNC_REGISTER(crash)
