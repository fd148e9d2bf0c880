/* Kernels that do what no kernel should, for tests/firmware/test_hostile.py, which says what each is told. They use
 * nothing that only one build of the firmware has. Lines that a message names end with the kernel's name. */
#include "okk.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL(NAME) \
    void NAME(const void *args); OKKERNEL_FUNC_REGISTER(NAME) \
    void NAME(const void *args)
#define OWN 0x100000000ull /* the firmware's own memory */
static volatile int sink;
static const dim4 small = {1, 64, 4, 8}, large = {64, 64, 32, 32};

KERNEL(fine) { *(int *)okk_global_mem_addr(*(const unsigned long long *)args) = 7; }

/* ---- never ends ---- */
KERNEL(spins) { for (;;) sink++; /* spins */ }
KERNEL(spins_on_memory) { for (;;) *(volatile char *)okk_l2_sram_addr(okk_l2_sram_start_addr()) += 1; /* spins_on_memory */ }
KERNEL(issues) {
    okk_initialize();
    for (;;) okk_bdc_add_C(0, 0, 1.f, &small, NULL, NULL); /* issues */
}
KERNEL(polls) {
    for (;;) {
        okk_initialize(); /* polls */
        okk_bdc_add_C(0, 0, 1.f, &small, NULL, NULL); /* polls */
        okk_poll(); /* polls */
    }
}
KERNEL(polls_nothing) { for (;;) okk_poll(); /* polls_nothing */ }
KERNEL(issues_large) {
    okk_initialize();
    for (;;) okk_bdc_add_C(0, 0, 1.f, &large, NULL, NULL); /* issues_large */
}
KERNEL(copies) {
    okk_initialize();
    for (;;) okk_gdma_32bit_cpy_S2L(0, OWN + 0x6000000, &large, NULL, NULL); /* copies */
}
KERNEL(sections) {
    okk_initialize();
    for (;;) {
        okk_parallel_start(); /* sections */
        okk_bdc_add_C(0, 0, 1.f, &small, NULL, NULL); /* sections */
        okk_parallel_end(); /* sections */
    }
}
KERNEL(initializes) { for (;;) okk_initialize(); /* initializes */ }
KERNEL(logs) { for (;;) OKKERNEL_LOG("and another line of text\n"); /* logs */ }
KERNEL(formats) { static char text[99]; for (int i = 0;; i++) snprintf(text, 99, "%f %g", i / 3.0, 1e300 / 3.0); /* formats */ }
KERNEL(prints) { for (;;) printf("and another line of text\n"); /* prints */ }
KERNEL(allocates) { for (;;) free(malloc(100)); /* allocates */ }
static int deeper(int n) { volatile char a[999]; a[0] = 1; return n ? deeper(n) + a[0] : 0; } /* recurses */
KERNEL(recurses) { sink = deeper(1); }
static int waits_for_engine(void) { return *(volatile int *)okk_local_mem_addr(0, 0) == 12345; } /* waits */
KERNEL(waits) { while (!waits_for_engine()) sink++; /* waits */ }

/* ---- more than there is ---- */
KERNEL(large_frame) { volatile char room[120 << 10]; room[sink & 1] = 1; /* large_frame */ sink = room[1]; }
KERNEL(fits_the_stack) { volatile char room[80 << 10]; memset((char *)room, 1, sizeof room); sink = room[sink & 1]; }
KERNEL(heap_is_limited) {
    const size_t most = 14u << 20;
    OKKERNEL_ASSERT(malloc(most) == NULL);
    void *block = malloc(most - 1024);
    OKKERNEL_ASSERT(block != NULL);
    OKKERNEL_ASSERT(malloc(4096) == NULL);
    free(block);
}
KERNEL(many_blocks) {
    static void *blocks[4000];
    for (int i = 0; i < 4000; i++) OKKERNEL_ASSERT((blocks[i] = malloc(16)) != NULL);
    for (int i = 0; i < 4000; i += 2) free(blocks[i]);
    for (int i = 1; i < 4000; i += 2) free(blocks[i]);
}

