/* Dynamic programs: shapes from the layers' shape functions, neurons from a first-fit allocator; groups of layers on
 * tiles are run by fw_group.c.
 *
 * A neuron is allocated when it is produced and released after its last use. Every block of the program is
 * allocated at most once, so a pool as large as all neurons and buffers at their compiled maximum, each
 * rounded up to NEURON_ALIGN, always suffices.
 */
#include <string.h>

#include "fw_dynamic.h"

#define NEURON_ALIGN 128u

/* ---- the pool ---- */

static block *pool_find(pool *m, uint64_t addr) {
    for (uint32_t i = 0; i < m->count; i++)
        if (m->blocks[i].addr == addr) return &m->blocks[i];
    return NULL;
}

uint64_t fw_dynamic_allocate(state *d, uint64_t bytes, const char *layer) {
    pool *m = &d->memory;
    uint64_t need = bytes / NEURON_ALIGN * NEURON_ALIGN; /* rounded up without running over */
    if (need != bytes) need = need > UINT64_MAX - NEURON_ALIGN ? UINT64_MAX : need + NEURON_ALIGN;
    uint64_t at = m->addr, end = m->addr + m->bytes;
    uint32_t i = 0;
    for (; i < m->count && m->blocks[i].addr - at < need; i++) at = m->blocks[i].addr + m->blocks[i].bytes;
    if (need > end - at || m->count == m->room)
        fw_fail(FW_STATUS_NO_MEMORY, "layer %s needs %llu bytes more than the %llu bytes of the net's neuron memory hold",
                layer, (unsigned long long)need, (unsigned long long)m->bytes);
    memmove(&m->blocks[i + 1], &m->blocks[i], (m->count - i) * sizeof(block));
    m->blocks[i] = (block){at, need, 1};
    m->count++;
    return at;
}

void fw_dynamic_free(state *d, uint64_t addr) {
    pool *m = &d->memory;
    block *b = pool_find(m, addr);
    if (b == NULL || --b->users > 0) return;
    memmove(b, b + 1, (size_t)(m->blocks + m->count - (b + 1)) * sizeof(block));
    m->count--;
}

/* ---- tensors ---- */

static const char *const kind_names[] = {"net input", "net output", "neuron", "constant", "tile", "L2 tensor"};

/* The actual shape may be anything whose bytes fit the compiled maximum, with as many dimensions. */
void fw_dynamic_check(const state *d, uint32_t index, const tpu_tensor_t *t, const char *layer) {
    const fw_program_tensor *r = &d->p->records[index];
    const tpu_tensor_t *most = &d->p->tensors[index];
    uint64_t bytes = fw_tensor_bytes(t);
    if (bytes <= r->max_bytes && t->dims == most->dims && t->dtype == most->dtype &&
        t->store_mode == most->store_mode)
        return;
    char is[128], was[128];
    fw_shape_text(is, sizeof is, t->shape, t->dims);
    int compiled[FW_DIMS];
    memcpy(compiled, r->tensor.shape, sizeof compiled);
    fw_shape_text(was, sizeof was, compiled, r->tensor.dims);
    fw_fail(FW_STATUS_SHAPE,
            "layer %s: %s %u has shape %s, data type %u, %llu bytes; compiled for at most %s, data type %u, %llu bytes",
            layer, kind_names[r->kind], (unsigned)(r->kind <= FW_TENSOR_OUTPUT ? r->index : index), is,
            (unsigned)t->dtype, (unsigned long long)bytes, was, (unsigned)r->tensor.dtype,
            (unsigned long long)r->max_bytes);
}

/* Values of a shape tensor that lies in DDR: commands before it must have run. */
static int *shape_values(const tpu_tensor_t *t) {
    int *values = (int *)(void *)fw_ddr_pointer(t->addr, (uint64_t)t->elem_num * 4);
    if (values == NULL || t->addr % 4 != 0)
        fw_fail(FW_STATUS_BAD_MESSAGE, "a shape tensor at 0x%llx is not inside DDR", (unsigned long long)t->addr);
    return values;
}

static void settle_inputs(state *d) {
    for (uint32_t i = 0; i < d->p->head->tensor_count; i++) {
        const fw_program_tensor *r = &d->p->records[i];
        tpu_tensor_t *t = &d->p->tensors[i];
        if (r->kind == FW_TENSOR_INPUT) {
            fw_dynamic_check(d, i, &d->in[r->index], "of the request");
            const unsigned char ttype = t->ttype;
            const float scale = t->scale;
            *t = d->in[r->index];
            t->ttype = ttype, t->scale = scale;
            d->ready[i] = true;
        } else if (r->kind == FW_TENSOR_COEFF) {
            t->addr += d->p->run->coeff_addr;
            d->ready[i] = true;
        }
        if (d->ready[i] && t->ttype == BMNET_NEURON_SHAPE && t->host_data == NULL) t->host_data = shape_values(t);
    }
}

