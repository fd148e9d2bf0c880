/* Kernels for tests/fuzz/messages.py. */
#include "okk.h"

typedef struct {
    unsigned long long addr;
    float value;
} __attribute__((packed)) sane_t;

/* Shows that the device works. */
void sane(const void *args) {
    const sane_t *a = args;
    dim4 shape = {1, 1, 1, 64};
    okk_initialize();
    okk_gdma_32bit_set_C_system(a->addr, (x32)a->value, &shape, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sane)

#if defined __arm__
enum { WAIT = 1, COMMANDS = 2, TWICE = 4 };

typedef struct {
    unsigned flags, count;
    struct {
        unsigned addr, value;
    } pokes[];
} poke_t;

static void commands(void) {
    dim4 shape = {1, 1, 1, 1};
    okk_initialize();
    okk_bdc_add_C(0, 0, 1.0f, &shape, NULL, NULL);
}

/* Writes wherever it is told to, as a kernel with a wild pointer does. */
void poke(const void *args) {
    const poke_t *a = args;
    for (int round = 0; round < (a->flags & TWICE ? 2 : 1); round++) {
        if (a->flags & COMMANDS) commands();
        for (unsigned i = 0; i < a->count; i++) *(volatile unsigned *)a->pokes[i].addr = a->pokes[i].value;
        if (a->flags & WAIT) __asm__ volatile("mcr p15, 0, %0, c7, c0, 4" ::"r"(0) : "memory");
        if (a->flags & COMMANDS) okk_poll();
    }
}
OKKERNEL_FUNC_REGISTER(poke)
#endif
