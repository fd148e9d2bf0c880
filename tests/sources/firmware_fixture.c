/* Compiled into the firmware that the tests run: kernels, layers that misbehave in chosen ways, and the
 * entries that generated code has in a real image.
 */
#include <string.h>

#include "bm_atomic.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

/* ---- free kernels ---- */

/* {copies, adds, parallel, polls}: many small commands. */
void many_commands(const void *args) {
    const int *p = args;
    const dim4 shape = {1, 64, 1, 8};
    bm_initialize();
    if (p[2]) okk_parallel_start();
    for (int i = 0; i < p[0] || i < p[1]; i++) {
        if (i < p[0]) okk_gdma_32bit_cpy_S2L(0, 0x100000000ull, &shape, NULL, NULL);
        if (i < p[1]) okk_bdc_add_C(256, 256, 1.0f, &shape, NULL, NULL);
    }
    if (p[2]) okk_parallel_end();
    if (p[3]) bm_poll();
}
OKKERNEL_FUNC_REGISTER(many_commands)

void leaves_parallel_open(const void *args) {
    (void)args;
    okk_parallel_start();
}
OKKERNEL_FUNC_REGISTER(leaves_parallel_open)

void asserts(const void *args) {
    const int *p = args;
    OKKERNEL_LOG("value %d\n", *p);
    OKKERNEL_ASSERT(*p == 7);
}
OKKERNEL_FUNC_REGISTER(asserts)

/* {address}: logs the byte that lies there in DDR. */
void reads_memory(const void *args) {
    unsigned long long addr;
    memcpy(&addr, args, sizeof addr);
    OKKERNEL_LOG("%d\n", *okk_global_mem_addr(addr));
}
OKKERNEL_FUNC_REGISTER(reads_memory)

/* ---- the demo and built-in layers, and one that does as it is told ---- */

#define LAYER(NAME)                                                                                           \
    int NAME##_shape(const void *, int, const tpu_tensor_t *, int, tpu_tensor_t *, int);                     \
    int NAME##_global(const void *, int, const tpu_tensor_t *, int, bm_addr_t, bm_size_t, tpu_tensor_t *, int); \
    int NAME##_local(const void *, int, const tpu_tensor_t *, int, u64, u64, tpu_tensor_t *, int);

LAYER(crop)
LAYER(double)
LAYER(expand_dims)
LAYER(const_binary)

enum { DO_PASS, DO_FAIL, DO_POLL, DO_GDMA, DO_READ, DO_LIE, DO_OPEN, DO_ISSUE_IN_SHAPE, DO_OVERFLOW, DO_GROW,
       DO_NEGATIVE_SHAPE, DO_L2, DO_DIMS, DO_DTYPE, DO_VALUES };

/* What it is told: the low byte, and a number for it. */
static int told(const void *param, int *number) {
    const int all = *(const int *)param;
    *number = all >> 8;
    return all & 0xFF;
}

/* What the newest call of the probe layer saw. */
tpu_tensor_t test_in, test_out;
u64 test_buffer, test_buffer_size;
int test_host_value;

static int probe_shape(const void *param, const tpu_tensor_t *in, tpu_tensor_t *out) {
    int number;
    const int what = told(param, &number);
    int *const values = out->host_data;
    *out = *in;
    if (in->host_data != NULL) test_host_value = in->host_data[0];
    out->ttype = BMNET_NEURON;
    memset(out->slice_shape, 0, sizeof out->slice_shape);
    if (what == DO_LIE) {
        out->slice_shape[0] = 1;
        out->slice_shape[2] = 99;
    }
    if (what == DO_NEGATIVE_SHAPE) out->shape[0] = -3;
    if (what == DO_DIMS) out->dims = (unsigned)number;
    if (what == DO_DTYPE) out->dtype = (unsigned char)number;
    if (what == DO_VALUES) {
        out->ttype = BMNET_NEURON_SHAPE;
        out->host_data = values;
        out->shape[0] = number;
    }
    if (what == DO_ISSUE_IN_SHAPE) okk_bdc_add_C(0, 0, 1.0f, &(dim4){1, 1, 1, 1}, NULL, NULL);
    return BM_LAYER_OK;
}

