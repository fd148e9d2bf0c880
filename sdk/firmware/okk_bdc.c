/* okk.h: arithmetic by the BD engine on 32-bit elements.
 *
 * The vendor's encoder has two forms for most fp32 functions. When all tensors have the aligned layout
 * and start at multiples of 128, the md_* instructions run, which imply their strides; otherwise the
 * tensor arithmetic instruction (AR) runs, with explicit strides.
 */
#include "fw_internal.h"

#include <string.h>

#include "bm1684_fields.h"

/* A tensor in local memory, or a constant. */
typedef struct {
    bool constant;
    uint32_t value; /* address without the memory's base, or the constant's bits */
    const dim4 *stride;
} operand;

static operand tensor(local_addr_t addr, const dim4 *stride) { return (operand){false, addr, stride}; }
static operand bits(uint32_t value) { return (operand){true, value, NULL}; }

static uint32_t float_bits(float value) {
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    return u;
}

static operand number(float value) { return bits(float_bits(value)); }

/* ---- rules ---- */

static void check_tensor(operand t, operand dst, const char *which) {
    if (t.constant) return;
    if (t.value >= FW_NPU_NUM * FW_LOCAL_BYTES)
        fw_refuse("%s address 0x%x is over the 32 MiB of local memory", which, (unsigned)t.value);
    if (t.value % 4 != 0) fw_refuse("%s address 0x%x is not a multiple of 4", which, (unsigned)t.value);
    int npu = okk_start_npu_index(t.value), dst_npu = okk_start_npu_index(dst.value);
    if (npu != dst_npu)
        fw_refuse("%s starts on NPU %d and the destination on NPU %d; they must start on the same", which, npu,
                  dst_npu);
    const dim4 *s = t.stride;
    if (s != NULL && (s->n < 0 || s->c < 0 || s->h < 0 || s->w < 0))
        fw_refuse("%s stride [%d, %d, %d, %d] has a negative entry", which, s->n, s->c, s->h, s->w);
}

static bool aligned(operand t) { return t.constant || (t.stride == NULL && t.value % 128 == 0); }

/* What goes into an address field. */
static uint32_t field_value(operand t) { return t.constant ? t.value : FW_LOCAL_BASE + t.value; }

static dim4 stride_of(operand t, const dim4 *shape) {
    dim4 stride;
    if (t.stride != NULL) return *t.stride;
    fw_aligned_stride(&stride, okk_start_npu_index(t.value), shape, 4);
    return stride;
}

static void set_result_size(uint32_t *d, const dim4 *shape) {
    bd_set_res0_n(d, (uint32_t)shape->n);
    bd_set_res0_c(d, (uint32_t)shape->c);
    bd_set_res0_h(d, (uint32_t)shape->h);
    bd_set_res0_w(d, (uint32_t)shape->w);
}

/* ---- AR: tensor arithmetic ---- */

/* How the vendor's encoder fills the strides of a constant operand, which the chip does not read. */
typedef enum {
    CONSTANTS_IMPLICIT, /* opd0: 0 and short 0; opd1: 1 and short 0 */
    CONSTANTS_EXPLICIT  /* 0 and short 3, as for a tensor */
} constant_form;

typedef struct {
    int eu;
    int precision;
    int operands;
    bool shift_typ;
    constant_form constants;
    const operand *selected; /* opd2, a constant */
} arithmetic;

static const dim4 repeat = {0, 0, 0, 0};

static void set_opd0(uint32_t *d, operand t, const dim4 *shape, constant_form form) {
    dim4 s = t.constant ? repeat : stride_of(t, shape);
    bd_set_opd0_addr(d, field_value(t));
    bd_set_opt_opd0_const(d, t.constant);
    bd_set_short_opd0_str(d, t.constant && form == CONSTANTS_IMPLICIT ? BD_STRIDE_ALIGNED : BD_STRIDE_EXPLICIT);
    bd_set_opd0_n_str(d, (uint32_t)s.n);
    bd_set_opd0_c_str(d, (uint32_t)s.c);
    bd_set_opd0_h_str(d, (uint32_t)s.h);
    bd_set_opd0_w_str(d, (uint32_t)s.w);
}

