/* bm_atomic.h: arithmetic on tensors, table lookup, special functions, vector correlation. */
#include "bm_atomic.h"
#include "fw_nn.h"

#define TABLE_BLOCK 32 /* words of a table that one unit of its length field loads */

static dim4 dims(const unsigned int *v) { return (dim4){(int)v[0], (int)v[1], (int)v[2], (int)v[3]}; }

/* Refuses what is not one of the operations in the set, a bit mask of BmAtomicOp. */
static void check_op(BmAtomicOp op, uint32_t set) {
    if ((unsigned)op >= 32 || !(set >> op & 1)) fw_refuse("this function has no operation %d", (int)op);
}

#define OP(name) (1u << BM_##name)
#define PAIRS_OPS (OP(MUL) | OP(ADD) | OP(SUB) | OP(MAX) | OP(MIN) | OP(AND) | OP(OR) | OP(XOR) | OP(DIV))
#define FIXED_OPS                                                                                            \
    (OP(MUL) | OP(MAC) | OP(ADD) | OP(SUB) | OP(MAX) | OP(MIN) | OP(SHIFT) | OP(AND) | OP(OR) | OP(XOR) | OP(CPY))

/* Bitwise operations and shifts work on integers. */
static bool on_integers(BmAtomicOp op) {
    return op == BM_SHIFT || op == BM_AND || op == BM_OR || op == BM_XOR;
}

static void set_precision(uint32_t *d, BmAtomicOp op) {
    if (!on_integers(op)) return;
    bd_set_opt_res0_prec(d, BD_PRECISION_INT32);
    bd_set_opt_opd0_prec(d, BD_PRECISION_INT32);
    bd_set_opt_opd1_prec(d, BD_PRECISION_INT32);
}

/* ---- AR ---- */

static void begin_arithmetic(uint32_t *d, BmAtomicOp op, const dim4 *shape) {
    fw_check_shape(shape);
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_ARITHMETIC);
    bd_set_tsk_eu_typ(d, (uint32_t)op);
    if (op == BM_CPY) bd_set_tsk_opd_num(d, 1);
    set_result_size(d, shape);
}

static void set_result_stride(uint32_t *d, local_addr_t addr, const unsigned int *stride) {
    bd_set_res0_addr(d, fw_nn_local(addr, "output"));
    bd_set_short_res0_str(d, BD_STRIDE_EXPLICIT);
    bd_set_res0_n_str(d, stride[0]);
    bd_set_res0_c_str(d, stride[1]);
    bd_set_res0_h_str(d, stride[2]);
    bd_set_res0_w_str(d, stride[3]);
}

static void set_opd0_stride(uint32_t *d, const unsigned int *stride) {
    bd_set_short_opd0_str(d, BD_STRIDE_EXPLICIT);
    bd_set_opd0_n_str(d, stride[0]);
    bd_set_opd0_c_str(d, stride[1]);
    bd_set_opd0_h_str(d, stride[2]);
    bd_set_opd0_w_str(d, stride[3]);
}

static void set_opd1_stride(uint32_t *d, const unsigned int *stride) {
    bd_set_short_opd1_str(d, BD_STRIDE_EXPLICIT);
    bd_set_opd1_n_str(d, stride[0]);
    bd_set_opd1_c_str(d, stride[1]);
    bd_set_opd1_h_str(d, stride[2]);
    bd_set_opd1_w_str(d, stride[3]);
}

void bm_atomic_tensor_arithmetic(const ArithParam *param) {
    FW_ENTER();
    check_op(param->op, FIXED_OPS | OP(SG) | OP(SE) | OP(DIV));
    dim4 shape = dims(param->shape);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin_arithmetic(d, param->op, &shape);
    set_precision(d, param->op);
    if (on_integers(param->op)) bd_set_opt_opd2_prec(d, BD_PRECISION_INT32);
    bool selects = param->op == BM_SG || param->op == BM_SE;
    if (selects) bd_set_tsk_opd_num(d, 3);
    bd_set_opt_shift_typ(d, param->op == BM_SHIFT ? (uint32_t)param->shift_type : 0);
    bd_set_opt_opd0_const(d, param->input0_is_const);
    bd_set_opt_opd1_const(d, param->input1_is_const);
    bd_set_opt_opd2_const(d, selects);
    bd_set_opd0_addr(d, param->input0_is_const ? float_bits(param->input0_const)
                                               : fw_nn_local(param->input0_addr, "input 0"));
    bd_set_opd1_addr(d, param->input1_is_const ? float_bits(param->input1_const)
                                               : fw_nn_local(param->input1_addr, "input 1"));
    bd_set_opd2_addr(d, float_bits(param->select_value));
    set_result_stride(d, param->output_addr, param->output_stride);
    set_opd0_stride(d, param->input0_stride);
    set_opd1_stride(d, param->input1_stride);
    fw_emit_bd(d);
}

static uint32_t width(bool is_8bit) { return is_8bit ? BD_PRECISION_INT8 : BD_PRECISION_INT16; }

