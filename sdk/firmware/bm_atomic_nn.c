/* bm_atomic.h: convolutions, pools, depthwise convolutions and matrix products. */
#include "bm_wide.h"
#include "fw_nn.h"

#define AVERAGE_SIZES 256 /* entries of the vendor's table of average weights */
#define AVERAGE_KNOWN 225

static dim4 dims(const unsigned int *v) { return (dim4){(int)v[0], (int)v[1], (int)v[2], (int)v[3]}; }

static Padding pads(const unsigned int *v) { return (Padding){(int)v[0], (int)v[1], (int)v[2], (int)v[3]}; }

static dim2 pair(unsigned int h, unsigned int w) { return (dim2){(int)h, (int)w}; }

static const dim2 one = {1, 1};

/* ---- convolution ---- */

#define CONVOLUTION_WINDOW(P)                                                                                \
    {                                                                                                        \
        .output = (P)->output_addr, .input = (P)->input_addr, .shape = dims((P)->input_shape),               \
        .output_c = (int)(P)->output_c, .kernel = pair((P)->kernel_h, (P)->kernel_w),                        \
        .stride = pair((P)->stride_h, (P)->stride_w), .insert = pair((P)->ins_h, (P)->ins_w),                \
        .dilation = pair((P)->dilate_h, (P)->dilate_w), .pad = pads((P)->pad)                                \
    }

void bm_atomic_conv(const ConvParam *param) {
    FW_ENTER();
    fw_window w = CONVOLUTION_WINDOW(param);
    dim4 input = dims(param->input_stride), kernel = dims(param->kernel_stride);
    w.input_stride = &input;
    fw_weight weight = {param->kernel_is_const, param->weight_addr, &kernel};
    if (param->kernel_is_const) weight.value = float_bits(param->kernel_val);
    else fw_nn_need_same_npu(param->weight_addr, param->output_addr, "weight");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_nn_begin(d, FW_CONVOLUTION, &w, NULL);
    fw_nn_weight(d, &weight);
    fw_nn_bias(d, param->using_bias, param->bias_addr);
    bd_set_opt_kernel_rotate(d, param->kernel_flip);
    bd_set_opt_res_add(d, param->result_add);
    fw_emit_bd(d);
}

/* The addresses are checked where nothing is read from them, too, as by the vendor's encoder.
 * result_add does not count: the unit cannot, and the vendor's encoder leaves it out. */
static void describe_quantized(uint32_t *d, const ConvQuantParam *param) {
    fw_window w = CONVOLUTION_WINDOW(param);
    dim4 input = dims(param->input_stride), kernel = dims(param->kernel_stride);
    w.input_stride = &input;
    fw_weight weight = {param->kernel_is_const, param->weight_addr, &kernel};
    if (param->kernel_is_const) weight.value = (uint32_t)(int32_t)param->kernel_val;
    fw_nn_need_same_npu(param->weight_addr, param->output_addr, "weight");
    fw_nn_check_multiple(param->bias_addr, 2, "bias");
    fw_quantization q = {(int)param->rshift_bit, param->if_relu, param->input_sign, param->weight_sign,
                         param->bias_sign};
    fw_nn_begin(d, FW_CONVOLUTION, &w, &q);
    fw_nn_weight(d, &weight);
    fw_nn_bias(d, param->using_bias, param->bias_addr);
    bd_set_short_opd2_str(d, BD_STRIDE_DEFAULT);
    bd_set_opt_kernel_rotate(d, param->kernel_flip);
}

void bm_atomic_conv_quantized(const ConvQuantParam *param) {
    FW_ENTER();
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    describe_quantized(d, param);
    fw_emit_bd(d);
}

void bm_conv_quantized_wide(const ConvQuantParam *param) {
    FW_ENTER();
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    describe_quantized(d, param);
    bd_set_opt_res0_prec(d, BD_PRECISION_INT16);
    fw_emit_bd(d);
}

