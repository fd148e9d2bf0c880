/* The instruction level of the kernel API: each function issues one command, described by a struct.
 *
 * Addresses are offsets in local memory that count over the NPUs (NPU * 512 KiB + offset) where not said
 * otherwise; shapes are [n, c, h, w], strides count elements, pad is [top, bottom, left, right]. Packed
 * 8-bit tensors hold four batches to a word (4N), 16-bit ones two (2N); their strides count words.
 * Dilations of 1 mean none, ins_h and ins_w zeros are inserted between rows and columns.
 */
#ifndef ATOMIC_H
#define ATOMIC_H

#include <stdbool.h>

#include "okk.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    BM_INT8, BM_UINT8, BM_INT16, BM_UNT16, BM_FP32
} BmDataType;

/* The numbers are those of the descriptors, but for 15 and 16, which are exchanged there. */
typedef enum {
    BM_MUL = 0, BM_MAC = 1, BM_ADD = 2, BM_SUB = 3, BM_MAX = 4, BM_MIN = 5, BM_SHIFT = 6,
    BM_AND = 7, BM_OR = 8, BM_XOR = 9, BM_SG = 10, BM_SE = 11, BM_DIV = 12, BM_TAYLOR = 13,
    BM_FP32_INT32 = 14, BM_NORMALIZE_INT32 = 15, BM_NORMALIZE_FP32 = 16, BM_RSQRT = 17,
    BM_CPY = 19, BM_SQR_SUM = 20, BM_SQR_DIFF = 21
} BmAtomicOp;

/* ---- convolution ----
 * fp32 weights hold pairs of input channels, 8-bit ones groups of four; kernel_stride counts such groups:
 * [between groups, between output-channel slots, h, w]. 8-bit: (sum + bias + half) >> rshift_bit,
 * saturated; with if_relu to 0..255. Weights for winograd are transformed 4 x 4 tiles.
 */
typedef struct {
    unsigned int input_addr, weight_addr, bias_addr, output_addr, input_shape[4], output_c,
        kernel_h, kernel_w, stride_h, stride_w, input_stride[4], kernel_stride[4], ins_h, ins_w,
        dilate_h, dilate_w;
    bool kernel_is_const;
    float kernel_val;
    unsigned int pad[4];
    bool using_bias, kernel_flip, result_add;
} ConvParam;

typedef struct {
    unsigned int input_addr, weight_addr, bias_addr, output_addr, input_shape[4], output_c,
        kernel_h, kernel_w, stride_h, stride_w, input_stride[4], kernel_stride[4], ins_h, ins_w,
        dilate_h, dilate_w;
    bool kernel_is_const;
    signed char kernel_val;
    unsigned int pad[4], rshift_bit;
    bool using_bias, kernel_flip, result_add, if_relu, input_sign, weight_sign, bias_sign;
} ConvQuantParam;

typedef struct {
    unsigned int input_addr, weight_addr, bias_addr, output_addr, input_shape[4], output_c,
        input_stride[4], ins_h, ins_w, pad[4];
    bool using_bias, result_add;
} WinoParam;

typedef struct {
    unsigned int input_addr, weight_addr, bias_addr, output_addr, input_shape[4], output_c,
        input_stride[4], ins_h, ins_w, pad[4], rshift_bit;
    bool using_bias, result_add, if_relu, input_sign, bias_sign;
} WinoQuantParam;
/** okk_bdc_conv2d with constant weights, inserted zeros and a flipped kernel.
 * - output = einsum("nihwab,oiab->nohw", windows(input, 0), weight) + using_bias * bias +
 *   result_add * old
 * - within 1e-05 of the largest result
 * - output: result, its old value is read with result_add, fp32 [n, output_c, oh, ow] in local
 *   memory, aligned, at multiples of 128
 * - input: input, fp32 [input_shape] in local memory, strided, at multiples of 4; may start on
 *   another NPU
 * - weight: input, fp32, pairs of input channels (2IC) [output_c, c, kernel_h, kernel_w] in local
 *   memory, weights, at multiples of 4; of 8 when it runs; by kernel_stride, in pairs of input
 *   channels: [between them, between slots of output channels, h, w]; kernel_val with
 *   kernel_is_const
 * - bias: input, fp32 [output_c elements] in local memory, one element for each channel, compact;
 *   only with using_bias
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; stride_h, stride_w 1..15; dilate_h, dilate_w 1..16; each pad 0..15; ins_h,
 *   ins_w 0..15; output_c 1..4095
 * - Cost: 1 command (conv.fp32), as okk_bdc_conv2d cycles
 */
void bm_atomic_conv(const ConvParam *param);
/** An 8-bit convolution with a 16-bit bias.
 * - output = saturated(half_up(einsum("nihwab,oiab->nohw", windows(input, 0), weight) + using_bias
 *   * bias, rshift_bit))
 * - output: result, 8-bit 4N [n, output_c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, 8-bit 4N [input_shape] in local memory, strided, at multiples of 4; may start on
 *   another NPU
 * - weight: input, 8-bit, groups of four input channels (4IC) [output_c, c, kernel_h, kernel_w] in
 *   local memory, weights, at multiples of 4; by kernel_stride, in groups of four input channels:
 *   [between them, between slots of output channels, h, w]; kernel_val with kernel_is_const
 * - bias: input, 16-bit [output_c elements] in local memory, one element for each channel,
 *   compact, at multiples of 2; only with using_bias
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; stride_h, stride_w 1..15; dilate_h, dilate_w 1..16; each pad 0..15; ins_h,
 *   ins_w 0..15; output_c 1..4095; rshift_bit 0..31
 * - Rounds half up and saturates to -128..127; to 0..255 with if_relu, which makes negative sums
 *   0, or where no operand is signed.
 * - result_add does not count: the unit cannot add to an 8-bit result.
 * - Cost: 1 command (conv.int8), ceil(n / 4) * L * ceil(oh * ow / 16) * (kernel_h * kernel_w *
 *   ceil(c / 4) + 8 + 2 * using_bias) cycles
 */
