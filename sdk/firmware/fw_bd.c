/* Descriptors of the BD engine: checks of operands and the arithmetic instructions. */
#include "fw_bd.h"

/* ---- rules ---- */

void fw_bd_check_stride(const dim4 *stride, const char *which) {
    if (stride == NULL) return;
    if (stride->n < 0 || stride->c < 0)
        fw_refuse("%s stride [%d, %d, %d, %d] has a negative entry", which, stride->n, stride->c, stride->h,
                  stride->w);
    if (stride->h < 0 || stride->w < 0)
        fw_warn("%s stride [%d, %d, %d, %d] leads backwards", which, stride->n, stride->c, stride->h, stride->w);
}

void fw_bd_check_address(local_addr_t addr, const char *which) {
    if (addr >= CHIP_NPU_NUM * CHIP_LOCAL_BYTES)
        fw_refuse("%s address 0x%x is over the 32 MiB of local memory", which, (unsigned)addr);
    if (addr % 4 != 0) fw_refuse("%s address 0x%x is not a multiple of 4", which, (unsigned)addr);
}

void fw_bd_check_tensor(operand t, operand dst, const char *which) {
    if (t.constant) return;
    fw_bd_check_address(t.value, which);
    int npu = okk_start_npu_index(t.value), dst_npu = okk_start_npu_index(dst.value);
    if (npu != dst_npu)
        fw_warn("%s starts on NPU %d and the destination on NPU %d; they should start on the same", which, npu,
                dst_npu);
    fw_bd_check_stride(t.stride, which);
}

void fw_bd_check_work(operand work, operand dst) {
    if (work.value == dst.value)
        fw_warn("the work buffer at 0x%x is also the destination", (unsigned)work.value);
}

dim4 fw_bd_stride(operand t, const dim4 *shape) {
    dim4 stride;
    if (t.stride != NULL) return *t.stride;
    fw_aligned_stride(&stride, okk_start_npu_index(t.value), shape, 4);
    return stride;
}

/* ---- AR: tensor arithmetic ---- */

/* The layout of sources whose strides are left out: aligned from dst's NPU on, whichever they start on. */
static dim4 dst_aligned(operand dst, const dim4 *shape) { return fw_bd_stride(tensor(dst.value, NULL), shape); }

static operand laid_out(operand src, const dim4 *same) {
    if (!src.constant && src.stride == NULL) src.stride = same;
    return src;
}

static const dim4 repeat = {0, 0, 0, 0};

static void set_result(uint32_t *d, operand dst, const dim4 *shape) {
    dim4 s = fw_bd_stride(dst, shape);
    bd_set_res0_addr(d, field_value(dst));
    bd_set_short_res0_str(d, BD_STRIDE_EXPLICIT);
    bd_set_res0_n_str(d, (uint32_t)s.n);
    bd_set_res0_c_str(d, (uint32_t)s.c);
    bd_set_res0_h_str(d, (uint32_t)s.h);
    bd_set_res0_w_str(d, (uint32_t)s.w);
}

static void set_opd0(uint32_t *d, operand t, const dim4 *shape, constant_form form) {
    dim4 s = t.constant ? repeat : fw_bd_stride(t, shape);
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
    dim4 s = t.constant ? repeat : fw_bd_stride(t, shape);
    bd_set_short_opd1_str(d, BD_STRIDE_EXPLICIT);
    bd_set_opd1_n_str(d, (uint32_t)s.n);
    bd_set_opd1_c_str(d, (uint32_t)s.c);
    bd_set_opd1_h_str(d, (uint32_t)s.h);
    bd_set_opd1_w_str(d, (uint32_t)s.w);
}

static void one_ar(arithmetic op, operand dst, operand src0, const operand *src1, const dim4 *shape) {
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
    set_result(d, dst, shape);
    set_opd0(d, src0, shape, op.constants);
    if (src1 != NULL) set_opd1(d, *src1, shape, op.constants);
    if (op.selected != NULL) {
        bd_set_opt_opd2_const(d, 1);
        bd_set_opd2_addr(d, op.selected->value);
    }
    fw_emit_bd(d);
}

/* What the vendor's encoder puts into one instruction: channels in whole rounds of the NPUs, once there are
 * more than the field holds, and the other extents a little below theirs. */
enum { AR_MOST = CHIP_EXTENT_MAX - 16 };

static operand piece_of(operand t, const dim4 *stride, const dim4 *at, const char *which) {
    if (t.constant) return t;
    return tensor(fw_pieces_local(t.value, at, stride, which), stride);
}

void fw_bd_ar(arithmetic op, operand dst, operand src0, const operand *src1, const dim4 *shape) {
    dim4 most = {AR_MOST, shape->c > CHIP_CHANNELS_MAX ? CHIP_CHANNELS_WHOLE : CHIP_CHANNELS_MAX, AR_MOST, AR_MOST};
    const dim4 same = dst_aligned(dst, shape), to = fw_bd_stride(dst, shape);
    const dim4 from0 = fw_bd_stride(laid_out(src0, &same), shape);
    const dim4 from1 = src1 != NULL ? fw_bd_stride(laid_out(*src1, &same), shape) : from0;
    fw_pieces p = fw_pieces_of(shape, &most);
    while (fw_pieces_next(&p)) {
        operand second = src1 != NULL ? piece_of(*src1, &from1, &p.at, "source 1") : bits(0);
        one_ar(op, piece_of(dst, &to, &p.at, "destination"), piece_of(src0, &from0, &p.at, "source 0"),
               src1 != NULL ? &second : NULL, &p.size);
    }
}

