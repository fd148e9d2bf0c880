/* TPU_SCALE_SHIFT: x * scale[c] + shift[c] with one number per channel, and relu: a BatchNormalization whose
 * statistics are constants.
 *
 * Inputs: x, scale, perhaps shift, a number per channel
 * Makes: x * scale + shift
 */
#include "bm_layer_affine.h"
#include "bm_layer_local.h"
#include "bm_layer_shape.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

/* Inputs: x, scale, and optionally shift, of any shape with C elements; computed ones as [1, C, 1, 1] where the layer
 * shall be part of a local group. Two constants become one input, [2, C, 1, 1], which one load brings. */
__BM_PARAM__(TPU_SCALE_SHIFT)
typedef struct {
    int axis; /* of the channels; negative counts from the end. Local groups: 1 of three or four dimensions. */
    int relu; /* 1: negative results become 0 */
} tpu_scale_shift_param_t;

static bool is_joined(const tpu_tensor_t *in, int in_num, int channels) {
    return in_num == 2 && in[1].dims == 4 && in[1].shape[0] == 2 && in[1].shape[1] == channels &&
           in[1].elem_num == 2 * channels;
}

__BM_SHAPE__(TPU_SCALE_SHIFT)
int scale_shift_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_scale_shift_param_t) || in_num < 2 || in_num > 3 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_scale_shift_param_t *p = param;
    const int axis = bm_layer_axis(p->axis, (int)in_tensors[0].dims);
    if (axis < 0 || (p->relu & ~1)) return BM_LAYER_PARAM_INVALID;
    if (!bm_layer_all_fp32(in_tensors, in_num)) return BM_LAYER_NOT_SUPPORTED;
    const bool joined = is_joined(in_tensors, in_num, in_tensors[0].shape[axis]);
    for (int i = 1; i < in_num && !joined; i++)
        if (in_tensors[i].elem_num != in_tensors[0].shape[axis]) return BM_LAYER_PARAM_INVALID;
    bm_layer_same_shape(&out_tensors[0], &in_tensors[0]);
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_SCALE_SHIFT)
int scale_shift_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                       const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                       const int out_num) {
    (void)param_size, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_scale_shift_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    const int dims = (int)in->dims, axis = bm_layer_axis(p->axis, dims);
    system_addr_t shift = in_num == 3 ? in_tensors[2].addr : 0;
    if (is_joined(in_tensors, in_num, in->shape[axis])) shift = in_tensors[1].addr + 4ull * (unsigned)in->shape[axis];
    okk_initialize();
    bm_affine(out_tensors[0].addr, in->addr, in_tensors[1].addr, shift,
              (int)bm_layer_elements(in->shape, 0, axis), in->shape[axis],
              (int)bm_layer_elements(in->shape, axis + 1, dims), p->relu);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_SCALE_SHIFT)
int scale_shift_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_scale_shift_param_t *p = param;
    const int *tile = out_tensors[0].slice_shape;
    const dim4 shape = {tile[0], tile[1], tile[2], tile[3]};
    const local_addr_t y = (local_addr_t)out_tensors[0].addr, x = (local_addr_t)in_tensors[0].addr;
    const local_addr_t scale = (local_addr_t)in_tensors[1].addr;
    const int channels = in_tensors[0].shape[1];
    if (is_joined(in_tensors, in_num, channels)) /* compact: the shifts follow the scales of the lane */
        okk_bdc_scale_bias(y, x, scale, scale + 4u * (local_addr_t)local_slots(channels), &shape, NULL, NULL);
    else if (in_num == 3)
        okk_bdc_scale_bias(y, x, scale, (local_addr_t)in_tensors[2].addr, &shape, NULL, NULL);
    else
        okk_bdc_scale(y, x, scale, &shape, NULL, NULL);
    if (p->relu) okk_bdc_relu(y, y, &shape, NULL, NULL);
    return BM_LAYER_OK;
}
