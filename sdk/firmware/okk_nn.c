/* okk.h: convolution, pools and matrix products on fp32. */
#include "fw_nn.h"

static void check_padded(int size, int before, int after, const char *axis) {
    if (before < 0 || before > CHIP_WINDOW_STEP_MAX || after < 0 || after > CHIP_WINDOW_STEP_MAX)
        fw_refuse("pads %d and %d along %s are outside 0..%d", before, after, axis, CHIP_WINDOW_STEP_MAX);
    if (size > CHIP_WINDOW_SIDE_MAX - before - after)
        fw_warn("%d elements and pads %d and %d along %s are more than %d", size, before, after, axis,
                CHIP_WINDOW_SIDE_MAX);
}

/* most: what the descriptor's field holds */
static void check_step(dim2 step, int most, const char *what) {
    if (step.h < 1 || step.h > most || step.w < 1 || step.w > most)
        fw_refuse("%s [%d, %d] is outside 1..%d", what, step.h, step.w, CHIP_WINDOW_STEP_MAX);
    if (step.h > CHIP_WINDOW_STEP_MAX || step.w > CHIP_WINDOW_STEP_MAX)
        fw_warn("%s [%d, %d] is over %d", what, step.h, step.w, CHIP_WINDOW_STEP_MAX);
}

static fw_window window_of(local_addr_t output, local_addr_t input, const dim4 *shape, int kernel_h, int kernel_w,
                           const Padding *padding, const dim2 *stride, const dim2 *dilation) {
    static const dim2 one = {1, 1};
    fw_check_shape(shape);
    fw_window w = {.output = output, .input = input, .shape = *shape, .output_c = shape->c};
    w.kernel = (dim2){kernel_h, kernel_w};
    w.stride = stride != NULL ? *stride : one;
    w.dilation = dilation != NULL ? *dilation : one;
    if (padding != NULL) w.pad = *padding;
    check_padded(shape->h, w.pad.top, w.pad.bottom, "h");
    check_padded(shape->w, w.pad.left, w.pad.right, "w");
    check_step(w.stride, CHIP_WINDOW_STEP_MAX, "stride");
    check_step(w.dilation, CHIP_WINDOW_STEP_MAX + 1, "dilation");
    return w;
}

/* ---- convolution ---- */

static void convolution(fw_window w, int output_c, const dim4 *input_stride, fw_weight weight, bool using_bias,
                        local_addr_t bias, bool result_add) {
    w.output_c = output_c;
    w.input_stride = input_stride;
    fw_bd_check_stride(input_stride, "input");
    fw_bd_check_stride(weight.stride, "weight");
    if (!weight.constant) fw_nn_need_same_npu(weight.value, w.output, "weight");
    if (using_bias) fw_nn_check_same_npu(bias, w.output, "bias");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_nn_begin(d, FW_CONVOLUTION, &w, NULL);
    fw_nn_weight(d, &weight);
    fw_nn_bias(d, using_bias, bias);
    bd_set_opt_res_add(d, result_add);
    fw_emit_bd(d);
}

void okk_bdc_conv2d(local_addr_t output_addr, local_addr_t input_addr, local_addr_t weight_addr,
                    local_addr_t bias_addr, const dim4 *input_shape, int output_c, int kernel_h, int kernel_w,
                    const dim4 *input_stride, const dim4 *kernel_stride, bool using_bias, bool result_add,
                    const Padding *padding, const dim2 *stride, const dim2 *dilation) {
    FW_ENTER();
    if (kernel_stride == NULL) fw_refuse("kernel_stride is NULL; the layout of the weights has no default");
    fw_weight weight = {false, weight_addr, kernel_stride};
    convolution(window_of(output_addr, input_addr, input_shape, kernel_h, kernel_w, padding, stride, dilation),
                output_c, input_stride, weight, using_bias, bias_addr, result_add);
}

static const dim4 no_stride = {0, 0, 0, 0};

void okk_bdc_conv2d_kernel_const(local_addr_t output_addr, local_addr_t input_addr, local_addr_t bias_addr,
                                 const dim4 *input_shape, int output_c, int kernel_h, int kernel_w,
                                 const dim4 *input_stride, bool using_bias, bool result_add,
                                 const Padding *padding, const dim2 *stride, float kernel_val) {
    FW_ENTER();
    fw_weight weight = {true, float_bits(kernel_val), &no_stride};
    convolution(window_of(output_addr, input_addr, input_shape, kernel_h, kernel_w, padding, stride, NULL),
                output_c, input_stride, weight, using_bias, bias_addr, result_add);
}

/* Channel 0 to every channel of the result: a 1 x 1 convolution of one input channel with 1. */
void okk_bdc_npu_bcast(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape, const dim4 *src_stride) {
    FW_ENTER();
    static const dim4 unit = {1, 1, 1, 1};
    fw_window w = window_of(dst_addr, src_addr, shape, 1, 1, NULL, NULL, NULL);
    w.shape.c = 1;
    fw_weight weight = {true, float_bits(1.0f), &unit};
    convolution(w, shape->c, src_stride, weight, false, 0, false);
}

/* ---- one input channel to a result channel ---- */

void okk_bdc_depthwise2d(local_addr_t output_addr, local_addr_t input_addr, local_addr_t weight_addr,
                         local_addr_t bias_addr, const dim4 *input_shape, int kernel_h, int kernel_w,
                         bool using_bias, const Padding *padding, const dim2 *stride, const dim2 *dilation) {
    FW_ENTER();
    fw_window w = window_of(output_addr, input_addr, input_shape, kernel_h, kernel_w, padding, stride, dilation);
    fw_nn_need_same_npu(input_addr, output_addr, "input");
    fw_nn_need_same_npu(weight_addr, output_addr, "weight");
    if (using_bias) fw_nn_need_same_npu(bias_addr, output_addr, "bias");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_nn_begin(d, FW_DEPTHWISE, &w, NULL);
    fw_nn_weight(d, &(fw_weight){false, weight_addr, NULL});
    fw_nn_bias(d, using_bias, bias_addr);
    fw_emit_bd(d);
}

