/* okk.h: arithmetic on packed 8-bit (4N) and 16-bit (2N) elements. */
#include "fw_bd.h"

#define SHIFT_MAX 31
#define LEFT_SHIFT_MAX 14
#define LEFT_SHIFT_KNOWN 16 /* the model's results beyond are not verified */

/* op_type_t and mul_type_t are made of these bits. */
enum { SRC_8BIT = 1, SRC0_SIGNED = 2, SRC1_SIGNED = 4, DST_8BIT = 8, DST_SIGNED = 16 };
enum { MUL_SRC0_SIGNED = 1, MUL_SRC1_SIGNED = 2, MUL_DST_SIGNED = 4 };

static void check_constant(operand t, int width, bool is_signed) {
    if (!t.constant) return;
    int32_t value = (int32_t)t.value, low = is_signed ? -(1 << (width - 1)) : 0;
    int32_t high = (1 << (is_signed ? width - 1 : width)) - 1;
    if (value < low || value > high)
        fw_warn("constant %d is outside %d..%d, the range of its %s %d-bit type: its low bits count", (int)value,
                (int)low, (int)high, is_signed ? "signed" : "unsigned", width);
}

/* What op_type says of an operation on these sources. */
static fixed_point of_type(int eu, op_type_t op_type, operand src0, operand src1) {
    unsigned t = (unsigned)op_type;
    /* a result of signed sources is never called unsigned */
    if (t > 31 || (!(t & DST_SIGNED) && (t & (SRC0_SIGNED | SRC1_SIGNED))))
        fw_warn("op_type %u does not exist: its low bits count, and a signed source makes the result signed", t);
    int source_bits = t & SRC_8BIT ? 8 : 16;
    check_constant(src0, source_bits, (t & SRC0_SIGNED) != 0);
    check_constant(src1, source_bits, (t & SRC1_SIGNED) != 0);
    return (fixed_point){.eu = eu,
                         .src0_bits = source_bits,
                         .src1_bits = source_bits,
                         .dst_bits = t & DST_8BIT ? 8 : 16,
                         .src0_signed = (t & SRC0_SIGNED) != 0,
                         .src1_signed = (t & SRC1_SIGNED) != 0};
}

static fixed_point shifted_right(fixed_point op, int rshift) {
    if (rshift < 0 || rshift > SHIFT_MAX) fw_refuse("rshift %d is outside 0..%d", rshift, SHIFT_MAX);
    op.rshift = rshift;
    return op;
}

static void run(fixed_point op, operand dst, operand src0, operand src1, const dim4 *shape) {
    fw_bd_check(dst, src0, src1, shape);
    fw_bd_fixed(op, dst, src0, src1, shape);
}

/* ---- add, sub, mul ---- */

static void sum(int eu, op_type_t op_type, int rshift, operand dst, operand src0, operand src1,
                const dim4 *shape) {
    run(shifted_right(of_type(eu, op_type, src0, src1), rshift), dst, src0, src1, shape);
}

static void product(op_type_t op_type, int rshift, operand dst, operand src0, operand src1, const dim4 *shape) {
    fixed_point op = shifted_right(of_type(BD_EU_MUL, op_type, src0, src1), rshift);
    if (op.src0_bits != 8) fw_refuse("the sources of a product are 8-bit; op_type %u is not", (unsigned)op_type);
    run(op, dst, src0, src1, shape);
}

