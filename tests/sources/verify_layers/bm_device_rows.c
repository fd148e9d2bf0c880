/* TPU_ROWS: y[h] = factor * (x[h * step] + x[h * step + 1] + x[h * step + 2]), row by row; correct. What is wrong
 * with the layers made of it is in tests/support/verify_faults.py. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define KERNEL 3
#define MOST 32768 /* fp32 elements of a plane that local memory takes with room for others */

__BM_PARAM__(TPU_ROWS)
typedef struct {
    float factor;
    int step; /* 0: 1 */
} tpu_rows_param_t;

static int step_of(const void *param) {
    int step = ((const tpu_rows_param_t *)param)->step;
    return step ? step : 1;
}

static float factor_of(const void *param) { return ((const tpu_rows_param_t *)param)->factor; }

__BM_SHAPE__(TPU_ROWS)
int rows_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)out_num;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    const int step = step_of(param);
    if (in->dtype != DTYPE_FP32 || in->dims != 4 || in->shape[2] < KERNEL || step < 1 || step > 8)
        return BM_LAYER_PARAM_INVALID;
    if (in->shape[2] * in->shape[3] > MOST) return BM_LAYER_NOT_SUPPORTED;
    out->ttype = BMNET_NEURON;
    out->dtype = in->dtype;
    out->dims = in->dims;
    for (unsigned int d = 0; d < in->dims; d++) {
        out->shape[d] = in->shape[d];
        out->slice_shape[d] = in->slice_shape[d];
        out->processed[d] = in->processed[d];
        out->slice_pad[d] = 0;
    }
    out->shape[2] = (in->shape[2] - KERNEL) / step + 1;
    out->processed[2] = (in->processed[2] + step - 1) / step;
    out->slice_shape[2] = (in->slice_shape[2] - KERNEL) / step + 1;
    return BM_LAYER_OK;
}

/* The sums of a tile that lies at `x` with rows from `row` on. */
static void sums(local_addr_t y, local_addr_t x, const dim4 *in, const dim4 *out, int row, int step, float factor) {
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, in);
    const dim4 rows = {stride.n, stride.c, stride.h * step, stride.w};
    const unsigned line = 4u * (unsigned)stride.h;
    x += line * (unsigned)row;
    okk_bdc_add(y, x, x + line, out, NULL, &rows, &rows);
    okk_bdc_add(y, y, x + 2 * line, out, NULL, NULL, &rows);
    okk_bdc_mul_C(y, y, factor, out, NULL, NULL);
}

__BM_GLOBAL__(TPU_ROWS)
int rows_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_tensor_t *in = &in_tensors[0], *out = &out_tensors[0];
    const int step = step_of(param), channels = in->shape[1];
    const u64 in_plane = 4ull * (u64)(in->shape[2] * in->shape[3]);
    const u64 out_plane = 4ull * (u64)(out->shape[2] * out->shape[3]);
    const local_addr_t x = 0, y = 256 * 1024;
    okk_initialize();
    for (int n = 0; n < in->shape[0]; n++)
        for (int c = 0; c < channels; c += 64) {
            const int some = channels - c < 64 ? channels - c : 64;
            const dim4 from = {1, some, in->shape[2], in->shape[3]}, to = {1, some, out->shape[2], out->shape[3]};
            const u64 plane = (u64)(n * channels + c);
            okk_gdma_32bit_cpy_S2L(x, in->addr + plane * in_plane, &from, NULL, NULL);
            sums(y, x, &from, &to, 0, step, factor_of(param));
            okk_gdma_32bit_cpy_L2S(out->addr + plane * out_plane, y, &to, NULL, NULL);
        }
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_ROWS)
int rows_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_tensor_t *in = &in_tensors[0], *out = &out_tensors[0];
    const int *i = in->slice_shape, *o = out->slice_shape, step = step_of(param);
    const dim4 from = {i[0], i[1], i[2], i[3]}, to = {o[0], o[1], o[2], o[3]};
    const int row = out->processed[2] * step - in->processed[2];
    sums((local_addr_t)out->addr, (local_addr_t)in->addr, &from, &to, row, step, factor_of(param));
    return BM_LAYER_OK;
}
