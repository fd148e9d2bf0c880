/* okk.h: special functions, table lookups and the sequences built of them, and conversions from and to
 * packed 8-bit integers.
 */
#include "fw_bd.h"
#include "fw_sequence.h"

/* Tables in L2, as offsets there; what they hold is in firmware_sim/l2_tables.py. */
#define TABLE_EXP (CHIP_L2_TABLE_OFFSET + 0x400u)     /* e^i, index an 8-bit integer */
#define TABLE_TAYLOR (CHIP_L2_TABLE_OFFSET + 0xc00u)  /* 1 / (k + 1)! */
#define TABLE_INT_FP32 (CHIP_L2_TABLE_OFFSET + 0x1300u) /* i as fp32 */
#define TABLE_BLOCKS 8u         /* 256 words */
#define SERIES_DEFAULT 32
#define SERIES_MAX 64

static void check_pair(operand dst, operand src, const dim4 *shape) {
    fw_bd_check(dst, src, bits(0), shape);
    fw_check_aligned(dst.value, "destination");
    fw_check_aligned(src.value, "source");
}

static void check_series(int num_series) {
    if (num_series < 1) fw_refuse("num_series %d is outside 1..%d", num_series, SERIES_MAX);
    if (num_series > SERIES_MAX) fw_warn("num_series %d is over %d", num_series, SERIES_MAX);
}

static operand at(local_addr_t addr) { return tensor(addr, NULL); }

/* ---- single instructions ---- */

static void sfu(int eu, operand dst, operand src, const dim4 *shape, uint32_t series) {
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_bd_sfu_begin(d, eu, dst.value, src.value, shape);
    if (series != 0) {
        bd_set_opd1_n(d, series);
        bd_set_opd1_addr(d, TABLE_TAYLOR);
    }
    fw_emit_bd(d);
}

static void lookup(operand dst, operand src, uint32_t table, const dim4 *shape) {
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_TABLE_LOOKUP);
    set_result_size(d, shape);
    bd_set_res0_addr(d, field_value(dst));
    bd_set_opd0_addr(d, field_value(src));
    bd_set_opd1_h(d, TABLE_BLOCKS);
    bd_set_opd1_addr(d, table);
    fw_emit_bd(d);
}

static void truncate(operand dst, operand src, const dim4 *shape) { sfu(BD_EU_FP32_TO_INT, dst, src, shape, 0); }

void okk_bdc_fp32_to_int32(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape) {
    FW_ENTER();
    check_pair(at(dst_addr), at(src_addr), shape);
    truncate(at(dst_addr), at(src_addr), shape);
}

void okk_bdc_lookup_int32_to_fp32(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape) {
    FW_ENTER();
    check_pair(at(dst_addr), at(src_addr), shape);
    lookup(at(dst_addr), at(src_addr), TABLE_INT_FP32, shape);
}

void okk_bdc_lookup_exp(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape) {
    FW_ENTER();
    check_pair(at(dst_addr), at(src_addr), shape);
    lookup(at(dst_addr), at(src_addr), TABLE_EXP, shape);
}

void okk_bdc_rsqrt(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape) {
    FW_ENTER();
    check_pair(at(dst_addr), at(src_addr), shape);
    sfu(BD_EU_RSQRT, at(dst_addr), at(src_addr), shape, 0);
}

void okk_bdc_sqrt(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape) {
    FW_ENTER();
    operand dst = at(dst_addr);
    check_pair(dst, at(src_addr), shape);
    sfu(BD_EU_RSQRT, dst, at(src_addr), shape, 0);
    fw_bd_md_scalar(BD_EU_DIV, false, dst, number(1.0f), dst, shape);
}

void okk_bdc_taylor_exp(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape, int num_series) {
    FW_ENTER();
    operand dst = at(dst_addr);
    check_pair(dst, at(src_addr), shape);
    check_series(num_series);
    sfu(BD_EU_TAYLOR, dst, at(src_addr), shape, (uint32_t)num_series);
    fw_bd_md_scalar(BD_EU_ADD, false, dst, dst, number(1.0f), shape);
}

/* ---- sequences ---- */

static void check_sequence(operand dst, operand src, operand work, const dim4 *shape, int num_series) {
    check_pair(dst, src, shape);
    fw_bd_check_tensor(work, dst, "work");
    fw_check_aligned(work.value, "work");
    fw_bd_check_work(work, dst);
    if (work.value == src.value) fw_warn("the work buffer at 0x%x is also the source", (unsigned)work.value);
    check_series(num_series);
}