/* Widths and signs that an operation on packed elements takes. */
static void check_packed(const ArithQuantParam *p) {
    check_op(p->op, FIXED_OPS);
    if ((p->op == BM_MUL || p->op == BM_MAC) && !(p->input0_8bit && p->input1_8bit))
        fw_refuse("the sources of a product are 8-bit");
    if (p->op == BM_MAC && p->output_8bit) fw_refuse("products are added to a 16-bit output");
    if (p->op == BM_SHIFT && (p->input0_8bit || p->input1_8bit || p->output_8bit))
        fw_refuse("shifts are on 16-bit elements");
    if (p->op == BM_SHIFT && (!p->input1_sign || (p->shift_type != 0) != p->input0_sign))
        fw_refuse("a shift's counts are signed, and it is arithmetic (shift_type 1) where its source is signed");
    if (p->op != BM_CPY && p->input0_8bit != p->input1_8bit)
        fw_refuse("one source is 8-bit and the other 16-bit; they have one width");
    if ((p->op == BM_AND || p->op == BM_OR || p->op == BM_XOR) && p->input0_8bit != p->output_8bit)
        fw_refuse("bitwise operations have an output of their sources' width");
    if ((p->op == BM_MAX || p->op == BM_MIN) && p->input0_sign != p->input1_sign)
        fw_refuse("both sources of a maximum or minimum are signed or both unsigned");
}

/* A constant is given in the address: the memory's base is added to it, and its low bits count. */
void bm_atomic_tensor_arithmetic_quantized(const ArithQuantParam *param) {
    FW_ENTER();
    check_packed(param);
    dim4 shape = dims(param->shape);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin_arithmetic(d, param->op, &shape);
    bd_set_opt_right_shift(d, param->rshift_bit);
    bd_set_opt_left_shift(d, param->lshift_bit);
    bd_set_opt_shift_typ(d, param->shift_type);
    bd_set_opt_relu(d, 0);
    bd_set_opt_opd0_sign(d, param->input0_sign);
    bd_set_opt_opd1_sign(d, param->input1_sign);
    bd_set_opt_res0_prec(d, width(param->output_8bit));
    bd_set_opt_opd0_prec(d, width(param->input0_8bit));
    bd_set_opt_opd1_prec(d, width(param->input1_8bit));
    bd_set_opt_opd0_const(d, param->input0_is_const);
    bd_set_opt_opd1_const(d, param->input1_is_const);
    bd_set_opd0_addr(d, fw_nn_local(param->input0_addr, "input 0"));
    bd_set_opd1_addr(d, fw_nn_local(param->input1_addr, "input 1"));
    set_result_stride(d, param->output_addr, param->output_stride);
    set_opd0_stride(d, param->input0_stride);
    unsigned int stride[4];
    memcpy(stride, param->input1_stride, sizeof stride);
    if (param->input1_n_is1) stride[0] = 0;
    if (param->input1_h_is1) stride[2] = 0;
    if (param->input1_w_is1) stride[3] = 0;
    set_opd1_stride(d, stride);
    bd_set_opd0_neq1(d, param->input0_stride[0] == 0);
    bd_set_opd1_neq1(d, param->input1_n_is1);
    fw_emit_bd(d);
}

/* ---- aligned layouts ---- */

static uint32_t aligned_local(unsigned int addr, const char *which) {
    fw_check_aligned(addr, which);
    return fw_nn_local(addr, which);
}

static operand of(bool constant, float value, unsigned int addr, const char *which) {
    if (constant) return number(value);
    (void)aligned_local(addr, which);
    return tensor(addr, NULL);
}

void bm_atomic_md_scalar(const MDScalarParam *param) {
    FW_ENTER();
    dim4 shape = dims(param->shape);
    fw_check_shape(&shape);
    check_op(param->op, OP(MUL) | OP(ADD) | OP(SUB) | OP(DIV));
    if (param->op != BM_MUL && param->result_add) fw_refuse("only a product is added to the old result");
    /* the address beside a constant is not read, but the vendor's encoder checks it, too */
    (void)aligned_local(param->input0_addr, "input 0");
    (void)aligned_local(param->input1_addr, "input 1");
    operand dst = of(false, 0, param->output_addr, "output");
    operand a = of(param->input0_is_const, param->input0_const, param->input0_addr, "input 0");
    operand b = of(param->input1_is_const, param->input1_const, param->input1_addr, "input 1");
    fw_bd_md_scalar((int)param->op, param->result_add, dst, a, b, &shape);
}