#define SUM(NAME, EU)                                                                                        \
    void okk_bdc_fixed_point_packed_##NAME(local_addr_t dst_addr, local_addr_t src0_addr,                   \
                                           local_addr_t src1_addr, const dim4 *shape,                        \
                                           const dim4 *dst_stride, const dim4 *src0_stride,                  \
                                           const dim4 *src1_stride, op_type_t op_type, int rshift) {         \
        FW_ENTER();                                                                                          \
        sum(EU, op_type, rshift, tensor(dst_addr, dst_stride), tensor(src0_addr, src0_stride),               \
            tensor(src1_addr, src1_stride), shape);                                                          \
    }                                                                                                        \
    void okk_bdc_fixed_point_packed_##NAME##_C(local_addr_t dst_addr, local_addr_t src_addr, int C,         \
                                               const dim4 *shape, const dim4 *dst_stride,                    \
                                               const dim4 *src_stride, op_type_t op_type, int rshift) {      \
        FW_ENTER();                                                                                          \
        sum(EU, op_type, rshift, tensor(dst_addr, dst_stride), tensor(src_addr, src_stride),                 \
            bits((uint32_t)C), shape);                                                                       \
    }

SUM(add, BD_EU_ADD)
SUM(sub, BD_EU_SUB)

void okk_bdc_fixed_point_packed_C_sub(local_addr_t dst_addr, local_addr_t src_addr, int C, const dim4 *shape,
                                      const dim4 *dst_stride, const dim4 *src_stride, op_type_t op_type,
                                      int rshift) {
    FW_ENTER();
    sum(BD_EU_SUB, op_type, rshift, tensor(dst_addr, dst_stride), bits((uint32_t)C),
        tensor(src_addr, src_stride), shape);
}

void okk_bdc_fixed_point_packed_mul(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                                    const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, op_type_t op_type, int rshift) {
    FW_ENTER();
    product(op_type, rshift, tensor(dst_addr, dst_stride), tensor(src0_addr, src0_stride),
            tensor(src1_addr, src1_stride), shape);
}

void okk_bdc_fixed_point_packed_mul_C(local_addr_t dst_addr, local_addr_t src_addr, int C, const dim4 *shape,
                                      const dim4 *dst_stride, const dim4 *src_stride, op_type_t op_type,
                                      int rshift) {
    FW_ENTER();
    product(op_type, rshift, tensor(dst_addr, dst_stride), tensor(src_addr, src_stride), bits((uint32_t)C), shape);
}

/* ---- mac: adds to the old 16-bit result ---- */

static void accumulate(op_type_t op_type, bool old_signed, int lshift, int rshift, operand dst, operand src0,
                       operand src1, const dim4 *shape) {
    fixed_point op = shifted_right(of_type(BD_EU_MAC, op_type, src0, src1), rshift);
    if (lshift < 0 || lshift > LEFT_SHIFT_KNOWN) fw_refuse("lshift %d is outside 0..%d", lshift, LEFT_SHIFT_MAX);
    if (lshift > LEFT_SHIFT_MAX) fw_warn("lshift %d is over %d", lshift, LEFT_SHIFT_MAX);
    if (op.src0_bits != 8) fw_warn("op_type %u has 16-bit sources; those of a product are 8-bit", (unsigned)op_type);
    op.dst_bits = 16;
    op.src0_bits = op.src1_bits = 8;
    op.lshift = lshift;
    op.old_signed = old_signed;
    run(op, dst, src0, src1, shape);
}

void okk_bdc_fixed_point_packed_mac(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                                    const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, bool is_origin_dst_signed, op_type_t op_type,
                                    int lshift, int rshift) {
    FW_ENTER();
    accumulate(op_type, is_origin_dst_signed, lshift, rshift, tensor(dst_addr, dst_stride),
               tensor(src0_addr, src0_stride), tensor(src1_addr, src1_stride), shape);
}

void okk_bdc_fixed_point_packed_mac_C(local_addr_t dst_addr, local_addr_t src_addr, int C, const dim4 *shape,
                                      const dim4 *dst_stride, const dim4 *src_stride,
                                      bool is_origin_dst_signed, op_type_t op_type, int lshift, int rshift) {
    FW_ENTER();
    accumulate(op_type, is_origin_dst_signed, lshift, rshift, tensor(dst_addr, dst_stride),
               tensor(src_addr, src_stride), bits((uint32_t)C), shape);
}

/* ---- max, min ---- */

