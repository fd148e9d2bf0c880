/* Kernels for host programs that have them inside: one that works, and ways to go wrong. */
#include <stdlib.h>
#include "bmlib_runtime.h"
#include "okk.h"

typedef struct { unsigned long long addr; int n; float add; } __attribute__((packed)) args_t;
static int launches;

void plus(const void *args) {
    const args_t *p = args;
    dim4 shape = {1, 1, 1, p->n};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->addr, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, p->add, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->addr, 0, &shape, NULL, NULL);
    okk_poll();
    printf("launch %d\n", ++launches);
}
OKKERNEL_FUNC_REGISTER(plus)

void crash(const void *args) { (void)args; *(volatile int *)8 = 1; }
OKKERNEL_FUNC_REGISTER(crash)
void endless(const void *args) { for (volatile unsigned i = 0;; i = i + 1) (void)args; }
OKKERNEL_FUNC_REGISTER(endless)
void leaves(const void *args) { (void)args; exit(3); }
OKKERNEL_FUNC_REGISTER(leaves)
void refused(const void *args) {
    dim4 shape = {1, 5000, 1, 1};
    (void)args;
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
}
OKKERNEL_FUNC_REGISTER(refused)
void illegal(const void *args) {
    dim4 shape = {1, 1, 1, 4};
    (void)args;
    OKKERNEL_LOG("log %d\n", 7);
    okk_gdma_32bit_cpy_S2L(0, 0x77000000, &shape, NULL, NULL); /* no memory is there */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(illegal)
void deep(const void *args) { volatile char room[1 << 16]; room[0] = 0; if (args) deep((void *)room); room[1] = 0; }
OKKERNEL_FUNC_REGISTER(deep)

int bmkernel_func(void *args) {
    /* the table's first word, to where the arguments say */
    const args_t *p = args;
    if (p->n == 0) return 5;
    unsigned l2 = 0x10000000; /* the address of a table counts from there */
    *(int *)okk_global_mem_addr(p->addr) = *(int *)okk_l2_sram_addr(l2 + okk_lookup_table_start_addr());
    return 0;
}