void bm_atomic_conv_quantized(const ConvQuantParam *param);
/** An 8-bit 3x3 convolution with stride 1 on transformed weights, F(2x2, 3x3).
 * - output: result, 8-bit 4N [n, output_c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, 8-bit 4N [input_shape] in local memory, strided, at multiples of 4; may start on
 *   another NPU
 * - weight: input, 8-bit, groups of four input channels (4IC) [output_c, c, 4, 4] in local memory,
 *   weights, at multiples of 128; the transformed 4x4 tiles, [group of input channels][output
 *   channel][4][4][4], signed
 * - bias: input, 16-bit [output_c elements] in local memory, one element for each channel,
 *   compact; only with using_bias
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; each pad 0..15; ins_h, ins_w 0..15; output_c
 *   1..4095; rshift_bit 0..31
 * - Rounds half up and saturates to -128..127; to 0..255 with if_relu, which makes negative sums
 *   0, or where no operand is signed.
 * - The sum over all transformed tiles is exact; rounding comes after the bias.
 * - Cost: 1 command (conv.winograd_int8), ceil(n / 4) * L * ceil(oh * ow / 16) * (4 * ceil(c / 4)
 *   + 8 + 2 * using_bias) cycles
 */
void bm_atomic_winograd_quantized(const WinoQuantParam *param);

/* ---- pools and depthwise convolution ----
 * The encoder of the vendor puts ins_h into the field of the columns and ins_w into that of the rows, and
 * so does this one; the size of the result does not count inserted zeros.
 */
typedef struct {
    unsigned int input_addr, output_addr, input_shape[4], kernel_h, kernel_w, stride_h, stride_w,
        ins_h, ins_w, pad[4];
    float coeff;
} SumPoolParam;

typedef struct {
    unsigned int input_addr, output_addr, input_shape[4], kernel_h, kernel_w, stride_h, stride_w,
        ins_h, ins_w, pad[4];
} PoolParam;

typedef struct {
    unsigned int input_addr, output_addr, input_shape[4], kernel_h, kernel_w, stride_h, stride_w,
        ins_h, ins_w, dilate_h, dilate_w, pad[4], rshift_bit;
    bool input_sign, if_relu;
} PoolQuantParam;

typedef struct {
    unsigned int input_addr, weight_addr, bias_addr, output_addr, input_shape[4], kernel_h,
        kernel_w, stride_h, stride_w, ins_h, ins_w, dilate_h, dilate_w, pad[4];
    bool using_bias;
} DepthwiseParam;

typedef struct {
    unsigned int input_addr, weight_addr, bias_addr, output_addr, input_shape[4], kernel_h,
        kernel_w, stride_h, stride_w, ins_h, ins_w, dilate_h, dilate_w, pad[4], rshift_bit;
    bool using_bias, if_relu, input_sign, weight_sign, bias_sign;
} DepthwiseQuantParam;
/** okk_bdc_avg_pool2d.
 * - output = windows(input, 0).sum((4, 5)) / (kernel_h * kernel_w)
 * - within 1e-05 of the largest result
 * - output: result, fp32 [n, c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, fp32 [input_shape] in local memory, aligned, at multiples of 128
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; stride_h, stride_w 1..15; each pad 0..15; ins_h, ins_w 0..15
 * - Divides by kernel_h * kernel_w everywhere: pads count as 0.
 * - ins_h is the number of zeros between columns and ins_w between rows; they do not count in oh
 *   and ow.
 * - Cost: 1 command (depthwise.fp32), n * L * ceil(oh * ow / 16) * (kernel_h * kernel_w + 3) * (1
 *   + 2.6 * (stride_w - 1)) cycles
 */
void bm_atomic_avg_pool(const PoolParam *param);
/** An 8-bit average, by a weight of at most 8 bits and a shift.
 * - output: result, 8-bit 4N [n, c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, 8-bit 4N [input_shape] in local memory, aligned, at multiples of 128
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; stride_h, stride_w 1..15; dilate_h, dilate_w 1..16; each pad 0..15; ins_h,
 *   ins_w 0..15; rshift_bit 0..31; kernel_h * kernel_w 1..256
 * - The sum times m, shifted right by s + rshift_bit: m is the odd 8-bit weight of kernel_h *
 *   kernel_w, s the shift of one element fewer, as in the vendor's encoder. So 2x2 gives sum /
 *   512; 3x3 gives sum * 57 / 8, and with rshift_bit 6 the average.
 * - Rounds half up and saturates to -128..127; to 0..255 with if_relu, which makes negative sums
 *   0, or where no operand is signed.
 * - ins_h is the number of zeros between columns and ins_w between rows; they do not count in oh
 *   and ow.
 * - Cost: 1 command (depthwise.int8), ceil(n / 4) * L * ceil(oh * ow / 16) * (kernel_h * kernel_w
 *   + 3) * (1 + 2.6 * (stride_w - 1)) cycles
 */
