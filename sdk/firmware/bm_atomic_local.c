/* bm_atomic.h: sort and gather, and the local functions made of several commands. */
#include "bm_atomic.h"
#include "fw_bd.h"
#include "fw_sequence.h"

/* ---- sort and gather: our own command form, see docs/isa.md ---- */

static uint32_t high(uint64_t addr, const char *which) {
    if (addr >> 40) fw_refuse("%s address 0x%llx has more than 40 bits", which, (unsigned long long)addr);
    return (uint32_t)(addr >> 32);
}

static void check_scope(const char *what) {
    if (fw.scope == FW_SCOPE_LOCAL)
        fw_refuse("the local function of layer %s wants to %s; local functions work on local memory", fw.layer, what);
}

void bm_atomic_sort(const SortParam *param) {
    FW_ENTER();
    check_scope("sort");
    if (param->input_len < 1 || param->output_len < 1 || param->output_len > param->input_len)
        fw_refuse("%u of %u elements; 1 to the input's", param->output_len, param->input_len);
    if (param->order != BM_ASCEND && param->order != BM_DESCEND)
        fw_refuse("order %d does not exist", (int)param->order);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_OTHER_ENGINE);
    bd_set_tsk_eu_typ(d, BD_OTHER_SORT);
    bd_set_opd0_addr(d, (uint32_t)param->input_data_addr);
    bd_set_opd0_n(d, high(param->input_data_addr, "input data"));
    bd_set_res0_addr(d, (uint32_t)param->output_data_addr);
    bd_set_res0_n(d, high(param->output_data_addr, "output data"));
    bd_set_opd0_h_str(d, param->input_len);
    bd_set_res0_h_str(d, param->output_len);
    bd_set_opt_shift_typ(d, param->order == BM_DESCEND);
    bd_set_opt_res_add(d, param->index_enable);
    bd_set_opt_left_tran(d, param->index_enable && param->index_auto);
    if (param->index_enable) {
        bd_set_res1_addr(d, (uint32_t)param->output_index_addr);
        bd_set_opd0_c(d, high(param->output_index_addr, "output index"));
        if (!param->index_auto) {
            bd_set_opd1_addr(d, (uint32_t)param->input_index_addr);
            bd_set_opd1_n(d, high(param->input_index_addr, "input index"));
        }
    }
    fw_emit_bd(d);
}

void bm_atomic_gather_data(const GatherDataParam *param) {
    FW_ENTER();
    check_scope("gather");
    if (param->length < 1) fw_refuse("a length of 0");
    if (param->type != BM_GD_8BIT && param->type != BM_GD_32BIT && param->type != BM_GD_128BIT)
        fw_refuse("type %d does not exist", (int)param->type);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_OTHER_ENGINE);
    bd_set_tsk_eu_typ(d, BD_OTHER_GATHER);
    bd_set_opt_res0_prec(d, (uint32_t)param->type);
    bd_set_opd0_addr(d, param->data_addr);
    bd_set_opd1_addr(d, param->index_addr);
    bd_set_res0_addr(d, param->output_addr);
    bd_set_res0_h_str(d, param->length);
    fw_emit_bd(d);
}

/* ---- local functions ---- */

#define SERIES 32
#define EXP_LEAST -103.0f
/* Beyond these a sigmoid is 0 or 1, a tanh -1 or 1; the table of powers of e ends a little further out. */
#define SIGMOID_MOST 88.0f
#define TANH_MOST 20.0f

static dim4 dims(const unsigned int *v) { return (dim4){(int)v[0], (int)v[1], (int)v[2], (int)v[3]}; }

static operand local(unsigned long long addr, const char *which) {
    fw_check_aligned(addr, which);
    if (addr >= (uint64_t)CHIP_NPU_NUM * CHIP_LOCAL_BYTES)
        fw_refuse("%s address 0x%llx is over the 32 MiB of local memory", which, addr);
    return tensor((local_addr_t)addr, NULL);
}

/* e^src over src: the whole part into imm, the rest stays in src. */
void bm_local_exp(const ExpParam *param) {
    FW_ENTER();
    dim4 shape = dims(param->shape);
    operand src = local(param->src_addr, "source"), imm = local(param->imm_addr, "imm");
    fw_bd_check(src, imm, bits(0), &shape);
    if (src.value == imm.value) fw_refuse("the imm buffer is the source");
    fw_exponential(imm, src, src, &shape, SERIES);
    arithmetic copy = with_eu(FP32, BD_EU_COPY);
    copy.operands = 1;
    copy.shift_typ = true;
    fw_bd_ar(copy, src, imm, NULL, &shape);
}

static void clamp(operand dst, operand src, float most, const dim4 *shape) {
    operand limit = number(most);
    fw_bd_md_max(dst, src, number(-most), shape);
    fw_bd_ar(with_eu(FP32, BD_EU_MIN), dst, dst, &limit, shape);
}

void bm_local_act(const ActParam *param) {
    FW_ENTER();
    dim4 shape = dims(param->shape);
    operand src = local(param->src_addr, "source"), dst = local(param->dst_addr, "destination");
    fw_bd_check(dst, src, bits(0), &shape);
    if (param->act_type == BM_RELU) {
        fw_bd_md_max(dst, src, number(0.0f), &shape);
        return;
    }
    operand imm = local(param->imm_addr, "imm");
    fw_bd_check_tensor(imm, dst, "imm");
    if (imm.value == dst.value || imm.value == src.value || dst.value == src.value)
        fw_refuse("source, destination and imm are three buffers for this activation");
    switch (param->act_type) {
    case BM_ELU: /* src > 0 ? src : e^src - 1; the table ends at -103 */
        fw_bd_md_max(imm, src, number(EXP_LEAST), &shape);
        fw_exponential(dst, imm, imm, &shape, SERIES);
        fw_bd_md_scalar(BD_EU_SUB, false, dst, dst, number(1.0f), &shape);
        fw_bd_md_select(dst, src, number(0.0f), src, dst, &shape);
        return;
    case BM_TANH:
        clamp(imm, src, TANH_MOST, &shape);
        fw_tanh(dst, imm, imm, &shape, SERIES);
        return;
    case BM_SIGMOID:
        clamp(imm, src, SIGMOID_MOST, &shape);
        fw_sigmoid(dst, imm, imm, &shape, SERIES);
        return;
    case BM_PRELU: fw_refuse("prelu needs a slope, which ActParam does not hold");
    default: fw_refuse("activation %d does not exist", (int)param->act_type);
    }
}
