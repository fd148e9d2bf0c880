/* The steps of dynamic programs, one after the other: layers on DDR data, copies, groups. */
#include "fw_dynamic.h"

static void run_layer(state *d, const step *s) {
    const fw_step *r = s->record;
    tpu_tensor_t in[FW_MAX_TENSORS] = {{0}}, out[FW_MAX_TENSORS] = {{0}}; /* a layer may look at more than it got */
    uint64_t inferred[FW_MAX_TENSORS];
    fw_layer_args args = fw_dynamic_infer(d, s, in, out);
    for (uint32_t i = 0; i < r->out_num; i++) {
        fw_dynamic_place(d, s, s->out[i], &out[i]);
        inferred[i] = fw_tensor_bytes(&out[i]);
    }
    uint64_t buffer = 0;
    if (FW_BUFFER_BYTES(r) != 0) buffer = fw_dynamic_allocate(d, FW_BUFFER_BYTES(r), s->label);
    args.buffer_addr = buffer;
    fw_layer_run(FW_CALL_GLOBAL, &args);
    if (fw.parallel)
        fw_fail(FW_STATUS_ASSERT, "layer %s: global function returned inside a parallel section%s", s->label,
                fw_opened());
    if (buffer != 0) fw_dynamic_free(d, buffer);
    for (uint32_t i = 0; i < r->out_num; i++) {
        /* Layers whose output shape depends on data set it in their global function. */
        fw_tensor_complete(&out[i], s->label, i);
        if (fw_tensor_bytes(&out[i]) > inferred[i])
            fw_fail(FW_STATUS_SHAPE, "layer %s: global function made output %u larger than its shape function said",
                    s->label, (unsigned)i);
        fw_dynamic_check(d, s->out[i], &out[i], s->label);
        fw_dynamic_settle(d, s->out[i], &out[i]);
    }
}

static void run_copy(state *d, const step *s) {
    tpu_tensor_t in, out;
    fw_dynamic_gather(d, s, &in);
    out = in;
    out.ttype = d->p->tensors[s->out[0]].ttype;
    out.dims = d->p->tensors[s->out[0]].dims;
    fw_dynamic_place(d, s, s->out[0], &out);
    fw_step_copy(s, &in, &out);
    fw_dynamic_settle(d, s->out[0], &out);
}

void fw_dynamic_run(program *p, const tpu_tensor_t *in, tpu_tensor_t *out) {
    state d = {.p = p, .in = in, .out = out};
    fw_dynamic_begin(&d);
    for (uint32_t i = 0, next; i < p->head->step_count; i = next) {
        step s;
        fw_step_load(p, i, &s);
        next = i + 1;
        if (s.record->opcode == FW_STEP_GROUP) {
            next = fw_group_run(&d, &s);
            continue;
        }
        if (s.record->opcode == FW_STEP_COPY)
            run_copy(&d, &s);
        else
            run_layer(&d, &s);
        fw_dynamic_release(&d, i);
        fw.platform->flush(0, 0, FW_FLUSH_STEP);
    }
}