/* e^src = e^whole * e^rest: the whole part by table, the rest by its Taylor series less 1. */
void fw_exponential(operand dst, operand src, operand work, const dim4 *shape, int num_series) {
    truncate(dst, src, shape);
    lookup(dst, dst, TABLE_INT_FP32, shape);
    fw_bd_md_scalar(BD_EU_SUB, false, work, src, dst, shape);
    truncate(dst, dst, shape);
    lookup(dst, dst, TABLE_EXP, shape);
    sfu(BD_EU_TAYLOR, work, work, shape, (uint32_t)num_series);
    fw_bd_md_scalar(BD_EU_MUL, true, dst, dst, work, shape);
}

void fw_sigmoid(operand dst, operand src, operand work, const dim4 *shape, int num_series) {
    fw_bd_md_scalar(BD_EU_SUB, false, work, number(0.0f), src, shape);
    fw_exponential(dst, work, work, shape, num_series);
    fw_bd_md_scalar(BD_EU_ADD, false, work, dst, number(1.0f), shape);
    fw_bd_md_scalar(BD_EU_DIV, false, dst, number(1.0f), work, shape);
}

/* With e = e^src: 1 - 2 * (1 / e) / (e + 1 / e). */
void fw_tanh(operand dst, operand src, operand work, const dim4 *shape, int num_series) {
    fw_exponential(dst, src, work, shape, num_series);
    fw_bd_md_scalar(BD_EU_DIV, false, work, number(1.0f), dst, shape);
    fw_bd_md_scalar(BD_EU_ADD, false, dst, dst, work, shape);
    fw_bd_md_scalar(BD_EU_DIV, false, work, work, dst, shape);
    fw_bd_md_linear(dst, work, number(-2.0f), number(1.0f), shape);
}

#define SEQUENCE(NAME, FUNCTION)                                                                             \
    void okk_bdc_##NAME##_tunable(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,     \
                                  const dim4 *shape, int num_series) {                                       \
        FW_ENTER();                                                                                          \
        check_sequence(at(dst_addr), at(src_addr), at(work_addr), shape, num_series);                        \
        FUNCTION(at(dst_addr), at(src_addr), at(work_addr), shape, num_series);                              \
    }                                                                                                        \
    void okk_bdc_##NAME(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,               \
                        const dim4 *shape) {                                                                 \
        FW_ENTER();                                                                                          \
        check_sequence(at(dst_addr), at(src_addr), at(work_addr), shape, SERIES_DEFAULT);                    \
        FUNCTION(at(dst_addr), at(src_addr), at(work_addr), shape, SERIES_DEFAULT);                          \
    }

SEQUENCE(exp, fw_exponential)
SEQUENCE(sigmoid, fw_sigmoid)
SEQUENCE(tanh, fw_tanh)

/* ---- 8-bit integers to fp32 ---- */

#define FLIP_SIGNS 0x80808080u    /* v + 128 as an unsigned byte */
#define ONE 0x3F800000u           /* 1.0: with a byte v in its low bits, 1 + v * 2^-23 */
#define ONE_AND_128 0x3F800080u   /* 1 + 128 * 2^-23 */
#define TWO_TO_23 0x4B000000u

static void word_op(int eu, operand dst, operand src, uint32_t value, const dim4 *shape) {
    operand constant = bits(value);
    fw_bd_ar(with_eu(INT32, eu), dst, src, &constant, shape);
}

static void float_op(int eu, operand dst, operand src, uint32_t value, const dim4 *shape) {
    operand constant = bits(value);
    fw_bd_ar(with_eu(FP32, eu), dst, src, &constant, shape);
}

static void copy_words(operand dst, operand src, const dim4 *shape) {
    arithmetic copy = with_eu(FP32, BD_EU_COPY);
    copy.operands = 1;
    copy.shift_typ = true;
    fw_bd_ar(copy, dst, src, NULL, shape);
}

/* Byte k of every word, the bytes above left in place. */
static void take_byte(int k, operand dst, operand src, const dim4 *shape) {
    if (k == 0) {
        word_op(BD_EU_AND, dst, src, 0xFF, shape);
        return;
    }
    operand count = bits((uint32_t)(-8 * k));
    arithmetic shift = with_eu(INT32, BD_EU_SHIFT);
    shift.constants = CONSTANTS_EXPLICIT;
    fw_bd_ar(shift, dst, src, &count, shape);
}

/* Bytes in words become numbers. */
static void bytes_to_numbers(operand dst, const dim4 *shape, bool is_signed) {
    word_op(BD_EU_OR, dst, dst, ONE, shape);
    float_op(BD_EU_SUB, dst, dst, is_signed ? ONE_AND_128 : ONE, shape);
    float_op(BD_EU_MUL, dst, dst, TWO_TO_23, shape);
}