void bm_atomic_avg_pool_quantized(const PoolQuantParam *param);
/** okk_bdc_max_pool2d.
 * - output = windows(input, -3.4028235e38).max((4, 5))
 * - output: result, fp32 [n, c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, fp32 [input_shape] in local memory, aligned, at multiples of 128
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; stride_h, stride_w 1..15; each pad 0..15; ins_h, ins_w 0..15
 * - Pads are -3.4028235e38.
 * - ins_h is the number of zeros between columns and ins_w between rows; they do not count in oh
 *   and ow.
 * - Cost: 1 command (max_pool.fp32), n * L * ceil(oh * ow / 16) * (kernel_h * kernel_w + 3) * (1 +
 *   2.6 * (stride_w - 1)) cycles
 */
void bm_atomic_max_pool(const PoolParam *param);
/** The greatest of each window.
 * - output = windows(input, lowest).max((4, 5))
 * - output: result, 8-bit 4N [n, c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, 8-bit 4N [input_shape] in local memory, aligned, at multiples of 128
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; stride_h, stride_w 1..15; dilate_h, dilate_w 1..16; each pad 0..15; ins_h,
 *   ins_w 0..15; rshift_bit 0..31
 * - lowest is -128 with input_sign, else 0. rshift_bit is 0. Dilations count for oh and ow only:
 *   taps are neighbours.
 * - ins_h is the number of zeros between columns and ins_w between rows; they do not count in oh
 *   and ow.
 * - Cost: 1 command (max_pool.int8), ceil(n / 4) * L * ceil(oh * ow / 16) * (kernel_h * kernel_w +
 *   3) * (1 + 2.6 * (stride_w - 1)) cycles
 */
void bm_atomic_max_pool_quantized(const PoolQuantParam *param);
/** The sum of each window times coeff.
 * - output = windows(input, 0).sum((4, 5)) * coeff
 * - within 1e-05 of the largest result
 * - output: result, fp32 [n, c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, fp32 [input_shape] in local memory, aligned, at multiples of 128
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; stride_h, stride_w 1..15; each pad 0..15; ins_h, ins_w 0..15
 * - ins_h is the number of zeros between columns and ins_w between rows; they do not count in oh
 *   and ow.
 * - Cost: 1 command (depthwise.fp32), n * L * ceil(oh * ow / 16) * (kernel_h * kernel_w + 3) * (1
 *   + 2.6 * (stride_w - 1)) cycles
 */
void bm_atomic_sum_pool(const SumPoolParam *param);
/** okk_bdc_depthwise2d.
 * - output = einsum("nchwab,cab->nchw", windows(input, 0), weight) + using_bias * bias
 * - within 1e-05 of the largest result
 * - output: result, fp32 [n, c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, fp32 [input_shape] in local memory, aligned, at multiples of 128
 * - weight: input, fp32 [c, kernel_h, kernel_w] in local memory, weights, at multiples of 4;
 *   compact: kernel_h * kernel_w words for each channel
 * - bias: input, fp32 [c elements] in local memory, one element for each channel, compact, at
 *   multiples of 4; only with using_bias
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; stride_h, stride_w 1..15; dilate_h, dilate_w 1..16; each pad 0..15; ins_h,
 *   ins_w 0..15
 * - ins_h is the number of zeros between columns and ins_w between rows; they do not count in oh
 *   and ow.
 * - Cost: 1 command (depthwise.fp32), n * L * ceil(oh * ow / 16) * (kernel_h * kernel_w + 3 + 2 *
 *   using_bias) * (1 + 2.6 * (stride_w - 1)) cycles
 */
void bm_atomic_depthwise(const DepthwiseParam *param);
/** An 8-bit depthwise convolution with a 16-bit bias.
 * - output = saturated(half_up(einsum("nchwab,cab->nchw", windows(input, 0), weight) + using_bias
 *   * bias, rshift_bit))
 * - output: result, 8-bit 4N [n, c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, 8-bit 4N [input_shape] in local memory, aligned, at multiples of 128
 * - weight: input, 8-bit [c, kernel_h, kernel_w] in local memory, weights; compact: kernel_h *
 *   kernel_w bytes for each channel
 * - bias: input, 16-bit [c elements] in local memory, one element for each channel, compact; only
 *   with using_bias
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; stride_h, stride_w 1..15; dilate_h, dilate_w 1..16; each pad 0..15; ins_h,
 *   ins_w 0..15; rshift_bit 0..31
 * - Rounds half up and saturates to -128..127; to 0..255 with if_relu, which makes negative sums
 *   0, or where no operand is signed.
 * - ins_h is the number of zeros between columns and ins_w between rows; they do not count in oh
 *   and ow.
 * - Cost: 1 command (depthwise.int8), ceil(n / 4) * L * ceil(oh * ow / 16) * (kernel_h * kernel_w
 *   + 3 + 2 * using_bias) * (1 + 2.6 * (stride_w - 1)) cycles
 */
void bm_atomic_depthwise_quantized(const DepthwiseQuantParam *param);

/* ---- matrix products ---- left [l_row, l_col] (stored transposed with l_trans), tensor_w columns to a
 * channel. 8-bit: (left * right + bias + (old << lshfit_bit) + half) >> rshift_bit.
 */
typedef struct {
    unsigned int input_l_addr, input_r_addr, bias_addr, output_addr, l_row, l_col, l_tensor_w,
        l_tensor_c, r_tensor_w, r_tensor_c;
    bool l_trans, using_bias, result_add;
} MatmulParam;