void fw_dynamic_place(state *d, const step *s, uint32_t index, tpu_tensor_t *t) {
    const fw_program_tensor *r = &d->p->records[index];
    fw_dynamic_check(d, index, t, s->label);
    if (d->ready[index])
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u (%s) makes tensor %u, which is in use", (unsigned)s->index, s->name,
                (unsigned)index);
    if (r->kind == FW_TENSOR_OUTPUT) {
        t->addr = d->out[r->index].addr;
    } else if (r->kind != FW_TENSOR_NEURON) {
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u (%s) writes a %s", (unsigned)s->index, s->name, kind_names[r->kind]);
    } else if (r->alias_of != FW_NONE) {
        if (!d->ready[r->alias_of])
            fw_fail(FW_STATUS_BAD_MESSAGE, "step %u (%s): tensor %u shares memory that does not exist yet",
                    (unsigned)s->index, s->name, (unsigned)index);
        t->addr = d->p->tensors[r->alias_of].addr;
        block *b = pool_find(&d->memory, t->addr);
        if (b != NULL) b->users++;
    } else {
        t->addr = fw_dynamic_allocate(d, fw_tensor_bytes(t), s->label);
    }
}

void fw_dynamic_settle(state *d, uint32_t index, const tpu_tensor_t *t) {
    const fw_program_tensor *r = &d->p->records[index];
    d->p->tensors[index] = *t;
    d->ready[index] = true;
    if (r->kind == FW_TENSOR_OUTPUT) d->out[r->index] = *t;
}

void fw_dynamic_release(state *d, uint32_t index) {
    for (uint32_t i = 0; i < d->p->head->tensor_count; i++) {
        const fw_program_tensor *r = &d->p->records[i];
        if (r->kind == FW_TENSOR_NEURON && r->last_step == index && d->ready[i]) {
            fw_dynamic_free(d, d->p->tensors[i].addr);
            d->ready[i] = false;
        }
    }
}

/* ---- steps ---- */

void fw_dynamic_gather(const state *d, const step *s, tpu_tensor_t *in) {
    for (uint32_t i = 0; i < s->record->in_num; i++) {
        const tpu_tensor_t *inferred = d->inferred[s->in[i]];
        if (inferred == NULL && !d->ready[s->in[i]])
            fw_fail(FW_STATUS_BAD_MESSAGE, "step %u (%s) reads tensor %u, which does not exist (any more)",
                    (unsigned)s->index, s->name, (unsigned)s->in[i]);
        in[i] = inferred != NULL ? *inferred : d->p->tensors[s->in[i]];
        fw_tensor_whole(&in[i]);
    }
}

fw_layer_args fw_dynamic_infer(const state *d, const step *s, tpu_tensor_t *in, tpu_tensor_t *out) {
    const uint32_t made = s->record->out_num;
    fw_dynamic_gather(d, s, in);
    fw_tensor_prepare(out, made);
    for (uint32_t i = 0; i < made; i++) out[i].scale = d->p->tensors[s->out[i]].scale;
    fw_layer_args args = fw_step_call(s, in, out);
    fw_layer_run(FW_CALL_SHAPE, &args);
    for (uint32_t i = 0; i < made; i++) {
        fw_tensor_complete(&out[i], s->label, i);
        fw_tensor_whole(&out[i]);
    }
    return args;
}

/* ---- the beginning ---- */

void fw_dynamic_begin(state *d) {
    const program *p = d->p;
    if (p->run->neuron_bytes > UINT64_MAX - p->run->neuron_addr)
        fw_fail(FW_STATUS_BAD_MESSAGE, "the neuron memory ends behind the address space");
    const uint32_t tensors = p->head->tensor_count;
    d->ready = fw_scratch(tensors * sizeof *d->ready + 1);
    d->inferred = fw_scratch(tensors * sizeof *d->inferred + 1);
    d->memory.room = tensors + 1; /* and a buffer */
    d->memory.blocks = fw_scratch(((size_t)d->memory.room + 1) * sizeof(block)); /* and room to shift */
    d->memory.addr = (p->run->neuron_addr + NEURON_ALIGN - 1) / NEURON_ALIGN * NEURON_ALIGN;
    const uint64_t lost = d->memory.addr - p->run->neuron_addr;
    d->memory.bytes = p->run->neuron_bytes > lost ? p->run->neuron_bytes - lost : 0;
    settle_inputs(d);
}
