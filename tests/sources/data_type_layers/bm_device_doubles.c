/* Layers of quantised tensors: twice the value, saturated, in the same scale or in the one that the net wants. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_DOUBLE8)
typedef struct {
    int rescale; /* 1: the same integers, and twice the scale */
} tpu_double8_param_t;

__BM_PARAM__(TPU_DOUBLE16)
typedef struct {
} tpu_double16_param_t;

static int shape_like(const tpu_tensor_t *in, tpu_tensor_t *out, int mode, float scale) {
    if (in->store_mode != mode || in->scale == 0.0f) return BM_LAYER_NOT_SUPPORTED;
    out->ttype = BMNET_NEURON;
    out->dtype = in->dtype;
    out->store_mode = in->store_mode;
    out->scale = scale;
    out->dims = in->dims;
    for (unsigned int d = 0; d < in->dims; d++) {
        out->shape[d] = in->shape[d];
        out->processed[d] = in->processed[d];
        out->slice_shape[d] = in->slice_shape[d];
        out->slice_pad[d] = 0;
    }
    return BM_LAYER_OK;
}

__BM_SHAPE__(TPU_DOUBLE8)
int double8_shape(const void *param, const int param_size, const tpu_tensor_t *in, const int in_num, tpu_tensor_t *out,
                  const int out_num) {
    const tpu_double8_param_t *p = param;
    if (param_size != (int)sizeof(*p) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    return shape_like(in, out, STORE_MODE_4N, p->rescale ? 2.0f * in->scale : in->scale);
}

__BM_SHAPE__(TPU_DOUBLE16)
int double16_shape(const void *param, const int param_size, const tpu_tensor_t *in, const int in_num, tpu_tensor_t *out,
                   const int out_num) {
    if (param_size != 0 || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    return shape_like(in, out, STORE_MODE_2N, in->scale);
}

/* n batches of a tile, in words of `together`; same: the integers stay. */
static void twice(local_addr_t y, local_addr_t x, const dim4 *shape, int dtype, int same) {
    static const op_type_t ops[] = {[DTYPE_INT8] = S8_OP_S8_TO_S8, [DTYPE_UINT8] = U8_OP_U8_TO_U8,
                                    [DTYPE_INT16] = S16_OP_S16_TO_S16, [DTYPE_UINT16] = U16_OP_U16_TO_U16};
    if (same)
        okk_bdc_fixed_point_packed_add_C(y, x, 0, shape, NULL, NULL, ops[dtype], 0);
    else
        okk_bdc_fixed_point_packed_add(y, x, x, shape, NULL, NULL, NULL, ops[dtype], 0);
}

static void whole(const tpu_tensor_t *in, const tpu_tensor_t *out, int together, int same) {
    const int columns = 1024;
    long long words = (long long)(in->elem_num / in->shape[0]) * ((in->shape[0] + together - 1) / together);
    system_addr_t source = in->addr, target = out->addr;
    okk_initialize();
    while (words > 0) {
        const int lanes = words < 64 ? (int)words : 64;
        const int row = words / lanes < columns ? (int)(words / lanes) : columns;
        dim4 stored = {1, lanes, 1, row}, batches = {together, lanes, 1, row};
        okk_gdma_32bit_cpy_S2L(0, source, &stored, NULL, NULL);
        twice(8192, 0, &batches, in->dtype, same);
        okk_gdma_32bit_cpy_L2S(target, 8192, &stored, NULL, NULL);
        source += 4ull * (unsigned int)(lanes * row);
        target += 4ull * (unsigned int)(lanes * row);
        words -= lanes * row;
    }
    okk_poll();
}

static void tile(const tpu_tensor_t *in, const tpu_tensor_t *out, int same) {
    const dim4 shape = {in->slice_shape[0], in->slice_shape[1], in->slice_shape[2], in->slice_shape[3]};
    twice((local_addr_t)out->addr, (local_addr_t)in->addr, &shape, in->dtype, same);
}

__BM_GLOBAL__(TPU_DOUBLE8)
int double8_global(const void *param, const int param_size, const tpu_tensor_t *in, const int in_num,
                   const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out, const int out_num) {
    const tpu_double8_param_t *p = param;
    whole(in, out, 4, p->rescale);
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_DOUBLE8)
int double8_local(const void *param, const int param_size, const tpu_tensor_t *in, const int in_num,
                  const u64 buffer_offset, const u64 buffer_size, tpu_tensor_t *out, const int out_num) {
    const tpu_double8_param_t *p = param;
    tile(in, out, p->rescale);
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_DOUBLE16)
int double16_global(const void *param, const int param_size, const tpu_tensor_t *in, const int in_num,
                    const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out, const int out_num) {
    whole(in, out, 2, 0);
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_DOUBLE16)
int double16_local(const void *param, const int param_size, const tpu_tensor_t *in, const int in_num,
                   const u64 buffer_offset, const u64 buffer_size, tpu_tensor_t *out, const int out_num) {
    tile(in, out, 0);
    return BM_LAYER_OK;
}
