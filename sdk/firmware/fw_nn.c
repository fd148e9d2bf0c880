/* Descriptors of convolutions, pools and matrix products. */
#include "fw_nn.h"

uint32_t fw_nn_local(local_addr_t addr, const char *which) {
    if (addr >= CHIP_NPU_NUM * CHIP_LOCAL_BYTES)
        fw_refuse("%s address 0x%x is over the 32 MiB of local memory", which, (unsigned)addr);
    return CHIP_LOCAL_BASE + addr;
}

void fw_nn_check_multiple(local_addr_t addr, unsigned unit, const char *which) {
    if (addr % unit != 0) fw_refuse("%s address 0x%x is not a multiple of %u", which, (unsigned)addr, unit);
}

void fw_nn_check_same_npu(local_addr_t addr, local_addr_t output, const char *which) {
    fw_bd_check_tensor(tensor(addr, NULL), tensor(output, NULL), which);
}

void fw_nn_need_same_npu(local_addr_t addr, local_addr_t output, const char *which) {
    fw_bd_check_address(addr, which);
    int npu = okk_start_npu_index(addr), output_npu = okk_start_npu_index(output);
    if (npu != output_npu)
        fw_refuse("%s starts on NPU %d and the output on NPU %d; they must start on the same", which, npu, output_npu);
}

/* Depthwise convolutions and pools do not count inserted zeros in the result's size. */
static int extent(int size, int kernel, int stride, int insert, int dilation, int before, int after,
                  const char *axis) {
    if (kernel < 1 || stride < 1 || dilation < 1)
        fw_refuse("kernel %d, stride %d and dilation %d along %s start at 1", kernel, stride, dilation, axis);
    int64_t padded = (int64_t)(size - 1) * (insert + 1) + 1 + before + after;
    int64_t room = padded - ((int64_t)(kernel - 1) * dilation + 1);
    if (room < 0)
        fw_refuse("a kernel of %d with dilation %d does not fit into %d along %s (pads %d and %d)", kernel,
                  dilation, size, axis, before, after);
    return (int)(room / stride + 1);
}

static void set_quantization(uint32_t *d, const fw_quantization *q) {
    bd_set_opt_right_shift(d, (uint32_t)q->rshift);
    bd_set_opt_relu(d, q->relu);
    bd_set_opt_opd0_sign(d, q->input_signed);
    bd_set_opt_opd1_sign(d, q->weight_signed);
    bd_set_opt_opd2_sign(d, q->bias_signed);
    bd_set_opt_res0_prec(d, BD_PRECISION_INT8);
    bd_set_opt_opd0_prec(d, BD_PRECISION_INT8);
    bd_set_opt_opd1_prec(d, BD_PRECISION_INT8);
    bd_set_opt_opd2_prec(d, BD_PRECISION_INT16);
}

dim2 fw_nn_result(fw_window_kind kind, const fw_window *w) {
    dim2 insert = kind == FW_CONVOLUTION ? w->insert : (dim2){0, 0};
    return (dim2){extent(w->shape.h, w->kernel.h, w->stride.h, insert.h, w->dilation.h, w->pad.top, w->pad.bottom, "h"),
                  extent(w->shape.w, w->kernel.w, w->stride.w, insert.w, w->dilation.w, w->pad.left, w->pad.right,
                         "w")};
}

