/* What tests/firmware/test_watched.py looks at: comments in brackets name lines. */
#include "okk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    unsigned long long ddr; /* 64 KiB */
} __attribute__((packed)) where;

static const dim4 shape = {1, 64, 1, 32};
static int outside[64]; /* the firmware's own memory: nobody is told */

/* ---- who issues commands ---- */

static inline __attribute__((always_inline)) void twice(local_addr_t at) {
    okk_bdc_add_C(at, at, 1.0f, &shape, NULL, NULL); /* [inlined] */
}

static __attribute__((noinline)) void both(local_addr_t at) {
    twice(at); /* [into inlined] */
    okk_bdc_mul_C(at, at, 2.0f, &shape, NULL, NULL); /* [plain] */
}

static __attribute__((noinline)) void down(int depth) {
    if (depth > 0)
        down(depth - 1); /* [recursion] */
    else
        okk_bdc_32bit_set_C(0, (x32){.fp32 = 1}, &shape, NULL); /* [deepest] */
}

static void (*volatile indirect)(local_addr_t) = both;

void chains(const void *args) {
    const where *w = args;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, w->ddr, &shape, NULL, NULL); /* [load] */
    both(0); /* [call] */
    indirect(4096); /* [indirect] */
    down(3); /* [recursion begins] */
    down(40); /* [too deep] */
    okk_poll();
    okk_gdma_32bit_cpy_L2S(w->ddr, 0, &shape, NULL, NULL); /* [store] */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(chains);

/* ---- accesses, each to bytes of its own: 256 * its place in this list ---- */

typedef struct {
    char bytes[40];
} block;

static int less(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}

static __attribute__((noinline)) void store(unsigned char *at) { *at = 1; /* [store byte] */ }

void accesses(const void *args) {
    const where *w = args;
    okk_initialize();
    unsigned char *p = okk_global_mem_addr(w->ddr);
    volatile unsigned short *half = (volatile unsigned short *)(p + 256);
    volatile unsigned long long *wide = (volatile unsigned long long *)(p + 2 * 256);
    block copy, *from = (block *)(p + 4 * 256), *to = (block *)(p + 5 * 256);
    unsigned odd;
    store(p); /* [call store] */
    *half = 7; /* [half] */
    outside[3] = (int)*wide; /* [wide] */
    memcpy(&odd, p + 3 * 256 + 1, sizeof odd); /* [unaligned] */
    copy = *from; /* [copy from] */
    copy.bytes[odd & 3] = (char)outside[5];
    *to = copy; /* [copy to] */
    memset(p + 6 * 256, 0, 24); /* [memset] */
    memcpy(p + 7 * 256, p + 8 * 256, 100 + (odd & 0)); /* [memcpy] */
    memmove(p + 9 * 256, p + 9 * 256 + 4, 40); /* [memmove] */
    if (memcmp(p + 10 * 256, p + 11 * 256, 8) == 0) outside[1]++; /* [memcmp] */
    strcpy((char *)p + 12 * 256, "four"); /* [strcpy] */
    outside[2] += (int)strlen((char *)p + 12 * 256); /* [strlen] */
    strcpy((char *)p + 12 * 256 + 64, "four"); /* [another] */
    outside[4] += strchr((char *)p + 12 * 256 + 64 + (outside[6] & 0x100), 'u') != NULL; /* [strchr] */
    snprintf((char *)p + 15 * 256, 100, "%d", 123); /* [snprintf] */
    qsort(p + 13 * 256, 8, 4, less); /* [qsort] */
    for (int i = 0; i < 60; i++) outside[i] += ((volatile int *)(p + 14 * 256))[i]; /* [loop] */
    *okk_local_mem_addr(2, 16) = 3; /* [local] */
    outside[0] += *(volatile int *)okk_l2_sram_addr(0x10000040); /* [l2] */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(accesses);

void pending(const void *args) {
    const where *w = args;
    okk_initialize();
    volatile int *p = (volatile int *)okk_global_mem_addr(w->ddr);
    p[0] = 1; /* [none] */
    okk_gdma_32bit_cpy_S2L(0, w->ddr, &shape, NULL, NULL);
    p[1] = 1; /* [one] */
    both(0);
    p[2] = 1; /* [three] */
    okk_poll();
    p[3] = 1; /* [polled] */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(pending);

/* 256 bytes apart, so that none are adjacent. */
void strided(const void *args) {
    const struct {
        unsigned long long ddr;
        int count;
    } __attribute__((packed)) *a = args;
    okk_initialize();
    unsigned char *p = okk_global_mem_addr(a->ddr);
    for (int i = 0; i < a->count; i++) p[(size_t)i * 256] = 1;
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(strided);

void nothing(const void *args) {
    (void)args;
    okk_initialize();
    for (int i = 0; i < 64; i++) outside[i] += i;
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(nothing);

/* Does what it is told, from four places. */
void replay(const void *args) {
    const struct {
        unsigned long long ddr;
        int count;
        struct {
            unsigned char place, offset;
        } step[];
    } __attribute__((packed)) *a = args;
    okk_initialize();
    volatile unsigned char *p = okk_global_mem_addr(a->ddr);
    for (int i = 0; i < a->count; i++) {
        int at = a->step[i].offset;
        switch (a->step[i].place) {
        case 0: p[at] = 1; break; /* [write 0] */
        case 1: outside[0] += p[at]; break; /* [read 1] */
        case 2: p[at] = 2; break; /* [write 2] */
        default: outside[0] += p[at]; break; /* [read 3] */
        }
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(replay);