typedef struct {
    unsigned int input_l_addr, input_r_addr, bias_addr, output_addr, l_row, l_col, l_tensor_w,
        l_tensor_c, r_tensor_w, r_tensor_c, lshfit_bit, rshift_bit;
    bool l_trans, using_bias, result_add, result_add_sign, if_relu, input_l_sign, input_r_sign,
        bias_sign, output_16bit;
} MatmulQuantParam;
/** okk_bdc_matmul, also of a left matrix that is stored transposed.
 * - output = input_l @ input_r + using_bias * bias + result_add * old
 * - within 1e-05 of the largest result
 * - output: result, its old value is read with result_add, fp32 [l_row x columns] in local memory,
 *   matrix, at multiples of 128
 * - input_l: input, fp32 [l_row x l_col] in local memory, matrix, at multiples of 128
 * - input_r: input, fp32 [l_col x columns] in local memory, matrix, at multiples of 128
 * - bias: input, fp32 [1 x columns] in local memory, matrix, at multiples of 128; only with
 *   using_bias
 * - Limits: l_row, l_col from 1; l_tensor_c, r_tensor_c 1..4095; l_tensor_w from 1; r_tensor_w
 *   1..65535
 * - input_l is [l_row, l_col], stored transposed with l_trans; tensor_w columns lie in a channel,
 *   tensor_c channels hold a row.
 * - Cost: 1 command (matmul.fp32), l_row * slots(r_tensor_c) * ceil(r_tensor_w / 16) * (l_col +
 *   8.1 + 2 * using_bias) cycles
 */
void bm_atomic_matmul(const MatmulParam *param);
/** An 8-bit matrix product with an 8-bit or 16-bit result (output_16bit).
 * - output = saturated(half_up(input_l @ input_r + using_bias * bias + result_add * (old <<
 *   lshfit_bit), rshift_bit))
 * - output: result, its old value is read with result_add, 8-bit, one batch to a byte (1N) [l_row
 *   x columns] in local memory, matrix, at multiples of 128
 * - input_l: input, 8-bit, one batch to a byte (1N) [l_row x l_col] in local memory, matrix, at
 *   multiples of 128
 * - input_r: input, 8-bit, one batch to a byte (1N) [l_col x columns] in local memory, matrix, at
 *   multiples of 128
 * - bias: input, 16-bit [1 x columns] in local memory, matrix, at multiples of 128; only with
 *   using_bias
 * - Limits: l_row, l_col from 1; l_tensor_c, r_tensor_c 1..4095; l_tensor_w from 1; r_tensor_w
 *   1..128; rshift_bit 0..31; lshfit_bit 0..31
 * - input_l is [l_row, l_col], stored transposed with l_trans; tensor_w columns lie in a channel,
 *   tensor_c channels hold a row.
 * - Rounds half up and saturates to its signed range; to the unsigned one with if_relu, which
 *   makes negative sums 0, or where no operand is signed.
 * - The old output is 16-bit, signed with result_add_sign.
 * - Cost: 1 command (matmul.int8), l_row * slots(r_tensor_c) * ceil(r_tensor_w / 64) * (l_col + 5
 *   + 2 * using_bias + 2 * result_add) cycles
 */
void bm_atomic_matmul_quantized(const MatmulQuantParam *param);

/* ---- element-wise ---- select_value is what BM_SG and BM_SE choose. shift_type 1: arithmetic. */
typedef struct {
    unsigned int input0_addr, input1_addr, output_addr, shape[4], input0_stride[4],
        input1_stride[4], output_stride[4];
    BmAtomicOp op;
    bool input0_is_const;
    float input0_const;
    bool input1_is_const;
    float input1_const, select_value;
    int shift_type;
} ArithParam;

typedef struct {
    unsigned int input0_addr, input1_addr, output_addr, shape[4], input0_stride[4],
        input1_stride[4], output_stride[4];
    BmAtomicOp op;
    bool input0_is_const, input1_is_const;
    unsigned int rshift_bit, lshift_bit, shift_type;
    bool input0_sign, input1_sign, input0_8bit, input1_8bit, output_8bit, input1_n_is1,
        input1_h_is1, input1_w_is1;
} ArithQuantParam;

/* index_prec 0: 8-bit indices, 1: 32-bit ones; table_addr is an offset in L2, table_len a multiple of 32. */
typedef struct {
    unsigned int table_addr, index_addr, output_addr, shape[4], table_len, index_prec;
} TableLookupParam;

typedef struct {
    unsigned int input0_addr, input1_addr, output_addr, shape[4];
    BmAtomicOp op;
    bool result_add, input0_is_const;
    float input0_const;
    bool input1_is_const;
    float input1_const;
} MDScalarParam;

typedef struct {
    unsigned int tensorA_addr, tensorB_addr, tensorS_addr, output_addr, shape[4];
    BmAtomicOp op;
    bool result_add, tensorB_is_const;
    float tensorB_const;
    bool tensorS_is_const;
    float tensorS_const;
} MDLinearParam;

/* Y = A > B ? A : B, R = A > B ? C : D; result_skip 1: only Y, 2: only R. */
typedef struct {
    unsigned int tensorA_addr, tensorB_addr, tensorC_addr, tensorD_addr, tensorY_addr,
        tensorR_addr, shape[4];
    bool tensorA_is_const;
    float tensorA_const;
    bool tensorB_is_const;
    float tensorB_const;
    bool tensorC_is_const;
    unsigned int tensorC_const;
    bool tensorD_is_const;
    unsigned int tensorD_const;
    int result_skip;
} MDCmpParam;