static int probe_run(const void *param, const tpu_tensor_t *in, u64 buffer, u64 size, tpu_tensor_t *out) {
    int number;
    const int what = told(param, &number);
    const dim4 one = {1, 1, 1, 1};
    test_in = *in;
    test_out = *out;
    test_buffer = buffer;
    test_buffer_size = size;
    if (what == DO_FAIL) return BM_LAYER_PARAM_INVALID;
    if (what == DO_POLL) okk_poll();
    if (what == DO_GDMA) okk_gdma_32bit_cpy_S2L(0, 0x100000000ull, &one, NULL, NULL);
    if (what == DO_L2) okk_gdma_32bit_cpy_S2L(0, 0x10000000ull + (u64)(long long)number, &one, NULL, NULL);
    if (what == DO_READ) OKKERNEL_LOG("%d", *okk_global_mem_addr(in->addr));
    if (what == DO_OPEN) okk_parallel_start();
    if (what == DO_OVERFLOW) okk_bdc_add_C(0, 0, 1.0f, &(dim4){1, 1, 1, 70000}, NULL, NULL);
    if (what == DO_GROW) out->shape[0] *= 2;
    return BM_LAYER_OK;
}

enum { CROP, DOUBLE, PROBE, EXPAND_DIMS = 0x10000, CONST_BINARY };

/* firmware_harness.py knows the user's ones too. */
const tpu_layer_entry_t bmtpu_layers[] = {
    {CROP, 64, 0x1122334455667788ull, "TPU_CROP"},
    {DOUBLE, 4, 0x8877665544332211ull, "TPU_DOUBLE"},
    {PROBE, 4, 0x99aabbccddeeff00ull, "TPU_PROBE"},
    {-1, 0, 0, NULL},
};
const unsigned int bmtpu_layer_count = 3;
const tpu_layer_entry_t bmbuiltin_layers[] = {
    {EXPAND_DIMS, 4, 1, "TPU_EXPAND_DIMS"},
    {CONST_BINARY, 12, 2, "TPU_CONST_BINARY"},
    {-1, 0, 0, NULL},
};
const unsigned int bmbuiltin_layer_count = 2;

int tpu_shape_infer_entry(int op, const void *p, int bytes, const tpu_tensor_t *in, int in_num, tpu_tensor_t *out,
                          int out_num) {
    if (op == CROP) return crop_shape(p, bytes, in, in_num, out, out_num);
    if (op == DOUBLE) return double_shape(p, bytes, in, in_num, out, out_num);
    if (op == PROBE) return probe_shape(p, in, out);
    return BM_LAYER_NOT_SUPPORTED;
}

int tpu_global_calculate_entry(int op, const void *p, int bytes, const tpu_tensor_t *in, int in_num, u64 buffer,
                               u64 size, tpu_tensor_t *out, int out_num) {
    if (op == CROP) return crop_global(p, bytes, in, in_num, buffer, size, out, out_num);
    if (op == DOUBLE) return double_global(p, bytes, in, in_num, buffer, size, out, out_num);
    if (op == PROBE) return probe_run(p, in, buffer, size, out);
    return BM_LAYER_NOT_SUPPORTED;
}

int tpu_local_calculate_entry(int op, const void *p, int bytes, const tpu_tensor_t *in, int in_num, u64 buffer,
                              u64 size, tpu_tensor_t *out, int out_num) {
    if (op == CROP) return crop_local(p, bytes, in, in_num, buffer, size, out, out_num);
    if (op == DOUBLE) return double_local(p, bytes, in, in_num, buffer, size, out, out_num);
    if (op == PROBE) return probe_run(p, in, buffer, size, out);
    return BM_LAYER_NOT_SUPPORTED;
}

int builtin_shape_infer_entry(int op, const void *p, int bytes, const tpu_tensor_t *in, int in_num,
                              tpu_tensor_t *out, int out_num) {
    if (op == EXPAND_DIMS) return expand_dims_shape(p, bytes, in, in_num, out, out_num);
    if (op == CONST_BINARY) return const_binary_shape(p, bytes, in, in_num, out, out_num);
    return BM_LAYER_NOT_SUPPORTED;
}

int builtin_global_calculate_entry(int op, const void *p, int bytes, const tpu_tensor_t *in, int in_num, u64 buffer,
                                   u64 size, tpu_tensor_t *out, int out_num) {
    if (op == EXPAND_DIMS) return expand_dims_global(p, bytes, in, in_num, buffer, size, out, out_num);
    if (op == CONST_BINARY) return const_binary_global(p, bytes, in, in_num, buffer, size, out, out_num);
    return BM_LAYER_NOT_SUPPORTED;
}

int builtin_local_calculate_entry(int op, const void *p, int bytes, const tpu_tensor_t *in, int in_num, u64 buffer,
                                  u64 size, tpu_tensor_t *out, int out_num) {
    if (op == CONST_BINARY) return const_binary_local(p, bytes, in, in_num, buffer, size, out, out_num);
    return BM_LAYER_NOT_SUPPORTED;
}
