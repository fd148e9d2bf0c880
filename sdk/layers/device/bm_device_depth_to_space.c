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
    int height;           /* of the output, the last rectangles being cut off behind it; 0: they are whole */
} tpu_depth_to_space_param_t;

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
    const int rows = in->shape[2] * p->block_h;
    if (p->height != 0 && (p->height > rows || p->height <= rows - p->block_h)) return BM_LAYER_PARAM_INVALID;
    bm_output_like(out, in, (int)in->dims);
    out->shape[0] = in->shape[0];
    out->shape[1] = in->shape[1] / (p->block_h * p->block_w);
    out->shape[2] = p->height != 0 ? p->height : rows;
    if (in->dims == 4) out->shape[3] = in->shape[3] * p->block_w;
    return BM_LAYER_OK;
}

/* ---- global: within DDR; the rows of the last rectangles that are cut off make a second part ---- */

/* Rows [first, first + count) of each of the input's rows [from, to). */
static void squares(const tpu_depth_to_space_param_t *p, const tpu_tensor_t *in, const tpu_tensor_t *out, int from,
                    int to, int count) {
    const int channels = out->shape[1], rows = p->block_h, columns = p->block_w;
    const long long plane = bm_stride_of(in, 1), row = in->shape[3];
    bm_move m = {.dims = 0};
    bm_move_add(&m, in->shape[0], bm_stride_of(out, 0), bm_stride_of(in, 0));
    bm_move_add(&m, channels, bm_stride_of(out, 1), p->crd ? plane * rows * columns : plane);
    bm_move_add(&m, to - from, row * columns * rows, row);
    bm_move_add(&m, count, row * columns, p->crd ? plane * columns : plane * columns * channels);
    bm_move_add(&m, in->shape[3], columns, 1);
    bm_move_add(&m, columns, 1, p->crd ? plane : plane * channels);
    const u64 bytes = (u64)bm_element_bytes(in->dtype);
    bm_move_run(out->addr + bytes * (u64)(from * row * columns * rows), in->addr + bytes * (u64)(from * row), &m,
                (int)bytes);
}

__BM_GLOBAL__(TPU_DEPTH_TO_SPACE)
int depth_to_space_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                          const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                          const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_depth_to_space_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const int whole = y.shape[2] / p->block_h, rest = y.shape[2] % p->block_h;
    okk_initialize();
    if (whole > 0) squares(p, &x, &y, 0, whole, p->block_h);
    if (rest > 0) squares(p, &x, &y, whole, whole + 1, rest);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: rows alone, by the DMA engine, which takes each from its lanes to those of the output, or into DDR ---- */

__BM_LOCAL__(TPU_DEPTH_TO_SPACE)
int depth_to_space_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                         u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_depth_to_space_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const int *a = x.slice_shape, *b = y.slice_shape, *at = y.processed, *all = y.shape;
    const bool stores = y.addr >= CHIP_DDR_BASE;
    const dim4 input = {a[0], a[1], a[2], a[3]}, output = {b[0], b[1], b[2], b[3]};
    dim4 from, to = {all[1] * all[2] * all[3], all[2] * all[3], all[3], 1};
    okk_128_byte_aligned_stride_for_32bit(&from, 0, &input);
    if (!stores) okk_128_byte_aligned_stride_for_32bit(&to, 0, &output);
    const u64 first = stores ? (u64)at[0] * (u64)to.n + (u64)at[2] * (u64)to.h + (u64)at[3] : 0;
    const dim4 step = {to.n, to.c, p->block_h * to.h, 1};
    for (int i = 0; i < p->block_h && i < output.h; i++) {
        const int row = (at[2] + i) % p->block_h, source = (at[2] + i) / p->block_h - x.processed[2];
        const dim4 shape = {output.n, output.c, (output.h - 1 - i) / p->block_h + 1, output.w};
        const local_addr_t taken = local_channel((local_addr_t)x.addr, row * output.c, 4 * from.c) +
                                   4u * (local_addr_t)(source * from.h + at[3] - x.processed[3]);
        const u64 made = y.addr + 4 * (first + (u64)(i * to.h));
        if (stores) okk_gdma_32bit_cpy_L2S(made, taken, &shape, &step, &from);
        else okk_gdma_32bit_cpy_L2L((local_addr_t)made, taken, &shape, &step, &from);
    }
    return BM_LAYER_OK;
}
