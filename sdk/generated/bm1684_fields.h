/* Made by `python -m user_layers.codegen.regenerate` from the field tables. Do not edit. */
#ifndef BM1684_FIELDS_H
#define BM1684_FIELDS_H

#include <stdint.h>

#define BM1684_DESCRIPTOR_WORDS 32

/* Defined by the firmware: reports the field, the value and the largest value; does not return. */
#ifdef __cplusplus
extern "C"
#else
extern
#endif
void fw_field_overflow(const char *field, uint32_t value, uint32_t max)
    __attribute__((noreturn, cold));

enum bd_task { /* tsk_typ */
    BD_TASK_CONV = 0,
    BD_TASK_DEPTHWISE = 1,
    BD_TASK_MATMUL = 2,
    BD_TASK_ARITHMETIC = 3,
    BD_TASK_MATMUL2 = 4,
    BD_TASK_CORRELATION = 5,
    BD_TASK_TABLE_LOOKUP = 6,
    BD_TASK_MD_SUM = 7,
    BD_TASK_MD_SCALAR = 8,
    BD_TASK_MD_SFU = 9,
    BD_TASK_MD_LINEAR = 10,
    BD_TASK_LOCAL_ARRANGE = 11,
    BD_TASK_DECOMPRESS = 12,
    BD_TASK_MD_CMP = 13,
    BD_TASK_VECTOR_CORRELATION = 14,
    BD_TASK_OTHER_ENGINE = 15
};

enum bd_eu { /* tsk_eu_typ */
    BD_EU_MUL = 0,
    BD_EU_MAC = 1,
    BD_EU_ADD = 2,
    BD_EU_SUB = 3,
    BD_EU_MAX = 4,
    BD_EU_MIN = 5,
    BD_EU_SHIFT = 6,
    BD_EU_AND = 7,
    BD_EU_OR = 8,
    BD_EU_XOR = 9,
    BD_EU_SELECT_GT = 10,
    BD_EU_SELECT_EQ = 11,
    BD_EU_DIV = 12,
    BD_EU_TAYLOR = 13,
    BD_EU_FP32_TO_INT = 14,
    BD_EU_INT_NORMALIZE = 15,
    BD_EU_FP32_NORMALIZE = 16,
    BD_EU_RSQRT = 17,
    BD_EU_ADD_TREE = 18,
    BD_EU_COPY = 19,
    BD_EU_SQUARE_SUM = 20,
    BD_EU_SQUARE_DIFF = 21,
    BD_EU_CMP = 22,
    BD_EU_SELECT = 23,
    BD_EU_CMP_SELECT = 24
};

enum bd_other { /* tsk_eu_typ */
    BD_OTHER_SORT = 0,
    BD_OTHER_GATHER = 1
};

enum bd_precision { /* opt_*_prec */
    BD_PRECISION_INT8 = 0,
    BD_PRECISION_FP32 = 2,
    BD_PRECISION_INT16 = 3,
    BD_PRECISION_INT32 = 4
};

enum bd_stride { /* short_*_str */
    BD_STRIDE_ALIGNED = 0,
    BD_STRIDE_DEFAULT = 1,
    BD_STRIDE_COMPACT = 2,
    BD_STRIDE_EXPLICIT = 3
};

enum gdma_direction { /* direction */
    GDMA_DIRECTION_S2L = 0,
    GDMA_DIRECTION_L2S = 1,
    GDMA_DIRECTION_S2S = 2,
    GDMA_DIRECTION_L2L = 3
};

enum gdma_special { /* special_func */
    GDMA_SPECIAL_COPY = 0,
    GDMA_SPECIAL_TRANSPOSE_NC = 1,
    GDMA_SPECIAL_LRN_SHIFT = 2,
    GDMA_SPECIAL_FORMAT = 3,
    GDMA_SPECIAL_CONSTANT = 4,
    GDMA_SPECIAL_TRANSPOSE_CW = 5,
    GDMA_SPECIAL_WINOGRAD = 6,
    GDMA_SPECIAL_FILTER = 7
};

enum gdma_format { /* src_data_format, dst_data_format */
    GDMA_FORMAT_FP32 = 0,
    GDMA_FORMAT_INT16 = 1,
    GDMA_FORMAT_UINT8 = 2,
    GDMA_FORMAT_INT8 = 3,
    GDMA_FORMAT_FP16 = 4
};

