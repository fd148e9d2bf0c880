/* Convolutions of volumes, plane by plane: what global and local functions of TPU_CONV3D share.
 *
 * Planes lie one after the other as batches, so what a tap of the kernel's depth sees of several planes is one
 * convolution of planes, somewhat further on; planes that lie before or behind the volume are left out. */
#ifndef BM_LAYER_VOLUME_H
#define BM_LAYER_VOLUME_H

#include "bm_layer_conv_plan.h"
#include "bm_layer_conv_run.h"
#include "bmcompiler_tpulayer_device.h"

/* plane: the convolution of planes that each of the d.kernel taps is; n counts planes, and weights are those of the first tap,
 * [1, OC, KH, KW] or [1, OC, pairs, KH * KW * 2], behind which those of the others lie. */
typedef struct {
    conv_problem plane;
    window_axis d;
} volume_problem;

/* Whether bm_volume_in_ddr finds room for one plane, row and column at least. */
bool bm_volume_fits(const volume_problem *p);

/* x [N * D, IC, H, W] and y [N * OD, OC, OH, OW] in DDR. */
int bm_volume_in_ddr(const volume_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out);

/* Tiles in local memory with all planes of a volume or of several ones. work: bytes for partial sums of depthwise ones. */
int bm_volume_in_local(const volume_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out, local_addr_t work,
                       u64 work_bytes);

#endif
