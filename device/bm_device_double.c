/* TPU_DOUBLE: y = 2 * x, element by element, for fp32 tensors of any shape. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define LANES 64            /* NPUs of the chip */
#define LANE_ELEMENTS 32768 /* fp32 elements that one buffer holds in each lane: 128 KiB */

__BM_PARAM__(TPU_DOUBLE)
typedef struct {
    int reserved; /* a parameter struct is never empty */
} tpu_double_param_t;

/* ---- shape: the output is as large as the input ---- */

__BM_SHAPE__(TPU_DOUBLE)
int double_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    (void)param;
    if (param_size != (int)sizeof(tpu_double_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    if (in_tensors[0].dtype != DTYPE_FP32) return BM_LAYER_NOT_SUPPORTED;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    out->ttype = BMNET_NEURON;
    out->dtype = in->dtype;
    out->dims = in->dims;
    for (unsigned int d = 0; d < in->dims; d++) {
        out->shape[d] = in->shape[d];
        /* A tile of the input gives the same tile of the output. */
        out->slice_shape[d] = in->slice_shape[d];
        out->processed[d] = in->processed[d];
        out->slice_pad[d] = 0;
    }
    return BM_LAYER_OK;
}

/* ---- global: from DDR through local memory to DDR ---- */

/* A run of consecutive elements, dealt out over `lanes` lanes. */
typedef struct {
    unsigned long long first; /* index of its first element */
    dim4 shape;               /* [1, lanes, 1, elements per lane] */
} slice;

/* The slice that begins at `first`. The last elements, fewer than one per lane, get their own. */
static slice slice_at(unsigned long long first, unsigned long long end) {
    unsigned long long left = end - first;
    slice s = {first, {1, LANES, 1, LANE_ELEMENTS}};
    if (left < LANES) {
        s.shape.c = (int)left;
        s.shape.w = 1;
    } else if (left < (unsigned long long)LANES * LANE_ELEMENTS) {
        s.shape.w = (int)(left / LANES);
    }
    return s;
}

static unsigned long long slice_end(const slice *s) {
    return s->first + (unsigned long long)s->shape.c * (unsigned long long)s->shape.w;
}

__BM_GLOBAL__(TPU_DOUBLE)
int double_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const unsigned long long end = (unsigned long long)in_tensors[0].elem_num;
    const unsigned long long source = in_tensors[0].addr, target = out_tensors[0].addr;

    /* Three buffers take turns: while one slice is computed, the next is loaded and the one before is
     * stored. Each lies in memory banks of its own. */
    const local_addr_t buffer[3] = {0, LANE_ELEMENTS * 4, 2 * LANE_ELEMENTS * 4};
    slice load = {0}, compute = {0}, store = {0};
    int loads = 0; /* slices loaded so far; slice i is in buffer[i % 3] */

    okk_initialize();
    bool computing = false, storing = false;
    for (unsigned long long next = 0; next < end || computing || storing;) {
        const bool loading = next < end;
        okk_parallel_start();
        if (loading) {
            load = slice_at(next, end);
            okk_gdma_32bit_cpy_S2L(buffer[loads % 3], source + load.first * 4, &load.shape, NULL, NULL);
        }
        if (computing) {
            const local_addr_t x = buffer[(loads + 2) % 3];
            okk_bdc_mul_C(x, x, 2.0f, &compute.shape, NULL, NULL);
        }
        if (storing)
            okk_gdma_32bit_cpy_L2S(target + store.first * 4, buffer[(loads + 1) % 3], &store.shape, NULL, NULL);
        okk_parallel_end();
        if (loading) next = slice_end(&load);
        storing = computing;
        store = compute;
        computing = loading;
        compute = load;
        loads++;
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: the compiler has the data in local memory already ---- */

__BM_LOCAL__(TPU_DOUBLE)
int double_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const int *tile = out_tensors[0].slice_shape;
    const dim4 shape = {tile[0], tile[1], tile[2], tile[3]};
    okk_bdc_mul_C((local_addr_t)out_tensors[0].addr, (local_addr_t)in_tensors[0].addr, 2.0f, &shape, NULL, NULL);
    return BM_LAYER_OK;
}