#define BD_CMD_EN_OFFSET 0
#define BD_CMD_EN_WIDTH 1
#define BD_CMD_END_OFFSET 1
#define BD_CMD_END_WIDTH 1
#define BD_CMD_ID_EN_OFFSET 2
#define BD_CMD_ID_EN_WIDTH 1
#define BD_CMD_ID_TPU_OFFSET 3
#define BD_CMD_ID_TPU_WIDTH 16
#define BD_CMD_ID_GDMA_OFFSET 19
#define BD_CMD_ID_GDMA_WIDTH 16
#define BD_CMD_KEEP_OFFSET 35
#define BD_CMD_KEEP_WIDTH 1
#define BD_CMD_INTR_EN_OFFSET 36
#define BD_CMD_INTR_EN_WIDTH 1
#define BD_TSK_TYP_OFFSET 37
#define BD_TSK_TYP_WIDTH 4
#define BD_TSK_EU_TYP_OFFSET 41
#define BD_TSK_EU_TYP_WIDTH 5
#define BD_TSK_OPD_NUM_OFFSET 46
#define BD_TSK_OPD_NUM_WIDTH 2
#define BD_OPT_RIGHT_SHIFT_OFFSET 48
#define BD_OPT_RIGHT_SHIFT_WIDTH 5
#define BD_OPT_LEFT_SHIFT_OFFSET 53
#define BD_OPT_LEFT_SHIFT_WIDTH 5
#define BD_OPT_SHIFT_TYP_OFFSET 58
#define BD_OPT_SHIFT_TYP_WIDTH 1
#define BD_OPT_RES_ADD_OFFSET 59
#define BD_OPT_RES_ADD_WIDTH 1
#define BD_OPT_RELU_OFFSET 60
#define BD_OPT_RELU_WIDTH 1
#define BD_OPT_LEFT_TRAN_OFFSET 61
#define BD_OPT_LEFT_TRAN_WIDTH 1
#define BD_OPT_WINOGRAD_OFFSET 62
#define BD_OPT_WINOGRAD_WIDTH 1
#define BD_OPT_KERNEL_ROTATE_OFFSET 63
#define BD_OPT_KERNEL_ROTATE_WIDTH 1
#define BD_OPT_OPD0_SIGN_OFFSET 64
#define BD_OPT_OPD0_SIGN_WIDTH 1
#define BD_OPT_OPD1_SIGN_OFFSET 65
#define BD_OPT_OPD1_SIGN_WIDTH 1
#define BD_OPT_OPD2_SIGN_OFFSET 66
#define BD_OPT_OPD2_SIGN_WIDTH 1
#define BD_OPT_RES0_PREC_OFFSET 67
#define BD_OPT_RES0_PREC_WIDTH 3
#define BD_OPT_OPD0_PREC_OFFSET 70
#define BD_OPT_OPD0_PREC_WIDTH 3
#define BD_OPT_OPD1_PREC_OFFSET 73
#define BD_OPT_OPD1_PREC_WIDTH 3
#define BD_OPT_OPD2_PREC_OFFSET 76
#define BD_OPT_OPD2_PREC_WIDTH 3
#define BD_OPT_OPD0_CONST_OFFSET 79
#define BD_OPT_OPD0_CONST_WIDTH 1
#define BD_OPT_OPD1_CONST_OFFSET 80
#define BD_OPT_OPD1_CONST_WIDTH 1
#define BD_OPT_OPD2_CONST_OFFSET 81
#define BD_OPT_OPD2_CONST_WIDTH 1
#define BD_SHORT_RES0_STR_OFFSET 82
#define BD_SHORT_RES0_STR_WIDTH 3
#define BD_SHORT_OPD0_STR_OFFSET 85
#define BD_SHORT_OPD0_STR_WIDTH 3
#define BD_SHORT_OPD1_STR_OFFSET 88
#define BD_SHORT_OPD1_STR_WIDTH 3
#define BD_SHORT_OPD2_STR_OFFSET 91
#define BD_SHORT_OPD2_STR_WIDTH 3
#define BD_OPD0_X_INS0_OFFSET 94
#define BD_OPD0_X_INS0_WIDTH 4
#define BD_OPD0_Y_INS0_OFFSET 98
#define BD_OPD0_Y_INS0_WIDTH 4
#define BD_OPD1_X_INS0_OFFSET 102
#define BD_OPD1_X_INS0_WIDTH 4
#define BD_OPD1_Y_INS0_OFFSET 106
#define BD_OPD1_Y_INS0_WIDTH 4
#define BD_OPD0_UP_PAD_OFFSET 110
#define BD_OPD0_UP_PAD_WIDTH 4
#define BD_OPD0_DN_PAD_OFFSET 114
#define BD_OPD0_DN_PAD_WIDTH 4
#define BD_OPD0_LF_PAD_OFFSET 118
#define BD_OPD0_LF_PAD_WIDTH 4
#define BD_OPD0_RT_PAD_OFFSET 122
#define BD_OPD0_RT_PAD_WIDTH 4
#define BD_RES_OP_X_STR_OFFSET 126
#define BD_RES_OP_X_STR_WIDTH 4
#define BD_RES_OP_Y_STR_OFFSET 130
#define BD_RES_OP_Y_STR_WIDTH 4
#define BD_TSK_LANE_NUM_OFFSET 134
#define BD_TSK_LANE_NUM_WIDTH 64
#define BD_RES0_N_OFFSET 198
#define BD_RES0_N_WIDTH 16
#define BD_RES0_C_OFFSET 214
#define BD_RES0_C_WIDTH 12
#define BD_RES0_H_OFFSET 226
#define BD_RES0_H_WIDTH 16
#define BD_RES0_W_OFFSET 242
#define BD_RES0_W_WIDTH 16
#define BD_OPD0_N_OFFSET 258
#define BD_OPD0_N_WIDTH 16
#define BD_OPD0_C_OFFSET 274
#define BD_OPD0_C_WIDTH 12
#define BD_OPD0_H_OFFSET 286
#define BD_OPD0_H_WIDTH 16
#define BD_OPD0_W_OFFSET 302
#define BD_OPD0_W_WIDTH 16
#define BD_OPD1_N_OFFSET 318
#define BD_OPD1_N_WIDTH 12
#define BD_OPD1_C_OFFSET 330
#define BD_OPD1_C_WIDTH 12
#define BD_OPD1_H_OFFSET 342
#define BD_OPD1_H_WIDTH 16
#define BD_OPD1_W_OFFSET 358
#define BD_OPD1_W_WIDTH 16
#define BD_RES0_H_SHIFT_OFFSET 374
#define BD_RES0_H_SHIFT_WIDTH 4
#define BD_RES0_W_SHIFT_OFFSET 378
#define BD_RES0_W_SHIFT_WIDTH 4
#define BD_OPD0_H_SHIFT_OFFSET 382
#define BD_OPD0_H_SHIFT_WIDTH 4
#define BD_OPD0_W_SHIFT_OFFSET 386
#define BD_OPD0_W_SHIFT_WIDTH 4
#define BD_OPD1_H_SHIFT_OFFSET 390
#define BD_OPD1_H_SHIFT_WIDTH 4
#define BD_OPD1_W_SHIFT_OFFSET 394
#define BD_OPD1_W_SHIFT_WIDTH 4
#define BD_RES0_N_STR_OFFSET 398
#define BD_RES0_N_STR_WIDTH 19
#define BD_RES0_C_STR_OFFSET 417
#define BD_RES0_C_STR_WIDTH 19
#define BD_OPD0_N_STR_OFFSET 436
#define BD_OPD0_N_STR_WIDTH 19
#define BD_OPD0_C_STR_OFFSET 455
#define BD_OPD0_C_STR_WIDTH 19
#define BD_OPD1_N_STR_OFFSET 474
#define BD_OPD1_N_STR_WIDTH 19
#define BD_OPD1_C_STR_OFFSET 493
#define BD_OPD1_C_STR_WIDTH 19
#define BD_OPD2_N_STR_OFFSET 512
#define BD_OPD2_N_STR_WIDTH 19
#define BD_OPD2_C_STR_OFFSET 531
#define BD_OPD2_C_STR_WIDTH 19
#define BD_OPT_RES_ADD_SIGN_OFFSET 550
#define BD_OPT_RES_ADD_SIGN_WIDTH 1
#define BD_OPD0_NEQ1_OFFSET 551
#define BD_OPD0_NEQ1_WIDTH 1
#define BD_OPD1_NEQ1_OFFSET 552
#define BD_OPD1_NEQ1_WIDTH 1
#define BD_OPT_OPD3_CONST_OFFSET 553
#define BD_OPT_OPD3_CONST_WIDTH 1
#define BD_RSVD0_OFFSET 554
#define BD_RSVD0_WIDTH 22
#define BD_RES0_ADDR_OFFSET 576
#define BD_RES0_ADDR_WIDTH 32
#define BD_OPD0_ADDR_OFFSET 608
#define BD_OPD0_ADDR_WIDTH 32
#define BD_OPD1_ADDR_OFFSET 640
#define BD_OPD1_ADDR_WIDTH 32
#define BD_OPD2_ADDR_OFFSET 672
#define BD_OPD2_ADDR_WIDTH 32
#define BD_RES0_H_STR_OFFSET 704
#define BD_RES0_H_STR_WIDTH 32
#define BD_RES0_W_STR_OFFSET 736
#define BD_RES0_W_STR_WIDTH 32
#define BD_OPD0_H_STR_OFFSET 768
#define BD_OPD0_H_STR_WIDTH 32
#define BD_OPD0_W_STR_OFFSET 800
#define BD_OPD0_W_STR_WIDTH 32
#define BD_OPD1_H_STR_OFFSET 832
#define BD_OPD1_H_STR_WIDTH 32
#define BD_OPD1_W_STR_OFFSET 864
#define BD_OPD1_W_STR_WIDTH 32
#define BD_OPD2_H_STR_OFFSET 896
#define BD_OPD2_H_STR_WIDTH 32
#define BD_OPD2_W_STR_OFFSET 928
#define BD_OPD2_W_STR_WIDTH 32
#define BD_RES1_ADDR_OFFSET 960
#define BD_RES1_ADDR_WIDTH 32
#define BD_OPD3_ADDR_OFFSET 992
#define BD_OPD3_ADDR_WIDTH 32