static void extremum(int eu, op_type_t op_type, operand dst, operand src0, operand src1, const dim4 *shape) {
    fixed_point op = of_type(eu, op_type, src0, src1);
    if (op.src0_signed != op.src1_signed)
        fw_refuse("both sources are signed or both unsigned here; op_type %u is not so", (unsigned)op_type);
    run(op, dst, src0, src1, shape);
}

#define EXTREMUM(NAME, EU)                                                                                   \
    void okk_bdc_fixed_point_packed_##NAME(local_addr_t dst_addr, local_addr_t src0_addr,                   \
                                           local_addr_t src1_addr, const dim4 *shape,                        \
                                           const dim4 *dst_stride, const dim4 *src0_stride,                  \
                                           const dim4 *src1_stride, op_type_t op_type) {                     \
        FW_ENTER();                                                                                          \
        extremum(EU, op_type, tensor(dst_addr, dst_stride), tensor(src0_addr, src0_stride),                  \
                 tensor(src1_addr, src1_stride), shape);                                                     \
    }                                                                                                        \
    void okk_bdc_fixed_point_packed_##NAME##_C(local_addr_t dst_addr, local_addr_t src_addr, int C,         \
                                               const dim4 *shape, const dim4 *dst_stride,                    \
                                               const dim4 *src_stride, op_type_t op_type) {                  \
        FW_ENTER();                                                                                          \
        extremum(EU, op_type, tensor(dst_addr, dst_stride), tensor(src_addr, src_stride),                    \
                 bits((uint32_t)C), shape);                                                                  \
    }

EXTREMUM(max, BD_EU_MAX)
EXTREMUM(min, BD_EU_MIN)

/* ---- 16-bit shifts ---- */

static fixed_point shift_of(bool arithmetic_shift) {
    return (fixed_point){.eu = BD_EU_SHIFT,
                         .src0_bits = 16,
                         .src1_bits = 16,
                         .dst_bits = 16,
                         .src0_signed = arithmetic_shift,
                         .src1_signed = true,
                         .shift_typ = arithmetic_shift};
}

static void shift(bool arithmetic_shift, operand dst, operand src0, operand src1, const dim4 *shape) {
    if (src1.constant && ((int32_t)src1.value < -16 || (int32_t)src1.value > 16))
        fw_warn("shift count %d is outside -16..16", (int)src1.value);
    run(shift_of(arithmetic_shift), dst, src0, src1, shape);
}

#define SHIFT(NAME, ARITHMETIC, CTYPE)                                                                       \
    void okk_bdc_fixed_point_packed_16bit_##NAME(local_addr_t dst_addr, local_addr_t src0_addr,             \
                                                 local_addr_t src1_addr, const dim4 *shape,                  \
                                                 const dim4 *dst_stride, const dim4 *src0_stride,            \
                                                 const dim4 *src1_stride) {                                  \
        FW_ENTER();                                                                                          \
        shift(ARITHMETIC, tensor(dst_addr, dst_stride), tensor(src0_addr, src0_stride),                      \
              tensor(src1_addr, src1_stride), shape);                                                        \
    }                                                                                                        \
    void okk_bdc_fixed_point_packed_16bit_##NAME##_C(local_addr_t dst_addr, local_addr_t src_addr, short C, \
                                                     const dim4 *shape, const dim4 *dst_stride,              \
                                                     const dim4 *src_stride) {                               \
        FW_ENTER();                                                                                          \
        shift(ARITHMETIC, tensor(dst_addr, dst_stride), tensor(src_addr, src_stride),                        \
              bits((uint32_t)(int32_t)C), shape);                                                            \
    }                                                                                                        \
    void okk_bdc_fixed_point_packed_16bit_C_##NAME(local_addr_t dst_addr, local_addr_t src_addr, CTYPE C,   \
                                                   const dim4 *shape, const dim4 *dst_stride,                \
                                                   const dim4 *src_stride) {                                 \
        FW_ENTER();                                                                                          \
        shift(ARITHMETIC, tensor(dst_addr, dst_stride), bits((uint32_t)(int32_t)C),                          \
              tensor(src_addr, src_stride), shape);                                                          \
    }

