/* TPU_DECONV: two-dimensional transposed convolution, NCHW, fp32: a convolution with the turned kernel over the input
 * with stride - 1 zeros between its elements, which the instruction inserts; or (bm_by_phases), where that multiplies
 * less and all input channels fit at once, a convolution for each phase of the stride by the taps that it sees, copied to
 * its place.
 *
 * Inputs: x, constant weights `[IC, OC / groups, KH, KW]`, perhaps a bias `[OC]`
 * Makes: transposed convolution
 */
#include "bm_layer_conv_run.h"
#include "bm_layer_phases.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

/* Inputs: x [N, IC, H, W]; constant weights [IC, OC / groups, KH, KW]; a bias of OC elements, if there is one. The
 * descriptor prepares the weights: [1, OC, P, KH * KW * 2] with P = bm_conv_weight_sets(), pairs of input channels
 * side by side, filled up with zeros, the kernel not turned; a constant bias joins them as for TPU_CONV.
 * Output: (H - 1) * stride + (KH - 1) * dilation + 1 - pads + output_pad rows, columns alike. */
__BM_PARAM__(TPU_DECONV)
typedef struct {
    int groups;
    int kernel_h, kernel_w;
    int stride_h, stride_w;     /* 1..16 */
    int dilation_h, dilation_w; /* 1..15, 1: none */
    int pad_top, pad_bottom, pad_left, pad_right; /* rows and columns of the result that are left out */
    int output_pad_h, output_pad_w;               /* more rows and columns at the end */
} tpu_deconv_param_t;

static bool in_range(int value, int least) { return value >= least && value <= AXIS_PARAM_MAX; }

/* out is 0 for parameters without sense. */
static window_axis axis_of(int size, int kernel, int stride, int dilation, int before, int after, int more) {
    window_axis a = {size, 0, kernel, 1, dilation, 0, 0, stride - 1};
    if (!in_range(kernel, 1) || !in_range(stride, 1) || !in_range(dilation, 1) || !in_range(before, 0) ||
        !in_range(after, 0) || !in_range(more, 0))
        return a;
    const long long reach = bm_axis_extent(&a) - 1;
    const long long out = (long long)(size - 1) * stride + 1 + reach - before - after + more;
    if (reach > AXIS_PARAM_MAX || out < 1 || out > 0x7FFFFFFF) return a;
    a.out = (int)out;
    a.before = (int)reach - before; /* below 0 where windows begin behind the first element */
    a.after = (int)reach - after + more;
    return a;
}

static void axes_of(const tpu_deconv_param_t *p, const int *shape, window_axis *h, window_axis *w) {
    *h = axis_of(shape[2], p->kernel_h, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom, p->output_pad_h);
    *w = axis_of(shape[3], p->kernel_w, p->stride_w, p->dilation_w, p->pad_left, p->pad_right, p->output_pad_w);
}

__BM_SHAPE__(TPU_DECONV)
int deconv_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_deconv_param_t) || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_deconv_param_t *p = param;
    const int code = bm_conv_check_inputs(p->groups, in_tensors, in_num);
    if (code != BM_LAYER_OK) return code;
    if (!bm_layer_all_fp32(in_tensors, in_num)) return BM_LAYER_NOT_SUPPORTED;
    window_axis h, w;
    axes_of(p, in_tensors[0].shape, &h, &w);
    if (h.out < 1 || w.out < 1) return BM_LAYER_PARAM_INVALID;
    if (!bm_axis_in_instruction(&h) || !bm_axis_in_instruction(&w)) return BM_LAYER_NOT_SUPPORTED;
    return bm_conv_shape_result(p->groups, false, &h, &w, in_tensors, &out_tensors[0]);
}

static conv_problem problem_of(const tpu_deconv_param_t *p, const tpu_tensor_t *in, int in_num,
                               const tpu_tensor_t *out) {
    window_axis h, w;
    axes_of(p, in[0].shape, &h, &w);
    conv_problem problem = bm_conv_problem_of(p->groups, false, h, w, in, in_num, out);
    problem.turned = true;
    const phase_axis rows = {h.kernel, p->stride_h, h.dilation, h.before, h.after};
    const phase_axis columns = {w.kernel, p->stride_w, w.dilation, w.before, w.after};
    problem.phased = bm_by_phases(problem.in_c, &rows, &columns);
    return problem;
}

__BM_GLOBAL__(TPU_DECONV)
int deconv_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param_size, (void)buffer_addr, (void)buffer_size, (void)out_num;
    conv_problem problem = problem_of(param, in_tensors, in_num, out_tensors);
    return bm_conv_in_ddr(&problem, in_tensors, out_tensors);
}

__BM_LOCAL__(TPU_DECONV)
int deconv_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)buffer_size, (void)out_num;
    const conv_problem problem = problem_of(param, in_tensors, in_num, out_tensors);
    return bm_conv_in_local(&problem, in_tensors, out_tensors, (local_addr_t)buffer_offset);
}