static inline void bd_set_cmd_en(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.cmd_en", v, 1u);
    d[0] = (d[0] & 0xfffffffeu) | (v);
}

static inline void bd_set_cmd_end(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.cmd_end", v, 1u);
    d[0] = (d[0] & 0xfffffffdu) | (v << 1);
}

static inline void bd_set_cmd_id_en(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.cmd_id_en", v, 1u);
    d[0] = (d[0] & 0xfffffffbu) | (v << 2);
}

static inline void bd_set_cmd_id_tpu(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("bd.cmd_id_tpu", v, 65535u);
    d[0] = (d[0] & 0xfff80007u) | (v << 3);
}

static inline void bd_set_cmd_id_gdma(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("bd.cmd_id_gdma", v, 65535u);
    d[0] = (d[0] & 0x0007ffffu) | ((v & 0x1fffu) << 19);
    d[1] = (d[1] & 0xfffffff8u) | ((v >> 13));
}

static inline void bd_set_cmd_keep(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.cmd_keep", v, 1u);
    d[1] = (d[1] & 0xfffffff7u) | (v << 3);
}

static inline void bd_set_cmd_intr_en(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.cmd_intr_en", v, 1u);
    d[1] = (d[1] & 0xffffffefu) | (v << 4);
}

static inline void bd_set_tsk_typ(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.tsk_typ", v, 15u);
    d[1] = (d[1] & 0xfffffe1fu) | (v << 5);
}

static inline void bd_set_tsk_eu_typ(uint32_t *d, uint32_t v) {
    if (v > 31u) fw_field_overflow("bd.tsk_eu_typ", v, 31u);
    d[1] = (d[1] & 0xffffc1ffu) | (v << 9);
}

static inline void bd_set_tsk_opd_num(uint32_t *d, uint32_t v) {
    if (v > 3u) fw_field_overflow("bd.tsk_opd_num", v, 3u);
    d[1] = (d[1] & 0xffff3fffu) | (v << 14);
}

static inline void bd_set_opt_right_shift(uint32_t *d, uint32_t v) {
    if (v > 31u) fw_field_overflow("bd.opt_right_shift", v, 31u);
    d[1] = (d[1] & 0xffe0ffffu) | (v << 16);
}

static inline void bd_set_opt_left_shift(uint32_t *d, uint32_t v) {
    if (v > 31u) fw_field_overflow("bd.opt_left_shift", v, 31u);
    d[1] = (d[1] & 0xfc1fffffu) | (v << 21);
}

static inline void bd_set_opt_shift_typ(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_shift_typ", v, 1u);
    d[1] = (d[1] & 0xfbffffffu) | (v << 26);
}

static inline void bd_set_opt_res_add(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_res_add", v, 1u);
    d[1] = (d[1] & 0xf7ffffffu) | (v << 27);
}

static inline void bd_set_opt_relu(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_relu", v, 1u);
    d[1] = (d[1] & 0xefffffffu) | (v << 28);
}

static inline void bd_set_opt_left_tran(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_left_tran", v, 1u);
    d[1] = (d[1] & 0xdfffffffu) | (v << 29);
}

static inline void bd_set_opt_winograd(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_winograd", v, 1u);
    d[1] = (d[1] & 0xbfffffffu) | (v << 30);
}

static inline void bd_set_opt_kernel_rotate(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_kernel_rotate", v, 1u);
    d[1] = (d[1] & 0x7fffffffu) | (v << 31);
}

static inline void bd_set_opt_opd0_sign(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_opd0_sign", v, 1u);
    d[2] = (d[2] & 0xfffffffeu) | (v);
}

static inline void bd_set_opt_opd1_sign(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_opd1_sign", v, 1u);
    d[2] = (d[2] & 0xfffffffdu) | (v << 1);
}

static inline void bd_set_opt_opd2_sign(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_opd2_sign", v, 1u);
    d[2] = (d[2] & 0xfffffffbu) | (v << 2);
}

