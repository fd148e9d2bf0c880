#include "bm_layer_conv.h"

static void conv_dims(unsigned int *to, const dim4 *from) {
    to[0] = (unsigned)from->n;
    to[1] = (unsigned)from->c;
    to[2] = (unsigned)from->h;
    to[3] = (unsigned)from->w;
}

/* One group, or several batches of one; 8 bits: n counts batches. */
static void conv_instruction_bytes(const conv_work *w, local_addr_t output, local_addr_t input, local_addr_t weight,
                                   local_addr_t bias, const dim4 *shape, int output_c, const dim4 *input_stride,
                                   const dim4 *kernel_stride) {
    ConvQuantParam p = {.input_addr = input,
                        .weight_addr = weight,
                        .bias_addr = bias,
                        .output_addr = output,
                        .output_c = (unsigned)output_c,
                        .kernel_h = (unsigned)w->kernel.h,
                        .kernel_w = (unsigned)w->kernel.w,
                        .stride_h = (unsigned)w->stride.h,
                        .stride_w = (unsigned)w->stride.w,
                        .ins_h = (unsigned)w->insert.h,
                        .ins_w = (unsigned)w->insert.w,
                        .dilate_h = (unsigned)w->dilation.h,
                        .dilate_w = (unsigned)w->dilation.w,
                        .pad = {(unsigned)w->pad.top, (unsigned)w->pad.bottom, (unsigned)w->pad.left,
                                (unsigned)w->pad.right},
                        .rshift_bit = (unsigned)w->bytes->rshift,
                        .using_bias = w->using_bias,
                        .kernel_flip = w->turned,
                        .if_relu = w->bytes->relu,
                        .input_sign = w->bytes->signed_input,
                        .weight_sign = true,
                        .bias_sign = true};
    conv_dims(p.input_shape, shape);
    conv_dims(p.input_stride, input_stride);
    conv_dims(p.kernel_stride, kernel_stride);
    bm_atomic_conv_quantized(&p);
}

static void conv_instruction(const conv_work *w, local_addr_t output, local_addr_t input, local_addr_t weight,
                             local_addr_t bias, const dim4 *shape, int output_c, const dim4 *input_stride,
                             const dim4 *kernel_stride) {
    ConvParam p = {.input_addr = input,
                   .weight_addr = weight,
                   .bias_addr = bias,
                   .output_addr = output,
                   .output_c = (unsigned)output_c,
                   .kernel_h = (unsigned)w->kernel.h,
                   .kernel_w = (unsigned)w->kernel.w,
                   .stride_h = (unsigned)w->stride.h,
                   .stride_w = (unsigned)w->stride.w,
                   .ins_h = (unsigned)w->insert.h,
                   .ins_w = (unsigned)w->insert.w,
                   .dilate_h = (unsigned)w->dilation.h,
                   .dilate_w = (unsigned)w->dilation.w,
                   .pad = {(unsigned)w->pad.top, (unsigned)w->pad.bottom, (unsigned)w->pad.left,
                           (unsigned)w->pad.right},
                   .using_bias = w->using_bias,
                   .kernel_flip = w->turned,
                   .result_add = w->result_add};
    conv_dims(p.input_shape, shape);
    conv_dims(p.input_stride, input_stride);
    conv_dims(p.kernel_stride, kernel_stride);
    bm_atomic_conv(&p);
}

/* A 1 x 1 convolution per tap, added up: for strides and dilations beyond those of the instruction. The input
 * holds its pads. */
