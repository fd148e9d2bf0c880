/* Running one step of a program: tiles in and out of local memory, layers, waits. */
#include "fw_program_internal.h"

#include <string.h>

/* ---- moving tiles between system and local memory ---- */

static dim4 dims_of(const int *v) { return (dim4){v[0], v[1], v[2], v[3]}; }

/* One tile: where it begins in the whole tensor, and both layouts. */
static void move_tile(const step *s, const tpu_tensor_t *whole, const tpu_tensor_t *tile, bool load) {
    const int together = fw_together(tile->store_mode), element = fw_dtype_bytes(tile->dtype) * together;
    if (whole->dims > 4 || tile->dims > 4 || whole->store_mode != tile->store_mode || whole->dtype != tile->dtype)
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u (%s): tiles have up to 4 dimensions, and their tensor's type and store mode",
                (unsigned)s->index, s->name);
    uint64_t first = 0;
    for (int d = 0; d < 4; d++) {
        if (whole->shape[d] != tile->shape[d] || tile->processed[d] < 0 || tile->slice_shape[d] < 1 ||
            (int64_t)tile->processed[d] + tile->slice_shape[d] > whole->shape[d])
            fw_fail(FW_STATUS_SHAPE, "step %u (%s): dimension %d: elements %d to %lld of a tile of %d, in a tensor of %d",
                    (unsigned)s->index, s->name, d, tile->processed[d],
                    (long long)tile->processed[d] + tile->slice_shape[d] - 1, tile->shape[d], whole->shape[d]);
        first = first * (uint64_t)whole->shape[d] + (uint64_t)(d == 0 ? tile->processed[0] / together : tile->processed[d]);
    }
    const int end = tile->processed[0] + tile->slice_shape[0];
    if (tile->processed[0] % together != 0 || (end % together != 0 && end != whole->shape[0]))
        fw_fail(FW_STATUS_SHAPE, "step %u (%s): batches %d to %d of a tile do not fill words of %d", (unsigned)s->index,
                s->name, tile->processed[0], end - 1, together);
    dim4 all = dims_of(whole->shape), size = dims_of(tile->slice_shape), outside, inside;
    all.n = fw_batch_words(whole, all.n), size.n = fw_batch_words(tile, size.n);
    fw_continuous_stride(&outside, &all);
    if (tile->ttype == BMNET_COEFF || tile->ttype == BMNET_COEFF_NEURON)
        fw_compact_stride(&inside, 0, &size);
    else
        fw_aligned_stride(&inside, 0, &size, element);
    uint64_t addr = whole->addr + first * (uint64_t)element;
    if (load)
        fw_gdma_load((local_addr_t)tile->addr, addr, &size, &inside, &outside, element);
    else
        fw_gdma_store(addr, (local_addr_t)tile->addr, &size, &outside, &inside, element);
}

/* A tile into some of the channels of another one, which begin on any NPU. */
static void concat_tile(const step *s, const tpu_tensor_t *part, const tpu_tensor_t *tile) {
    const int together = fw_together(part->store_mode), element = fw_dtype_bytes(part->dtype) * together;
    const int *from = part->slice_shape, *to = tile->slice_shape;
    const uint64_t first = FW_CHANNEL(s->record);
    const bool fits = part->dims <= 4 && tile->dims <= 4 && part->dtype == tile->dtype && from[0] == to[0] &&
                      from[2] == to[2] && from[3] == to[3] && from[1] >= 1 && to[1] >= from[1] &&
                      first <= (uint64_t)(to[1] - from[1]);
    if (!fits || part->store_mode != tile->store_mode)
        fw_fail(FW_STATUS_SHAPE, "step %u (%s): a tile [%d, %d, %d, %d] is not part of [%d, %d, %d, %d] from channel %llu on",
                (unsigned)s->index, s->name, from[0], from[1], from[2], from[3], to[0], to[1], to[2], to[3],
                (unsigned long long)first);
    dim4 size = dims_of(from), all = dims_of(to), inside, outside;
    size.n = all.n = fw_batch_words(part, size.n);
    fw_aligned_stride(&inside, 0, &size, element);
    fw_aligned_stride(&outside, 0, &all, element);
    const local_addr_t lane = (local_addr_t)(first % CHIP_NPU_NUM), slot = (local_addr_t)(first / CHIP_NPU_NUM);
    fw_gdma_move((local_addr_t)tile->addr + lane * CHIP_LOCAL_BYTES + slot * (local_addr_t)(outside.c * element),
                 (local_addr_t)part->addr, &size, &outside, &inside, element);
}

/* ---- layer calls ---- */

/* Whether the tile a holds all of the tile b. */
static bool holds(const tpu_tensor_t *a, const tpu_tensor_t *b, uint32_t dims) {
    for (uint32_t d = 0; d < dims; d++) {
        int64_t end = (int64_t)a->processed[d] + a->slice_shape[d];
        if (a->processed[d] > b->processed[d] || end < (int64_t)b->processed[d] + b->slice_shape[d]) return false;
    }
    return true;
}

/* The layer's shape function may say which tile its local function makes of the input tiles. Where
 * it does, that must be the tile the compiler asks for, or hold it if the layer accepts larger tiles. */
