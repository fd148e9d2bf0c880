/* okk.h: arithmetic by the BD engine on 32-bit elements.
 *
 * The vendor's encoder has two forms for most fp32 functions. When all tensors have the aligned layout
 * and start at multiples of 128, the md_* instructions run, which imply their strides; otherwise the
 * tensor arithmetic instruction (AR) runs, with explicit strides.
 */
#include "fw_bd.h"

/* ---- fp32: the form is chosen here ---- */

static void binary(int eu, operand dst, operand src0, operand src1, const dim4 *shape) {
    fw_bd_check(dst, src0, src1, shape);
    bool md = aligned(dst) && aligned(src0) && aligned(src1);
    if (md && eu == BD_EU_MAX)
        fw_bd_md_max(dst, src0, src1, shape);
    else if (md && eu == BD_EU_MAC)
        fw_bd_md_scalar(BD_EU_MUL, true, dst, src0, src1, shape);
    else if (md && eu != BD_EU_MIN)
        fw_bd_md_scalar(eu, false, dst, src0, src1, shape);
    else
        fw_bd_ar(with_eu(FP32, eu), dst, src0, &src1, shape);
}

#define BINARY(NAME, EU)                                                                                     \
    void okk_bdc_##NAME(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,              \
                        const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,                 \
                        const dim4 *src1_stride) {                                                           \
        FW_ENTER();                                                                                          \
        binary(EU, tensor(dst_addr, dst_stride), tensor(src0_addr, src0_stride),                             \
               tensor(src1_addr, src1_stride), shape);                                                       \
    }

#define BINARY_C(NAME, EU)                                                                                   \
    void okk_bdc_##NAME##_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,       \
                            const dim4 *dst_stride, const dim4 *src_stride) {                                \
        FW_ENTER();                                                                                          \
        binary(EU, tensor(dst_addr, dst_stride), tensor(src_addr, src_stride), number(C), shape);            \
    }

#define C_BINARY(NAME, EU)                                                                                   \
    void okk_bdc_C_##NAME(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,         \
                          const dim4 *dst_stride, const dim4 *src_stride) {                                  \
        FW_ENTER();                                                                                          \
        binary(EU, tensor(dst_addr, dst_stride), number(C), tensor(src_addr, src_stride), shape);            \
    }

BINARY(add, BD_EU_ADD)
BINARY_C(add, BD_EU_ADD)
BINARY(sub, BD_EU_SUB)
BINARY_C(sub, BD_EU_SUB)
C_BINARY(sub, BD_EU_SUB)
BINARY(mul, BD_EU_MUL)
BINARY_C(mul, BD_EU_MUL)
BINARY(div, BD_EU_DIV)
BINARY_C(div, BD_EU_DIV)
C_BINARY(div, BD_EU_DIV)
BINARY(mac, BD_EU_MAC)
BINARY_C(mac, BD_EU_MAC)
BINARY(max, BD_EU_MAX)
BINARY_C(max, BD_EU_MAX)
BINARY(min, BD_EU_MIN)
BINARY_C(min, BD_EU_MIN)

void okk_bdc_relu(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape, const dim4 *dst_stride,
                  const dim4 *src_stride) {
    FW_ENTER();
    binary(BD_EU_MAX, tensor(dst_addr, dst_stride), tensor(src_addr, src_stride), number(0.0f), shape);
}

void okk_bdc_reciprocal(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                        const dim4 *dst_stride, const dim4 *src_stride) {
    FW_ENTER();
    binary(BD_EU_DIV, tensor(dst_addr, dst_stride), number(1.0f), tensor(src_addr, src_stride), shape);
}

void okk_bdc_neg(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape, const dim4 *dst_stride,
                 const dim4 *src_stride) {
    FW_ENTER();
    binary(BD_EU_SUB, tensor(dst_addr, dst_stride), number(0.0f), tensor(src_addr, src_stride), shape);
}

/* ---- bias and scale: one word per channel, compact ---- */

static const dim4 per_channel = {0, 1, 0, 0};

/* The form depends on dst and src alone. */
static void linear(operand dst, operand src, operand scale, operand bias, const dim4 *shape) {
    fw_bd_check(dst, src, scale, shape);
    fw_bd_check_tensor(bias, dst, "bias");
    if (aligned(dst) && aligned(src)) {
        fw_bd_md_linear(dst, src, scale, bias, shape);
        return;
    }
    if (!scale.constant) {
        fw_bd_ar(with_eu(FP32, BD_EU_MUL), dst, src, &scale, shape);
        src = dst;
    }
    if (!bias.constant) fw_bd_ar(with_eu(FP32, BD_EU_ADD), dst, src, &bias, shape);
}