static void conv_taps(const conv_work *w, local_addr_t output, local_addr_t input, local_addr_t weight,
                      local_addr_t bias, const dim4 *shape, int output_c, const dim4 *input_stride,
                      const dim4 *kernel_stride) {
    conv_work one = *w;
    const dim4 part = {shape->n, shape->c, w->output_shape.h, w->output_shape.w};
    const dim4 step = {input_stride->n, input_stride->c, input_stride->h * w->stride.h,
                       input_stride->w * w->stride.w};
    one.kernel = one.stride = one.dilation = (dim2){1, 1};
    one.pad = (Padding){0, 0, 0, 0};
    for (int y = 0; y < w->kernel.h; y++) {
        for (int x = 0; x < w->kernel.w; x++) {
            const int at = y * w->dilation.h * input_stride->h + x * w->dilation.w;
            conv_instruction(&one, output, input + 4u * (local_addr_t)at,
                             weight + 8u * (local_addr_t)(y * w->kernel.w + x), bias, &part, output_c, &step,
                             kernel_stride);
            one.using_bias = false;
            one.result_add = true;
        }
    }
}

/* Output channels from `channel` on that one instruction takes: all of a group, or where the bias is among the weights
 * those up to the lanes' end. */
static int conv_share(const conv_work *w, int channel, int left) {
    return w->joined || (w->bytes != NULL && w->depthwise) ? smaller(left, CHIP_NPU_NUM - channel % CHIP_NPU_NUM) : left;
}

/* Whether one instruction takes all batches: they do not lie as an instruction puts them in a part of the channels. */
static bool conv_at_once(const conv_work *w) {
    return w->groups == 1 && conv_share(w, 0, w->output_shape.c) == w->output_shape.c;
}

static local_addr_t conv_bias_at(const conv_work *w, int channel, local_addr_t weight, int words) {
    if (!w->using_bias) return 0;
    return w->joined ? weight + 4u * (local_addr_t)words : local_channel(w->bias, channel, 4);
}

/* Batches of an instruction for all words of a tile, or for word n alone; in fp32 words are batches. */
static int conv_batches(const conv_work *w, bool once, int n) {
    if (w->bytes == NULL) return once ? w->input_shape.n : 1;
    return once ? w->batches : smaller(4, w->batches - 4 * n);
}

static void conv_depthwise_bytes(const conv_work *w, local_addr_t output, local_addr_t input, local_addr_t weight,
                                 local_addr_t bias, const dim4 *shape) {
    DepthwiseQuantParam p = {.input_addr = input,
                             .weight_addr = weight,
                             .bias_addr = bias,
                             .output_addr = output,
                             .kernel_h = (unsigned)w->kernel.h,
                             .kernel_w = (unsigned)w->kernel.w,
                             .stride_h = (unsigned)w->stride.h,
                             .stride_w = (unsigned)w->stride.w,
                             .dilate_h = (unsigned)w->dilation.h,
                             .dilate_w = (unsigned)w->dilation.w,
                             .pad = {(unsigned)w->pad.top, (unsigned)w->pad.bottom, (unsigned)w->pad.left,
                                     (unsigned)w->pad.right},
                             .rshift_bit = (unsigned)w->bytes->rshift,
                             .using_bias = w->using_bias,
                             .if_relu = w->bytes->relu,
                             .input_sign = w->bytes->signed_input,
                             .weight_sign = true,
                             .bias_sign = true};
    conv_dims(p.input_shape, shape);
    bm_atomic_depthwise_quantized(&p);
}

/* Products of each channel with its weight of each tap, added up, then its bias: for strides and dilations beyond those of
 * the instruction. The input holds its pads. */
static void conv_depthwise_taps(const conv_work *w, local_addr_t output, local_addr_t input, local_addr_t weight,
                                local_addr_t bias, int n, int count, const dim4 *to) {
    const dim4 shape = {n, count, w->output_shape.h, w->output_shape.w}, *from = &w->input_stride;
    const dim4 step = {from->n, from->c, from->h * w->stride.h, from->w * w->stride.w};
    const dim4 weights = {0, w->weight_words, 0, 0}, biases = {0, w->joined ? w->weight_words : 1, 0, 0};
    for (int y = 0; y < w->kernel.h; y++) {
        for (int x = 0; x < w->kernel.w; x++) {
            const int at = y * w->dilation.h * from->h + x * w->dilation.w * from->w;
            const local_addr_t tap = weight + 4u * (local_addr_t)(y * w->kernel.w + x);
            (y + x == 0 ? okk_bdc_mul : okk_bdc_mac)(output, input + 4u * (local_addr_t)at, tap, &shape, to, &step, &weights);
        }
    }
    if (w->using_bias) okk_bdc_add(output, output, bias, &shape, to, to, &biases);
}