static void check_forward(const program *p, const step *s, const tpu_tensor_t *in, const tpu_tensor_t *wanted) {
    tpu_tensor_t out[FW_MAX_TENSORS];
    fw_tensor_prepare(out, s->record->out_num);
    for (uint32_t i = 0; i < s->record->out_num; i++) out[i].scale = wanted[i].scale;
    fw_layer_args args = fw_step_call(s, in, out);
    fw_layer_run(FW_CALL_SHAPE, &args);
    for (uint32_t i = 0; i < s->record->out_num; i++) {
        static const int none[MAX_SHAPE_DIMS];
        if (memcmp(out[i].slice_shape, none, sizeof none) == 0) continue;
        uint32_t dims = wanted[i].dims;
        if ((p->records[s->out[i]].index & FW_LARGER) != 0 && holds(&out[i], &wanted[i], dims)) continue;
        if (memcmp(out[i].slice_shape, wanted[i].slice_shape, dims * sizeof(int)) == 0 &&
            memcmp(out[i].processed, wanted[i].processed, dims * sizeof(int)) == 0)
            continue;
        char text[4][80];
        fw_shape_text(text[0], sizeof text[0], out[i].slice_shape, dims);
        fw_shape_text(text[1], sizeof text[1], out[i].processed, dims);
        fw_shape_text(text[2], sizeof text[2], wanted[i].slice_shape, dims);
        fw_shape_text(text[3], sizeof text[3], wanted[i].processed, dims);
        fw_fail(FW_STATUS_SHAPE,
                "layer %s: shape function says the tile of output %u has extent %s at %s; the compiler asked for %s at "
                "%s: its backward_* methods and its shape function disagree",
                s->label, (unsigned)i, text[0], text[1], text[2], text[3]);
    }
}

static void call_layer(program *p, const step *s) {
    const fw_step *r = s->record;
    bool local = r->opcode == FW_STEP_LOCAL;
    tpu_tensor_t in[FW_MAX_TENSORS] = {{0}}, out[FW_MAX_TENSORS] = {{0}}; /* a layer may look at more than it got */
    for (uint32_t i = 0; i < r->in_num; i++) in[i] = p->tensors[s->in[i]];
    for (uint32_t i = 0; i < r->out_num; i++) out[i] = p->tensors[s->out[i]];
    if (local) {
        check_forward(p, s, in, out);
    } else {
        for (uint32_t i = 0; i < r->in_num; i++) fw_tensor_whole(&in[i]);
        for (uint32_t i = 0; i < r->out_num; i++) fw_tensor_whole(&out[i]);
    }
    bool parallel = fw.parallel;
    fw_layer_args args = fw_step_call(s, in, out);
    fw.gathers = fw_step_gathers(p, s);
    fw.turns = local && !fw.gathers && r->op_type >= FW_BUILTIN_OP_BASE;
    fw.scatters = fw_step_scatters(p, s);
    fw_layer_run(local ? FW_CALL_LOCAL : FW_CALL_GLOBAL, &args);
    fw.gathers = fw.turns = fw.scatters = false;
    if (fw.parallel != parallel)
        fw_fail(FW_STATUS_ASSERT, "layer %s: global function returned inside a parallel section%s", s->label,
                fw_opened());
}

/* What one engine waits for, once the ids of an earlier step are known; after new ids all of it is done. */
static void wait_for(const program *p, const step *s, uint64_t earlier, bool bd) {
    if (earlier >= s->index)
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u waits for step %llu, which is not an earlier one", (unsigned)s->index,
                (unsigned long long)earlier);
    const fw_mark *mark = &p->marks[earlier];
    if (mark->restarts != fw.restarts) return;
    if (bd && mark->gdma_id > fw.gdma_start) fw.gdma_start = mark->gdma_id;
    if (!bd && mark->bd_id > fw.bd_start) fw.bd_start = mark->bd_id;
}

static void wait_step(const program *p, const step *s) {
    if (!fw.parallel)
        fw_fail(FW_STATUS_BAD_MESSAGE, "step %u waits outside a parallel section, where everything is in order",
                (unsigned)s->index);
    wait_for(p, s, FW_BD_AFTER(s->record), true);
    wait_for(p, s, FW_GDMA_AFTER(s->record), false);
}

void fw_step_run(program *p, const step *s) {
    fw.api = "program";
    fw.site = NULL;
    switch (s->record->opcode) {
    case FW_STEP_LOAD: move_tile(s, &p->tensors[s->in[0]], &p->tensors[s->out[0]], true); return;
    case FW_STEP_STORE: move_tile(s, &p->tensors[s->out[0]], &p->tensors[s->in[0]], false); return;
    case FW_STEP_COPY: fw_step_copy(s, &p->tensors[s->in[0]], &p->tensors[s->out[0]]); return;
    case FW_STEP_PARALLEL_START: fw_parallel_start(); return;
    case FW_STEP_PARALLEL_END: fw_parallel_end(); return;
    case FW_STEP_MOVE: concat_tile(s, &p->tensors[s->in[0]], &p->tensors[s->out[0]]); return;
    case FW_STEP_WAIT: wait_step(p, s); return;
    default: call_layer(p, s);
    }
}

void fw_step_mark(program *p, uint32_t index) { p->marks[index] = (fw_mark){fw.bd_id, fw.gdma_id, fw.restarts}; }