void okk_bdc_bias(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t bias_addr, const dim4 *shape,
                  const dim4 *dst_stride, const dim4 *src_stride) {
    FW_ENTER();
    linear(tensor(dst_addr, dst_stride), tensor(src_addr, src_stride), number(1.0f),
           tensor(bias_addr, &per_channel), shape);
}

void okk_bdc_scale(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t scale_addr, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride) {
    FW_ENTER();
    linear(tensor(dst_addr, dst_stride), tensor(src_addr, src_stride), tensor(scale_addr, &per_channel),
           number(0.0f), shape);
}

void okk_bdc_scale_bias(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t scale_addr,
                        local_addr_t bias_addr, const dim4 *shape, const dim4 *dst_stride,
                        const dim4 *src_stride) {
    FW_ENTER();
    linear(tensor(dst_addr, dst_stride), tensor(src_addr, src_stride), tensor(scale_addr, &per_channel),
           tensor(bias_addr, &per_channel), shape);
}

/* ---- 32-bit: always AR ---- */

void okk_bdc_32bit_cpy(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape, const dim4 *dst_stride,
                       const dim4 *src_stride) {
    FW_ENTER();
    operand dst = tensor(dst_addr, dst_stride), src = tensor(src_addr, src_stride);
    fw_bd_check(dst, src, bits(0), shape);
    arithmetic copy = with_eu(FP32, BD_EU_COPY);
    copy.operands = 1;
    copy.shift_typ = true;
    fw_bd_ar(copy, dst, src, NULL, shape);
}

static void binary_32bit(int eu, operand dst, operand src0, operand src1, const dim4 *shape) {
    fw_bd_check(dst, src0, src1, shape);
    fw_bd_ar(with_eu(INT32, eu), dst, src0, &src1, shape);
}

void okk_bdc_32bit_set_C(local_addr_t dst_addr, x32 C, const dim4 *shape, const dim4 *dst_stride) {
    FW_ENTER();
    binary_32bit(BD_EU_OR, tensor(dst_addr, dst_stride), bits(0), bits(C.u32), shape);
}

#define LOGIC(NAME, EU)                                                                                      \
    void okk_bdc_32bit_##NAME(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,        \
                              const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,           \
                              const dim4 *src1_stride) {                                                     \
        FW_ENTER();                                                                                          \
        binary_32bit(EU, tensor(dst_addr, dst_stride), tensor(src0_addr, src0_stride),                       \
                     tensor(src1_addr, src1_stride), shape);                                                 \
    }                                                                                                        \
    void okk_bdc_32bit_##NAME##_C(local_addr_t dst_addr, local_addr_t src_addr, x32 C, const dim4 *shape,   \
                                  const dim4 *dst_stride, const dim4 *src_stride) {                          \
        FW_ENTER();                                                                                          \
        binary_32bit(EU, tensor(dst_addr, dst_stride), tensor(src_addr, src_stride), bits(C.u32), shape);    \
    }

LOGIC(and, BD_EU_AND)
LOGIC(or, BD_EU_OR)
LOGIC(xor, BD_EU_XOR)

static void shift(bool arithmetic_shift, operand dst, operand src0, operand src1, const dim4 *shape) {
    fw_bd_check(dst, src0, src1, shape);
    if (src1.constant && ((int32_t)src1.value < -32 || (int32_t)src1.value > 32))
        fw_warn("shift count %d is outside -32..32", (int)src1.value);
    arithmetic op = with_eu(INT32, BD_EU_SHIFT);
    op.shift_typ = arithmetic_shift;
    op.constants = CONSTANTS_EXPLICIT;
    fw_bd_ar(op, dst, src0, &src1, shape);
}

#define SHIFT(NAME, ARITHMETIC, CTYPE)                                                                       \
    void okk_bdc_32bit_##NAME(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,        \
                              const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,           \
                              const dim4 *src1_stride) {                                                     \
        FW_ENTER();                                                                                          \
        shift(ARITHMETIC, tensor(dst_addr, dst_stride), tensor(src0_addr, src0_stride),                      \
              tensor(src1_addr, src1_stride), shape);                                                        \
    }                                                                                                        \
    void okk_bdc_32bit_##NAME##_C(local_addr_t dst_addr, local_addr_t src_addr, int C, const dim4 *shape,   \
                                  const dim4 *dst_stride, const dim4 *src_stride) {                          \
        FW_ENTER();                                                                                          \
        shift(ARITHMETIC, tensor(dst_addr, dst_stride), tensor(src_addr, src_stride), bits((uint32_t)C),     \
              shape);                                                                                        \
    }                                                                                                        \
    void okk_bdc_32bit_C_##NAME(local_addr_t dst_addr, local_addr_t src_addr, CTYPE C, const dim4 *shape,   \
                                const dim4 *dst_stride, const dim4 *src_stride) {                            \
        FW_ENTER();                                                                                          \
        shift(ARITHMETIC, tensor(dst_addr, dst_stride), bits((uint32_t)C), tensor(src_addr, src_stride),     \
              shape);                                                                                        \
    }