void fw_nn_begin(uint32_t *d, fw_window_kind kind, const fw_window *w, const fw_quantization *q) {
    fw_check_shape(&w->shape);
    if (w->output_c < 1) fw_refuse("output_c is %d; sizes start at 1", w->output_c);
    fw_nn_check_multiple(w->output, CHIP_ALIGN_BYTES, "output");
    fw_nn_check_multiple(w->input, w->input_stride == NULL ? CHIP_ALIGN_BYTES : 4, "input");
    bd_defaults(d);
    bool counted = kind == FW_CONVOLUTION;
    dim2 result = fw_nn_result(kind, w);
    bd_set_tsk_typ(d, counted ? BD_TASK_CONV : BD_TASK_DEPTHWISE);
    if (!counted) bd_set_tsk_eu_typ(d, kind == FW_MAX_POOL ? BD_EU_MAX : BD_EU_MAC);
    if (kind == FW_MAX_POOL) bd_set_tsk_opd_num(d, 1);
    if (q != NULL) set_quantization(d, q);
    bd_set_res0_n(d, (uint32_t)w->shape.n);
    bd_set_res0_c(d, (uint32_t)w->output_c);
    bd_set_res0_h(d, (uint32_t)result.h);
    bd_set_res0_w(d, (uint32_t)result.w);
    if (counted) bd_set_opd0_c(d, (uint32_t)w->shape.c);
    bd_set_opd0_h(d, (uint32_t)w->shape.h);
    bd_set_opd0_w(d, (uint32_t)w->shape.w);
    bd_set_opd1_h(d, (uint32_t)w->kernel.h);
    bd_set_opd1_w(d, (uint32_t)w->kernel.w);
    bd_set_res_op_y_str(d, (uint32_t)w->stride.h);
    bd_set_res_op_x_str(d, (uint32_t)w->stride.w);
    bd_set_opd0_y_ins0(d, (uint32_t)w->insert.h);
    bd_set_opd0_x_ins0(d, (uint32_t)w->insert.w);
    bd_set_opd1_y_ins0(d, (uint32_t)w->dilation.h - 1);
    bd_set_opd1_x_ins0(d, (uint32_t)w->dilation.w - 1);
    bd_set_opd0_up_pad(d, (uint32_t)w->pad.top);
    bd_set_opd0_dn_pad(d, (uint32_t)w->pad.bottom);
    bd_set_opd0_lf_pad(d, (uint32_t)w->pad.left);
    bd_set_opd0_rt_pad(d, (uint32_t)w->pad.right);
    bd_set_res0_addr(d, fw_nn_local(w->output, "output"));
    bd_set_opd0_addr(d, fw_nn_local(w->input, "input"));
    if (w->input_stride == NULL) return;
    bd_set_short_opd0_str(d, BD_STRIDE_EXPLICIT);
    bd_set_opd0_n_str(d, (uint32_t)w->input_stride->n);
    bd_set_opd0_c_str(d, (uint32_t)w->input_stride->c);
    bd_set_opd0_h_str(d, (uint32_t)w->input_stride->h);
    bd_set_opd0_w_str(d, (uint32_t)w->input_stride->w);
}

void fw_nn_weight(uint32_t *d, const fw_weight *weight) {
    bd_set_opt_opd1_const(d, weight->constant);
    bd_set_opd1_addr(d, weight->constant ? weight->value : fw_nn_local(weight->value, "weight"));
    if (weight->stride == NULL) return;
    bd_set_short_opd1_str(d, BD_STRIDE_EXPLICIT);
    bd_set_opd1_n_str(d, (uint32_t)weight->stride->n);
    bd_set_opd1_c_str(d, (uint32_t)weight->stride->c);
    bd_set_opd1_h_str(d, (uint32_t)weight->stride->h);
    bd_set_opd1_w_str(d, (uint32_t)weight->stride->w);
}

void fw_nn_bias(uint32_t *d, bool used, local_addr_t bias) {
    if (!used) return;
    bd_set_tsk_opd_num(d, 3);
    bd_set_opd2_addr(d, fw_nn_local(bias, "bias"));
}

void fw_nn_product(uint32_t *d, const fw_product *p) {
    if (p->left_rows < 1 || p->left_cols < 1)
        fw_refuse("a left matrix of %d rows and %d columns", p->left_rows, p->left_cols);
    if (p->left_w < 1 || p->left_c < 1 || p->right_w < 1 || p->right_c < 1)
        fw_refuse("%d x %d and %d x %d columns over channels; sizes start at 1", p->left_c, p->left_w, p->right_c,
                  p->right_w);
    fw_nn_check_multiple(p->output, CHIP_ALIGN_BYTES, "output");
    fw_nn_check_multiple(p->left, CHIP_ALIGN_BYTES, "left");
    fw_nn_check_multiple(p->right, CHIP_ALIGN_BYTES, "right");
    if (p->using_bias) fw_nn_check_multiple(p->bias, CHIP_ALIGN_BYTES, "bias");
    int last = p->left_cols % p->left_w;
    bd_defaults(d);
    bd_set_tsk_typ(d, BD_TASK_MATMUL);
    bd_set_opt_left_tran(d, p->transposed);
    bd_set_opt_res_add(d, p->result_add);
    bd_set_res0_c(d, (uint32_t)p->right_c);
    bd_set_res0_w(d, (uint32_t)p->right_w);
    bd_set_opd0_n(d, (uint32_t)p->left_rows);
    bd_set_opd0_c(d, (uint32_t)p->left_c);
    bd_set_opd0_w(d, (uint32_t)p->left_w);
    bd_set_opd1_w(d, (uint32_t)(last == 0 ? p->left_w : last));
    bd_set_res0_addr(d, fw_nn_local(p->output, "output"));
    bd_set_opd0_addr(d, fw_nn_local(p->left, "left"));
    bd_set_opd1_addr(d, fw_nn_local(p->right, "right"));
    fw_nn_bias(d, p->using_bias, p->bias);
}

int fw_nn_average(int size, uint32_t *m) {
    int shift = 0;
    int64_t value = 1, power = 1;
    while (value < 128) {
        power *= 2;
        shift++;
        value = (2 * power + size) / (2 * (int64_t)size);
    }
    for (; value % 2 == 0; value /= 2) shift--;
    *m = (uint32_t)value;
    return shift;
}
