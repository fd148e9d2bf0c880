/* A convolution of data in local memory: what global and local functions of TPU_CONV share. */
#ifndef BM_LAYER_CONV_H
#define BM_LAYER_CONV_H

#include "bm_atomic.h"
#include "bm_layer_axis.h"
#include "bm_layer_local.h"

/* What 8-bit convolutions have besides: sums are shifted to the right, rounded half up. relu: results are unsigned. */
typedef struct {
    int batches; /* of the whole tensor */
    int rshift;
    bool relu, signed_input;
} conv_quantised;

/* Taps of a kernel: those from number `first` on that are `step` apart. kernel: the whole one, as the weights have it. */
typedef struct {
    dim2 kernel, step;
    int first;
} conv_some_taps;

/* Everything begins on NPU 0. The output is aligned; weights and bias are compact: a channel of the weights has the
 * pairs of input channels one after the other (depthwise: kernel.h * kernel.w words), and joined: its bias behind
 * them. 8 bits: fours of input channels (depthwise: kernel.h * kernel.w bytes, filled up to a word). */
typedef struct {
    local_addr_t output, input, weight, bias;
    int weight_words; /* from one channel's weights to those of the next one of the lane */
    bool joined;
    dim4 input_shape;  /* n, all channels, h, w */
    dim4 input_stride; /* depthwise: the aligned one */
    dim4 output_shape; /* n, all channels, h, w */
    int groups;
    int channels;   /* input channels of a group for the instruction: what lies beside the input's are zeros */
    bool depthwise; /* one input channel to each output channel, by the instruction for that */
    dim2 kernel, stride, dilation, insert;
    const conv_some_taps *some; /* NULL: the kernel has all taps. Not for depthwise and 8 bits */
    Padding pad;
    bool turned, using_bias, result_add;
    const conv_quantised *bytes; /* NULL: fp32. Else n counts words, weights and bias are joined or there is no bias */
    int batches;                 /* of the input, where n counts words */
} conv_work;

/* taps: as a 1 x 1 convolution per tap, depthwise as products that are added up, for strides and dilations beyond those of
 * the instruction; the input holds its pads then. */
void bm_conv_compute(const conv_work *w, bool taps);

#endif
