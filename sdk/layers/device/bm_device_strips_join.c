/* TPU_STRIPS_JOIN: four strips of rows, one in each slot of 4N, as the picture that they are (bm_layer_strips.h).
 *
 * Inputs: x `[4, C, rows, W]` as int8 or uint8 in 4N, or without W
 * Makes: `[1, C, H, W]`
 */
#include "bm_layer_strips.h"
#include "okk.h"

__BM_PARAM__(TPU_STRIPS_JOIN)
typedef struct {
    int height; /* of the picture, at most four times the strips' rows */
} tpu_strips_join_param_t;

__BM_SHAPE__(TPU_STRIPS_JOIN)
int strips_join_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_strips_join_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_strips_join_param_t *p = param;
    if (p->height < 1 || p->height > BM_PACKED * (long long)in_tensors[0].shape[2]) return BM_LAYER_PARAM_INVALID;
    return bm_strips_shape(&out_tensors[0], &in_tensors[0], BM_PACKED, 1, p->height);
}

static void compute(const void *param, const bm_strips *y, const bm_strips *x, local_addr_t work) {
    (void)work;
    const tpu_strips_join_param_t *p = param;
    for (int slot = 0; slot < BM_PACKED; slot++) {
        const int first = slot * x->shape.h, rows = bm_strips_within(p->height - first, x->shape.h);
        if (rows == 0) break;
        if (slot > 0) bm_strips_shift(y, first, x, 0, rows, -8 * slot);
        if (slot < BM_PACKED - 1) bm_strips_and(y, first, slot ? y : x, first, rows, 0xFFu);
    }
}

__BM_GLOBAL__(TPU_STRIPS_JOIN)
int strips_join_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                       const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                       const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    bm_strips_whole(param, &out_tensors[0], &in_tensors[0], compute);
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_STRIPS_JOIN)
int strips_join_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    bm_strips_tile(param, &out_tensors[0], &in_tensors[0], buffer_offset, compute);
    return BM_LAYER_OK;
}