typedef struct {
    unsigned int input_addr, output_addr, shape[4];
    BmAtomicOp op;
    unsigned int taylor_len, taylor_coef_addr;
} MDSFUParam;

typedef struct {
    unsigned int input0_addr, input1_addr, output_addr;
    BmAtomicOp op;
    unsigned int input0_c, input0_w, input0_w_last, input1_c, input1_w;
} VecParam;
/** An operation of okk.h on strided tensors: op says which.
 * - output: result, 32-bit in local memory, strided
 * - input0: input, 32-bit in local memory, strided; or input0_const
 * - input1: input, 32-bit in local memory, strided; or input1_const
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: output may be input0 or input1
 * - op is one of BM_MUL, BM_MAC, BM_ADD, BM_SUB, BM_MAX, BM_MIN, BM_SHIFT, BM_AND, BM_OR, BM_XOR,
 *   BM_SG, BM_SE, BM_DIV, BM_CPY.
 * - input0 OP input1 as okk_bdc_* has it, BM_MAC adds the product to the old output, BM_CPY is
 *   input0. BM_SG and BM_SE give select_value where input0 is greater or has the same bits, else
 *   0.
 * - Bitwise operations and shifts are on 32-bit integers; shift_type 1 is arithmetic, 0 logical.
 * - All strides are given, in elements.
 * - Cost: BM_MAC 5, BM_DIV 30 instead of 2: 1 command (ar.OP), 2 * n * L * P cycles
 */
void bm_atomic_tensor_arithmetic(const ArithParam *param);
/** The same on packed 8-bit (4N) and 16-bit (2N) integers.
 * - output: result, 8-bit 4N or 16-bit 2N in local memory, strided
 * - input0: input, 8-bit 4N or 16-bit 2N in local memory, strided; the constant itself with
 *   input0_is_const
 * - input1: input, 8-bit 4N or 16-bit 2N in local memory, strided; the constant itself with
 *   input1_is_const
 * - Limits: shape n, h, w 1..65535; c 1..4095; rshift_bit 0..31; lshift_bit 0..31
 * - In place: output may be input0 or input1
 * - op is one of BM_MUL, BM_MAC, BM_ADD, BM_SUB, BM_MAX, BM_MIN, BM_SHIFT, BM_AND, BM_OR, BM_XOR,
 *   BM_CPY.
 * - As okk_bdc_fixed_point_packed_*: sources have one width; those of products are 8-bit, BM_MAC
 *   adds to a 16-bit output; shifts are 16-bit with signed counts; bitwise results have the
 *   sources' width; both sources of a maximum have one sign.
 * - input1_n_is1, _h_is1 and _w_is1 repeat input1 along that axis.
 * - Cost: BM_MAC 5 instead of 2: 1 command (ar.fixed.OP), 2 * ceil(n / per_word) * L * P cycles
 */
void bm_atomic_tensor_arithmetic_quantized(const ArithQuantParam *param);
/** Words of a table in L2 by their indices.
 * - output = table[index & 255]
 * - output: result, 32-bit in local memory, aligned, at multiples of 128
 * - index: input, 8-bit 4N or 32-bit in local memory, aligned, at multiples of 128; by index_prec:
 *   0 8-bit, 1 32-bit
 * - table: input, 32-bit [table_len] in L2, a table, at multiples of 4; its address is an offset
 *   in L2; table_len is rounded up to a multiple of 32
 * - Limits: shape n, h, w 1..65535; c 1..4095; index_prec 0 or 1
 * - The low 8 bits of an index count; an index of table_len or more is undefined.
 * - Cost: 1 command (table_lookup), 24 * n * L * P cycles
 */
void bm_atomic_table_lookup(const TableLookupParam *param);
/** A sum, difference, product or quotient on the aligned layout.
 * - output: result, its old value is read with result_add, fp32 in local memory, aligned, at
 *   multiples of 128
 * - input0: input, fp32 in local memory, aligned, at multiples of 128; or input0_const
 * - input1: input, fp32 in local memory, aligned, at multiples of 128; or input1_const
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: output may be input0 or input1
 * - op is one of BM_MUL, BM_ADD, BM_SUB, BM_DIV.
 * - result_add adds a product to the old output; refused with other operations.
 * - Both addresses are checked also where a constant is taken.
 * - Cost: BM_DIV 30 times: 1 command (md_scalar.OP), n * L * P cycles
 */
void bm_atomic_md_scalar(const MDScalarParam *param);
/** A scale and a sum for each channel, or squares.
 * - output: result, its old value is read with result_add, fp32 in local memory, aligned, at
 *   multiples of 128
 * - tensorA: input, fp32 in local memory, aligned, at multiples of 128
 * - tensorB: input, fp32 [c elements] in local memory, one element for each channel, compact; or
 *   tensorB_const
 * - tensorS: input, fp32 [c elements] in local memory, one element for each channel, compact; or
 *   tensorS_const
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: output may be tensorA
 * - BM_MAC: A * S + B, the product rounded first. BM_SQR_SUM: (A + B)**2. BM_SQR_DIFF: (A - B)**2.
 *   result_add counts with BM_MAC only.
 * - Cost: 1 command (md_linear.OP), 4 * n * L * P cycles
 */