void fw_bd_check(operand dst, operand src0, operand src1, const dim4 *shape) {
    fw_check_shape(shape);
    fw_bd_check_tensor(dst, dst, "destination");
    fw_bd_check_tensor(src0, dst, src1.constant ? "source" : "source 0");
    fw_bd_check_tensor(src1, dst, src0.constant ? "source" : "source 1");
}

/* ---- md_*: aligned layouts implied ---- */

void fw_bd_md_scalar(int eu, bool result_add, operand dst, operand src0, operand src1, const dim4 *shape) {
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
void fw_bd_md_linear(operand dst, operand src, operand scale, operand bias, const dim4 *shape) {
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
void fw_bd_md_cmp_begin(uint32_t *d, int eu, operand src0, operand src1, const dim4 *shape) {
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_MD_CMP);
    bd_set_tsk_eu_typ(d, (uint32_t)eu);
    bd_set_tsk_opd_num(d, 0);
    set_result_size(d, shape);
    uint32_t start = (field_value(src0) - CHIP_LOCAL_BASE) / CHIP_LOCAL_BYTES;
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

void fw_bd_md_max(operand dst, operand src0, operand src1, const dim4 *shape) {
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_bd_md_cmp_begin(d, BD_EU_CMP, src0, src1, shape);
    bd_set_res0_addr(d, field_value(dst));
    fw_emit_bd(d);
}

/* src0 > src1 ? select0 : select1 */
void fw_bd_md_select(operand dst, operand src0, operand src1, operand select0, operand select1,
                           const dim4 *shape) {
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_bd_md_cmp_begin(d, BD_EU_SELECT, src0, src1, shape);
    bd_set_res1_addr(d, field_value(dst));
    bd_set_opd2_addr(d, field_value(select0));
    bd_set_opt_opd2_const(d, select0.constant);
    bd_set_opd3_addr(d, field_value(select1));
    bd_set_opt_opd3_const(d, select1.constant);
    fw_emit_bd(d);
}

/* ---- AR on packed elements ---- */

static uint32_t precision_of(int width) { return width == 8 ? BD_PRECISION_INT8 : BD_PRECISION_INT16; }

/* The unit reads packed elements backwards in an order that is not verified. */
static void check_forwards(operand t, const char *which) {
    if (!t.constant && t.stride != NULL && (t.stride->h < 0 || t.stride->w < 0))
        fw_refuse("%s stride [%d, %d, %d, %d] has a negative entry", which, t.stride->n, t.stride->c, t.stride->h,
                  t.stride->w);
}

void fw_bd_fixed(fixed_point op, operand dst, operand src0, operand src1, const dim4 *shape) {
    check_forwards(dst, "destination");
    check_forwards(src0, "source 0");
    check_forwards(src1, "source 1");
    const dim4 same = dst_aligned(dst, shape);
    src0 = laid_out(src0, &same);
    src1 = laid_out(src1, &same);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_ARITHMETIC);
    bd_set_tsk_eu_typ(d, (uint32_t)op.eu);
    bd_set_opt_right_shift(d, (uint32_t)op.rshift);
    bd_set_opt_left_shift(d, (uint32_t)op.lshift);
    bd_set_opt_shift_typ(d, op.shift_typ);
    bd_set_opt_relu(d, 0);
    bd_set_opt_opd0_sign(d, op.src0_signed);
    bd_set_opt_opd1_sign(d, op.src1_signed);
    bd_set_opt_res_add_sign(d, op.old_signed);
    bd_set_opt_res0_prec(d, precision_of(op.dst_bits));
    bd_set_opt_opd0_prec(d, precision_of(op.src0_bits));
    bd_set_opt_opd1_prec(d, precision_of(op.src1_bits));
    set_result_size(d, shape);
    set_result(d, dst, shape);
    set_opd0(d, src0, shape, CONSTANTS_EXPLICIT);
    set_opd1(d, src1, shape, CONSTANTS_EXPLICIT);
    /* one batch for all: with packed batches a stride of 0 does not say so alone */
    bd_set_opd0_neq1(d, (src0.constant ? repeat : fw_bd_stride(src0, shape)).n == 0);
    bd_set_opd1_neq1(d, op.src1_one_batch);
    fw_emit_bd(d);
}

/* ---- md_sfu ---- */

void fw_bd_sfu_begin(uint32_t *d, int eu, local_addr_t dst, local_addr_t src, const dim4 *shape) {
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_MD_SFU);
    bd_set_tsk_eu_typ(d, (uint32_t)eu);
    bool integer = eu == BD_EU_FP32_TO_INT || eu == BD_EU_INT_NORMALIZE;
    bd_set_opt_res0_prec(d, integer ? BD_PRECISION_INT32 : BD_PRECISION_FP32);
    set_result_size(d, shape);
    bd_set_res0_addr(d, CHIP_LOCAL_BASE + dst);
    bd_set_opd0_addr(d, CHIP_LOCAL_BASE + src);
}
