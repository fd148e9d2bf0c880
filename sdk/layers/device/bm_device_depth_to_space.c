/* TPU_DEPTH_TO_SPACE: channels become rectangles of pixels; [n, c, h, w] of any type, or rows of [n, c, h].
 *
 * Inputs: x `[N, C, H, W]` or `[N, C, H]` of any type
 * Makes: rectangles of pixels from channels
 */
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

#define BLOCK_MAX 32767

__BM_PARAM__(TPU_DEPTH_TO_SPACE)
typedef struct {
    int block_h, block_w; /* rows and columns of a rectangle */
    int crd;              /* channels of the input are 0: [rectangle's row, its column, output channel] (ONNX "DCR"),
                           * 1: [output channel, row, column] (ONNX "CRD") */
    int height, width;    /* of the output, the last rectangles being cut off behind them; 0: they are whole */
} tpu_depth_to_space_param_t;

/* Whether an extent cuts off some, but not all, of the last rectangles, which end at `whole`. */
static bool cuts(int extent, int whole, int block) { return extent == 0 || (extent <= whole && extent > whole - block); }

__BM_SHAPE__(TPU_DEPTH_TO_SPACE)
int depth_to_space_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                         tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_depth_to_space_param_t) || in_num != 1 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_depth_to_space_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    if (p->block_h < 1 || p->block_h > BLOCK_MAX || p->block_w < 1 || p->block_w > BLOCK_MAX || (p->crd != 0 && p->crd != 1))
        return BM_LAYER_PARAM_INVALID;
    if (in->dims != 4 && (in->dims != 3 || p->block_w != 1)) return BM_LAYER_NOT_SUPPORTED;
    if (in->shape[1] % (p->block_h * p->block_w) != 0) return BM_LAYER_PARAM_INVALID;
    if (in->shape[2] > 0x7fffffff / p->block_h || in->shape[3] > 0x7fffffff / p->block_w) return BM_LAYER_NOT_SUPPORTED;
    const int rows = in->shape[2] * p->block_h, columns = in->shape[3] * p->block_w;
    if (!cuts(p->height, rows, p->block_h) || !cuts(p->width, in->dims == 4 ? columns : 1, p->block_w))
        return BM_LAYER_PARAM_INVALID;
    bm_output_like(out, in, (int)in->dims);
    out->shape[0] = in->shape[0];
    out->shape[1] = in->shape[1] / (p->block_h * p->block_w);
    out->shape[2] = p->height != 0 ? p->height : rows;
    if (in->dims == 4) out->shape[3] = p->width != 0 ? p->width : columns;
    return BM_LAYER_OK;
}

/* ---- global: within DDR; what is left of rectangles that are cut off makes parts of its own ---- */

/* Of the input's rows, or columns, [from, to): the first `count` that each becomes. */
typedef struct {
    int from, to, count;
} part;

/* The whole ones, and what there is of the last one. Returns their number. */
static int parts_of(part *parts, int extent, int block) {
    const int whole = extent / block, rest = extent % block;
    int number = 0;
    if (whole > 0) parts[number++] = (part){0, whole, block};
    if (rest > 0) parts[number++] = (part){whole, whole + 1, rest};
    return number;
}

static void squares(const tpu_depth_to_space_param_t *p, const tpu_tensor_t *in, const tpu_tensor_t *out, part h, part w) {
    const int channels = out->shape[1], rows = p->block_h, columns = p->block_w;
    const long long plane = bm_stride_of(in, 1), row = in->shape[3], made = out->shape[3];
    bm_move m = {.dims = 0};
    bm_move_add(&m, in->shape[0], bm_stride_of(out, 0), bm_stride_of(in, 0));
    bm_move_add(&m, channels, bm_stride_of(out, 1), p->crd ? plane * rows * columns : plane);
    bm_move_add(&m, h.to - h.from, made * rows, row);
    bm_move_add(&m, h.count, made, p->crd ? plane * columns : plane * columns * channels);
    bm_move_add(&m, w.to - w.from, columns, 1);
    bm_move_add(&m, w.count, 1, p->crd ? plane : plane * channels);
    const u64 bytes = (u64)bm_element_bytes(in->dtype);
    bm_move_run(out->addr + bytes * (u64)(h.from * made * rows + w.from * columns),
                in->addr + bytes * (u64)(h.from * row + w.from), &m, (int)bytes);
}