void bm_atomic_md_linear(const MDLinearParam *param);
/** The greater of A and B, and C or D by which one it is.
 * - tensorY: result, fp32 in local memory, aligned, at multiples of 128; where(A > B, A, B)
 * - tensorR: result, 32-bit in local memory, aligned, at multiples of 128; where(A > B, C, D)
 * - tensorA: input, fp32 in local memory, aligned, at multiples of 128; or tensorA_const
 * - tensorB: input, fp32 in local memory, aligned, at multiples of 128; or tensorB_const
 * - tensorC: input, 32-bit in local memory, aligned, at multiples of 128; or tensorC_const
 * - tensorD: input, 32-bit in local memory, aligned, at multiples of 128; or tensorD_const
 * - Limits: shape n, h, w 1..65535; c 1..4095; result_skip 0..2
 * - A comparison with nan does not hold. Addresses of both results are checked.
 * - Cost: result_skip 0: 1 command (md_cmp.max_select), 2 * n * L * P cycles; result_skip 1, only
 *   Y: 1 command (md_cmp.max), n * L * P cycles; result_skip 2, only R: 1 command (md_cmp.select),
 *   n * L * P cycles
 */
void bm_atomic_md_cmp(const MDCmpParam *param);
/** A special function on the aligned layout.
 * - output: result, 32-bit in local memory, aligned, at multiples of 128
 * - input: input, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: output may be input
 * - BM_RSQRT, BM_FP32_INT32: as okk_bdc_rsqrt and okk_bdc_fp32_to_int32. BM_TAYLOR: the sum of
 *   coefficient[k] * x**(k + 1) for k below taylor_len, coefficients in L2 at the offset
 *   taylor_coef_addr. BM_NORMALIZE_FP32: the exponent of x, rounded, as an int32;
 *   BM_NORMALIZE_INT32: the power of two with this exponent and the sign of x.
 * - Cost: BM_RSQRT 27, BM_TAYLOR 2 + 4 * taylor_len times: 1 command (md_sfu.OP), n * L * P cycles
 */
void bm_atomic_md_sfu(const MDSFUParam *param);
/** An operation of every element of one vector with every one of another.
 * - output: result, 32-bit [input0 x input1] in local memory, aligned, at multiples of 128; row i:
 *   input0[i] OP input1
 * - input0: input, 32-bit [(input0_c - 1) * input0_w + input0_w_last elements] in local memory,
 *   matrix, at multiples of 128
 * - input1: input, 32-bit [input1_c * input1_w elements] in local memory, matrix, at multiples of
 *   128
 * - op is one of BM_MUL, BM_ADD, BM_SUB, BM_MAX, BM_MIN, BM_AND, BM_OR, BM_XOR, BM_DIV.
 * - Cost: BM_DIV 30 instead of 2: 1 command (vector_correlation.OP), 2 * elements of input0 *
 *   slots(input1_c) * ceil(input1_w / 16) cycles
 */
void bm_atomic_vec_correlation(const VecParam *param);

/* ---- sort and gather ----
 * On the chip other engines do this, and nobody documents their descriptors. Here they are commands of
 * the tensor engine's queue with a form of their own (docs/isa.md); a bmodel that holds them runs on the
 * emulator only.
 *
 * sort: fp32 in DDR or L2, equal numbers keep their order, NaN comes last. Indices are 32-bit;
 * index_auto counts them from 0. gather_data: output[i] = data[index[i]], all in L2, indices 32-bit.
 */
typedef enum {
    BM_ASCEND, BM_DESCEND
} BmSortOrder;

typedef struct {
    unsigned long long input_data_addr, input_index_addr, output_data_addr, output_index_addr;
    unsigned int input_len, output_len;
    BmSortOrder order;
    bool index_enable, index_auto;
} SortParam;

typedef enum {
    BM_GD_8BIT = 0, BM_GD_32BIT = 2, BM_GD_128BIT = 4
} BmGDType;

typedef struct {
    unsigned int data_addr, index_addr, output_addr, length;
    BmGDType type;
} GatherDataParam;
/** Sorts fp32 numbers in DDR or L2, perhaps with their indices.
 * - output_data: result, fp32 [output_len] in DDR or L2, continuous
 * - input_data: input, fp32 [input_len] in DDR or L2, continuous
 * - output_index: result, 32-bit [output_len] in DDR or L2, continuous; with index_enable
 * - input_index: input, 32-bit [input_len] in DDR or L2, continuous; with index_enable; 0, 1, 2
 *   ... with index_auto
 * - Limits: output_len 1..input_len; input_len from 1; order BM_ASCEND or BM_DESCEND
 * - Equal numbers keep their order, nan comes last.
 * - Cost: 1 command (sort), a guess: ceil(log2(input_len)) copies of 8 * input_len bytes within
 *   DDR cycles
 */
void bm_atomic_sort(const SortParam *param);
/** output[i] = data[index[i]], all in L2.
 * - output: result, by type [length] in L2, a table
 * - data: input, by type [any] in L2, a table
 * - index: input, 32-bit [length] in L2, a table
 * - Limits: length from 1
 * - type: BM_GD_8BIT, BM_GD_32BIT or BM_GD_128BIT, the size of an element. Addresses are absolute,
 *   0x10000000..0x103FFFFF; indices count elements from data_addr on.
 * - Cost: 1 command (gather), length, a guess cycles
 */
void bm_atomic_gather_data(const GatherDataParam *param);