static inline void bd_set_opt_res0_prec(uint32_t *d, uint32_t v) {
    if (v > 7u) fw_field_overflow("bd.opt_res0_prec", v, 7u);
    d[2] = (d[2] & 0xffffffc7u) | (v << 3);
}

static inline void bd_set_opt_opd0_prec(uint32_t *d, uint32_t v) {
    if (v > 7u) fw_field_overflow("bd.opt_opd0_prec", v, 7u);
    d[2] = (d[2] & 0xfffffe3fu) | (v << 6);
}

static inline void bd_set_opt_opd1_prec(uint32_t *d, uint32_t v) {
    if (v > 7u) fw_field_overflow("bd.opt_opd1_prec", v, 7u);
    d[2] = (d[2] & 0xfffff1ffu) | (v << 9);
}

static inline void bd_set_opt_opd2_prec(uint32_t *d, uint32_t v) {
    if (v > 7u) fw_field_overflow("bd.opt_opd2_prec", v, 7u);
    d[2] = (d[2] & 0xffff8fffu) | (v << 12);
}

static inline void bd_set_opt_opd0_const(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_opd0_const", v, 1u);
    d[2] = (d[2] & 0xffff7fffu) | (v << 15);
}

static inline void bd_set_opt_opd1_const(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_opd1_const", v, 1u);
    d[2] = (d[2] & 0xfffeffffu) | (v << 16);
}

static inline void bd_set_opt_opd2_const(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_opd2_const", v, 1u);
    d[2] = (d[2] & 0xfffdffffu) | (v << 17);
}

static inline void bd_set_short_res0_str(uint32_t *d, uint32_t v) {
    if (v > 7u) fw_field_overflow("bd.short_res0_str", v, 7u);
    d[2] = (d[2] & 0xffe3ffffu) | (v << 18);
}

static inline void bd_set_short_opd0_str(uint32_t *d, uint32_t v) {
    if (v > 7u) fw_field_overflow("bd.short_opd0_str", v, 7u);
    d[2] = (d[2] & 0xff1fffffu) | (v << 21);
}

static inline void bd_set_short_opd1_str(uint32_t *d, uint32_t v) {
    if (v > 7u) fw_field_overflow("bd.short_opd1_str", v, 7u);
    d[2] = (d[2] & 0xf8ffffffu) | (v << 24);
}

static inline void bd_set_short_opd2_str(uint32_t *d, uint32_t v) {
    if (v > 7u) fw_field_overflow("bd.short_opd2_str", v, 7u);
    d[2] = (d[2] & 0xc7ffffffu) | (v << 27);
}

static inline void bd_set_opd0_x_ins0(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd0_x_ins0", v, 15u);
    d[2] = (d[2] & 0x3fffffffu) | ((v & 0x3u) << 30);
    d[3] = (d[3] & 0xfffffffcu) | ((v >> 2));
}

static inline void bd_set_opd0_y_ins0(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd0_y_ins0", v, 15u);
    d[3] = (d[3] & 0xffffffc3u) | (v << 2);
}

static inline void bd_set_opd1_x_ins0(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd1_x_ins0", v, 15u);
    d[3] = (d[3] & 0xfffffc3fu) | (v << 6);
}

static inline void bd_set_opd1_y_ins0(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd1_y_ins0", v, 15u);
    d[3] = (d[3] & 0xffffc3ffu) | (v << 10);
}

static inline void bd_set_opd0_up_pad(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd0_up_pad", v, 15u);
    d[3] = (d[3] & 0xfffc3fffu) | (v << 14);
}

static inline void bd_set_opd0_dn_pad(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd0_dn_pad", v, 15u);
    d[3] = (d[3] & 0xffc3ffffu) | (v << 18);
}

static inline void bd_set_opd0_lf_pad(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd0_lf_pad", v, 15u);
    d[3] = (d[3] & 0xfc3fffffu) | (v << 22);
}

static inline void bd_set_opd0_rt_pad(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd0_rt_pad", v, 15u);
    d[3] = (d[3] & 0xc3ffffffu) | (v << 26);
}

static inline void bd_set_res_op_x_str(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.res_op_x_str", v, 15u);
    d[3] = (d[3] & 0x3fffffffu) | ((v & 0x3u) << 30);
    d[4] = (d[4] & 0xfffffffcu) | ((v >> 2));
}

static inline void bd_set_res_op_y_str(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.res_op_y_str", v, 15u);
    d[4] = (d[4] & 0xffffffc3u) | (v << 2);
}

static inline void bd_set_tsk_lane_num(uint32_t *d, uint64_t v) {
    d[4] = (d[4] & 0x0000003fu) | (((uint32_t)v & 0x3ffffffu) << 6);
    d[5] = (uint32_t)(v >> 26);
    d[6] = (d[6] & 0xffffffc0u) | ((uint32_t)(v >> 58));
}

static inline void bd_set_res0_n(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("bd.res0_n", v, 65535u);
    d[6] = (d[6] & 0xffc0003fu) | (v << 6);
}

static inline void bd_set_res0_c(uint32_t *d, uint32_t v) {
    if (v > 4095u) fw_field_overflow("bd.res0_c", v, 4095u);
    d[6] = (d[6] & 0x003fffffu) | ((v & 0x3ffu) << 22);
    d[7] = (d[7] & 0xfffffffcu) | ((v >> 10));
}

static inline void bd_set_res0_h(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("bd.res0_h", v, 65535u);
    d[7] = (d[7] & 0xfffc0003u) | (v << 2);
}

static inline void bd_set_res0_w(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("bd.res0_w", v, 65535u);
    d[7] = (d[7] & 0x0003ffffu) | ((v & 0x3fffu) << 18);
    d[8] = (d[8] & 0xfffffffcu) | ((v >> 14));
}

static inline void bd_set_opd0_n(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("bd.opd0_n", v, 65535u);
    d[8] = (d[8] & 0xfffc0003u) | (v << 2);
}

static inline void bd_set_opd0_c(uint32_t *d, uint32_t v) {
    if (v > 4095u) fw_field_overflow("bd.opd0_c", v, 4095u);
    d[8] = (d[8] & 0xc003ffffu) | (v << 18);
}

