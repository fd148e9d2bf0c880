/* Groups of dynamic programs: layers that run on tiles in local memory, planned for the compiled shapes.
 *
 * They do for the compiled shapes, where the batch is smaller, and, in groups whose layers allow it (FW_SHRINKS), for
 * smaller heights and widths: then each tile ends where its tensor does, and steps whose tiles have nothing left are not
 * run. The order of the others stays, and who waits for a step that does not run waits for what ran before it. For all
 * other shapes the program has the same layers on DDR data.
 */
#include <string.h>

#include "fw_dynamic.h"

static bool is_tile(const state *d, uint32_t tensor) {
    const uint32_t kind = d->p->records[tensor].kind;
    return kind == FW_TENSOR_LOCAL || kind == FW_TENSOR_L2;
}

/* ---- whether the shapes allow it ---- */

/* Of tensors that have another batch now the compiled one, and the one of now; 0 before one is found. smaller: a tensor
 * has fewer rows or columns than it was compiled for. */
typedef struct {
    int compiled, now;
    bool may_shrink, smaller;
} batches;

static bool fits(const fw_program_tensor *r, const tpu_tensor_t *t, batches *b) {
    if (t->dims != r->tensor.dims || t->dtype != r->tensor.dtype || t->store_mode != r->tensor.store_mode) return false;
    for (uint32_t d = 1; d < t->dims; d++) {
        if (t->shape[d] == r->tensor.shape[d]) continue;
        if (d == 1 || d > 3 || !b->may_shrink || t->shape[d] > r->tensor.shape[d]) return false;
        b->smaller = true;
    }
    if (t->dims == 0) return true;
    const int compiled = r->tensor.shape[0], now = t->shape[0];
    if (now == compiled) return compiled != b->compiled;
    if (b->compiled == 0) b->compiled = compiled, b->now = now;
    return now < compiled && compiled == b->compiled && now == b->now;
}

static bool all_fit(const state *d, const uint32_t *tensors, uint32_t count, batches *b) {
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t t = tensors[i];
        const bool constant = d->p->records[t].kind == FW_TENSOR_COEFF;
        if (!constant && !fits(&d->p->records[t], d->inferred[t] != NULL ? d->inferred[t] : &d->p->tensors[t], b))
            return false;
    }
    return true;
}

/* Infers the shapes of what the layers make; false for what could not be made, which the layers refuse themselves. */
static bool infer(state *d, uint32_t first, uint32_t end) {
    for (uint32_t k = first; k < end; k++) {
        step s;
        tpu_tensor_t in[FW_MAX_TENSORS] = {{0}}, out[FW_MAX_TENSORS] = {{0}};
        fw_step_load(d->p, k, &s);
        fw_dynamic_infer(d, &s, in, out);
        for (uint32_t i = 0; i < s.record->out_num; i++) {
            tpu_tensor_t **made = &d->inferred[s.out[i]];
            if (d->ready[s.out[i]] || *made != NULL) return false;
            *made = fw_scratch(sizeof **made);
            **made = out[i];
        }
    }
    return true;
}

static bool shapes_allow(const state *d, uint32_t first, uint32_t end, batches *b) {
    for (int pass = 0; pass < 2; pass++) /* those before the first smaller one are looked at with its batch, too */
        for (uint32_t k = first; k < end; k++) {
            step s;
            fw_step_load(d->p, k, &s);
            if (!all_fit(d, s.in, s.record->in_num, b) || !all_fit(d, s.out, s.record->out_num, b)) return false;
        }
    return true;
}

/* ---- tensors and tiles for these shapes ---- */

/* Gives what the group stores a place in DDR. */
static void place_stored(state *d, uint32_t first, uint32_t end) {
    for (uint32_t k = first; k < end; k++) {
        step s;
        fw_step_load(d->p, k, &s);
        if (s.record->opcode != FW_STEP_STORE) continue;
        const tpu_tensor_t *made = d->inferred[s.out[0]];
        if (made == NULL)
            fw_fail(FW_STATUS_BAD_MESSAGE, "step %u stores tensor %u, which no layer of its group makes", (unsigned)k,
                    (unsigned)s.out[0]);
        if (d->ready[s.out[0]]) continue;
        tpu_tensor_t t = *made;
        fw_dynamic_place(d, &s, s.out[0], &t);
        fw_dynamic_settle(d, s.out[0], &t);
    }
}

/* Bytes per NPU from one channel of a tile with these extents to its next. */
static local_addr_t slot_bytes(const tpu_tensor_t *t, const int *extent) {
    const int lines = t->dims > 2 ? extent[2] * (t->dims > 3 ? extent[3] : 1) : 1;
    const int bytes = lines * fw_dtype_bytes(t->dtype) * fw_together(t->store_mode);
    return (local_addr_t)((bytes + CHIP_ALIGN_BYTES - 1) / CHIP_ALIGN_BYTES * CHIP_ALIGN_BYTES);
}

static void clip(state *d, const step *s, uint32_t tile) {
    const fw_program_tensor *r = &d->p->records[tile];
    const uint32_t of = r->alias_of;
    if (!d->ready[of] && d->inferred[of] == NULL)
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u: tensor %u is a tile of tensor %u, which does not exist (any more)",
                (unsigned)s->index, (unsigned)tile, (unsigned)of);
    const tpu_tensor_t *whole = d->ready[of] ? &d->p->tensors[of] : d->inferred[of];
    tpu_tensor_t *t = &d->p->tensors[tile];
    for (uint32_t k = 0; k < t->dims && k < 4; k++) {
        if (k == 1) continue;
        const int64_t left = (int64_t)whole->shape[k] - r->tensor.processed[k];
        t->shape[k] = whole->shape[k];
        if (r->tensor.slice_shape[k] > left) t->slice_shape[k] = left > 0 ? (int)left : 0;
    }
    if (t->dims > 0) t->elem_num = whole->elem_num;
    const uint32_t slot = r->index / FW_SLOT; /* parts of a tile lie one behind the other in it, however large they are */
    t->addr = r->tensor.addr + slot * (uint64_t)slot_bytes(t, t->slice_shape) -
              slot * (uint64_t)slot_bytes(t, r->tensor.slice_shape);
}

