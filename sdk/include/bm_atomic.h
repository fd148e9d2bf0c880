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
void bm_atomic_conv(const ConvParam *param);
void bm_atomic_conv_quantized(const ConvQuantParam *param);
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
void bm_atomic_avg_pool(const PoolParam *param);
void bm_atomic_avg_pool_quantized(const PoolQuantParam *param);
void bm_atomic_max_pool(const PoolParam *param);
void bm_atomic_max_pool_quantized(const PoolQuantParam *param);
void bm_atomic_sum_pool(const SumPoolParam *param);
void bm_atomic_depthwise(const DepthwiseParam *param);
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
void bm_atomic_matmul(const MatmulParam *param);
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
void bm_atomic_tensor_arithmetic(const ArithParam *param);
void bm_atomic_tensor_arithmetic_quantized(const ArithQuantParam *param);
void bm_atomic_table_lookup(const TableLookupParam *param);
void bm_atomic_md_scalar(const MDScalarParam *param);
void bm_atomic_md_linear(const MDLinearParam *param);
void bm_atomic_md_cmp(const MDCmpParam *param);
void bm_atomic_md_sfu(const MDSFUParam *param);
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
void bm_atomic_sort(const SortParam *param);
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
void bm_local_exp(const ExpParam *param);
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
void bm_atomic_memcpy_1D(const MemCpy1DParam *param);
void bm_atomic_memcpy_2D(const MemCpy2DParam *param);
void bm_atomic_memcpy_4D(const MemCpy4DParam *param);
void bm_atomic_memset_4D(const MemSet4DParam *param);
void bm_atomic_cwtrans(const CWTransParam *param);
void bm_atomic_mask_memcpy_4D(const MaskMemCpy4DPram *param);
/* Waits for everything, then says how many words the newest mask_memcpy_4D kept. */
unsigned int bm_get_mask_memcpy_res_num(void);

/* ---- the bm_ spelling of okk.h's functions ---- */
void bm_initialize(void);
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
