/* TPU_SLICE: part of its input: along some dimensions every step-th element from start to before end; any type.
 *
 * Inputs: x of any type
 * Makes: part of x
 */
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_SLICE)
typedef struct {
    int count;                /* dimensions that are cut, up to 8 */
    int axes[MAX_SHAPE_DIMS]; /* which ones; negative counts from the end */
    /* Negative starts and ends count from the dimension's end; beyond it they mean its first or last element.
     * With a negative step, an end of -2147483648 takes the first element too. */
    int starts[MAX_SHAPE_DIMS], ends[MAX_SHAPE_DIMS];
    int steps[MAX_SHAPE_DIMS]; /* not 0 */
} tpu_slice_param_t;

/* First element, step and number of elements of each dimension. */
typedef struct {
    int first[MAX_SHAPE_DIMS], step[MAX_SHAPE_DIMS], count[MAX_SHAPE_DIMS];
} part;

static int clamp(long long value, int extent, int low, int high) {
    if (value < 0) value += extent;
    return value < low ? low : value > high ? high : (int)value;
}

/* False where the parameters make no sense for this input, or nothing is left of it. */
static bool part_of(const tpu_slice_param_t *p, const tpu_tensor_t *in, part *s) {
    for (int d = 0; d < (int)in->dims; d++) {
        s->first[d] = 0;
        s->step[d] = 0; /* not cut yet */
        s->count[d] = in->shape[d];
    }
    if (p->count < 0 || p->count > MAX_SHAPE_DIMS) return false;
    for (int i = 0; i < p->count; i++) {
        const int axis = bm_layer_axis(p->axes[i], (int)in->dims), step = p->steps[i];
        if (axis < 0 || step == 0 || s->step[axis] != 0) return false;
        const int extent = in->shape[axis];
        const int low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
        const int first = clamp(p->starts[i], extent, 0, high);
        const int end = clamp(p->ends[i], extent, low, high);
        const long long span = step > 0 ? (long long)end - first : (long long)first - end;
        const long long pace = step > 0 ? step : -(long long)step;
        if (span <= 0) return false;
        s->first[axis] = first;
        s->step[axis] = step;
        s->count[axis] = (int)((span + pace - 1) / pace);
    }
    for (int d = 0; d < (int)in->dims; d++)
        if (s->step[d] == 0) s->step[d] = 1;
    return true;
}

__BM_SHAPE__(TPU_SLICE)
int slice_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_slice_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_slice_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    part s;
    if (!part_of(p, in, &s)) return BM_LAYER_PARAM_INVALID;
    bm_output_like(&out_tensors[0], in, (int)in->dims);
    for (int d = 0; d < (int)in->dims; d++) out_tensors[0].shape[d] = s.count[d];
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_SLICE)
int slice_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                 const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_slice_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const tpu_tensor_t *in = &x, *out = &y;
    part s;
    if (!part_of(p, in, &s)) return BM_LAYER_PARAM_INVALID;
    bm_move m = {.dims = 0};
    long long first = 0;
    for (int d = 0; d < (int)in->dims; d++) {
        const long long stride = bm_stride_of(in, d);
        bm_move_add(&m, s.count[d], bm_stride_of(out, d), s.step[d] * stride);
        first += s.first[d] * stride;
    }
    const int bytes = bm_element_bytes(in->dtype);
    okk_initialize();
    bm_move_run(out->addr, in->addr + (u64)(first * bytes), &m, bytes);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: rows and columns by the tensor unit, and channels that stay in their lanes; others by the DMA engine, which
 * the compiler knows ---- */

__BM_LOCAL__(TPU_SLICE)
int slice_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    part s;
    if (!part_of(param, &in_tensors[0], &s)) return BM_LAYER_PARAM_INVALID;
    const dim4 input = local_extents(&x), output = local_extents(&y);
    int step[4] = {1, 1, 1, 1}, at[4] = {0}; /* at: of y's first element in x */
    for (int d = 0; d < (int)x.dims; d++) {
        if (y.slice_shape[d] > 1) step[d] = s.step[d]; /* one element needs none, and a long one may be beyond all strides */
        at[d] = s.first[d] + s.step[d] * y.processed[d] - x.processed[d];
    }
    dim4 from, to;
    okk_128_byte_aligned_stride_for_32bit(&from, 0, &input);
    okk_128_byte_aligned_stride_for_32bit(&to, 0, &output);
    const dim4 steps = {from.n, from.c, step[2] * from.h, step[3]};
    const local_addr_t source = local_channel((local_addr_t)x.addr, at[1], 4 * from.c) + 4u * (local_addr_t)(at[2] * from.h + at[3]);
    if (at[1] % CHIP_NPU_NUM == 0) okk_bdc_32bit_cpy((local_addr_t)y.addr, source, &output, &to, &steps);
    else okk_gdma_32bit_cpy_L2L((local_addr_t)y.addr, source, &output, &to, &steps);
    return BM_LAYER_OK;
}