void bm_atomic_md_linear(const MDLinearParam *param) {
    FW_ENTER();
    check_op(param->op, OP(MAC) | OP(SQR_SUM) | OP(SQR_DIFF));
    dim4 shape = dims(param->shape);
    fw_check_shape(&shape);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_MD_LINEAR);
    bd_set_tsk_eu_typ(d, (uint32_t)param->op);
    if (param->op == BM_MAC) bd_set_tsk_opd_num(d, 3);
    bd_set_opt_res_add(d, param->result_add);
    set_result_size(d, &shape);
    bd_set_res0_addr(d, aligned_local(param->output_addr, "output"));
    bd_set_opd0_addr(d, aligned_local(param->tensorA_addr, "A"));
    bd_set_opt_opd1_const(d, param->tensorB_is_const);
    bd_set_opd1_addr(d, param->tensorB_is_const ? float_bits(param->tensorB_const)
                                                : fw_nn_local(param->tensorB_addr, "B"));
    bd_set_opt_opd2_const(d, param->tensorS_is_const);
    bd_set_opd2_addr(d, param->tensorS_is_const ? float_bits(param->tensorS_const)
                                                : fw_nn_local(param->tensorS_addr, "S"));
    fw_emit_bd(d);
}

static operand word_of(bool constant, unsigned int value, unsigned int addr, const char *which) {
    if (constant) return bits(value);
    (void)aligned_local(addr, which);
    return tensor(addr, NULL);
}

void bm_atomic_md_cmp(const MDCmpParam *param) {
    FW_ENTER();
    static const int eu[] = {BD_EU_CMP_SELECT, BD_EU_CMP, BD_EU_SELECT};
    dim4 shape = dims(param->shape);
    fw_check_shape(&shape);
    if (param->result_skip < 0 || param->result_skip > 2)
        fw_refuse("result_skip %d is outside 0..2", param->result_skip);
    operand a = of(param->tensorA_is_const, param->tensorA_const, param->tensorA_addr, "A");
    operand b = of(param->tensorB_is_const, param->tensorB_const, param->tensorB_addr, "B");
    operand c = word_of(param->tensorC_is_const, param->tensorC_const, param->tensorC_addr, "C");
    operand e = word_of(param->tensorD_is_const, param->tensorD_const, param->tensorD_addr, "D");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_bd_md_cmp_begin(d, eu[param->result_skip], a, b, &shape);
    bd_set_res0_addr(d, aligned_local(param->tensorY_addr, "Y"));
    bd_set_res1_addr(d, aligned_local(param->tensorR_addr, "R"));
    bd_set_opd2_addr(d, field_value(c));
    bd_set_opt_opd2_const(d, c.constant);
    bd_set_opd3_addr(d, field_value(e));
    bd_set_opt_opd3_const(d, e.constant);
    fw_emit_bd(d);
}

/* The two normalising operations have each other's number in the descriptor. */
void bm_atomic_md_sfu(const MDSFUParam *param) {
    FW_ENTER();
    dim4 shape = dims(param->shape);
    fw_check_shape(&shape);
    check_op(param->op, OP(TAYLOR) | OP(FP32_INT32) | OP(NORMALIZE_INT32) | OP(NORMALIZE_FP32) | OP(RSQRT));
    int eu = (int)param->op;
    if (param->op == BM_NORMALIZE_INT32) eu = BD_EU_FP32_NORMALIZE;
    if (param->op == BM_NORMALIZE_FP32) eu = BD_EU_INT_NORMALIZE;
    (void)aligned_local(param->output_addr, "output");
    (void)aligned_local(param->input_addr, "input");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    fw_bd_sfu_begin(d, eu, param->output_addr, param->input_addr, &shape);
    if (param->op == BM_TAYLOR) {
        bd_set_opd1_n(d, param->taylor_len);
        bd_set_opd1_addr(d, param->taylor_coef_addr);
    }
    fw_emit_bd(d);
}

void bm_atomic_table_lookup(const TableLookupParam *param) {
    FW_ENTER();
    dim4 shape = dims(param->shape);
    fw_check_shape(&shape);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_TABLE_LOOKUP);
    if (param->index_prec > 1) fw_refuse("index_prec %u is neither 0 (8-bit) nor 1", (unsigned)param->index_prec);
    if (param->index_prec == 0) bd_set_opt_opd0_prec(d, BD_PRECISION_INT8);
    set_result_size(d, &shape);
    bd_set_res0_addr(d, aligned_local(param->output_addr, "output"));
    bd_set_opd0_addr(d, aligned_local(param->index_addr, "index"));
    bd_set_opd1_addr(d, param->table_addr);
    bd_set_opd1_h(d, (param->table_len + TABLE_BLOCK - 1) / TABLE_BLOCK);
    fw_emit_bd(d);
}

void bm_atomic_vec_correlation(const VecParam *param) {
    FW_ENTER();
    check_op(param->op, PAIRS_OPS);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_VECTOR_CORRELATION);
    bd_set_tsk_eu_typ(d, (uint32_t)param->op);
    set_precision(d, param->op);
    bd_set_res0_c(d, param->input1_c);
    bd_set_res0_w(d, param->input1_w);
    bd_set_opd0_c(d, param->input0_c);
    bd_set_opd0_w(d, param->input0_w);
    bd_set_opd1_w(d, param->input0_w_last);
    bd_set_res0_addr(d, aligned_local(param->output_addr, "output"));
    bd_set_opd0_addr(d, aligned_local(param->input0_addr, "input 0"));
    bd_set_opd1_addr(d, aligned_local(param->input1_addr, "input 1"));
    fw_emit_bd(d);
}
