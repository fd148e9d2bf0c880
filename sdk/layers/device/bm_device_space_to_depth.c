/* TPU_SPACE_TO_DEPTH: block x block squares of pixels become channels; [n, c, h, w] of any type.
 *
 * Inputs: x `[N, C, H, W]` of any type
 * Makes: channels from squares of pixels
 */
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_SPACE_TO_DEPTH)
typedef struct {
    int block; /* rows and columns of a square */
    int crd;   /* channels of the output are 0: [square's row, its column, input channel] (as in ONNX),
                * 1: [input channel, row, column] */
} tpu_space_to_depth_param_t;

__BM_SHAPE__(TPU_SPACE_TO_DEPTH)
int space_to_depth_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                         tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_space_to_depth_param_t) || in_num != 1 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_space_to_depth_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    if (p->block < 1 || p->block > 32767 || (p->crd != 0 && p->crd != 1)) return BM_LAYER_PARAM_INVALID;
    if (in->dims != 4) return BM_LAYER_NOT_SUPPORTED;
    if (in->shape[2] % p->block != 0 || in->shape[3] % p->block != 0) return BM_LAYER_PARAM_INVALID;
    if (in->shape[1] > 0x7fffffff / (p->block * p->block)) return BM_LAYER_NOT_SUPPORTED;
    bm_output_like(out, in, 4);
    out->shape[0] = in->shape[0];
    out->shape[1] = in->shape[1] * p->block * p->block;
    out->shape[2] = in->shape[2] / p->block;
    out->shape[3] = in->shape[3] / p->block;
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_SPACE_TO_DEPTH)
int space_to_depth_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                          const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                          const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_space_to_depth_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const tpu_tensor_t *in = &x, *out = &y;
    const int block = p->block, channels = in->shape[1];
    const long long plane = bm_stride_of(out, 1), row = out->shape[3];
    bm_move m = {.dims = 0};
    bm_move_add(&m, in->shape[0], bm_stride_of(out, 0), bm_stride_of(in, 0));
    bm_move_add(&m, channels, p->crd ? plane * block * block : plane, bm_stride_of(in, 1));
    bm_move_add(&m, out->shape[2], row, row * block * block);
    bm_move_add(&m, block, p->crd ? plane * block : plane * block * channels, row * block);
    bm_move_add(&m, out->shape[3], 1, block);
    bm_move_add(&m, block, p->crd ? plane : plane * channels, 1);
    okk_initialize();
    bm_move_run(out->addr, in->addr, &m, bm_element_bytes(in->dtype));
    okk_poll();
    return BM_LAYER_OK;
}