SHIFT(arithmetic_shift, true, int)
SHIFT(logical_shift, false, unsigned int)

/* ---- selection ---- */

static void select_value(int eu, operand dst, operand src0, operand src1, x32 value, const dim4 *shape) {
    fw_bd_check(dst, src0, src1, shape);
    operand selected = bits(value.u32);
    arithmetic op = with_eu(FP32, eu);
    op.operands = 3;
    op.constants = CONSTANTS_EXPLICIT;
    op.selected = &selected;
    fw_bd_ar(op, dst, src0, &src1, shape);
}

#define SELECT_VALUE(NAME, EU)                                                                               \
    void okk_bdc_##NAME##_select_value(local_addr_t dst_addr, local_addr_t src0_addr,                       \
                                       local_addr_t src1_addr, x32 select_val, const dim4 *shape,           \
                                       const dim4 *dst_stride, const dim4 *src0_stride,                     \
                                       const dim4 *src1_stride) {                                            \
        FW_ENTER();                                                                                          \
        select_value(EU, tensor(dst_addr, dst_stride), tensor(src0_addr, src0_stride),                       \
                     tensor(src1_addr, src1_stride), select_val, shape);                                     \
    }                                                                                                        \
    void okk_bdc_##NAME##_C_select_value(local_addr_t dst_addr, local_addr_t src_addr, float C,             \
                                         x32 select_val, const dim4 *shape, const dim4 *dst_stride,         \
                                         const dim4 *src_stride) {                                           \
        FW_ENTER();                                                                                          \
        select_value(EU, tensor(dst_addr, dst_stride), tensor(src_addr, src_stride), number(C), select_val,  \
                     shape);                                                                                 \
    }

SELECT_VALUE(greater, BD_EU_SELECT_GT)
SELECT_VALUE(equal, BD_EU_SELECT_EQ)

void okk_bdc_C_greater_select_value(local_addr_t dst_addr, local_addr_t src_addr, float C, x32 select_val,
                                    const dim4 *shape, const dim4 *dst_stride, const dim4 *src_stride) {
    FW_ENTER();
    select_value(BD_EU_SELECT_GT, tensor(dst_addr, dst_stride), number(C), tensor(src_addr, src_stride),
                 select_val, shape);
}

static operand of_fp32(const fp32_or_addr_t *o) {
    if (o == NULL) fw_refuse("an operand is NULL");
    return o->is_addr ? tensor(o->context.addr, NULL) : number(o->context.val);
}

static operand of_x32(const x32_or_addr_t *o) {
    if (o == NULL) fw_refuse("an operand is NULL");
    return o->is_addr ? tensor(o->context.addr, NULL) : bits(o->context.val.u32);
}

static void check_aligned(operand t, operand dst, const char *which) {
    fw_bd_check_tensor(t, dst, which);
    if (!aligned(t))
        fw_refuse("%s address 0x%x is not a multiple of %d", which, (unsigned)t.value, CHIP_ALIGN_BYTES);
}

static void check_select(operand dst, operand src0, operand src1, operand select0, operand select1,
                         const dim4 *shape) {
    fw_check_shape(shape);
    check_aligned(dst, dst, "destination");
    check_aligned(src0, dst, "source 0");
    check_aligned(src1, dst, "source 1");
    check_aligned(select0, dst, "select 0");
    check_aligned(select1, dst, "select 1");
}

void okk_bdc_greater_select(local_addr_t dst_addr, const fp32_or_addr_t *src0, const fp32_or_addr_t *src1,
                            const x32_or_addr_t *select0, const x32_or_addr_t *select1, const dim4 *shape) {
    FW_ENTER();
    operand dst = tensor(dst_addr, NULL), a = of_fp32(src0), b = of_fp32(src1);
    operand yes = of_x32(select0), no = of_x32(select1);
    check_select(dst, a, b, yes, no, shape);
    fw_bd_md_select(dst, a, b, yes, no, shape);
}

/* Equal means neither is greater: two comparisons. */
void okk_bdc_equal_select(local_addr_t dst_addr, const fp32_or_addr_t *src0, const fp32_or_addr_t *src1,
                          const x32_or_addr_t *select0, const x32_or_addr_t *select1, const dim4 *shape) {
    FW_ENTER();
    operand dst = tensor(dst_addr, NULL), a = of_fp32(src0), b = of_fp32(src1);
    operand yes = of_x32(select0), no = of_x32(select1);
    if (a.constant != b.constant)
        fw_refuse("one source is a tensor, the other a constant; okk_bdc_equal_C_select_value compares these");
    check_select(dst, a, b, yes, no, shape);
    fw_bd_md_select(dst, b, a, no, yes, shape);
    fw_bd_md_select(dst, a, b, no, dst, shape);
}