SHIFT(arithmetic_shift, true, short)
SHIFT(logical_shift, false, unsigned short)

/* ---- 16-bit elements as a high and a low byte ---- */

static void word_op(int eu, operand dst, operand src0, operand src1, const dim4 *shape) {
    dim4 words = *shape;
    words.n = shape->n / 2 + shape->n % 2;
    fw_bd_ar(with_eu(INT32, eu), dst, src0, &src1, &words);
}

/* Half up in both directions: (v - 128 + 128) >> 8. */
static void split_high(operand dst, operand src, const dim4 *shape) {
    fixed_point op = {.eu = BD_EU_ADD, .src0_bits = 16, .src1_bits = 16, .dst_bits = 8, .rshift = 8};
    op.src0_signed = op.src1_signed = true;
    fw_bd_fixed(op, dst, src, bits((uint32_t)-128), shape);
}

static void split_low(operand dst, operand src, operand work, const dim4 *shape) {
    word_op(BD_EU_AND, work, src, bits(0x00FF00FFu), shape);
    fixed_point op = {.eu = BD_EU_ADD, .src0_bits = 16, .src1_bits = 16, .dst_bits = 8};
    fw_bd_fixed(op, dst, work, bits(0), shape);
}

void okk_bdc_fixed_point_packed_16bit_split_high_8bit(local_addr_t dst_addr, local_addr_t src_addr,
                                                      const dim4 *shape, const dim4 *dst_stride,
                                                      const dim4 *src_stride) {
    FW_ENTER();
    operand dst = tensor(dst_addr, dst_stride), src = tensor(src_addr, src_stride);
    fw_bd_check(dst, src, bits(0), shape);
    split_high(dst, src, shape);
}

void okk_bdc_fixed_point_packed_16bit_split_low_8bit(local_addr_t dst_addr, local_addr_t src_addr,
                                                     local_addr_t work_addr, const dim4 *shape,
                                                     const dim4 *dst_stride, const dim4 *src_stride,
                                                     const dim4 *work_stride) {
    FW_ENTER();
    operand dst = tensor(dst_addr, dst_stride), src = tensor(src_addr, src_stride);
    operand work = tensor(work_addr, work_stride);
    fw_bd_check(dst, src, bits(0), shape);
    fw_bd_check_tensor(work, dst, "work");
    fw_bd_check_work(work, dst);
    split_low(dst, src, work, shape);
}

/* high * src1, then (low * src1 + (that << 8) + half) >> rshift */
static void product_of_parts(unsigned mul_type, int rshift, operand dst, operand high, operand low, operand src1,
                             const dim4 *shape) {
    fixed_point op = {.eu = BD_EU_MUL, .src0_bits = 8, .src1_bits = 8, .dst_bits = 16};
    op.src0_signed = (mul_type & MUL_SRC0_SIGNED) != 0;
    op.src1_signed = (mul_type & MUL_SRC1_SIGNED) != 0;
    fw_bd_fixed(op, dst, high, src1, shape);
    op = shifted_right(op, rshift);
    op.eu = BD_EU_MAC;
    op.src0_signed = false;
    op.lshift = 8;
    op.old_signed = (mul_type & MUL_DST_SIGNED) != 0;
    fw_bd_fixed(op, dst, low, src1, shape);
}