/* ---- where it should not ---- */
KERNEL(engine_over_firmware) {
    okk_initialize();
    okk_gdma_32bit_set_C_system(OWN, (x32){.u32 = 0xDEADBEEF}, &large, NULL); /* engine_over_firmware */
    okk_poll();
}
KERNEL(engine_over_its_end) {
    okk_initialize();
    okk_gdma_32bit_set_C_system(OWN + 0x5100000 - 4, (x32){.u32 = 1}, &small, NULL); /* engine_over_its_end */
    okk_poll();
}
KERNEL(pointer_over_firmware) { *(int *)okk_global_mem_addr(OWN + 0x1234) = 1; /* pointer_over_firmware */ }
KERNEL(runs_down_into_firmware) {
    volatile unsigned char *first = okk_global_mem_addr(OWN + 0x5100000);
    for (int i = 0;; i--) first[i] = 1; /* runs_down_into_firmware */
}
KERNEL(over_the_code) {
    volatile unsigned char *first = okk_global_mem_addr(OWN + 0x5100000);
    first[-0x5100000 + 0x100] = 1; /* over_the_code */
}
KERNEL(over_the_streams) {
    volatile unsigned char *first = okk_global_mem_addr(OWN + 0x5100000);
    first[-0x5100000 + 0x2000100] = 1; /* over_the_streams */
}
KERNEL(null_pointer) { *(volatile int *)(uintptr_t)sink = 1; /* null_pointer */ }
KERNEL(wild_pointer) { *(volatile int *)0x30000000u = 1; /* wild_pointer */ }
KERNEL(wild_call) { void (*volatile f)(void) = (void (*)(void))0xDEAD0000u; f(); /* wild_call */ sink++; }
/* Compilers may neither see through these nor leave anything out. */
static void *allocate(size_t bytes) { return malloc(bytes); }
static void *(*volatile get)(size_t) = allocate;
static void (*volatile give)(void *) = free;
static void *(*volatile resize)(void *, size_t) = realloc;
static void fill_all(volatile char *to, int first, int end) {
    for (int i = first; i < end; i++) to[i] = 0x41; /* array_to_the_end_of_the_stack */ /* far_below_its_array */
}
static void (*volatile fill)(volatile char *, int, int) = fill_all;
KERNEL(heap_by_one) { char *p = get(100); fill(p, 100, 101); give(p); /* heap_by_one */ }
KERNEL(heap_by_many) { char *p = get(96); fill(p, 0, 200); give(p); /* heap_by_many */ }
KERNEL(heap_unnoticed) { fill(get(50), 51, 52); }
KERNEL(after_free) { char *p = get(500); give(p); fill(p, 0, 8); give(get(500)); /* after_free */ }
KERNEL(frees_twice) { void *p = get(10); give(p); give(p); /* frees_twice */ }
KERNEL(frees_nothing) { give((void *)&small); /* frees_nothing */ }
KERNEL(resizes_nothing) { sink = resize((void *)&small, 50) != NULL; /* resizes_nothing */ }
KERNEL(array_to_the_end_of_the_stack) { char name[16]; fill(name, 0, 16 << 10); sink = name[3]; }
KERNEL(far_below_its_array) { char name[16]; fill(name, -200 << 10, 0); sink = name[3]; }
KERNEL(array_of_a_large_frame) {
    char room[88 << 10];
    fill(room, 0, sizeof room + 48);
    sink = room[sink & 1];
} /* array_of_a_large_frame */
static void over_an_array(int n) { char name[16]; fill(name, 0, n); sink = name[3]; } /* local_array */
KERNEL(local_array) { over_an_array(48 + sink); sink = 0; }
KERNEL(divides) { sink = 0; sink = 7 / sink; /* divides */ }
KERNEL(aborts) { abort(); /* aborts */ }
KERNEL(asserts) { OKKERNEL_ASSERT(args == NULL); /* asserts */ }
