/* TPU_POOL_INT8: maxima and averages over windows of 8-bit integers in 4N.
 *
 * A maximum has the type and scale of x; pads count as the least number. An average is
 * y = saturated((sum * multiplier + half) >> rshift) of the sum of each window, with half = 2^(rshift - 1), or 0 for
 * rshift 0; what is below 0 becomes 0 in uint8. multiplier / 2^rshift stands for the scale of x over that of y and the
 * kernel's size. Pads are zeros that count: average pools that do not count them are refused, and so are dilations and
 * steps above 15.
 *
 * Inputs: x `[N, C, H, W]` or `[N, C, H]` as int8 or uint8 in 4N
 * Makes: maxima and averages over windows, whole planes, columns or rows
 */
#include "bm_layer_packed.h"
#include "bm_layer_pool.h"
#include "bm_layer_pool_run.h"
#include "bm_layer_shape.h"
#include "okk.h"

#define TAPS_MAX 16384 /* of an average, which is made in one command */

__BM_PARAM__(TPU_POOL_INT8)
typedef struct {
    int mode; /* 0: maximum, 1: average */
    /* The window, as TPU_POOL has it. */
    int whole;
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int dilation_h, dilation_w; /* 1 */
    int pad_top, pad_bottom, pad_left, pad_right;
    int extra_bottom, extra_right;
    int count_include_pad; /* of averages: 1 where there are pads */
    int multiplier;        /* of averages: 1..127 */
    int rshift;            /* of averages: 0..31 */
    int dtype;             /* of the result: DTYPE_INT8 or DTYPE_UINT8 */
    float scale;           /* of the result */
} tpu_pool_int8_param_t;

/* Whether one command makes such an average. pads: some window reaches over an edge. */
static bool averages(const tpu_pool_int8_param_t *p, const window_axis *h, const window_axis *w, bool pads) {
    return (!pads || (p->count_include_pad && p->extra_bottom == 0 && p->extra_right == 0)) &&
           h->kernel <= CHIP_WINDOW_SIDE_MAX && w->kernel <= CHIP_WINDOW_SIDE_MAX &&
           (long long)h->kernel * w->kernel <= TAPS_MAX;
}

__BM_SHAPE__(TPU_POOL_INT8)
int pool_int8_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_pool_int8_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_pool_int8_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    if (!bm_is_packed(in)) return BM_LAYER_NOT_SUPPORTED;
    if ((p->mode != POOL_MAX && p->mode != POOL_AVERAGE) || (p->count_include_pad & ~1) != 0 ||
        !bm_packed_result(p->dtype, p->scale))
        return BM_LAYER_PARAM_INVALID;
    if (p->mode == POOL_AVERAGE && !(bm_is_multiplier(p->multiplier) && bm_is_rshift(p->rshift)))
        return BM_LAYER_PARAM_INVALID;
    const pool_window window = POOL_WINDOW_OF(p);
    const int status = bm_pool_shape(&window, out, in);
    if (status != BM_LAYER_OK) return status;
    window_axis h, w;
    bm_pool_axes(&window, in->shape, &h, &w);
    if (h.dilation > 1 || w.dilation > 1 || larger(h.stride, w.stride) > CHIP_WINDOW_STEP_MAX)
        return BM_LAYER_NOT_SUPPORTED;
    const bool pads = h.before + h.after + w.before + w.after > 0;
    if (p->mode == POOL_AVERAGE && !averages(p, &h, &w, pads)) return BM_LAYER_NOT_SUPPORTED;
    if (p->mode == POOL_MAX && (p->dtype != in->dtype || p->scale != in->scale)) return BM_LAYER_NOT_SUPPORTED;
    bm_packed_output(out, p->dtype, p->scale);
    return BM_LAYER_OK;
}

/* ---- global ---- */

static pool_packed packed_of(const tpu_pool_int8_param_t *p, const tpu_tensor_t *in) {
    return (pool_packed){bm_is_signed(in), p->dtype == DTYPE_INT8, p->rshift};
}

/* What the steps need to know. */
typedef struct {
    int mode;
    pool_packed packed;
} pooling;

static void compute_step(const pool_run *r, const pool_step *s) {
    const pooling *p = r->param;
    pool_work work = bm_pool_step_work(r, s);
    work.input_shape.n *= BM_PACKED;
    work.output_shape.n *= BM_PACKED;
    work.mode = p->mode;
    work.packed = &p->packed;
    bm_pool_compute(&work, false);
    if (s->first) return;
    const local_addr_t output = r->plan.output[s->out]; /* only the kernel of a maximum is cut */
    okk_bdc_fixed_point_packed_max(output, output, r->plan.part, &work.output_shape, NULL, NULL, NULL,
                                   p->packed.input_sign ? S8_OP_S8_TO_S8 : U8_OP_U8_TO_U8);
}

__BM_GLOBAL__(TPU_POOL_INT8)
int pool_int8_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                     const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_pool_int8_param_t *p = param;
    const pool_window window = POOL_WINDOW_OF(p);
    const pooling how = {p->mode, packed_of(p, &in_tensors[0])};
    const bool lowest = p->mode == POOL_MAX && how.packed.input_sign;
    pool_run r = {.param = &how, .compute = compute_step, .fill = {.u32 = lowest ? 0x80808080u : 0u},
                  .problem = {.weights = p->mode == POOL_AVERAGE}};
    okk_initialize();
    bm_pool_prepare(&r, &window, &out_tensors[0], &in_tensors[0]);
    if (p->mode == POOL_AVERAGE)
        bm_pool_fill_weights(r.plan.temporary, r.plan.c * r.plan.bands, r.plan.kernel_h, r.plan.kernel_w, p->multiplier);
    bm_pool_run(&r);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: the compiler has the data in local memory already ---- */

__BM_LOCAL__(TPU_POOL_INT8)
int pool_int8_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)out_num;
    const tpu_pool_int8_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0], *out = &out_tensors[0];
    const int *a = in->slice_shape, *b = out->slice_shape;
    const pool_window window = POOL_WINDOW_OF(p);
    const pool_packed packed = packed_of(p, in);
    window_axis h, w;
    bm_pool_axes(&window, in->shape, &h, &w);
    const window_part rows = bm_axis_part(&h, out->processed[2], b[2]);
    const window_part columns = bm_axis_part(&w, out->processed[3], b[3]);
    const int *at = in->processed;
    if (!bm_axis_takes(&h, &rows, at[2], a[2]) || !bm_axis_takes(&w, &columns, at[3], a[3])) return BM_LAYER_RUNTIME_ERROR;
    const bool room = buffer_size >= (u64)bm_pool_temporary_bytes(divide_up(a[0], BM_PACKED), a[1], a[2], b[3]);
    const pool_work work = {.output = (local_addr_t)out->addr,
                            .input = (local_addr_t)in->addr,
                            .temporary = room || p->mode == POOL_AVERAGE ? (local_addr_t)buffer_offset : CHIP_LOCAL_BYTES,
                            .input_shape = {a[0], a[1], a[2], a[3]},
                            .output_shape = {b[0], b[1], b[2], b[3]},
                            .mode = p->mode,
                            .kernel = {h.kernel, w.kernel},
                            .stride = {h.stride, w.stride},
                            .pad = {rows.before, rows.after, columns.before, columns.after},
                            .packed = &packed};
    if (p->mode == POOL_AVERAGE) bm_pool_fill_weights(work.temporary, a[1], h.kernel, w.kernel, p->multiplier);
    bm_pool_compute(&work, false);
    return BM_LAYER_OK;
}