__BM_GLOBAL__(TPU_DEPTH_TO_SPACE)
int depth_to_space_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                          const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                          const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_depth_to_space_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    part down[2], across[2];
    const int rows = parts_of(down, y.shape[2], p->block_h), columns = parts_of(across, y.shape[3], p->block_w);
    okk_initialize();
    for (int i = 0; i < rows * columns; i++) squares(p, &x, &y, down[i / columns], across[i % columns]);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: rows alone, or columns alone of whole pictures, by the DMA engine, which takes each from its lanes to those
 * of the output, or into DDR ---- */

/* Tiles; strides of the input's, and of the output's tile or all of it in DDR. */
typedef struct {
    const tpu_tensor_t *x, *y;
    dim4 from, to;
    bool stores;
    u64 first; /* elements from y's address to the tile */
} tiles;

static void copy(const tiles *t, local_addr_t from, u64 to, const dim4 *shape, const dim4 *step, const dim4 *source) {
    const u64 made = t->y->addr + 4 * (t->first + to);
    if (t->stores) okk_gdma_32bit_cpy_L2S(made, from, shape, step, source);
    else okk_gdma_32bit_cpy_L2L((local_addr_t)made, from, shape, step, source);
}

/* Row i of each block. */
static void copy_row(const tiles *t, int i, int block) {
    const int *b = t->y->slice_shape, *at = t->y->processed, *before = t->x->processed;
    const int row = (at[2] + i) % block, source = (at[2] + i) / block - before[2];
    const dim4 shape = {b[0], b[1], (b[2] - 1 - i) / block + 1, b[3]}, step = {t->to.n, t->to.c, block * t->to.h, 1};
    const local_addr_t from = local_channel((local_addr_t)t->x->addr, row * b[1], 4 * t->from.c) +
                              4u * (local_addr_t)(source * t->from.h + at[3] - before[3]);
    copy(t, from, (u64)(i * t->to.h), &shape, &step, &t->from);
}

/* Column i of each block, batch by batch: rows of pictures stand for batches, and columns for rows. */
static void copy_column(const tiles *t, int i, int block) {
    const int *b = t->y->slice_shape;
    const dim4 shape = {b[2], b[1], (b[3] - 1 - i) / block + 1, 1};
    const dim4 step = {t->to.h, t->to.c, block, 1}, source = {t->from.h, t->from.c, 1, 1};
    const local_addr_t from = local_channel((local_addr_t)t->x->addr, i * b[1], 4 * t->from.c);
    for (int n = 0; n < b[0]; n++)
        copy(t, from + 4u * (local_addr_t)(n * t->from.n), (u64)(n * t->to.n + i), &shape, &step, &source);
}

__BM_LOCAL__(TPU_DEPTH_TO_SPACE)
int depth_to_space_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                         u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_depth_to_space_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const int *a = x.slice_shape, *b = y.slice_shape, *at = y.processed, *all = y.shape;
    const dim4 input = {a[0], a[1], a[2], a[3]}, output = {b[0], b[1], b[2], b[3]};
    tiles t = {.x = &x, .y = &y, .to = {all[1] * all[2] * all[3], all[2] * all[3], all[3], 1},
               .stores = y.addr >= CHIP_DDR_BASE};
    okk_128_byte_aligned_stride_for_32bit(&t.from, 0, &input);
    if (t.stores) t.first = (u64)at[0] * (u64)t.to.n + (u64)at[2] * (u64)t.to.h + (u64)at[3];
    else okk_128_byte_aligned_stride_for_32bit(&t.to, 0, &output);
    for (int i = 0; i < p->block_h * p->block_w; i++) { /* one of them is 1 */
        if (p->block_w == 1 && i < b[2]) copy_row(&t, i, p->block_h);
        else if (p->block_w > 1 && i < b[3]) copy_column(&t, i, p->block_w);
    }
    return BM_LAYER_OK;
}