static dim4 layout(local_addr_t addr, const dim4 *shape, bool is_aligned) {
    dim4 stride;
    if (is_aligned)
        fw_aligned_stride(&stride, okk_start_npu_index(addr), shape, 4);
    else
        fw_compact_stride(&stride, okk_start_npu_index(addr), shape);
    return stride;
}

static void check_conversion(operand dst, operand src, operand work, const dim4 *shape) {
    fw_bd_check(dst, src, bits(0), shape);
    fw_bd_check_tensor(work, dst, "work");
    fw_bd_check_work(work, dst);
}

void okk_bdc_4N_int8_to_fp32(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                             const dim4 *shape, bool is_signed, bool is_aligned_layout) {
    FW_ENTER();
    check_conversion(at(dst_addr), at(src_addr), at(work_addr), shape);
    dim4 words = *shape;
    words.n = shape->n / 4 + (shape->n % 4 != 0);
    dim4 stride = layout(dst_addr, shape, is_aligned_layout), every_fourth = stride;
    every_fourth.n *= 4;
    operand dst = tensor(dst_addr, &stride), work = tensor(work_addr, &stride);
    if (src_addr != work_addr) copy_words(work, tensor(src_addr, &stride), &words);
    if (is_signed) word_op(BD_EU_XOR, work, work, FLIP_SIGNS, &words);
    for (int k = 0; k < 4 && k < shape->n; k++) {
        dim4 part = *shape;
        part.n = (shape->n - k + 3) / 4;
        take_byte(k, tensor(dst_addr + (local_addr_t)(k * stride.n) * 4, &every_fourth), work, &part);
    }
    if (shape->n > 1) word_op(BD_EU_AND, dst, dst, 0xFF, shape);
    bytes_to_numbers(dst, shape, is_signed);
}

void okk_bdc_int8_to_fp32(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                          const dim4 *shape, bool is_signed, bool is_aligned_layout) {
    FW_ENTER();
    check_conversion(at(dst_addr), at(src_addr), at(work_addr), shape);
    /* counted wide: every word of dst must fit an NPU's memory, and strides are made of this number */
    if ((int64_t)shape->h * shape->w > CHIP_LOCAL_BYTES / 4)
        fw_refuse("%d x %d pixels of a channel are over the %u bytes of an NPU's local memory", shape->h, shape->w,
                  CHIP_LOCAL_BYTES);
    int pixels = shape->h * shape->w;
    dim4 words = {shape->n, shape->c, 1, (pixels + 3) / 4};
    dim4 from = layout(src_addr, &words, is_aligned_layout), to = layout(dst_addr, shape, is_aligned_layout);
    dim4 spread = {to.n, to.c, 4 * pixels, 4};
    operand dst = tensor(dst_addr, &to), work = tensor(work_addr, &from);
    if (src_addr != work_addr) copy_words(work, tensor(src_addr, &from), &words);
    if (is_signed) word_op(BD_EU_XOR, work, work, FLIP_SIGNS, &words);
    for (int k = 0; k < 4 && k < pixels; k++) {
        dim4 part = words;
        part.w = (pixels - k + 3) / 4;
        take_byte(k, tensor(dst_addr + 4 * (local_addr_t)k, &spread), work, &part);
    }
    if (pixels > 1) word_op(BD_EU_AND, dst, dst, 0xFF, shape);
    bytes_to_numbers(dst, shape, is_signed);
}

/* ---- fp32 to packed 8-bit integers ---- */

void okk_bdc_fp32_to_4N_int8(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                             const dim4 *shape, bool is_signed) {
    FW_ENTER();
    operand dst = at(dst_addr), work = at(work_addr);
    check_pair(dst, at(src_addr), shape);
    fw_bd_check_tensor(work, dst, "work");
    fw_check_aligned(work.value, "work");
    fw_bd_md_max(work, at(src_addr), number(is_signed ? -128.0f : 0.0f), shape);
    float_op(BD_EU_MIN, work, work, float_bits(is_signed ? 127.0f : 255.0f), shape);
    truncate(work, work, shape);
    /* words are pairs of 16-bit elements: narrowed to bytes twice */
    dim4 halves = *shape;
    halves.n *= 2;
    fixed_point narrow = {.eu = BD_EU_ADD, .src0_bits = 16, .src1_bits = 16, .dst_bits = 8};
    narrow.src0_signed = narrow.src1_signed = is_signed;
    operand zero = bits(0);
    fw_bd_fixed(narrow, work, work, zero, &halves);
    fw_bd_fixed(narrow, dst, work, zero, shape);
}