static inline void bd_set_opd0_h(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("bd.opd0_h", v, 65535u);
    d[8] = (d[8] & 0x3fffffffu) | ((v & 0x3u) << 30);
    d[9] = (d[9] & 0xffffc000u) | ((v >> 2));
}

static inline void bd_set_opd0_w(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("bd.opd0_w", v, 65535u);
    d[9] = (d[9] & 0xc0003fffu) | (v << 14);
}

static inline void bd_set_opd1_n(uint32_t *d, uint32_t v) {
    if (v > 4095u) fw_field_overflow("bd.opd1_n", v, 4095u);
    d[9] = (d[9] & 0x3fffffffu) | ((v & 0x3u) << 30);
    d[10] = (d[10] & 0xfffffc00u) | ((v >> 2));
}

static inline void bd_set_opd1_c(uint32_t *d, uint32_t v) {
    if (v > 4095u) fw_field_overflow("bd.opd1_c", v, 4095u);
    d[10] = (d[10] & 0xffc003ffu) | (v << 10);
}

static inline void bd_set_opd1_h(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("bd.opd1_h", v, 65535u);
    d[10] = (d[10] & 0x003fffffu) | ((v & 0x3ffu) << 22);
    d[11] = (d[11] & 0xffffffc0u) | ((v >> 10));
}

static inline void bd_set_opd1_w(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("bd.opd1_w", v, 65535u);
    d[11] = (d[11] & 0xffc0003fu) | (v << 6);
}

static inline void bd_set_res0_h_shift(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.res0_h_shift", v, 15u);
    d[11] = (d[11] & 0xfc3fffffu) | (v << 22);
}

static inline void bd_set_res0_w_shift(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.res0_w_shift", v, 15u);
    d[11] = (d[11] & 0xc3ffffffu) | (v << 26);
}

static inline void bd_set_opd0_h_shift(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd0_h_shift", v, 15u);
    d[11] = (d[11] & 0x3fffffffu) | ((v & 0x3u) << 30);
    d[12] = (d[12] & 0xfffffffcu) | ((v >> 2));
}

static inline void bd_set_opd0_w_shift(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd0_w_shift", v, 15u);
    d[12] = (d[12] & 0xffffffc3u) | (v << 2);
}

static inline void bd_set_opd1_h_shift(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd1_h_shift", v, 15u);
    d[12] = (d[12] & 0xfffffc3fu) | (v << 6);
}

static inline void bd_set_opd1_w_shift(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("bd.opd1_w_shift", v, 15u);
    d[12] = (d[12] & 0xffffc3ffu) | (v << 10);
}

static inline void bd_set_res0_n_str(uint32_t *d, uint32_t v) {
    if (v > 524287u) fw_field_overflow("bd.res0_n_str", v, 524287u);
    d[12] = (d[12] & 0x00003fffu) | ((v & 0x3ffffu) << 14);
    d[13] = (d[13] & 0xfffffffeu) | ((v >> 18));
}

static inline void bd_set_res0_c_str(uint32_t *d, uint32_t v) {
    if (v > 524287u) fw_field_overflow("bd.res0_c_str", v, 524287u);
    d[13] = (d[13] & 0xfff00001u) | (v << 1);
}

static inline void bd_set_opd0_n_str(uint32_t *d, uint32_t v) {
    if (v > 524287u) fw_field_overflow("bd.opd0_n_str", v, 524287u);
    d[13] = (d[13] & 0x000fffffu) | ((v & 0xfffu) << 20);
    d[14] = (d[14] & 0xffffff80u) | ((v >> 12));
}

static inline void bd_set_opd0_c_str(uint32_t *d, uint32_t v) {
    if (v > 524287u) fw_field_overflow("bd.opd0_c_str", v, 524287u);
    d[14] = (d[14] & 0xfc00007fu) | (v << 7);
}

static inline void bd_set_opd1_n_str(uint32_t *d, uint32_t v) {
    if (v > 524287u) fw_field_overflow("bd.opd1_n_str", v, 524287u);
    d[14] = (d[14] & 0x03ffffffu) | ((v & 0x3fu) << 26);
    d[15] = (d[15] & 0xffffe000u) | ((v >> 6));
}

static inline void bd_set_opd1_c_str(uint32_t *d, uint32_t v) {
    if (v > 524287u) fw_field_overflow("bd.opd1_c_str", v, 524287u);
    d[15] = (d[15] & 0x00001fffu) | (v << 13);
}

static inline void bd_set_opd2_n_str(uint32_t *d, uint32_t v) {
    if (v > 524287u) fw_field_overflow("bd.opd2_n_str", v, 524287u);
    d[16] = (d[16] & 0xfff80000u) | (v);
}

static inline void bd_set_opd2_c_str(uint32_t *d, uint32_t v) {
    if (v > 524287u) fw_field_overflow("bd.opd2_c_str", v, 524287u);
    d[16] = (d[16] & 0x0007ffffu) | ((v & 0x1fffu) << 19);
    d[17] = (d[17] & 0xffffffc0u) | ((v >> 13));
}

static inline void bd_set_opt_res_add_sign(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_res_add_sign", v, 1u);
    d[17] = (d[17] & 0xffffffbfu) | (v << 6);
}

static inline void bd_set_opd0_neq1(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opd0_neq1", v, 1u);
    d[17] = (d[17] & 0xffffff7fu) | (v << 7);
}

static inline void bd_set_opd1_neq1(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opd1_neq1", v, 1u);
    d[17] = (d[17] & 0xfffffeffu) | (v << 8);
}

static inline void bd_set_opt_opd3_const(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("bd.opt_opd3_const", v, 1u);
    d[17] = (d[17] & 0xfffffdffu) | (v << 9);
}

static inline void bd_set_rsvd0(uint32_t *d, uint32_t v) {
    if (v > 4194303u) fw_field_overflow("bd.rsvd0", v, 4194303u);
    d[17] = (d[17] & 0x000003ffu) | (v << 10);
}

static inline void bd_set_res0_addr(uint32_t *d, uint32_t v) {
    d[18] = v;
}

static inline void bd_set_opd0_addr(uint32_t *d, uint32_t v) {
    d[19] = v;
}

