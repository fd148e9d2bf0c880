/* Kernels and one user layer for tests/firmware/test_device_firmware.py: good ones, and every way to go wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

typedef struct {
    unsigned long long out, in;
    int n, c, h, w;
} __attribute__((packed)) args_t;

static void add_one(int n, local_addr_t at, const args_t *a) {
    dim4 shape = {n, a->c, a->h, a->w};
    okk_bdc_add_C(at, at, 1.0f, &shape, NULL, NULL);
}

void plus_one(const void *args) {
    const args_t *a = args;
    dim4 shape = {a->n, a->c, a->h, a->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, a->in, &shape, NULL, NULL); /* load of plus_one */
    add_one(a->n, 0, a);
    okk_gdma_32bit_cpy_L2S(a->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(plus_one)

/* One batch after another through two buffers: load i+1, compute i and store i-1 at the same time. */
void plus_one_ping_pong(const void *args) {
    const args_t *a = args;
    dim4 one = {1, a->c, a->h, a->w};
    unsigned long long step = 4ull * a->c * a->h * a->w;
    okk_initialize();
    for (int i = 0; i < a->n + 2; i++) {
        okk_parallel_start();
        if (i < a->n) okk_gdma_32bit_cpy_S2L((i % 3) * 0x20000, a->in + i * step, &one, NULL, NULL);
        if (i > 0 && i <= a->n) add_one(1, ((i - 1) % 3) * 0x20000, a);
        if (i > 1) okk_gdma_32bit_cpy_L2S(a->out + (i - 2) * step, ((i - 2) % 3) * 0x20000, &one, NULL, NULL);
        okk_parallel_end();
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(plus_one_ping_pong)

/* More instructions than there are ids: n times 1 on one element. */
void plus_n(const void *args) {
    const args_t *a = args;
    dim4 one = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, a->in, &one, NULL, NULL);
    for (int i = 0; i < a->n; i++) okk_bdc_add_C(0, 0, 1.0f, &one, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(a->out, 0, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(plus_n)

void by_pointer(const void *args) {
    const args_t *a = args;
    ((float *)okk_global_mem_addr(a->out))[0] = ((const float *)okk_global_mem_addr(a->in))[0] + 1.0f;
}
OKKERNEL_FUNC_REGISTER(by_pointer)

void says(const void *args) {
    (void)args;
    OKKERNEL_LOG("I am kernel %d\n", 7);
}
OKKERNEL_FUNC_REGISTER(says)

void says_much(const void *args) { OKKERNEL_LOG("<%*d>\n", *(const int *)args, 7); }
OKKERNEL_FUNC_REGISTER(says_much)

void prints(const void *args) {
    const args_t *a = args;
    printf("n is %d\n", a->n);
    fprintf(stderr, "%.2f of ", 1.5);
    fputs("text", stdout);
    fflush(stdout);
    fputs("text", stderr);
    fputc('!', stderr);
    fputc('\n', stderr);
    fflush(NULL);
}
OKKERNEL_FUNC_REGISTER(prints)

static volatile int sink, zero;

void never_returns(const void *args) {
    (void)args;
    for (;;) sink++; /* never_returns */
}
OKKERNEL_FUNC_REGISTER(never_returns)

void never_stops_issuing(const void *args) {
    (void)args;
    dim4 one = {1, 1, 1, 1};
    okk_initialize();
    for (;;) okk_bdc_add_C(0, 0, 1.0f, &one, NULL, NULL); /* never_stops_issuing */
}
OKKERNEL_FUNC_REGISTER(never_stops_issuing)

void null_pointer(const void *args) {
    (void)args;
    *(volatile int *)0 = 1; /* null_pointer */
}
OKKERNEL_FUNC_REGISTER(null_pointer)

void wild_call(const void *args) {
    (void)args;
    void (*volatile nowhere)(void) = NULL;
    nowhere(); /* wild_call */
    sink++;
}
OKKERNEL_FUNC_REGISTER(wild_call)

/* Crashes inside the C library. */
void wild_string(const void *args) {
    (void)args;
    const char *volatile nowhere = NULL;
    sink = (int)strlen(nowhere); /* wild_string */
}
OKKERNEL_FUNC_REGISTER(wild_string)

/* Crashes inside the kernel API. */
void wild_shape(const void *args) {
    (void)args;
    okk_initialize();
    okk_bdc_add_C(0, 0, 1.0f, (const dim4 *)8, NULL, NULL); /* wild_shape */
    sink++;
}
OKKERNEL_FUNC_REGISTER(wild_shape)

void endless_recursion(const void *args) {
    volatile char frame[4096];
    frame[sink & 4095] = 1;                 /* endless_recursion */
    endless_recursion((const void *)frame); /* endless_recursion */
    sink += frame[sink & 4095];
}
OKKERNEL_FUNC_REGISTER(endless_recursion)

void aborts(const void *args) {
    (void)args;
    abort(); /* aborts */
}
OKKERNEL_FUNC_REGISTER(aborts)

void leaves(const void *args) {
    (void)args;
    exit(3); /* leaves */
}
OKKERNEL_FUNC_REGISTER(leaves)

void divides(const void *args) {
    (void)args;
    sink = sink / zero; /* divides */
}
OKKERNEL_FUNC_REGISTER(divides)

void asserts(const void *args) {
    const args_t *a = args;
    OKKERNEL_ASSERT(a->n > 1000);
}
OKKERNEL_FUNC_REGISTER(asserts)

void breaks_a_rule(const void *args) {
    (void)args;
    okk_initialize();
    okk_parallel_end();
}
OKKERNEL_FUNC_REGISTER(breaks_a_rule)

void leaves_local_memory(const void *args) {
    const args_t *a = args;
    dim4 shape = {64, 64, 64, 64}; /* 1 MiB per NPU */
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, a->in, &shape, NULL, NULL); /* leaves_local_memory */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(leaves_local_memory)

/* ---- one layer: op_type 0, y = x + 1 on everything; op_type 1 crashes ---- */

const tpu_layer_entry_t bmtpu_layers[] = {
    {0, 4, 0x1234, "TPU_ADD"}, {1, 4, 0x1234, "TPU_BOOM"}, {-1, 0, 0, 0}};
const unsigned int bmtpu_layer_count = 2;

int tpu_shape_infer_entry(int op_type, const void *param, int param_size, const tpu_tensor_t *in, int in_num,
                          tpu_tensor_t *out, int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)out_num;
    if (op_type == 1) *(volatile int *)0 = 1;
    out[0].dims = in[0].dims;
    out[0].dtype = in[0].dtype;
    out[0].ttype = in[0].ttype;
    for (unsigned i = 0; i < in[0].dims; i++) out[0].shape[i] = in[0].shape[i];
    return BM_LAYER_OK;
}

int tpu_global_calculate_entry(int op_type, const void *param, int param_size, const tpu_tensor_t *in, int in_num,
                               u64 buffer_addr, u64 buffer_size, tpu_tensor_t *out, int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    if (op_type == 1) aborts(NULL);
    args_t a = {out[0].addr, in[0].addr, in[0].shape[0], in[0].shape[1], in[0].shape[2], in[0].shape[3]};
    plus_one(&a);
    return BM_LAYER_OK;
}

int tpu_local_calculate_entry(int op_type, const void *param, int param_size, const tpu_tensor_t *in, int in_num,
                              u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out, int out_num) {
    (void)op_type, (void)param, (void)param_size, (void)in, (void)in_num, (void)buffer_offset, (void)buffer_size;
    (void)out, (void)out_num;
    return BM_LAYER_NOT_SUPPORTED;
}
