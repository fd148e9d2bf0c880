/* TPU_CONV: two-dimensional convolution, NCHW, fp32; depthwise by an instruction of its own.
 *
 * Inputs: x `[N, IC, H, W]` or `[N, IC, H]`, constant weights `[OC, IC / groups, KH, KW]`, perhaps a bias `[OC]`
 * Makes: convolution, depthwise too
 */
#include "bm_layer_conv_run.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

/* Inputs: x [N, IC, H, W], or [N, IC, H] with one column; constant weights [OC, IC / groups, KH, KW]; a bias of OC
 * elements, if there is one.
 * The descriptor prepares the weights:
 * - groups == IC == OC > 1 (depthwise): [1, OC, KH, KW];
 * - otherwise [1, OC, P, KH * KW * 2] with P = bm_conv_weight_sets(): pairs of input channels side by side, filled up
 *   with zeros.
 * A constant bias joins them: [1, OC, 1, words + CONV_JOINED], each channel's bias behind its weights, so that one load
 * brings both; there is no third input then. */
__BM_PARAM__(TPU_CONV)
typedef struct {
    int groups;
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int dilation_h, dilation_w; /* 1: none */
    int pad_top, pad_bottom, pad_left, pad_right;
} tpu_conv_param_t;

static void axes_of(const tpu_conv_param_t *p, const int *shape, window_axis *h, window_axis *w) {
    *h = (window_axis){shape[2], 0, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom, 0};
    *w = (window_axis){shape[3], 0, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left, p->pad_right, 0};
    h->out = bm_axis_result(h);
    w->out = bm_axis_result(w);
}

/* ---- shape ---- */

__BM_SHAPE__(TPU_CONV)
int conv_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_conv_param_t) || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_conv_param_t *p = param;
    const int code = bm_conv_check_inputs(p->groups, in_tensors, in_num);
    if (code != BM_LAYER_OK) return code;
    if (!bm_layer_all_fp32(in_tensors, in_num)) return BM_LAYER_NOT_SUPPORTED;
    window_axis h, w;
    axes_of(p, in_tensors[0].shape, &h, &w);
    if (!bm_axis_valid(&h) || !bm_axis_valid(&w)) return BM_LAYER_PARAM_INVALID;
    if (bm_axis_extent(&h) > CHIP_WINDOW_SIDE_MAX || bm_axis_extent(&w) > CHIP_WINDOW_SIDE_MAX)
        return BM_LAYER_NOT_SUPPORTED;
    const bool depthwise = bm_conv_is_depthwise(p->groups, in_tensors[0].shape[1], in_tensors[1].shape[1]);
    return bm_conv_shape_result(p->groups, depthwise, &h, &w, in_tensors, &out_tensors[0]);
}

/* ---- global and local ---- */

static conv_problem problem_of(const tpu_conv_param_t *p, const tpu_tensor_t *in, int in_num, const tpu_tensor_t *out) {
    window_axis h, w;
    axes_of(p, in[0].shape, &h, &w);
    const bool depthwise = bm_conv_is_depthwise(p->groups, in[0].shape[1], out[0].shape[1]);
    return bm_conv_problem_of(p->groups, depthwise, h, w, in, in_num, out);
}

__BM_GLOBAL__(TPU_CONV)
int conv_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param_size, (void)buffer_addr, (void)buffer_size, (void)out_num;
    conv_problem problem = problem_of(param, in_tensors, in_num, out_tensors);
    return bm_conv_in_ddr(&problem, in_tensors, out_tensors);
}

__BM_LOCAL__(TPU_CONV)
int conv_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)buffer_size, (void)out_num;
    const conv_problem problem = problem_of(param, in_tensors, in_num, out_tensors);
    return bm_conv_in_local(&problem, in_tensors, out_tensors, (local_addr_t)buffer_offset);
}
