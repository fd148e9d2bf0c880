/* TPU_DIAGONAL: y[h][w] = x[s h][s w] + x[s h - 1][s w - 1], zero outside; s is the stride. Local only in
 * substance: the global function is for tensors that fit. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_DIAGONAL)
typedef struct {
    int stride;
    int whole;  /* can_split_local_h_w answers false */
    int lies;   /* the descriptor's backward_hslice is one row too large */
    int global; /* force_use_global_layer */
    int slides; /* the descriptor tells the window's size, stride and pads, not which rows a tile needs */
    int both;   /* it tells both, and is_backslice_optimize_support_layer */
} tpu_diagonal_param_t;

static void tile_of(const tpu_tensor_t *in, tpu_tensor_t *out, int d, int stride) {
    int first = (in->processed[d] - in->slice_pad[d] + 1) / stride;
    int last = in->processed[d] + in->slice_shape[d] - 1; /* the last row that is there */
    out->processed[d] = first;
    out->slice_shape[d] = last / stride - first + 1;
    out->slice_pad[d] = 0;
}

__BM_SHAPE__(TPU_DIAGONAL)
int diagonal_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                   tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)out_num;
    const tpu_diagonal_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    *out = *in;
    for (int d = 2; d < 4; d++) {
        out->shape[d] = (in->shape[d] + p->stride - 1) / p->stride;
        tile_of(in, out, d, p->stride);
    }
    return BM_LAYER_OK;
}

/* Output tile of `shape` from an input tile; row_at, col_at: where its first centre lies in the input. */
static void work(local_addr_t y, local_addr_t x, const dim4 *in, int row_at, int col_at, const dim4 *shape, int stride) {
    dim4 from, to;
    okk_128_byte_aligned_stride_for_32bit(&from, 0, in);
    okk_128_byte_aligned_stride_for_32bit(&to, 0, shape);
    const int row = from.h;
    from.h *= stride;
    from.w *= stride;
    okk_bdc_32bit_cpy(y, x + 4 * (row_at * row + col_at), shape, &to, &from);
    int top = row_at == 0, left = col_at == 0; /* the element before is over the edge */
    dim4 part = {shape->n, shape->c, shape->h - top, shape->w - left};
    if (part.h < 1 || part.w < 1) return;
    y += 4 * (top * to.h + left);
    x += 4 * ((row_at - 1 + top * stride) * row + col_at - 1 + left * stride);
    okk_bdc_add(y, y, x, &part, &to, &to, &from);
}

__BM_GLOBAL__(TPU_DIAGONAL)
int diagonal_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                    const int out_num) {
    (void)param_size, (void)in_num, (void)out_num, (void)buffer_addr, (void)buffer_size;
    const tpu_diagonal_param_t *p = param;
    const int *a = in_tensors[0].shape, *b = out_tensors[0].shape;
    const dim4 in = {1, a[1], a[2], a[3]}, out = {1, b[1], b[2], b[3]};
    const local_addr_t half = 256 * 1024;
    okk_initialize();
    for (int n = 0; n < a[0]; n++) {
        okk_gdma_32bit_cpy_S2L(0, in_tensors[0].addr + 4ull * n * a[1] * a[2] * a[3], &in, NULL, NULL);
        work(half, 0, &in, 0, 0, &out, p->stride);
        okk_gdma_32bit_cpy_L2S(out_tensors[0].addr + 4ull * n * b[1] * b[2] * b[3], half, &out, NULL, NULL);
    }
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_DIAGONAL)
int diagonal_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                   u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)out_num, (void)buffer_offset, (void)buffer_size;
    const tpu_diagonal_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0], *out = &out_tensors[0];
    const int *a = in->slice_shape, *b = out->slice_shape;
    const dim4 have = {a[0], a[1], a[2], a[3]}, want = {b[0], b[1], b[2], b[3]};
    work((local_addr_t)out->addr, (local_addr_t)in->addr, &have, out->processed[2] * p->stride - in->processed[2],
         out->processed[3] * p->stride - in->processed[3], &want, p->stride);
    return BM_LAYER_OK;
}
