/* TPU_LEAKY8: x where x is above 0, else alpha * x, of 8-bit integers; alpha is a power of two, and so a shift.
 *
 * Of ONNX's LeakyRelu: its attribute has the parameter's name, so `--map LeakyRelu=TPU_LEAKY8` puts the layer in.
 * Made by `add_layer leaky8 1 --dtype int8`; what is not as it was then: the parameter, shift_of, leaky8_compute.
 *
 * A tensor's values are scale x integer. Four batches share a 32-bit word (4N): in DDR [ceil(n / 4)][c][h][w][4],
 * in local memory ceil(n / 4) batches of words. The four __BM_*__ markers tie the parts together; `build_layers`
 * checks them. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define BATCHES 4 /* in a word */

__BM_PARAM__(TPU_LEAKY8)
typedef struct {
    float alpha; /* 1/2, 1/4, ... 1/128 */
} tpu_leaky8_param_t;

/* alpha is 1 / 2^this; 0 for what the layer does not take. */
static int shift_of(const tpu_leaky8_param_t *p) {
    float power = 0.5f;
    for (int shift = 1; shift < 8; shift++, power /= 2)
        if (p->alpha == power) return shift;
    return 0;
}

/* ---- shape: what the outputs look like, given the inputs ---- */

__BM_SHAPE__(TPU_LEAKY8)
int leaky8_reshape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
    tpu_tensor_t *out_tensors, const int out_num) {
    const tpu_leaky8_param_t *p = param;
    if (param_size != (int)sizeof(*p) || shift_of(p) == 0 || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    if (in->dtype != DTYPE_INT8 && in->dtype != DTYPE_UINT8) return BM_LAYER_NOT_SUPPORTED;
    if (in->store_mode != STORE_MODE_4N || in->scale == 0) return BM_LAYER_NOT_SUPPORTED;
    out->ttype = BMNET_NEURON;
    out->dtype = in->dtype; /* the sign */
    out->store_mode = in->store_mode;
    out->scale = in->scale;
    out->dims = in->dims;
    for (unsigned int d = 0; d < in->dims; d++) {
        out->shape[d] = in->shape[d];
        /* The tile of the output that a tile of the input gives. It must agree with what the
         * descriptor's backward_* functions say. */
        out->processed[d] = in->processed[d];
        out->slice_shape[d] = in->slice_shape[d];
        out->slice_pad[d] = 0;
    }
    return BM_LAYER_OK;
}

/* ---- the work, in local memory. shape->n counts batches, not words ---- */

/* The larger of x and of alpha * x to the nearest integer, halves upwards. */
static void leaky8_compute(local_addr_t y, local_addr_t x, const dim4 *shape, int dtype, int shift) {
    const op_type_t type = dtype == DTYPE_UINT8 ? U8_OP_U8_TO_U8 : S8_OP_S8_TO_S8;
    okk_bdc_fixed_point_packed_add_C(y, x, 0, shape, NULL, NULL, type, shift);
    okk_bdc_fixed_point_packed_max(y, y, x, shape, NULL, NULL, NULL, type);
}

/* ---- global: data in DDR, absolute addresses ---- */

__BM_GLOBAL__(TPU_LEAKY8)
int leaky8_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
    const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)out_num;
    (void)buffer_addr, (void)buffer_size; /* as many bytes as get_global_buffer_size() asks for */
    const tpu_tensor_t *in = &in_tensors[0];
    const local_addr_t x = 0, y = 256 * 1024; /* the halves of local memory */
    const int row = 16384; /* words to a lane */
    system_addr_t source = in->addr, target = out_tensors[0].addr;
    okk_initialize();
    /* Any shape is a row of words here: up to 64 lanes with up to `row` of them each at a time. */
    for (int left = in->elem_num / in->shape[0] * ((in->shape[0] + BATCHES - 1) / BATCHES); left > 0;) {
        const int lanes = left < 64 ? left : 64;
        const int columns = left / lanes < row ? left / lanes : row;
        const dim4 words = {1, lanes, 1, columns}, batches = {BATCHES, lanes, 1, columns};
        okk_gdma_32bit_cpy_S2L(x, source, &words, NULL, NULL);
        leaky8_compute(y, x, &batches, in->dtype, shift_of(param));
        okk_gdma_32bit_cpy_L2S(target, y, &words, NULL, NULL);
        const int moved = lanes * columns;
        source += 4ull * (unsigned int)moved;
        target += 4ull * (unsigned int)moved;
        left -= moved;
    }
    okk_poll(); /* wait until everything has happened */
    return BM_LAYER_OK;
}

/* ---- local: the compiler has put the tile into local memory; addresses are offsets there ---- */

__BM_LOCAL__(TPU_LEAKY8)
int leaky8_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
    const u64 buffer_offset, const u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)out_num;
    (void)buffer_offset, (void)buffer_size; /* as many bytes as get_local_buffer_size() asks for */
    const int *tile = out_tensors[0].slice_shape;
    const dim4 shape = {tile[0], tile[1], tile[2], tile[3]};
    /* No okk_initialize, okk_poll or GDMA here: the compiler orders loads, work and stores. */
    leaky8_compute((local_addr_t)out_tensors[0].addr, (local_addr_t)in_tensors[0].addr, &shape,
        in_tensors[0].dtype, shift_of(param));
    return BM_LAYER_OK;
}