void okk_bdc_fixed_point_packed_16bit_mul_8bit(local_addr_t dst_addr, local_addr_t src0_high_addr,
                                               local_addr_t src0_low_addr, local_addr_t src1_addr,
                                               const dim4 *shape, const dim4 *dst_stride,
                                               const dim4 *src0_high_stride, const dim4 *src0_low_stride,
                                               const dim4 *src1_stride, mul_type_t mul_type, int rshift) {
    FW_ENTER();
    operand dst = tensor(dst_addr, dst_stride), high = tensor(src0_high_addr, src0_high_stride);
    operand low = tensor(src0_low_addr, src0_low_stride), src1 = tensor(src1_addr, src1_stride);
    fw_bd_check(dst, high, low, shape);
    fw_bd_check_tensor(src1, dst, "source 1");
    (void)shifted_right((fixed_point){0}, rshift);
    /* the vendor's function does nothing for other types, and does not say so */
    if (mul_type == S16_MUL_U8_TO_S16) {
        fw_warn("nothing is issued for S16_MUL_U8_TO_S16; use okk_bdc_fixed_point_packed_s16_mul_u8_to_s16");
        return;
    }
    if (mul_type != S16_MUL_S8_TO_S16 && mul_type != U16_MUL_S8_TO_S16 && mul_type != U16_MUL_U8_TO_U16) {
        fw_warn("mul_type %u does not exist, and nothing is issued", (unsigned)mul_type);
        return;
    }
    product_of_parts((unsigned)mul_type, rshift, dst, high, low, src1, shape);
}

static fixed_point signed_16bit(int eu) {
    return (fixed_point){
        .eu = eu, .src0_bits = 16, .src1_bits = 16, .dst_bits = 16, .src0_signed = true, .src1_signed = true};
}

/* |src0| * src1 from the high and low bytes, then the sign of src0 back: d - 2 * (d & mask). */
void okk_bdc_fixed_point_packed_s16_mul_u8_to_s16(
    local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr, local_addr_t work_addr,
    local_addr_t work_high_addr, local_addr_t work_low_addr, const dim4 *shape, const dim4 *dst_stride,
    const dim4 *src0_stride, const dim4 *src1_stride, const dim4 *work_stride, const dim4 *work_high_stride,
    const dim4 *work_low_stride, int rshift) {
    FW_ENTER();
    operand dst = tensor(dst_addr, dst_stride), src0 = tensor(src0_addr, src0_stride);
    operand src1 = tensor(src1_addr, src1_stride), work = tensor(work_addr, work_stride);
    operand high = tensor(work_high_addr, work_high_stride), low = tensor(work_low_addr, work_low_stride);
    fw_bd_check(dst, src0, src1, shape);
    fw_bd_check_tensor(work, dst, "work");
    fw_bd_check_tensor(high, dst, "high work");
    fw_bd_check_tensor(low, dst, "low work");
    (void)shifted_right((fixed_point){0}, rshift);

    fw_bd_fixed(signed_16bit(BD_EU_MAX), dst, src0, bits(0), shape);
    fw_bd_fixed(signed_16bit(BD_EU_MIN), work, src0, bits(0), shape);
    fw_bd_fixed(signed_16bit(BD_EU_SUB), dst, dst, work, shape);
    split_high(high, dst, shape);
    split_low(low, dst, dst, shape);
    product_of_parts(0, rshift, dst, high, low, src1, shape);
    fixed_point limit = signed_16bit(BD_EU_MIN);
    limit.src0_signed = limit.src1_signed = false;
    fw_bd_fixed(limit, dst, dst, bits(0x7FFF), shape);
    word_op(BD_EU_AND, work, src0, bits(0x80008000u), shape);
    fw_bd_fixed(shift_of(false), work, work, bits((uint32_t)-15), shape);
    fw_bd_fixed(signed_16bit(BD_EU_SUB), work, work, bits(1), shape);
    word_op(BD_EU_XOR, work, work, bits(0xFFFFFFFFu), shape);
    word_op(BD_EU_AND, work, dst, work, shape);
    fw_bd_fixed(signed_16bit(BD_EU_SUB), dst, dst, work, shape);
    fw_bd_fixed(signed_16bit(BD_EU_SUB), dst, dst, work, shape);
}