static void conv_depthwise(const conv_work *w, bool taps) {
    const dim4 *in = &w->input_shape, *out = &w->output_shape;
    const bool once = conv_share(w, 0, in->c) == in->c && (in->n == 1 || !(w->joined || w->bytes != NULL));
    const int words = w->bytes != NULL ? divide_up(w->kernel.h * w->kernel.w, 4) : w->kernel.h * w->kernel.w;
    dim4 out_stride;
    okk_128_byte_aligned_stride_for_32bit(&out_stride, 0, out);
    for (int n = 0; n < (once ? 1 : in->n); n++) {
        for (int c = 0; c < in->c;) {
            const int count = conv_share(w, c, in->c - c);
            const dim4 shape = {conv_batches(w, once, n), count, in->h, in->w};
            const local_addr_t weight = local_channel(w->weight, c, 4 * w->weight_words);
            const local_addr_t bias = conv_bias_at(w, c, weight, words);
            const local_addr_t output =
                local_channel(w->output, c, 4 * out_stride.c) + 4u * (local_addr_t)(n * out_stride.n);
            const local_addr_t input =
                local_channel(w->input, c, 4 * w->input_stride.c) + 4u * (local_addr_t)(n * w->input_stride.n);
            if (w->bytes != NULL)
                conv_depthwise_bytes(w, output, input, weight, bias, &shape);
            else if (taps)
                conv_depthwise_taps(w, output, input, weight, bias, shape.n, count, &out_stride);
            else
                okk_bdc_depthwise2d(output, input, weight, bias, &shape, w->kernel.h, w->kernel.w, w->using_bias,
                                    &w->pad, &w->stride, &w->dilation);
            c += count;
        }
    }
}

void bm_conv_compute(const conv_work *w, bool taps) {
    const dim4 *in = &w->input_shape, *out = &w->output_shape;
    if (w->depthwise) {
        conv_depthwise(w, taps);
        return;
    }
    const bool bytes = w->bytes != NULL;
    const conv_some_taps all = {w->kernel, {1, 1}, 0}, *of = w->some != NULL ? w->some : &all;
    const int in_c = in->c / w->groups, size = of->kernel.h * of->kernel.w;
    const int sets = divide_up(w->channels, bytes ? 4 : 2), words = (bytes ? 1 : 2) * size * sets;
    const dim4 kernel_stride = {size, size * sets, of->step.h * of->kernel.w, of->step.w};
    const dim4 in_stride = w->input_stride;
    dim4 out_stride;
    okk_128_byte_aligned_stride_for_32bit(&out_stride, 0, out);
    const bool once = conv_at_once(w);
    for (int n = 0; n < (once ? 1 : in->n); n++) {
        const dim4 shape = {conv_batches(w, once, n), w->channels, in->h, in->w};
        for (int c = 0; c < out->c;) {
            const int group = c / (out->c / w->groups);
            const int count = conv_share(w, c, (group + 1) * (out->c / w->groups) - c);
            const local_addr_t input =
                local_channel(w->input, group * in_c, 4 * in_stride.c) + 4u * (local_addr_t)(n * in_stride.n);
            const local_addr_t output =
                local_channel(w->output, c, 4 * out_stride.c) + 4u * (local_addr_t)(n * out_stride.n);
            const local_addr_t weight = local_channel(w->weight, c, 4 * w->weight_words);
            (bytes  ? conv_instruction_bytes
             : taps ? conv_taps
                    : conv_instruction)(w, output, input, weight + 8u * (local_addr_t)of->first,
                                        conv_bias_at(w, c, weight, words), &shape, count, &in_stride, &kernel_stride);
            c += count;
        }
    }
}
