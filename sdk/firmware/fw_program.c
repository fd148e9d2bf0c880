/* The interpreter of programs: checks one completely, then runs its steps.
 *
 * FIXED: every tensor comes with its shape and address; the compiler has decided everything, and the
 * steps are run (usually while recording) as they stand. DYNAMIC: shapes are inferred and memory is
 * allocated here, step by step (fw_dynamic.c).
 */
#include "fw_program_internal.h"

#include <string.h>

/* ---- reading ---- */

static const void *section(const uint8_t *start, uint32_t bytes, uint32_t offset, uint64_t need,
                           const char *what) {
    if (offset % 8 != 0 || offset > bytes || need > bytes - offset)
        fw_fail(FW_STATUS_BAD_MESSAGE, "the program's %s, %llu bytes at %u, are not inside its %u bytes", what,
                (unsigned long long)need, (unsigned)offset, (unsigned)bytes);
    return start + offset;
}

/* Which memories a step's tensors may lie in; system memory is DDR and L2. */
static void check_places(const program *p, const step *s, const fw_step_kind *takes) {
    const bool calls = takes->layer && takes->local_in;
    for (uint32_t i = 0; i < s->record->in_num; i++) {
        uint32_t kind = p->records[s->in[i]].kind;
        /* Inputs of local functions may be in L2, those of some built-in ones all in DDR, and shape tensors are values,
         * not memory. */
        bool free = calls && (kind == FW_TENSOR_L2 || fw_step_gathers(p, s) || p->tensors[s->in[i]].ttype == BMNET_NEURON_SHAPE);
        if (!free && (kind == FW_TENSOR_LOCAL) != takes->local_in)
            fw_fail(FW_STATUS_BAD_MESSAGE, "step %u: input %u is in the wrong memory for this step",
                    (unsigned)s->index, (unsigned)i);
    }
    for (uint32_t i = 0; i < s->record->out_num; i++)
        if ((p->records[s->out[i]].kind == FW_TENSOR_LOCAL) != takes->local_out && !fw_step_scatters(p, s))
            fw_fail(FW_STATUS_BAD_MESSAGE, "step %u: output %u is in the wrong memory for this step",
                    (unsigned)s->index, (unsigned)i);
}

static void check_step(const program *p, uint32_t index) {
    step s;
    fw_step_load(p, index, &s);
    const fw_step *r = s.record;
    const fw_step_kind *kind = fw_step_kind_of(r->opcode);
    if (kind == NULL)
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u has the unknown opcode %u", (unsigned)index, (unsigned)r->opcode);
    if (kind->moves && (r->in_num != 1 || r->out_num != 1))
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u moves %u tensors to %u; it moves one to one", (unsigned)index,
                (unsigned)r->in_num, (unsigned)r->out_num);
    if (p->run->mode != FW_MODE_DYNAMIC && r->opcode == FW_STEP_GROUP)
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u begins a group; only dynamic programs have these", (unsigned)index);
    if (kind->layer && r->op_type < FW_BUILTIN_OP_BASE)
        fw_layer_check(s.label, r->op_type, r->param_bytes, r->param_check);
    check_places(p, &s, kind);
    for (uint32_t i = 1; i < r->out_num; i++)
        for (uint32_t k = 0; k < i; k++)
            if (s.out[i] == s.out[k])
                fw_fail(FW_STATUS_BAD_MESSAGE, "step %u makes tensor %u twice", (unsigned)index, (unsigned)s.out[i]);
}

static void check_tensor(const program *p, uint32_t index) {
    const fw_program_tensor *r = &p->records[index];
    if (r->kind > FW_TENSOR_L2)
        fw_fail(FW_STATUS_BAD_MESSAGE, "tensor %u has the unknown kind %u", (unsigned)index, (unsigned)r->kind);
    if (p->run->mode != FW_MODE_DYNAMIC) return;
    if ((r->kind == FW_TENSOR_INPUT && r->index >= p->run->in_num) ||
        (r->kind == FW_TENSOR_OUTPUT && r->index >= p->run->out_num))
        fw_fail(FW_STATUS_BAD_MESSAGE, "tensor %u is %s %u of the net, which has fewer", (unsigned)index,
                r->kind == FW_TENSOR_INPUT ? "input" : "output", (unsigned)r->index);
    if (r->alias_of != FW_NONE && r->alias_of >= p->head->tensor_count)
        fw_fail(FW_STATUS_BAD_MESSAGE, "tensor %u shares the memory of tensor %u of %u", (unsigned)index,
                (unsigned)r->alias_of, (unsigned)p->head->tensor_count);
    if (r->kind != FW_TENSOR_LOCAL && r->kind != FW_TENSOR_L2) return;
    const fw_program_tensor *whole = r->alias_of == FW_NONE ? NULL : &p->records[r->alias_of];
    if (whole == NULL || whole->kind >= FW_TENSOR_LOCAL || whole->tensor.dims != r->tensor.dims ||
        memcmp(whole->tensor.shape, r->tensor.shape, sizeof r->tensor.shape) != 0)
        fw_fail(FW_STATUS_BAD_MESSAGE, "tensor %u is a tile of no tensor in DDR that has its shape", (unsigned)index);
}

