/* TPU_CONV_INT8: two-dimensional convolution of 8-bit integers in 4N; depthwise by an instruction of its own.
 *
 * y = (sum of x * weight + bias + half) >> rshift, saturated to int8, or with relu to uint8. One shift serves all
 * channels. The scale of y is what the parameters say; the one who quantises chooses weights that are right for it.
 * At most CHIP_CHANNELS_WHOLE input channels to a group.
 *
 * Inputs: x `[N, IC, H, W]` or `[N, IC, H]`, int8 or uint8; constants: int8 weights `[OC, IC / groups, KH, KW]`, perhaps
 * an int16 bias `[OC]`
 * Makes: convolution in 8 bits, depthwise too
 */
#include "bm_layer_conv_run.h"
#include "bm_layer_packed.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

/* The descriptor prepares the weights as words, [1, OC, 1, words + CONV_JOINED], or without a bias [1, OC, 1, words]:
 * - groups == IC == OC > 1 (depthwise): KH * KW bytes, filled up to whole words;
 * - otherwise fours of input channels side by side, filled up with zeros: KH * KW words for each four.
 * The bias is the low half of the word behind them. */
__BM_PARAM__(TPU_CONV_INT8)
typedef struct {
    int groups;
    int kernel_h, kernel_w;
    int stride_h, stride_w;     /* 1..15 */
    int dilation_h, dilation_w; /* 1..15, 1: none */
    int pad_top, pad_bottom, pad_left, pad_right;
    int rshift; /* 0..31 */
    int relu;   /* 1: y is uint8, negative sums become 0 */
    float scale;
} tpu_conv_int8_param_t;

static void axes_of(const tpu_conv_int8_param_t *p, const int *shape, window_axis *h, window_axis *w) {
    *h = (window_axis){shape[2], 0, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom, 0};
    *w = (window_axis){shape[3], 0, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left, p->pad_right, 0};
    h->out = bm_axis_result(h);
    w->out = bm_axis_result(w);
}

__BM_SHAPE__(TPU_CONV_INT8)
int conv_int8_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_conv_int8_param_t) || in_num != 2 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_conv_int8_param_t *p = param;
    const tpu_tensor_t *x = &in_tensors[0], *weight = &in_tensors[1];
    if (!bm_is_rshift(p->rshift) || !(p->scale > 0.0f)) return BM_LAYER_PARAM_INVALID;
    if (!bm_is_packed(x)) return BM_LAYER_NOT_SUPPORTED;
    const int code = bm_conv_check_inputs(p->groups, in_tensors, in_num);
    if (code != BM_LAYER_OK) return code;
    if (x->shape[1] / p->groups > CHIP_CHANNELS_WHOLE) return BM_LAYER_NOT_SUPPORTED; /* one command makes a sum */
    window_axis h, w;
    axes_of(p, x->shape, &h, &w);
    if (!bm_axis_valid(&h) || !bm_axis_valid(&w)) return BM_LAYER_PARAM_INVALID;
    if (!bm_axis_in_instruction(&h) || !bm_axis_in_instruction(&w)) return BM_LAYER_NOT_SUPPORTED;
    const int kernel = p->kernel_h * p->kernel_w, in_c = x->shape[1] / p->groups;
    const bool depthwise = bm_conv_is_depthwise(p->groups, x->shape[1], weight->shape[1]);
    const int words = depthwise ? divide_up(kernel, 4) : kernel * bm_conv_weight_sets(p->groups, in_c, true);
    const int *row = weight->shape;
    if (weight->dims != 4 || row[0] != 1 || row[2] != 1 ||
        (row[3] != words && row[3] != words + CONV_JOINED))
        return BM_LAYER_PARAM_INVALID;
    out_tensors[0].dtype = p->relu ? DTYPE_UINT8 : DTYPE_INT8;
    out_tensors[0].store_mode = STORE_MODE_4N;
    out_tensors[0].scale = p->scale;
    return bm_conv_result_of(&h, &w, in_tensors, &out_tensors[0]);
}

static conv_quantised quantised_of(const tpu_conv_int8_param_t *p, const tpu_tensor_t *x) {
    return (conv_quantised){x->shape[0], p->rshift, p->relu != 0, x->dtype == DTYPE_INT8};
}

static conv_problem problem_of(const tpu_conv_int8_param_t *p, const conv_quantised *bytes, const tpu_tensor_t *in,
                               const tpu_tensor_t *out) {
    window_axis h, w;
    axes_of(p, in[0].shape, &h, &w);
    const bool depthwise = bm_conv_is_depthwise(p->groups, in[0].shape[1], out[0].shape[1]);
    return bm_conv_problem_of_bytes(p->groups, depthwise, h, w, bytes, in, out);
}

__BM_GLOBAL__(TPU_CONV_INT8)
int conv_int8_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                     const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const conv_quantised bytes = quantised_of(param, in_tensors);
    conv_problem problem = problem_of(param, &bytes, in_tensors, out_tensors);
    return bm_conv_in_ddr(&problem, in_tensors, out_tensors);
}

__BM_LOCAL__(TPU_CONV_INT8)
int conv_int8_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const conv_quantised bytes = quantised_of(param, in_tensors);
    const conv_problem problem = problem_of(param, &bytes, in_tensors, out_tensors);
    return bm_conv_in_local(&problem, in_tensors, out_tensors, (local_addr_t)buffer_offset);
}
