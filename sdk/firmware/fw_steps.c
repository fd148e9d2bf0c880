/* One step of a program: what it names, and the copies and layer calls that both interpreters make. */
#include "fw_program_internal.h"

#include <string.h>

static const uint8_t *data_at(const program *p, uint32_t offset, uint64_t need, uint32_t at, const char *what) {
    if (offset > p->head->data_bytes || need > p->head->data_bytes - offset)
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u: its %s are not inside the program's data", (unsigned)at, what);
    return p->data + offset;
}

static void check_indices(const program *p, uint32_t at, uint32_t offset, uint32_t num, const char *what,
                          uint32_t *indices) {
    if (num > FW_MAX_TENSORS)
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u has %u %s; at most %d", (unsigned)at, (unsigned)num, what,
                FW_MAX_TENSORS);
    memcpy(indices, data_at(p, offset, (uint64_t)num * 4, at, what), (size_t)num * 4);
    for (uint32_t i = 0; i < num; i++)
        if (indices[i] >= p->head->tensor_count)
            fw_fail(FW_STATUS_BAD_MESSAGE, "step %u: %s name tensor %u of %u", (unsigned)at, what,
                    (unsigned)indices[i], (unsigned)p->head->tensor_count);
}

static const fw_step_kind step_kinds[FW_STEP_COUNT] = FW_STEP_KINDS;

const fw_step_kind *fw_step_kind_of(uint32_t opcode) {
    return opcode < FW_STEP_COUNT && step_kinds[opcode].name != NULL ? &step_kinds[opcode] : NULL;
}

void fw_step_load(const program *p, uint32_t index, step *s) {
    s->index = index;
    s->record = &p->steps[index];
    const fw_step *r = s->record;
    const uint8_t *name = data_at(p, r->name_offset, 1, index, "name");
    if (memchr(name, 0, p->head->data_bytes - r->name_offset) == NULL)
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u: its name has no end", (unsigned)index);
    s->name = (const char *)name;
    const fw_step_kind *kind = fw_step_kind_of(r->opcode);
    s->label = s->name;
    if (kind != NULL && kind->layer) {
        char *label = fw_scratch(FW_LABEL_BYTES);
        fw_layer_label(label, s->name, r->op_type);
        s->label = label;
    }
    if (r->param_offset % 8 != 0)
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u: its parameters begin at %u, which is not a multiple of 8", (unsigned)index,
                (unsigned)r->param_offset);
    s->param = data_at(p, r->param_offset, r->param_bytes, index, "parameters");
    check_indices(p, index, r->in_offset, r->in_num, "inputs", s->in);
    check_indices(p, index, r->out_offset, r->out_num, "outputs", s->out);
}

void fw_step_copy(const step *s, const tpu_tensor_t *in, const tpu_tensor_t *out) {
    int element = fw_dtype_bytes(in->dtype);
    if (element != fw_dtype_bytes(out->dtype) || in->elem_num != out->elem_num || fw_tensor_bytes(in) != fw_tensor_bytes(out))
        fw_fail(FW_STATUS_SHAPE, "step %u (%s): copies %d elements of %d bytes to %d of %d bytes", (unsigned)s->index,
                s->name, in->elem_num, element, out->elem_num, fw_dtype_bytes(out->dtype));
    if (in->addr != out->addr) fw_gdma_copy(out->addr, in->addr, fw_tensor_bytes(in) / (unsigned)element, element);
}

fw_layer_args fw_step_call(const step *s, const tpu_tensor_t *in, tpu_tensor_t *out) {
    const fw_step *r = s->record;
    return (fw_layer_args){.label = s->label, .op_type = r->op_type, .param = s->param,
                           .param_bytes = (int)r->param_bytes, .in = in, .in_num = (int)r->in_num, .out = out,
                           .out_num = (int)r->out_num, .buffer_addr = FW_BUFFER_ADDR(r),
                           .buffer_bytes = FW_BUFFER_BYTES(r)};
}

bool fw_step_gathers(const program *p, const step *s) {
    const fw_step *r = s->record;
    if (r->opcode != FW_STEP_LOCAL || r->op_type < FW_BUILTIN_OP_BASE) return false;
    for (uint32_t i = 0; i < r->in_num; i++)
        if (p->records[s->in[i]].kind == FW_TENSOR_LOCAL || p->records[s->in[i]].kind == FW_TENSOR_L2) return false;
    return r->in_num > 0;
}

bool fw_step_scatters(const program *p, const step *s) {
    const fw_step *r = s->record;
    return r->opcode == FW_STEP_LOCAL && r->op_type >= FW_BUILTIN_OP_BASE && p->run->mode != FW_MODE_DYNAMIC &&
           r->in_num == 1 && r->out_num == 1 && p->records[s->in[0]].kind == FW_TENSOR_LOCAL &&
           p->records[s->out[0]].kind != FW_TENSOR_LOCAL && p->records[s->out[0]].kind != FW_TENSOR_L2;
}