static inline void bd_set_opd1_addr(uint32_t *d, uint32_t v) {
    d[20] = v;
}

static inline void bd_set_opd2_addr(uint32_t *d, uint32_t v) {
    d[21] = v;
}

static inline void bd_set_res0_h_str(uint32_t *d, uint32_t v) {
    d[22] = v;
}

static inline void bd_set_res0_w_str(uint32_t *d, uint32_t v) {
    d[23] = v;
}

static inline void bd_set_opd0_h_str(uint32_t *d, uint32_t v) {
    d[24] = v;
}

static inline void bd_set_opd0_w_str(uint32_t *d, uint32_t v) {
    d[25] = v;
}

static inline void bd_set_opd1_h_str(uint32_t *d, uint32_t v) {
    d[26] = v;
}

static inline void bd_set_opd1_w_str(uint32_t *d, uint32_t v) {
    d[27] = v;
}

static inline void bd_set_opd2_h_str(uint32_t *d, uint32_t v) {
    d[28] = v;
}

static inline void bd_set_opd2_w_str(uint32_t *d, uint32_t v) {
    d[29] = v;
}

static inline void bd_set_res1_addr(uint32_t *d, uint32_t v) {
    d[30] = v;
}

static inline void bd_set_opd3_addr(uint32_t *d, uint32_t v) {
    d[31] = v;
}

/* Sets all words: the vendor encoder's values of fields that an instruction does not use. */
static inline void bd_defaults(uint32_t *d) {
    static const uint32_t words[32] = {
        0x00000005u, 0x14008000u, 0x10002496u, 0x40000000u, 0xffffffc4u, 0xffffffffu,
        0x0040007fu, 0x00040004u, 0x40040004u, 0x40004000u, 0x00400400u, 0x00000040u,
        0x00004000u, 0x00100002u, 0x04000080u, 0x00002000u, 0x00080001u, 0x00000000u,
        0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u, 0x00000001u, 0x00000001u,
        0x00000001u, 0x00000001u, 0x00000001u, 0x00000001u, 0x00000001u, 0x00000001u,
        0x00000000u, 0x00000000u,
    };
    for (int i = 0; i < 32; i++) d[i] = words[i];
}

#define GDMA_PIO_GDMA_ENABLE_OFFSET 0
#define GDMA_PIO_GDMA_ENABLE_WIDTH 1
#define GDMA_DES_TYPE_OFFSET 1
#define GDMA_DES_TYPE_WIDTH 1
#define GDMA_CHAIN_END_OFFSET 2
#define GDMA_CHAIN_END_WIDTH 1
#define GDMA_INTR_EN_OFFSET 3
#define GDMA_INTR_EN_WIDTH 1
#define GDMA_BARRIER_ENABLE_OFFSET 4
#define GDMA_BARRIER_ENABLE_WIDTH 1
#define GDMA_STRIDE_ENABLE_OFFSET 5
#define GDMA_STRIDE_ENABLE_WIDTH 1
#define GDMA_DIRECTION_OFFSET 6
#define GDMA_DIRECTION_WIDTH 2
#define GDMA_ACC_WRITE_ENABLE_OFFSET 8
#define GDMA_ACC_WRITE_ENABLE_WIDTH 1
#define GDMA_COMMON_MODE_OFFSET 9
#define GDMA_COMMON_MODE_WIDTH 1
#define GDMA_PREFETCH_DISABLE_OFFSET 10
#define GDMA_PREFETCH_DISABLE_WIDTH 1
#define GDMA_HOLD_DES_VALUE_OFFSET 11
#define GDMA_HOLD_DES_VALUE_WIDTH 1
#define GDMA_RESERVED_OFFSET 12
#define GDMA_RESERVED_WIDTH 4
#define GDMA_CMD_ID_OFFSET 16
#define GDMA_CMD_ID_WIDTH 16
#define GDMA_SPECIAL_FUNC_OFFSET 32
#define GDMA_SPECIAL_FUNC_WIDTH 3
#define GDMA_DST_DATA_FORMAT_OFFSET 35
#define GDMA_DST_DATA_FORMAT_WIDTH 3
#define GDMA_CHW_COPY_OFFSET 38
#define GDMA_CHW_COPY_WIDTH 1
#define GDMA_SYS_MEM_TYPE_OFFSET 39
#define GDMA_SYS_MEM_TYPE_WIDTH 1
#define GDMA_SRC_DATA_FORMAT_OFFSET 40
#define GDMA_SRC_DATA_FORMAT_WIDTH 3
#define GDMA_LRN_SHIFT_NUM_OFFSET 43
#define GDMA_LRN_SHIFT_NUM_WIDTH 4
#define GDMA_LRN_SHIFT_DIR_OFFSET 47
#define GDMA_LRN_SHIFT_DIR_WIDTH 1
#define GDMA_ENG0_SYNC_ID_OFFSET 48
#define GDMA_ENG0_SYNC_ID_WIDTH 16
#define GDMA_ENG1_SYNC_ID_OFFSET 64
#define GDMA_ENG1_SYNC_ID_WIDTH 16
#define GDMA_ENG3_SYNC_ID_OFFSET 80
#define GDMA_ENG3_SYNC_ID_WIDTH 16
#define GDMA_CONSTANT_VALUE_OFFSET 96
#define GDMA_CONSTANT_VALUE_WIDTH 32
#define GDMA_SRC_NSTRIDE_OFFSET 128
#define GDMA_SRC_NSTRIDE_WIDTH 32
#define GDMA_SRC_CSTRIDE_OFFSET 160
#define GDMA_SRC_CSTRIDE_WIDTH 32
#define GDMA_SRC_HSTRIDE_OFFSET 192
#define GDMA_SRC_HSTRIDE_WIDTH 32
#define GDMA_SRC_WSTRIDE_OFFSET 224
#define GDMA_SRC_WSTRIDE_WIDTH 32
#define GDMA_DST_NSTRIDE_OFFSET 256
#define GDMA_DST_NSTRIDE_WIDTH 32
#define GDMA_DST_CSTRIDE_OFFSET 288
#define GDMA_DST_CSTRIDE_WIDTH 32
#define GDMA_DST_HSTRIDE_OFFSET 320
#define GDMA_DST_HSTRIDE_WIDTH 32
#define GDMA_DST_WSTRIDE_OFFSET 352
#define GDMA_DST_WSTRIDE_WIDTH 32
#define GDMA_SRC_NSIZE_OFFSET 384
#define GDMA_SRC_NSIZE_WIDTH 16
#define GDMA_SRC_CSIZE_OFFSET 400
#define GDMA_SRC_CSIZE_WIDTH 16
#define GDMA_SRC_HSIZE_OFFSET 416
#define GDMA_SRC_HSIZE_WIDTH 16
#define GDMA_SRC_WSIZE_OFFSET 432
#define GDMA_SRC_WSIZE_WIDTH 16
#define GDMA_DST_NSIZE_OFFSET 448
#define GDMA_DST_NSIZE_WIDTH 16
#define GDMA_DST_CSIZE_OFFSET 464
#define GDMA_DST_CSIZE_WIDTH 16
#define GDMA_DST_HSIZE_OFFSET 480
#define GDMA_DST_HSIZE_WIDTH 16
#define GDMA_DST_WSIZE_OFFSET 496
#define GDMA_DST_WSIZE_WIDTH 16
#define GDMA_SRC_START_ADDR_L32_OFFSET 512
#define GDMA_SRC_START_ADDR_L32_WIDTH 32
#define GDMA_DST_START_ADDR_L32_OFFSET 544
#define GDMA_DST_START_ADDR_L32_WIDTH 32
#define GDMA_SRC_START_ADDR_H8_OFFSET 576
#define GDMA_SRC_START_ADDR_H8_WIDTH 8
#define GDMA_DST_START_ADDR_H8_OFFSET 584
#define GDMA_DST_START_ADDR_H8_WIDTH 8
#define GDMA_SRC_HSHIFT_OFFSET 592
#define GDMA_SRC_HSHIFT_WIDTH 24
#define GDMA_SRC_WSHIFT_OFFSET 616
#define GDMA_SRC_WSHIFT_WIDTH 8
#define GDMA_DST_HSHIFT_OFFSET 624
#define GDMA_DST_HSHIFT_WIDTH 8
#define GDMA_DST_WSHIFT_OFFSET 632
#define GDMA_DST_WSHIFT_WIDTH 8
#define GDMA_LOCALMEM_MASK_L32_OFFSET 640
#define GDMA_LOCALMEM_MASK_L32_WIDTH 32
#define GDMA_LOCALMEM_MASK_H32_OFFSET 672
#define GDMA_LOCALMEM_MASK_H32_WIDTH 32
#define GDMA_SINGLE_STEP_OFFSET 704
#define GDMA_SINGLE_STEP_WIDTH 1
#define GDMA_DEBUG_MODE_OFFSET 705
#define GDMA_DEBUG_MODE_WIDTH 1