/* The window is that of the 3 x 3 kernel which the 4 x 4 tiles stand for. */
void bm_atomic_winograd_quantized(const WinoQuantParam *param) {
    FW_ENTER();
    dim4 input = dims(param->input_stride);
    fw_window w = {.output = param->output_addr,
                   .input = param->input_addr,
                   .shape = dims(param->input_shape),
                   .output_c = (int)param->output_c,
                   .kernel = {3, 3},
                   .stride = one,
                   .insert = pair(param->ins_h, param->ins_w),
                   .dilation = one,
                   .pad = pads(param->pad),
                   .input_stride = &input};
    fw_quantization q = {(int)param->rshift_bit, param->if_relu, param->input_sign, true, param->bias_sign};
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_nn_check_multiple(param->weight_addr, CHIP_ALIGN_BYTES, "weight");
    fw_nn_begin(d, FW_CONVOLUTION, &w, &q);
    fw_nn_weight(d, &(fw_weight){false, param->weight_addr, NULL});
    fw_nn_bias(d, param->using_bias, param->bias_addr);
    bd_set_short_opd1_str(d, BD_STRIDE_DEFAULT);
    bd_set_opt_winograd(d, 1);
    bd_set_opd1_h(d, 4);
    bd_set_opd1_w(d, 4);
    bd_set_opt_res_add(d, param->result_add);
    fw_emit_bd(d);
}

/* ---- pools ---- */

/* ins_h belongs to the columns and ins_w to the rows, as in the vendor's encoder. */
#define POOL_WINDOW(P, DILATION)                                                                             \
    {                                                                                                        \
        .output = (P)->output_addr, .input = (P)->input_addr, .shape = dims((P)->input_shape),               \
        .output_c = (int)(P)->input_shape[1], .kernel = pair((P)->kernel_h, (P)->kernel_w),                  \
        .stride = pair((P)->stride_h, (P)->stride_w), .insert = pair((P)->ins_w, (P)->ins_h),                \
        .dilation = DILATION, .pad = pads((P)->pad)                                                          \
    }

static void emit_pool(const fw_window *w, const fw_quantization *q, fw_window_kind kind, const fw_weight *weight) {
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_nn_begin(d, kind, w, q);
    if (weight != NULL) fw_nn_weight(d, weight);
    fw_emit_bd(d);
}

void bm_atomic_avg_pool(const PoolParam *param) {
    FW_ENTER();
    fw_window w = POOL_WINDOW(param, one);
    float weight = 1.0f / (float)(param->kernel_h * param->kernel_w);
    emit_pool(&w, NULL, FW_DEPTHWISE, &(fw_weight){true, float_bits(weight), NULL});
}

void bm_atomic_sum_pool(const SumPoolParam *param) {
    FW_ENTER();
    fw_window w = POOL_WINDOW(param, one);
    emit_pool(&w, NULL, FW_DEPTHWISE, &(fw_weight){true, float_bits(param->coeff), NULL});
}

void bm_atomic_max_pool(const PoolParam *param) {
    FW_ENTER();
    fw_window w = POOL_WINDOW(param, one);
    emit_pool(&w, NULL, FW_MAX_POOL, NULL);
}

static fw_quantization pool_quantization(const PoolQuantParam *param) {
    return (fw_quantization){(int)param->rshift_bit, param->if_relu, param->input_sign, false, false};
}

/* The vendor's encoder takes weight and shift of the entry before the kernel's own in its table. */
void bm_atomic_avg_pool_quantized(const PoolQuantParam *param) {
    FW_ENTER();
    fw_window w = POOL_WINDOW(param, pair(param->dilate_h, param->dilate_w));
    fw_quantization q = pool_quantization(param);
    unsigned size = param->kernel_h * param->kernel_w;
    if (size < 1 || size > AVERAGE_SIZES)
        fw_refuse("a kernel of %u x %u elements; an 8-bit average covers 1 to %d", param->kernel_h,
                  param->kernel_w, AVERAGE_SIZES);
    uint32_t m = 0;
    if (size <= AVERAGE_KNOWN + 1) q.rshift += fw_nn_average(size > 1 ? (int)size - 1 : 1, &m);
    emit_pool(&w, &q, FW_DEPTHWISE, &(fw_weight){true, m, NULL});
}

