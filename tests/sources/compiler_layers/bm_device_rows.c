/* TPU_ROWS, a layer for compiler tests: y[h] = x[h-1] + x[h] + x[h+1] along h with zero padding; fp32, up to four
 * dimensions. Its local version needs a halo of one row on each side. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_ROWS)
typedef struct {
    int scratch; /* bytes of local memory that the descriptor asks for, per row of the tile */
} tpu_rows_param_t;

__BM_SHAPE__(TPU_ROWS)
int rows_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    (void)param;
    if (param_size != (int)sizeof(tpu_rows_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    if (in_tensors[0].dims != 4) return BM_LAYER_NOT_SUPPORTED;
    out_tensors[0].ttype = BMNET_NEURON;
    out_tensors[0].dtype = in_tensors[0].dtype;
    out_tensors[0].dims = 4;
    for (int d = 0; d < 4; d++) out_tensors[0].shape[d] = in_tensors[0].shape[d];
    return BM_LAYER_OK;
}

/* y = x, then the row above added to all rows but the first of the tensor, then the row below. rows of x start at
 * x_first, rows of y at y_first; `height` is the tensor's. */
static void sum_rows(local_addr_t y, local_addr_t x, dim4 y_shape, dim4 x_shape, int y_first, int x_first, int height) {
    dim4 ys, xs;
    okk_128_byte_aligned_stride_for_32bit(&ys, 0, &y_shape);
    okk_128_byte_aligned_stride_for_32bit(&xs, 0, &x_shape);
    okk_bdc_32bit_cpy(y, x + (local_addr_t)((y_first - x_first) * x_shape.w * 4), &y_shape, &ys, &xs);
    for (int side = -1; side <= 1; side += 2) {
        int begin = y_first, end = y_first + y_shape.h;
        if (begin + side < 0) begin++;
        if (end + side > height) end--;
        if (begin >= end) continue;
        dim4 part = {y_shape.n, y_shape.c, end - begin, y_shape.w};
        local_addr_t to = y + (local_addr_t)((begin - y_first) * y_shape.w * 4);
        okk_bdc_add(to, to, x + (local_addr_t)((begin + side - x_first) * x_shape.w * 4), &part, &ys, &ys, &xs);
    }
}

__BM_GLOBAL__(TPU_ROWS)
int rows_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const int *s = in_tensors[0].shape;
    okk_initialize();
    for (int n = 0; n < s[0]; n++)
        for (int c = 0; c < s[1]; c += 64) {
            dim4 shape = {1, s[1] - c < 64 ? s[1] - c : 64, s[2], s[3]};
            unsigned long long at = ((unsigned long long)n * s[1] + c) * s[2] * s[3] * 4;
            okk_gdma_32bit_cpy_S2L(0, in_tensors[0].addr + at, &shape, NULL, NULL);
            sum_rows(256 * 1024, 0, shape, shape, 0, 0, s[2]);
            okk_gdma_32bit_cpy_L2S(out_tensors[0].addr + at, 256 * 1024, &shape, NULL, NULL);
        }
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_ROWS)
int rows_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const int *x = in_tensors[0].slice_shape, *y = out_tensors[0].slice_shape;
    /* The window begins a row above the tile; slice_pad says whether that row exists. */
    if (out_tensors[0].processed[2] - 1 != in_tensors[0].processed[2] - in_tensors[0].slice_pad[2])
        return BM_LAYER_RUNTIME_ERROR;
    const dim4 xs = {x[0], x[1], x[2], x[3]}, ys = {y[0], y[1], y[2], y[3]};
    sum_rows((local_addr_t)out_tensors[0].addr, (local_addr_t)in_tensors[0].addr, ys, xs,
             out_tensors[0].processed[2], in_tensors[0].processed[2], in_tensors[0].shape[2]);
    return BM_LAYER_OK;
}