/* ---- local functions made of several commands; aligned layout, imm as large as src ----
 * bm_local_exp: src becomes e^src; src is in -103..88, and without denormals the result is exact to 1.2e-38 and
 * 0 from -88 on. bm_local_act, of any number: relu, elu (alpha 1), tanh, sigmoid; prelu is
 * refused, the struct has no slope.
 */
typedef enum {
    BM_RELU, BM_ELU, BM_PRELU, BM_TANH, BM_SIGMOID
} BmActType;

typedef struct {
    unsigned long long src_addr, dst_addr, imm_addr;
    unsigned int shape[4];
    BmActType act_type;
} ActParam;

typedef struct {
    unsigned int src_addr, imm_addr, shape[4];
} ExpParam;

typedef struct {
    unsigned int src_addr, dst_addr, imm_addr, shape[4];
} ActiveParam;

typedef struct {
    BmDataType src_dtype, dst_dtype;
    unsigned long long src_addr, dst_addr;
    unsigned int shape[4];
} CastParam;

typedef struct {
    unsigned int input_addr, output_addr, shape[4];
} UnaryParam;

typedef struct {
    unsigned int input0_addr, input1_addr, output_addr, shape[4];
} BinaryParam;
/** src becomes e^src.
 * - src = exp(src)
 * - within 5e-07 of the value
 * - src: result and input, fp32 in local memory, aligned, at multiples of 128
 * - imm: work buffer, as large as src, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: imm is not src (else refused)
 * - src is in -103..88.
 * - Cost: 8 commands (md_sfu.fp32_to_int, table_lookup, md_scalar.sub, md_sfu.taylor,
 *   md_scalar.mul, ar.copy), 184 * n * L * P cycles
 */
void bm_local_exp(const ExpParam *param);
/** An activation of any number.
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - imm: work buffer, as large as src, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095; act_type one of BmActType
 * - BM_RELU, BM_ELU (alpha 1), BM_TANH, BM_SIGMOID. BM_PRELU is refused: the struct has no slope.
 *   Except for BM_RELU, which does not use imm, src, dst and imm are three buffers: else refused.
 * - Cost: BM_RELU: 1 command (md_cmp.max), n * L * P cycles; BM_ELU: 10 commands (md_cmp.max,
 *   md_sfu.fp32_to_int, table_lookup, md_scalar.sub, md_sfu.taylor, md_scalar.mul, md_cmp.select),
 *   185 * n * L * P cycles; BM_TANH: 13 commands (md_cmp.max, ar.min, md_sfu.fp32_to_int,
 *   table_lookup, md_scalar.sub, md_sfu.taylor, md_scalar.mul, md_scalar.div, md_scalar.add,
 *   md_linear.mac), 250 * n * L * P cycles; BM_SIGMOID: 12 commands (md_cmp.max, ar.min,
 *   md_scalar.sub, md_sfu.fp32_to_int, table_lookup, md_sfu.taylor, md_scalar.mul, md_scalar.add,
 *   md_scalar.div), 217 * n * L * P cycles
 */
void bm_local_act(const ActParam *param);

/* ---- GDMA ---- local addresses are offsets on NPU local_idx; memcpy_1D takes absolute ones. */
typedef enum {
    BM_GDMA_DIR_S2L, BM_GDMA_DIR_L2S, BM_GDMA_DIR_S2S, BM_GDMA_DIR_L2L
} BmGDMADir;

typedef enum {
    BM_GDMA_FORMAT_FLOAT32, BM_GDMA_FORMAT_INT16, BM_GDMA_FORMAT_UINT8, BM_GDMA_FORMAT_INT8,
    BM_GDMA_FORMAT_FLOAT16
} BmGDMAFormat;

typedef struct {
    unsigned long long src_addr, dst_addr;
    unsigned int length;
    BmGDMAFormat format;
    BmGDMADir direction;
} MemCpy1DParam;

typedef struct {
    unsigned long long src_addr;
    unsigned int src_local_idx, src_shape[4], src_stride[4];
    BmGDMAFormat src_format;
    unsigned long long dst_addr;
    unsigned int dst_local_idx, dst_shape[4], dst_stride[4];
    BmGDMAFormat dst_format;
    BmGDMADir direction;
    bool transpose;
} MemCpy4DParam;

typedef struct {
    unsigned long long global_mem_addr;
    unsigned int local_mem_addr, local_mem_idx, row, col, row_stride, sec_size;
    BmGDMAFormat format;
    BmGDMADir direction;
    bool transpose, result_add;
} MemCpy2DParam;

typedef struct {
    unsigned long long start_addr;
    unsigned int shape[4], stride[4];
    const void *const_val;
    BmGDMAFormat format;
    bool is_local_mem;
    unsigned int local_idx;
} MemSet4DParam;

typedef struct {
    unsigned int src_addr, src_local_idx, dst_addr, dst_local_idx, src_c, src_w;
    BmGDMAFormat format;
    unsigned int src_c_stride, dst_c_stride;
} CWTransParam;

typedef struct {
    unsigned int data_local_mem_addr, mask_local_mem_addr, local_mem_idx;
    unsigned long long dst_global_mem_addr;
    unsigned int shape[4];
} MaskMemCpy4DPram;
/** Copies length elements.
 * - dst = src
 * - dst: result, by format [length] in DDR or L2, continuous
 * - src: input, by format [length] in DDR or L2, continuous
 * - Limits: length from 1; direction one of BmGDMADir; format one of BmGDMAFormat
 * - Both addresses are absolute, local memory from 0x08000000 on.
 * - Cost: 1 command (gdma.copy), as okk_gdma_32bit_cpy_* of that direction cycles
 */