static void set_opd1(uint32_t *d, operand t, const dim4 *shape, constant_form form) {
    bd_set_opd1_addr(d, field_value(t));
    bd_set_opt_opd1_const(d, t.constant);
    if (t.constant && form == CONSTANTS_IMPLICIT) return;
    dim4 s = t.constant ? repeat : stride_of(t, shape);
    bd_set_short_opd1_str(d, BD_STRIDE_EXPLICIT);
    bd_set_opd1_n_str(d, (uint32_t)s.n);
    bd_set_opd1_c_str(d, (uint32_t)s.c);
    bd_set_opd1_h_str(d, (uint32_t)s.h);
    bd_set_opd1_w_str(d, (uint32_t)s.w);
}

static void emit_ar(arithmetic op, operand dst, operand src0, const operand *src1, const dim4 *shape) {
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_ARITHMETIC);
    bd_set_tsk_eu_typ(d, (uint32_t)op.eu);
    bd_set_tsk_opd_num(d, (uint32_t)op.operands);
    bd_set_opt_shift_typ(d, op.shift_typ);
    bd_set_opt_res0_prec(d, (uint32_t)op.precision);
    bd_set_opt_opd0_prec(d, (uint32_t)op.precision);
    bd_set_opt_opd1_prec(d, (uint32_t)op.precision);
    bd_set_opt_opd2_prec(d, (uint32_t)op.precision);
    set_result_size(d, shape);
    dim4 s = stride_of(dst, shape);
    bd_set_res0_addr(d, field_value(dst));
    bd_set_short_res0_str(d, BD_STRIDE_EXPLICIT);
    bd_set_res0_n_str(d, (uint32_t)s.n);
    bd_set_res0_c_str(d, (uint32_t)s.c);
    bd_set_res0_h_str(d, (uint32_t)s.h);
    bd_set_res0_w_str(d, (uint32_t)s.w);
    set_opd0(d, src0, shape, op.constants);
    if (src1 != NULL) set_opd1(d, *src1, shape, op.constants);
    if (op.selected != NULL) {
        bd_set_opt_opd2_const(d, 1);
        bd_set_opd2_addr(d, op.selected->value);
    }
    fw_emit_bd(d);
}

static void check_operands(operand dst, operand src0, operand src1, const dim4 *shape) {
    fw_check_shape(shape);
    check_tensor(dst, dst, "destination");
    check_tensor(src0, dst, src1.constant ? "source" : "source 0");
    check_tensor(src1, dst, src0.constant ? "source" : "source 1");
}

static const arithmetic FP32 = {.precision = BD_PRECISION_FP32, .operands = 2};
static const arithmetic INT32 = {.precision = BD_PRECISION_INT32, .operands = 2};

static arithmetic with_eu(arithmetic op, int eu) {
    op.eu = eu;
    return op;
}

/* ---- md_*: aligned layouts implied ---- */

static void emit_md_scalar(int eu, bool result_add, operand dst, operand src0, operand src1, const dim4 *shape) {
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_MD_SCALAR);
    bd_set_tsk_eu_typ(d, (uint32_t)eu);
    bd_set_opt_res_add(d, result_add);
    set_result_size(d, shape);
    bd_set_res0_addr(d, field_value(dst));
    bd_set_opd0_addr(d, field_value(src0));
    bd_set_opt_opd0_const(d, src0.constant);
    bd_set_opd1_addr(d, field_value(src1));
    bd_set_opt_opd1_const(d, src1.constant);
    fw_emit_bd(d);
}

/* src * scale + bias; scale and bias hold one word per channel. */
static void emit_md_linear(operand dst, operand src, operand scale, operand bias, const dim4 *shape) {
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_MD_LINEAR);
    bd_set_tsk_eu_typ(d, BD_EU_MAC);
    bd_set_tsk_opd_num(d, 3);
    set_result_size(d, shape);
    bd_set_res0_addr(d, field_value(dst));
    bd_set_opd0_addr(d, field_value(src));
    bd_set_opd1_addr(d, field_value(bias));
    bd_set_opt_opd1_const(d, bias.constant);
    bd_set_opd2_addr(d, field_value(scale));
    bd_set_opt_opd2_const(d, scale.constant);
    fw_emit_bd(d);
}

/* The strides of md_cmp's first operand are written out. The vendor's encoder takes the start NPU
 * from the field's value even when that is a constant; nobody reads the strides then, so one that does
 * not fit its field becomes 0 instead of an error. */