/* weight: the constant of an average pool, or NULL */
static void one_pool(fw_window_kind kind, const fw_window *w, const uint32_t *weight) {
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_nn_begin(d, kind, w, NULL);
    if (weight != NULL) fw_nn_weight(d, &(fw_weight){true, *weight, NULL});
    fw_emit_bd(d);
}

/* More channels than the field holds go in pieces, as in the vendor's encoder: batch by batch, because the
 * layout that the instruction implies depends on its number of channels. */
static void pool(fw_window_kind kind, const fw_window *w, const uint32_t *weight) {
    fw_nn_check_same_npu(w->input, w->output, "input");
    if (w->shape.c <= CHIP_CHANNELS_MAX) {
        one_pool(kind, w, weight);
        return;
    }
    dim2 side = fw_nn_result(kind, w);
    dim4 result = {w->shape.n, w->shape.c, side.h, side.w}, from, to;
    int npu = okk_start_npu_index(w->output);
    fw_aligned_stride(&from, npu, &w->shape, 4);
    fw_aligned_stride(&to, npu, &result, 4);
    fw_pieces p = fw_pieces_of(&w->shape, &(dim4){1, CHIP_CHANNELS_WHOLE, w->shape.h, w->shape.w});
    while (fw_pieces_next(&p)) {
        fw_window piece = *w;
        piece.shape = p.size;
        piece.output_c = p.size.c;
        piece.input = fw_pieces_local(w->input, &p.at, &from, "input");
        piece.output = fw_pieces_local(w->output, &p.at, &to, "output");
        one_pool(kind, &piece, weight);
    }
}

static void average(local_addr_t output, local_addr_t input, const dim4 *shape, int kernel_h, int kernel_w,
                    const Padding *padding, const dim2 *stride, uint32_t weight) {
    fw_window w = window_of(output, input, shape, kernel_h, kernel_w, padding, stride, NULL);
    pool(FW_DEPTHWISE, &w, &weight);
}

void okk_bdc_avg_pool2d(local_addr_t output_addr, local_addr_t input_addr, const dim4 *input_shape, int kernel_h,
                        int kernel_w, const Padding *padding, const dim2 *stride) {
    FW_ENTER();
    average(output_addr, input_addr, input_shape, kernel_h, kernel_w, padding, stride,
            float_bits(1.0f / (float)(kernel_h * kernel_w)));
}

/* Not in the vendor's guide. */
void okk_bdc_avg_pool2d_v2(local_addr_t output_addr, local_addr_t input_addr, const dim4 *input_shape,
                           int kernel_h, int kernel_w, const Padding *padding, const dim2 *stride, float factor) {
    FW_ENTER();
    average(output_addr, input_addr, input_shape, kernel_h, kernel_w, padding, stride, float_bits(factor));
}

void okk_bdc_max_pool2d(local_addr_t output_addr, local_addr_t input_addr, const dim4 *input_shape, int kernel_h,
                        int kernel_w, const Padding *padding, const dim2 *stride) {
    FW_ENTER();
    fw_window w = window_of(output_addr, input_addr, input_shape, kernel_h, kernel_w, padding, stride, NULL);
    pool(FW_MAX_POOL, &w, NULL);
}

/* ---- matrix product ---- */

/* Two texts of each warning: those of one text at one call are counted as one. */
static int channels(int columns, int per_channel, bool left) {
    if (per_channel < 1 || columns < 1)
        fw_refuse("%d columns of the %s matrix, %d per channel; both start at 1", columns, left ? "left" : "right",
                  per_channel);
    if (per_channel > columns && left)
        fw_warn("%d columns of the left matrix per channel, which has %d", per_channel, columns);
    else if (per_channel > columns)
        fw_warn("%d columns of the right matrix per channel, which has %d", per_channel, columns);
    if (per_channel > CHIP_MATRIX_WIDTH_MAX && left)
        fw_warn("%d columns of the left matrix per channel are over %d", per_channel, CHIP_MATRIX_WIDTH_MAX);
    else if (per_channel > CHIP_MATRIX_WIDTH_MAX)
        fw_warn("%d columns of the right matrix per channel are over %d", per_channel, CHIP_MATRIX_WIDTH_MAX);
    return (columns - 1) / per_channel + 1;
}

void okk_bdc_matmul(local_addr_t output_addr, local_addr_t left_addr, local_addr_t right_addr,
                    local_addr_t bias_addr, int left_rows, int left_cols, int right_cols,
                    int left_cols_per_channel, int right_cols_per_channel, bool using_bias, bool result_add) {
    FW_ENTER();
    fw_product p = {.output = output_addr, .left = left_addr, .right = right_addr, .bias = bias_addr};
    p.left_rows = left_rows;
    p.left_cols = left_cols;
    p.left_w = left_cols_per_channel;
    p.left_c = channels(left_cols, left_cols_per_channel, true);
    p.right_w = right_cols_per_channel;
    p.right_c = channels(right_cols, right_cols_per_channel, false);
    p.using_bias = using_bias;
    p.result_add = result_add;
    fw_nn_check_same_npu(right_addr, output_addr, "right");
    if (using_bias) fw_nn_check_same_npu(bias_addr, output_addr, "bias");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_nn_product(d, &p);
    fw_emit_bd(d);
}
