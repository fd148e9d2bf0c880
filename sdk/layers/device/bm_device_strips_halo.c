/* TPU_STRIPS_HALO: strips of rows with rows of their neighbours above and below, for windows that reach there
 * (bm_layer_strips.h). What is above the picture and below its last row becomes `fill`.
 *
 * Inputs: x `[4, C, rows, W]` as int8 or uint8 in 4N, or without W
 * Makes: `[4, C, top + rows + bottom, W]`
 */
#include "bm_layer_strips.h"
#include "okk.h"

__BM_PARAM__(TPU_STRIPS_HALO)
typedef struct {
    int height;      /* of the picture, at most four times the strips' rows */
    int top, bottom; /* 0 .. the strips' rows */
    int fill;        /* 0..255, a byte as it lies in memory */
} tpu_strips_halo_param_t;

__BM_SHAPE__(TPU_STRIPS_HALO)
int strips_halo_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_strips_halo_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_strips_halo_param_t *p = param;
    const int rows = in_tensors[0].shape[2];
    if (p->height < 1 || p->height > BM_PACKED * (long long)rows || (p->fill & ~0xFF) != 0) return BM_LAYER_PARAM_INVALID;
    if (p->top < 0 || p->bottom < 0 || p->top > rows || p->bottom > rows) return BM_LAYER_PARAM_INVALID;
    return bm_strips_shape(&out_tensors[0], &in_tensors[0], BM_PACKED, BM_PACKED, (long long)p->top + rows + p->bottom);
}

/* `fill` in the slots from `first` on. */
static unsigned int filled(const tpu_strips_halo_param_t *p, int first) {
    return first < BM_PACKED ? (0x01010101u * (unsigned int)p->fill) << 8 * first : 0;
}

/* Rows of the strips as rows of y; what is outside of the picture is `fill`. */
static void take(const tpu_strips_halo_param_t *p, const bm_strips *y, int to, const bm_strips *x, int from, int count) {
    const int rows = x->shape.h, full = p->height / rows, more = p->height % rows, end = from + count;
    for (int next, row = from; row < end; row = next) {
        const int slots = full + (row < more), at = to + row - from; /* of row `row` so many are inside */
        next = row < more ? smaller(more, end) : end;
        if (slots == 0) {
            bm_strips_set(y, at, next - row, filled(p, 0));
            continue;
        }
        bm_strips_and(y, at, x, row, next - row, slots == BM_PACKED ? BM_ONES : (1u << 8 * slots) - 1);
        bm_strips_or_word(y, at, next - row, filled(p, slots));
    }
}

/* The same rows of the strip before (places 8) or behind (-8); the outermost one has none. */
static void take_neighbours(const tpu_strips_halo_param_t *p, const bm_strips *y, int to, const bm_strips *x, int from,
                            int count, int places) {
    take(p, y, to, x, from, count);
    bm_strips_shift(y, to, y, to, count, places);
    bm_strips_or_word(y, to, count, places > 0 ? (unsigned int)p->fill : (unsigned int)p->fill << 24);
}

static void compute(const void *param, const bm_strips *y, const bm_strips *x, local_addr_t work) {
    (void)work;
    const tpu_strips_halo_param_t *p = param;
    const int rows = x->shape.h;
    take_neighbours(p, y, 0, x, rows - p->top, p->top, 8);
    take(p, y, p->top, x, 0, rows);
    take_neighbours(p, y, p->top + rows, x, 0, p->bottom, -8);
}

__BM_GLOBAL__(TPU_STRIPS_HALO)
int strips_halo_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                       const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                       const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    bm_strips_whole(param, &out_tensors[0], &in_tensors[0], compute);
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_STRIPS_HALO)
int strips_halo_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    bm_strips_tile(param, &out_tensors[0], &in_tensors[0], buffer_offset, compute);
    return BM_LAYER_OK;
}