/* In dynamic programs tiles are only in the steps of groups, behind which are the same layers on DDR data. */
static void check_groups(const program *p) {
    const uint32_t count = p->head->step_count;
    uint32_t at = 0, local = 0, global = 0; /* steps that are left of a group's tiles, and of its layers on DDR data */
    for (; at < count; at++) {
        const fw_step *r = &p->steps[at];
        const fw_step_kind *kind = fw_step_kind_of(r->opcode);
        if (local == 0 && global == 0 && r->opcode == FW_STEP_GROUP) {
            const uint64_t tiles = FW_LOCAL_STEPS(r), layers = FW_GLOBAL_STEPS(r), left = count - at - 1;
            if (tiles == 0 || layers == 0 || tiles > left || layers > left - tiles)
                fw_fail(FW_STATUS_BAD_MESSAGE, "step %u is a group of %llu steps on tiles and %llu on DDR data; %llu follow",
                        (unsigned)at, (unsigned long long)tiles, (unsigned long long)layers, (unsigned long long)left);
            local = (uint32_t)tiles, global = (uint32_t)layers;
            continue;
        }
        const bool right = local > 0 ? kind->grouped : global > 0 ? r->opcode == FW_STEP_GLOBAL : kind->dynamic;
        if (!right)
            fw_fail(FW_STATUS_BAD_MESSAGE, "step %u (%s) is in the wrong place: it %s", (unsigned)at, kind->name,
                    local > 0    ? "is among the steps on tiles of a group"
                    : global > 0 ? "is among the layers on DDR data of a group"
                                 : "is in no group");
        if (local > 0)
            local--;
        else if (global > 0)
            global--;
    }
}

static void read_program(program *p, const uint8_t *bytes, uint32_t size, const fw_run *run) {
    p->run = run;
    p->head = section(bytes, size, 0, sizeof(fw_program), "header");
    if (p->head->magic != FW_PROGRAM_MAGIC)
        fw_fail(FW_STATUS_BAD_MESSAGE, "this is not a program: it begins with 0x%08x", (unsigned)p->head->magic);
    if (p->head->version != FW_PROGRAM_VERSION)
        fw_fail(FW_STATUS_BAD_MESSAGE, "the program has version %u; this firmware runs version %d",
                (unsigned)p->head->version, FW_PROGRAM_VERSION);
    p->records = section(bytes, size, p->head->tensor_offset,
                         (uint64_t)p->head->tensor_count * sizeof(fw_program_tensor), "tensors");
    p->steps = section(bytes, size, p->head->step_offset, (uint64_t)p->head->step_count * sizeof(fw_step), "steps");
    p->data = section(bytes, size, p->head->data_offset, p->head->data_bytes, "data");
    bool counts = run->in_num == p->head->in_num && run->out_num == p->head->out_num;
    if (run->mode == FW_MODE_DYNAMIC && !counts)
        fw_fail(FW_STATUS_BAD_MESSAGE, "the net has %u inputs and %u outputs; the request gives %u and %u",
                (unsigned)p->head->in_num, (unsigned)p->head->out_num, (unsigned)run->in_num,
                (unsigned)run->out_num);
    p->tensors = fw_scratch((size_t)p->head->tensor_count * sizeof(tpu_tensor_t));
    for (uint32_t i = 0; i < p->head->tensor_count; i++) {
        fw_tensor_import(&p->records[i].tensor, &p->tensors[i], p->data, p->head->data_bytes, "program tensor", i);
        check_tensor(p, i);
    }
    for (uint32_t i = 0; i < p->head->step_count; i++) check_step(p, i);
    if (run->mode == FW_MODE_DYNAMIC) check_groups(p);
}

/* ---- running ---- */

void fw_program_run(const uint8_t *bytes, uint32_t size, const fw_run *run, const tpu_tensor_t *in,
                    tpu_tensor_t *out) {
    program p;
    if (run->mode != FW_MODE_FIXED && run->mode != FW_MODE_DYNAMIC)
        fw_fail(FW_STATUS_BAD_MESSAGE, "unknown program mode %u", (unsigned)run->mode);
    if (run->mode == FW_MODE_DYNAMIC && fw.recording)
        fw_fail(FW_STATUS_BAD_MESSAGE, "a dynamic program cannot be recorded");
    read_program(&p, bytes, size, run);
    p.marks = fw_scratch((size_t)p.head->step_count * sizeof(fw_mark));
    if (run->mode == FW_MODE_DYNAMIC) {
        fw_dynamic_run(&p, in, out);
        return;
    }
    for (uint32_t i = 0; i < p.head->step_count; i++) {
        step s;
        fw_step_load(&p, i, &s);
        fw_step_run(&p, &s);
        fw_step_mark(&p, i);
        if (fw.recording) fw_flush(FW_FLUSH_STEP);
    }
}