static inline void gdma_set_pio_gdma_enable(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.pio_gdma_enable", v, 1u);
    d[0] = (d[0] & 0xfffffffeu) | (v);
}

static inline void gdma_set_des_type(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.des_type", v, 1u);
    d[0] = (d[0] & 0xfffffffdu) | (v << 1);
}

static inline void gdma_set_chain_end(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.chain_end", v, 1u);
    d[0] = (d[0] & 0xfffffffbu) | (v << 2);
}

static inline void gdma_set_intr_en(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.intr_en", v, 1u);
    d[0] = (d[0] & 0xfffffff7u) | (v << 3);
}

static inline void gdma_set_barrier_enable(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.barrier_enable", v, 1u);
    d[0] = (d[0] & 0xffffffefu) | (v << 4);
}

static inline void gdma_set_stride_enable(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.stride_enable", v, 1u);
    d[0] = (d[0] & 0xffffffdfu) | (v << 5);
}

static inline void gdma_set_direction(uint32_t *d, uint32_t v) {
    if (v > 3u) fw_field_overflow("gdma.direction", v, 3u);
    d[0] = (d[0] & 0xffffff3fu) | (v << 6);
}

static inline void gdma_set_acc_write_enable(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.acc_write_enable", v, 1u);
    d[0] = (d[0] & 0xfffffeffu) | (v << 8);
}

static inline void gdma_set_common_mode(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.common_mode", v, 1u);
    d[0] = (d[0] & 0xfffffdffu) | (v << 9);
}

static inline void gdma_set_prefetch_disable(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.prefetch_disable", v, 1u);
    d[0] = (d[0] & 0xfffffbffu) | (v << 10);
}

static inline void gdma_set_hold_des_value(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.hold_des_value", v, 1u);
    d[0] = (d[0] & 0xfffff7ffu) | (v << 11);
}

static inline void gdma_set_reserved(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("gdma.reserved", v, 15u);
    d[0] = (d[0] & 0xffff0fffu) | (v << 12);
}

static inline void gdma_set_cmd_id(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.cmd_id", v, 65535u);
    d[0] = (d[0] & 0x0000ffffu) | (v << 16);
}

static inline void gdma_set_special_func(uint32_t *d, uint32_t v) {
    if (v > 7u) fw_field_overflow("gdma.special_func", v, 7u);
    d[1] = (d[1] & 0xfffffff8u) | (v);
}

static inline void gdma_set_dst_data_format(uint32_t *d, uint32_t v) {
    if (v > 7u) fw_field_overflow("gdma.dst_data_format", v, 7u);
    d[1] = (d[1] & 0xffffffc7u) | (v << 3);
}

static inline void gdma_set_chw_copy(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.chw_copy", v, 1u);
    d[1] = (d[1] & 0xffffffbfu) | (v << 6);
}

static inline void gdma_set_sys_mem_type(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.sys_mem_type", v, 1u);
    d[1] = (d[1] & 0xffffff7fu) | (v << 7);
}

static inline void gdma_set_src_data_format(uint32_t *d, uint32_t v) {
    if (v > 7u) fw_field_overflow("gdma.src_data_format", v, 7u);
    d[1] = (d[1] & 0xfffff8ffu) | (v << 8);
}

static inline void gdma_set_lrn_shift_num(uint32_t *d, uint32_t v) {
    if (v > 15u) fw_field_overflow("gdma.lrn_shift_num", v, 15u);
    d[1] = (d[1] & 0xffff87ffu) | (v << 11);
}