static void begin_md_cmp(uint32_t *d, int eu, operand src0, operand src1, const dim4 *shape) {
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_MD_CMP);
    bd_set_tsk_eu_typ(d, (uint32_t)eu);
    bd_set_tsk_opd_num(d, 0);
    set_result_size(d, shape);
    uint32_t start = (field_value(src0) - FW_LOCAL_BASE) / FW_LOCAL_BYTES;
    dim4 stride;
    fw_aligned_stride(&stride, (int)start, shape, 4);
    if (shape->n == 1) stride.n = 0;
    if (src0.constant && stride.n >= 1 << BD_OPD0_N_STR_WIDTH) stride.n = 0;
    bd_set_opd0_n_str(d, (uint32_t)stride.n);
    bd_set_opd0_c_str(d, (uint32_t)stride.c);
    bd_set_opd0_h_str(d, (uint32_t)stride.h);
    bd_set_opd0_addr(d, field_value(src0));
    bd_set_opt_opd0_const(d, src0.constant);
    bd_set_opd1_addr(d, field_value(src1));
    bd_set_opt_opd1_const(d, src1.constant);
}

static void emit_md_max(operand dst, operand src0, operand src1, const dim4 *shape) {
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin_md_cmp(d, BD_EU_CMP, src0, src1, shape);
    bd_set_res0_addr(d, field_value(dst));
    fw_emit_bd(d);
}

/* src0 > src1 ? select0 : select1 */
static void emit_md_select(operand dst, operand src0, operand src1, operand select0, operand select1,
                           const dim4 *shape) {
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin_md_cmp(d, BD_EU_SELECT, src0, src1, shape);
    bd_set_res1_addr(d, field_value(dst));
    bd_set_opd2_addr(d, field_value(select0));
    bd_set_opt_opd2_const(d, select0.constant);
    bd_set_opd3_addr(d, field_value(select1));
    bd_set_opt_opd3_const(d, select1.constant);
    fw_emit_bd(d);
}

/* ---- fp32: the form is chosen here ---- */

static void binary(int eu, operand dst, operand src0, operand src1, const dim4 *shape) {
    check_operands(dst, src0, src1, shape);
    bool md = aligned(dst) && aligned(src0) && aligned(src1);
    if (md && eu == BD_EU_MAX)
        emit_md_max(dst, src0, src1, shape);
    else if (md && eu == BD_EU_MAC)
        emit_md_scalar(BD_EU_MUL, true, dst, src0, src1, shape);
    else if (md && eu != BD_EU_MIN)
        emit_md_scalar(eu, false, dst, src0, src1, shape);
    else
        emit_ar(with_eu(FP32, eu), dst, src0, &src1, shape);
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
    check_operands(dst, src, scale, shape);
    check_tensor(bias, dst, "bias");
    if (aligned(dst) && aligned(src)) {
        emit_md_linear(dst, src, scale, bias, shape);
        return;
    }
    if (!scale.constant) {
        emit_ar(with_eu(FP32, BD_EU_MUL), dst, src, &scale, shape);
        src = dst;
    }
    if (!bias.constant) emit_ar(with_eu(FP32, BD_EU_ADD), dst, src, &bias, shape);
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
    check_operands(dst, src, bits(0), shape);
    arithmetic copy = with_eu(FP32, BD_EU_COPY);
    copy.operands = 1;
    copy.shift_typ = true;
    emit_ar(copy, dst, src, NULL, shape);
}

static void binary_32bit(int eu, operand dst, operand src0, operand src1, const dim4 *shape) {
    check_operands(dst, src0, src1, shape);
    emit_ar(with_eu(INT32, eu), dst, src0, &src1, shape);
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
    check_operands(dst, src0, src1, shape);
    if (src1.constant && ((int32_t)src1.value < -32 || (int32_t)src1.value > 32))
        fw_refuse("shift count %d is outside -32..32", (int)src1.value);
    arithmetic op = with_eu(INT32, BD_EU_SHIFT);
    op.shift_typ = arithmetic_shift;
    op.constants = CONSTANTS_EXPLICIT;
    emit_ar(op, dst, src0, &src1, shape);
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
    check_operands(dst, src0, src1, shape);
    operand selected = bits(value.u32);
    arithmetic op = with_eu(FP32, eu);
    op.operands = 3;
    op.constants = CONSTANTS_EXPLICIT;
    op.selected = &selected;
    emit_ar(op, dst, src0, &src1, shape);
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
    check_tensor(t, dst, which);
    if (!aligned(t)) fw_refuse("%s address 0x%x is not a multiple of 128", which, (unsigned)t.value);
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
    emit_md_select(dst, a, b, yes, no, shape);
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
    emit_md_select(dst, b, a, no, yes, shape);
    emit_md_select(dst, a, b, no, dst, shape);
}