/* Cuts a step's tiles where their tensors end. */
static void clip_tiles(state *d, const step *s) {
    for (uint32_t i = 0; i < s->record->in_num + s->record->out_num; i++) {
        const uint32_t t = i < s->record->in_num ? s->in[i] : s->out[i - s->record->in_num];
        if (is_tile(d, t))
            clip(d, s, t);
        else if (!d->ready[t])
            fw_fail(FW_STATUS_BAD_MESSAGE, "step %u moves or reads tensor %u, which is not in DDR", (unsigned)s->index,
                    (unsigned)t);
    }
}

/* ---- running ---- */

static bool is_empty(const tpu_tensor_t *t) {
    for (uint32_t k = 0; k < t->dims && k < 4; k++)
        if (t->slice_shape[k] == 0) return true;
    return false;
}

/* How many of these tensors are tiles without anything left, or all tiles. */
static uint32_t tiles_of(const state *d, const uint32_t *tensors, uint32_t count, bool empty) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += is_tile(d, tensors[i]) && (!empty || is_empty(&d->p->tensors[tensors[i]]));
    return found;
}

/* Whether anything is left of what a step makes, or stores; PARTLY: of some of its tiles, and nothing of others that it
 * cannot do without. */
typedef enum { NOTHING, ALL, PARTLY } work;

static work work_of(const state *d, const step *s) {
    const fw_step *r = s->record;
    const uint32_t in = tiles_of(d, s->in, r->in_num, true), out = tiles_of(d, s->out, r->out_num, true);
    const bool stores = r->opcode == FW_STEP_STORE;
    if (in + out == 0) return ALL;
    return (stores ? in > 0 : out == tiles_of(d, s->out, r->out_num, false)) ? NOTHING : PARTLY;
}

/* Whether what was equal still is: the extents of a layer's inputs, for where they are not, it may repeat one of them; and
 * for a layer of the user's, whose local function may count on it, those of the tiles of an input and an output. */
static bool still_equal(const state *d, const step *s) {
    const fw_step *r = s->record;
    for (uint32_t i = 0; i < r->in_num; i++) {
        const tpu_tensor_t *a = &d->p->tensors[s->in[i]];
        const fw_tensor *was = &d->p->records[s->in[i]].tensor;
        if (a->ttype != BMNET_NEURON) continue;
        for (uint32_t j = 0; j < i + r->out_num; j++) {
            const bool made = j >= i;
            const uint32_t other = made ? s->out[j - i] : s->in[j];
            const tpu_tensor_t *b = &d->p->tensors[other];
            const fw_tensor *then = &d->p->records[other].tensor;
            if (b->ttype != BMNET_NEURON || (made && r->op_type >= FW_BUILTIN_OP_BASE)) continue;
            for (uint32_t k = 2; k < a->dims && k < b->dims && k < 4; k++)
                if (made ? was->slice_shape[k] == then->slice_shape[k] && a->slice_shape[k] != b->slice_shape[k]
                         : was->shape[k] == then->shape[k] && a->shape[k] != b->shape[k])
                    return false;
        }
    }
    return true;
}

/* Whether every step can run on what is left of its tiles, or has nothing left to do. */
static bool tiles_allow(state *d, uint32_t first, uint32_t end) {
    for (uint32_t k = first; k < end; k++) {
        step s;
        fw_step_load(d->p, k, &s);
        for (uint32_t i = 0; i < s.record->in_num; i++)
            if (is_tile(d, s.in[i])) clip(d, &s, s.in[i]);
        for (uint32_t i = 0; i < s.record->out_num; i++)
            if (is_tile(d, s.out[i])) clip(d, &s, s.out[i]);
        if (work_of(d, &s) == PARTLY || (s.record->opcode == FW_STEP_LOCAL && !still_equal(d, &s))) return false;
    }
    return true;
}

uint32_t fw_group_run(state *d, const step *s) {
    const uint32_t first = s->index + 1, global = first + (uint32_t)FW_LOCAL_STEPS(s->record);
    const uint32_t end = global + (uint32_t)FW_GLOBAL_STEPS(s->record);
    batches b = {.may_shrink = s->record->op_type == FW_SHRINKS};
    const bool local = infer(d, global, end) && shapes_allow(d, global, end, &b) &&
                       (!b.smaller || tiles_allow(d, first, global));
    if (local) {
        place_stored(d, first, global);
        for (uint32_t k = first; k < global; k++) {
            step one;
            fw_step_load(d->p, k, &one);
            clip_tiles(d, &one);
            const work left = work_of(d, &one);
            if (left == PARTLY)
                fw_fail(FW_STATUS_SHAPE, "step %u (%s) has tiles with batches, and some with none", (unsigned)k, one.label);
            if (left == ALL) fw_step_run(d->p, &one);
            fw_step_mark(d->p, k);
            fw.platform->flush(0, 0, FW_FLUSH_STEP);
        }
        if (fw.parallel)
            fw_fail(FW_STATUS_BAD_MESSAGE, "step %u: its group leaves a parallel section open", (unsigned)s->index);
        for (uint32_t k = global; k < end; k++) fw_dynamic_release(d, k);
    }
    memset(d->inferred, 0, d->p->head->tensor_count * sizeof *d->inferred);
    return local ? end : global;
}
