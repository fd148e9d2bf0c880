/* A convolution of data in DDR: a pipeline of steps, each with one tile, some output channels and some input channels;
 * and of a tile that the compiler has put into local memory. TPU_CONV and TPU_DECONV differ in their problems only. */
#ifndef BM_LAYER_CONV_RUN_H
#define BM_LAYER_CONV_RUN_H

#include "bm_layer_conv.h"
#include "bm_layer_conv_plan.h"
#include "bm_layer_shape.h"
#include "bmcompiler_tpulayer_device.h"

/* ---- shapes: inputs x [N, IC, H, W], weights, perhaps a bias ---- */

/* Whether one input channel belongs to each output channel. */
static inline bool bm_conv_is_depthwise(int groups, int in_c, int out_c) {
    return groups > 1 && groups == in_c && groups == out_c;
}

/* BM_LAYER_OK, or what is wrong with the inputs, whatever their types. */
int bm_conv_check_inputs(int groups, const tpu_tensor_t *in, int in_num);

/* The weights are [1, OC, KH, KW] for depthwise, [1, OC, pairs of input channels, KH * KW * 2] otherwise; or joined. */
int bm_conv_shape_result(int groups, bool depthwise, const window_axis *h, const window_axis *w, const tpu_tensor_t *in,
                         tpu_tensor_t *out);

/* The shape of the output, but for its type. */
int bm_conv_result_of(const window_axis *h, const window_axis *w, const tpu_tensor_t *in, tpu_tensor_t *out);

/* ---- data in DDR ---- */

/* The problem of a layer with the inputs x, weights and perhaps bias, but for turned, taps and filled. */
conv_problem bm_conv_problem_of(int groups, bool depthwise, window_axis h, window_axis w, const tpu_tensor_t *in,
                                int in_num, const tpu_tensor_t *out);

/* The same in 8 bits; the weights are [1, OC, 1, words], perhaps with the bias behind those of each channel. */
conv_problem bm_conv_problem_of_bytes(int groups, bool depthwise, window_axis h, window_axis w,
                                      const conv_quantised *bytes, const tpu_tensor_t *in, const tpu_tensor_t *out);

/* p: all but taps and filled; where not all input channels fit at once it is not made by phases. */
int bm_conv_in_ddr(conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out);

/* ---- a tile that the compiler has put into local memory ---- */

/* What bm_conv_compute is told of the tiles, but of phases and of pads beyond those of an instruction: BM_LAYER_OK, or that
 * they are not those of the problem. */
int bm_conv_local_work(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out, conv_work *work);

/* The tile of the input may have more rows and columns than the tile of the output needs, but for depthwise without zeros
 * in the buffer. buffer: room for the input with its pads, where an instruction does not take those, or for the largest
 * phase of the output, where it is made by phases. */
int bm_conv_in_local(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out, local_addr_t buffer);

#endif
