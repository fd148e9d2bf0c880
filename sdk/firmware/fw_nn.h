/* Descriptors of convolutions, pools and matrix products, for okk_nn.c and bm_atomic_nn.c. */
#ifndef FW_NN_H
#define FW_NN_H

#include "fw_bd.h"

/* A window over an input and its result. Dilation 1 means none; insert counts zeros between elements. */
typedef struct {
    local_addr_t output, input;
    dim4 shape; /* of the input */
    int output_c;
    dim2 kernel, stride, insert, dilation;
    Padding pad;
    const dim4 *input_stride; /* NULL: the aligned layout, implied */
} fw_window;

typedef struct {
    bool constant;
    uint32_t value; /* address, or the constant's bits */
    const dim4 *stride; /* NULL: the default order */
} fw_weight;

/* What 8-bit forms have on top. */
typedef struct {
    int rshift;
    bool relu, input_signed, weight_signed, bias_signed;
} fw_quantization;

typedef enum { FW_CONVOLUTION, FW_DEPTHWISE, FW_MAX_POOL } fw_window_kind;

/* Height and width of the result; refuses a window that does not fit. */
dim2 fw_nn_result(fw_window_kind kind, const fw_window *w);
/* Refuses addresses outside local memory or not aligned as the layout asks, and results that do not exist;
 * fills all fields of the window and the default precisions. q is NULL for fp32. */
void fw_nn_begin(uint32_t *d, fw_window_kind kind, const fw_window *w, const fw_quantization *q);
void fw_nn_weight(uint32_t *d, const fw_weight *weight);
void fw_nn_bias(uint32_t *d, bool used, local_addr_t bias);

/* Refuses an address that is not a multiple of `unit` bytes. */
void fw_nn_check_multiple(local_addr_t addr, unsigned unit, const char *which);
/* Refuses a tensor of words that does not start on the NPU where the output does. */
/* Both refuse what lies outside local memory or off a word; what starts on another NPU than the output is a warning of
 * the first, and refused by the second. */
void fw_nn_check_same_npu(local_addr_t addr, local_addr_t output, const char *which);
void fw_nn_need_same_npu(local_addr_t addr, local_addr_t output, const char *which);

/* An address field from an address of the kernel API; refuses what is not local memory. */
uint32_t fw_nn_local(local_addr_t addr, const char *which);

typedef struct {
    local_addr_t output, left, right, bias;
    int left_rows, left_cols; /* as stored */
    int left_w, left_c, right_w, right_c;
    bool transposed, using_bias, result_add;
} fw_product;

void fw_nn_product(uint32_t *d, const fw_product *p);

/* The weight of an average pool over `size` elements as m / 2^shift, m odd and at most 8 bits; the shift is
 * returned. size is 1 or more. */
int fw_nn_average(int size, uint32_t *m);

#endif
