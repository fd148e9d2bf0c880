/* TPU_STRIPS_CUT: one picture of 8-bit integers as four strips of rows, one in each slot of 4N (bm_layer_strips.h).
 * With `repeat` every slot gets all of it, as operands that are one number to a channel need it.
 *
 * Inputs: x `[1, C, H, W]` as int8 or uint8 in 4N, or without W
 * Makes: `[4, C, rows, W]`: batch k has rows k * rows and on, 0 behind the last one
 */
#include "bm_layer_strips.h"
#include "okk.h"

__BM_PARAM__(TPU_STRIPS_CUT)
typedef struct {
    int rows;   /* of a strip: a fourth of those of x or more; with repeat those of x */
    int repeat; /* 0 or 1 */
} tpu_strips_cut_param_t;

__BM_SHAPE__(TPU_STRIPS_CUT)
int strips_cut_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_strips_cut_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_strips_cut_param_t *p = param;
    const int height = in_tensors[0].shape[2];
    if ((p->repeat & ~1) != 0 || p->rows < 1) return BM_LAYER_PARAM_INVALID;
    if (p->repeat ? p->rows != height : BM_PACKED * (long long)p->rows < height) return BM_LAYER_PARAM_INVALID;
    return bm_strips_shape(&out_tensors[0], &in_tensors[0], 1, BM_PACKED, p->rows);
}

/* Slots 1 to 3 of x belong to nobody and may hold anything. */
static void compute(const void *param, const bm_strips *y, const bm_strips *x, local_addr_t work) {
    const tpu_strips_cut_param_t *p = param;
    const bm_strips part = {work, y->shape, y->first};
    for (int slot = 0; slot < BM_PACKED; slot++) {
        const int first = p->repeat ? 0 : slot * p->rows;
        const int rows = bm_strips_within(x->shape.h - first, p->rows);
        if (slot == 0) {
            bm_strips_and(y, 0, x, 0, rows, 0xFFu);
            bm_strips_set(y, rows, p->rows - rows, 0);
        } else if (rows > 0) {
            bm_strips_and(&part, 0, x, first, rows, 0xFFu);
            bm_strips_shift(&part, 0, &part, 0, rows, 8 * slot);
            bm_strips_or(y, 0, &part, 0, rows);
        }
    }
}

__BM_GLOBAL__(TPU_STRIPS_CUT)
int strips_cut_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                      const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    bm_strips_whole(param, &out_tensors[0], &in_tensors[0], compute);
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_STRIPS_CUT)
int strips_cut_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    bm_strips_tile(param, &out_tensors[0], &in_tensors[0], buffer_offset, compute);
    return BM_LAYER_OK;
}
