/* Depthwise convolutions of DDR data, fp32 or 8 bits: pools with a kernel of its own for each plane. */
#ifndef BM_LAYER_DEPTHWISE_H
#define BM_LAYER_DEPTHWISE_H

#include "bm_layer_conv_plan.h"
#include "bmcompiler_tpulayer_device.h"

/* BM_LAYER_OK, or that not even one row of output fits. */
int bm_depthwise_in_ddr(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out);

#endif