static inline void gdma_set_lrn_shift_dir(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.lrn_shift_dir", v, 1u);
    d[1] = (d[1] & 0xffff7fffu) | (v << 15);
}

static inline void gdma_set_eng0_sync_id(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.eng0_sync_id", v, 65535u);
    d[1] = (d[1] & 0x0000ffffu) | (v << 16);
}

static inline void gdma_set_eng1_sync_id(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.eng1_sync_id", v, 65535u);
    d[2] = (d[2] & 0xffff0000u) | (v);
}

static inline void gdma_set_eng3_sync_id(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.eng3_sync_id", v, 65535u);
    d[2] = (d[2] & 0x0000ffffu) | (v << 16);
}

static inline void gdma_set_constant_value(uint32_t *d, uint32_t v) {
    d[3] = v;
}

static inline void gdma_set_src_nstride(uint32_t *d, uint32_t v) {
    d[4] = v;
}

static inline void gdma_set_src_cstride(uint32_t *d, uint32_t v) {
    d[5] = v;
}

static inline void gdma_set_src_hstride(uint32_t *d, uint32_t v) {
    d[6] = v;
}

static inline void gdma_set_src_wstride(uint32_t *d, uint32_t v) {
    d[7] = v;
}

static inline void gdma_set_dst_nstride(uint32_t *d, uint32_t v) {
    d[8] = v;
}

static inline void gdma_set_dst_cstride(uint32_t *d, uint32_t v) {
    d[9] = v;
}

static inline void gdma_set_dst_hstride(uint32_t *d, uint32_t v) {
    d[10] = v;
}

static inline void gdma_set_dst_wstride(uint32_t *d, uint32_t v) {
    d[11] = v;
}

static inline void gdma_set_src_nsize(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.src_nsize", v, 65535u);
    d[12] = (d[12] & 0xffff0000u) | (v);
}

static inline void gdma_set_src_csize(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.src_csize", v, 65535u);
    d[12] = (d[12] & 0x0000ffffu) | (v << 16);
}

static inline void gdma_set_src_hsize(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.src_hsize", v, 65535u);
    d[13] = (d[13] & 0xffff0000u) | (v);
}

static inline void gdma_set_src_wsize(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.src_wsize", v, 65535u);
    d[13] = (d[13] & 0x0000ffffu) | (v << 16);
}

static inline void gdma_set_dst_nsize(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.dst_nsize", v, 65535u);
    d[14] = (d[14] & 0xffff0000u) | (v);
}

static inline void gdma_set_dst_csize(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.dst_csize", v, 65535u);
    d[14] = (d[14] & 0x0000ffffu) | (v << 16);
}

static inline void gdma_set_dst_hsize(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.dst_hsize", v, 65535u);
    d[15] = (d[15] & 0xffff0000u) | (v);
}

static inline void gdma_set_dst_wsize(uint32_t *d, uint32_t v) {
    if (v > 65535u) fw_field_overflow("gdma.dst_wsize", v, 65535u);
    d[15] = (d[15] & 0x0000ffffu) | (v << 16);
}

static inline void gdma_set_src_start_addr_l32(uint32_t *d, uint32_t v) {
    d[16] = v;
}

static inline void gdma_set_dst_start_addr_l32(uint32_t *d, uint32_t v) {
    d[17] = v;
}

static inline void gdma_set_src_start_addr_h8(uint32_t *d, uint32_t v) {
    if (v > 255u) fw_field_overflow("gdma.src_start_addr_h8", v, 255u);
    d[18] = (d[18] & 0xffffff00u) | (v);
}

static inline void gdma_set_dst_start_addr_h8(uint32_t *d, uint32_t v) {
    if (v > 255u) fw_field_overflow("gdma.dst_start_addr_h8", v, 255u);
    d[18] = (d[18] & 0xffff00ffu) | (v << 8);
}

static inline void gdma_set_src_hshift(uint32_t *d, uint32_t v) {
    if (v > 16777215u) fw_field_overflow("gdma.src_hshift", v, 16777215u);
    d[18] = (d[18] & 0x0000ffffu) | ((v & 0xffffu) << 16);
    d[19] = (d[19] & 0xffffff00u) | ((v >> 16));
}

static inline void gdma_set_src_wshift(uint32_t *d, uint32_t v) {
    if (v > 255u) fw_field_overflow("gdma.src_wshift", v, 255u);
    d[19] = (d[19] & 0xffff00ffu) | (v << 8);
}

static inline void gdma_set_dst_hshift(uint32_t *d, uint32_t v) {
    if (v > 255u) fw_field_overflow("gdma.dst_hshift", v, 255u);
    d[19] = (d[19] & 0xff00ffffu) | (v << 16);
}

static inline void gdma_set_dst_wshift(uint32_t *d, uint32_t v) {
    if (v > 255u) fw_field_overflow("gdma.dst_wshift", v, 255u);
    d[19] = (d[19] & 0x00ffffffu) | (v << 24);
}

static inline void gdma_set_localmem_mask_l32(uint32_t *d, uint32_t v) {
    d[20] = v;
}

static inline void gdma_set_localmem_mask_h32(uint32_t *d, uint32_t v) {
    d[21] = v;
}

static inline void gdma_set_single_step(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.single_step", v, 1u);
    d[22] = (d[22] & 0xfffffffeu) | (v);
}

static inline void gdma_set_debug_mode(uint32_t *d, uint32_t v) {
    if (v > 1u) fw_field_overflow("gdma.debug_mode", v, 1u);
    d[22] = (d[22] & 0xfffffffdu) | (v << 1);
}

/* Sets all words: the vendor encoder's values of fields that an instruction does not use. */
static inline void gdma_defaults(uint32_t *d) {
    static const uint32_t words[32] = {
        0x00000411u, 0x00000800u, 0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u,
        0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u,
        0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u,
        0x00000000u, 0x00000000u, 0xffffffffu, 0xffffffffu, 0x00000000u, 0x00000000u,
        0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u,
        0x00000000u, 0x00000000u,
    };
    for (int i = 0; i < 32; i++) d[i] = words[i];
}

#endif
