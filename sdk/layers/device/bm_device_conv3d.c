/* TPU_CONV3D: convolution of volumes whose planes are batches; fp32.
 *
 * Inputs: x `[N * D, IC, H, W]`, constant weights `[OC, IC / groups, KD, KH, KW]`, perhaps a bias `[OC]`
 * Makes: convolution of volumes, depthwise too: `[N * OD, OC, OH, OW]`
 */
#include "bm_layer_volume.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

/* Inputs: x [N * planes, IC, H, W]; constant weights [OC, IC / groups, KD, KH, KW]; a bias of OC elements, if there is one.
 * The descriptor prepares the weights, those of each tap along the depth as TPU_CONV has them:
 * - groups == IC == OC > 1 (depthwise): [KD, OC, KH, KW];
 * - otherwise [KD, OC, P, KH * KW * 2] with P = bm_conv_weight_sets().
 * Each window meets the volume in each direction. */
__BM_PARAM__(TPU_CONV3D)
typedef struct {
    int groups; /* with one there are four input channels at least */
    int planes; /* of a volume, several */
    int kernel_d, kernel_h, kernel_w;
    int stride_d, stride_h, stride_w;
    int dilation_d, dilation_h, dilation_w; /* 1: none */
    int pad_front, pad_back, pad_top, pad_bottom, pad_left, pad_right;
} tpu_conv3d_param_t;

static volume_problem problem_of(const tpu_conv3d_param_t *p, const tpu_tensor_t *in, int in_num,
                                 const tpu_tensor_t *out) {
    const int *shape = in[0].shape;
    window_axis d = {p->planes, 0, p->kernel_d, p->stride_d, p->dilation_d, p->pad_front, p->pad_back, 0};
    window_axis h = {shape[2], 0, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom, 0};
    window_axis w = {shape[3], 0, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left, p->pad_right, 0};
    d.out = bm_axis_result(&d);
    h.out = bm_axis_result(&h);
    w.out = bm_axis_result(&w);
    const bool depthwise = bm_conv_is_depthwise(p->groups, shape[1], in[1].shape[1]);
    return (volume_problem){bm_conv_problem_of(p->groups, depthwise, h, w, in, in_num, out), d};
}

/* ---- shape ---- */

/* Pads that an instruction takes, with no window beside the tensor. */
static bool takes(const window_axis *a) { return bm_axis_in_instruction(a) && !bm_axis_needs_zeros(a); }

static int check(const volume_problem *v, const tpu_tensor_t *in) {
    const conv_problem *p = &v->plane;
    const int *weight = in[1].shape;
    const int sets = p->depthwise ? p->h.kernel : bm_conv_weight_sets(p->groups, p->in_c, false);
    const int words = p->depthwise ? p->w.kernel : 2 * p->h.kernel * p->w.kernel;
    if (weight[0] != v->d.kernel || weight[2] != sets || weight[3] != words) return BM_LAYER_PARAM_INVALID;
    const bool few = bm_conv_told(p->groups, p->in_c) != p->in_c; /* they would need zeros beside them */
    if (few || !takes(&p->h) || !takes(&p->w)) return BM_LAYER_NOT_SUPPORTED;
    return bm_axis_misses(&v->d) || !bm_volume_fits(v) ? BM_LAYER_NOT_SUPPORTED : BM_LAYER_OK;
}

__BM_SHAPE__(TPU_CONV3D)
int conv3d_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_conv3d_param_t) || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_conv3d_param_t *p = param;
    const int code = bm_conv_check_inputs(p->groups, in_tensors, in_num);
    if (code != BM_LAYER_OK) return code;
    if (!bm_layer_all_fp32(in_tensors, in_num) || in_tensors[0].dims != 4) return BM_LAYER_NOT_SUPPORTED;
    if (p->planes < 2 || in_tensors[0].shape[0] % p->planes != 0) return BM_LAYER_PARAM_INVALID;
    tpu_tensor_t *out = &out_tensors[0];
    out->shape[1] = in_tensors[1].shape[1];
    const volume_problem v = problem_of(p, in_tensors, in_num, out);
    const int made = bm_conv_result_of(&v.plane.h, &v.plane.w, in_tensors, out);
    if (made != BM_LAYER_OK || v.d.out < 1) return BM_LAYER_PARAM_INVALID;
    const long long planes = (long long)(in_tensors[0].shape[0] / p->planes) * v.d.out;
    if (planes > CHIP_EXTENT_MAX) return BM_LAYER_NOT_SUPPORTED;
    out->shape[0] = (int)planes;
    out->dtype = DTYPE_FP32;
    return check(&v, in_tensors);
}

/* ---- global and local ---- */

__BM_GLOBAL__(TPU_CONV3D)
int conv3d_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param_size, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const volume_problem problem = problem_of(param, in_tensors, in_num, out_tensors);
    return bm_volume_in_ddr(&problem, in_tensors, out_tensors);
}

__BM_LOCAL__(TPU_CONV3D)
int conv3d_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)out_num;
    const volume_problem problem = problem_of(param, in_tensors, in_num, out_tensors);
    return bm_volume_in_local(&problem, in_tensors, out_tensors, (local_addr_t)buffer_offset, buffer_size);
}