void bm_atomic_memcpy_1D(const MemCpy1DParam *param);
/** Copies a matrix between system memory and the matrix layout.
 * - local_mem = src
 * - local_mem: source or result, by format [row x col] in local memory, matrix; an offset on NPU
 *   local_mem_idx; sec_size columns to a channel
 * - global_mem: source or result, by format [row x col] in DDR or L2, rows of row_stride elements
 * - Limits: direction BM_GDMA_DIR_S2L or BM_GDMA_DIR_L2S; format one of BmGDMAFormat; row
 *   1..65535; col 1..65535; sec_size from 1
 * - transpose exchanges rows and columns; result_add adds to the old result, of fp32 only.
 * - Cost: 1 command (gdma.copy or gdma.transpose_nc), as okk_gdma_32bit_cpy_* of that direction
 *   cycles
 */
void bm_atomic_memcpy_2D(const MemCpy2DParam *param);
/** Copies a tensor, perhaps exchanging n and c or converting elements.
 * - dst = src
 * - dst: result, by dst_format [dst_shape] in local memory, strided; a system address, or an
 *   offset on NPU dst_local_idx
 * - src: input, by src_format [src_shape] in local memory, strided; a system address, or an offset
 *   on NPU src_local_idx
 * - Both shapes have as many elements. The w-strides are 1 where there is more than one column.
 * - fp32 to fp16 truncates towards 0, fp32 to 8-bit rounds half to even and saturates; int16 is
 *   not converted, nor is anything while n and c are exchanged.
 * - Cost: 1 command (gdma.copy or gdma.transpose_nc or gdma.convert), as okk_gdma_32bit_cpy_* of
 *   that direction cycles
 */
void bm_atomic_memcpy_4D(const MemCpy4DParam *param);
/** Fills a tensor with const_val.
 * - start = C
 * - start: result, by format [shape] in local memory, strided; a system address, or with
 *   is_local_mem an offset on NPU local_idx
 * - Limits: format one of BmGDMAFormat
 * - const_val points to as many bytes as an element has. The w-stride is 1.
 * - Cost: 1 command (gdma.fill), bytes / 32 in local memory, else as okk_gdma_32bit_set_C_system
 *   cycles
 */
void bm_atomic_memset_4D(const MemSet4DParam *param);
/** Exchanges channels and columns: dst[0, w, 0, c] = src[0, c, 0, w].
 * - dst: result, by format [1, src_w, 1, src_c] in local memory, strided; on NPU dst_local_idx
 * - src: input, by format [1, src_c, 1, src_w] in local memory, strided; on NPU src_local_idx
 * - Limits: format one of BmGDMAFormat; src_c 1..65535; src_w 1..65535
 * - Cost: 1 command (gdma.transpose_cw), bytes / 32 cycles
 */
void bm_atomic_cwtrans(const CWTransParam *param);
/** Copies the words whose mask is not 0, one behind the other.
 * - dst_global_mem: result, 32-bit [as many as are kept] in DDR or L2, continuous, at multiples of
 *   512
 * - data_local_mem, mask_local_mem: input, 32-bit in local memory, aligned, at multiples of 128;
 *   on NPU local_mem_idx
 * - Limits: shape n, c, h, w 1..65535
 * - In the order of n, c, h, w; bm_get_mask_memcpy_res_num says how many there were.
 * - Cost: 1 command (gdma.filter), 46 + 1.44 * ceil(bytes / 64) cycles
 */
void bm_atomic_mask_memcpy_4D(const MaskMemCpy4DPram *param);
/** How many words the newest bm_atomic_mask_memcpy_4D kept.
 * - Waits for everything, so not inside a parallel section and not in a net that is compiled
 *   statically.
 */
unsigned int bm_get_mask_memcpy_res_num(void);

/* ---- the bm_ spelling of okk.h's functions ---- */
/** Begins the numbering of commands again. Call it first in a free kernel.
 * - In a layer the ids go on. Not inside a parallel section. Not in a layer's local function,
 *   where the compiler orders the commands.
 */
void bm_initialize(void);
/** Waits until all commands that were issued are done.
 * - Refused inside a parallel section. Not in a layer's local function, where the compiler orders
 *   the commands.
 * - Issues no command and changes no id.
 */
void bm_poll(void);
#define bm_global_mem_start_addr okk_global_mem_start_addr
#define bm_local_mem_start_addr okk_local_mem_start_addr
#define bm_local_mem_size_per_npu okk_local_mem_size_per_npu
#define bm_local_mem_bank_per_npu okk_local_mem_bank_per_npu
#define bm_l2_sram_start_addr okk_l2_sram_start_addr
#define bm_l2_sram_size okk_l2_sram_size
#define bm_dtcm_start_addr okk_dtcm_start_addr
#define bm_dtcm_size okk_dtcm_size
#define bm_lookup_table_start_addr okk_lookup_table_start_addr
#define bm_lookup_table_size okk_lookup_table_size
#define bm_npu_num okk_npu_num
#define bm_eu_num okk_eu_num
#define bm_global_mem_addr okk_global_mem_addr
#define bm_local_mem_addr okk_local_mem_addr
#define bm_l2_sram_addr okk_l2_sram_addr
#define bm_dtcm_addr okk_dtcm_addr

#ifdef __cplusplus
}
#endif
#endif