void bm_atomic_max_pool_quantized(const PoolQuantParam *param) {
    FW_ENTER();
    fw_window w = POOL_WINDOW(param, pair(param->dilate_h, param->dilate_w));
    fw_quantization q = pool_quantization(param);
    emit_pool(&w, &q, FW_MAX_POOL, NULL);
}

/* ---- depthwise convolution ---- */

void bm_atomic_depthwise(const DepthwiseParam *param) {
    FW_ENTER();
    fw_window w = POOL_WINDOW(param, pair(param->dilate_h, param->dilate_w));
    fw_nn_need_same_npu(param->input_addr, param->output_addr, "input");
    fw_nn_need_same_npu(param->weight_addr, param->output_addr, "weight");
    if (param->using_bias) fw_nn_need_same_npu(param->bias_addr, param->output_addr, "bias");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_nn_begin(d, FW_DEPTHWISE, &w, NULL);
    fw_nn_weight(d, &(fw_weight){false, param->weight_addr, NULL});
    fw_nn_bias(d, param->using_bias, param->bias_addr);
    fw_emit_bd(d);
}

void bm_atomic_depthwise_quantized(const DepthwiseQuantParam *param) {
    FW_ENTER();
    fw_window w = POOL_WINDOW(param, pair(param->dilate_h, param->dilate_w));
    fw_quantization q = {(int)param->rshift_bit, param->if_relu, param->input_sign, param->weight_sign,
                         param->bias_sign};
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_nn_begin(d, FW_DEPTHWISE, &w, &q);
    fw_nn_weight(d, &(fw_weight){false, param->weight_addr, NULL});
    fw_nn_bias(d, param->using_bias, param->bias_addr);
    bd_set_opd2_addr(d, fw_nn_local(param->bias_addr, "bias")); /* also where it is not used */
    fw_emit_bd(d);
}

/* ---- matrix products ---- */

#define PRODUCT(P)                                                                                           \
    {                                                                                                        \
        .output = (P)->output_addr, .left = (P)->input_l_addr, .right = (P)->input_r_addr,                   \
        .bias = (P)->bias_addr, .left_rows = (int)((P)->l_trans ? (P)->l_col : (P)->l_row),                  \
        .left_cols = (int)((P)->l_trans ? (P)->l_row : (P)->l_col), .left_w = (int)(P)->l_tensor_w,          \
        .left_c = (int)(P)->l_tensor_c, .right_w = (int)(P)->r_tensor_w, .right_c = (int)(P)->r_tensor_c,    \
        .transposed = (P)->l_trans, .using_bias = (P)->using_bias, .result_add = (P)->result_add             \
    }

void bm_atomic_matmul(const MatmulParam *param) {
    FW_ENTER();
    fw_product p = PRODUCT(param);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_nn_product(d, &p);
    fw_emit_bd(d);
}

void bm_atomic_matmul_quantized(const MatmulQuantParam *param) {
    FW_ENTER();
    fw_product p = PRODUCT(param);
    if (p.right_w > CHIP_MATRIX_WIDTH_MAX)
        fw_refuse("%d columns of the right matrix per channel; %d at most", p.right_w, CHIP_MATRIX_WIDTH_MAX);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_nn_product(d, &p);
    bd_set_opt_right_shift(d, param->rshift_bit);
    bd_set_opt_left_shift(d, param->lshfit_bit);
    bd_set_opt_relu(d, param->if_relu);
    bd_set_opt_opd0_sign(d, param->input_l_sign);
    bd_set_opt_opd1_sign(d, param->input_r_sign);
    bd_set_opt_opd2_sign(d, param->bias_sign);
    bd_set_opt_res_add_sign(d, param->result_add_sign);
    bd_set_opt_res0_prec(d, param->output_16bit ? BD_PRECISION_INT16 : BD_PRECISION_INT8);
    bd_set_opt_opd0_prec(d, BD_PRECISION_INT8);
    bd_set_opt_opd1_prec(d, BD_PRECISION_INT8);
    bd_set_opt_opd2_prec(d, BD_PRECISION_INT16);
    fw_emit_bd(d);
}
