/* TPU_ATTENTION_INT8: softmax(scale * q k' + mask) v for each head in 8 bits, as TPU_ATTENTION with a unit, of operands that
 * lie in local memory as the products beside it make and take them; the result is integers, too.
 *
 * Rows of bytes lie as TPU_TURN_BYTES has them, four elements to a word: queries and values are tokens, `[4, tokens,
 * channels / 4]`, keys channels, `[4, channels, keys / 4]`. So they come in any order that is the same for keys and
 * values; strips of tokens have theirs, in which the last keys may be nobody's. Several batches lie one behind the other,
 * as many tokens of each. Errors are those of TPU_ATTENTION's bytes.
 *
 * Inputs: q, k, v as int8 in 4N, perhaps a mask in fp32 that is added, `[1, queries, a batch's keys or heads * keys]`, and factors
 * of the result's channels, for each lane `[1, 64, channels]`
 * Makes: the result as int8 or uint8, `[4, queries, heads * value_size / 4]`
 */
#include "bm_layer_attend.h"
#include "bm_layer_attend_bytes.h"
#include "bm_layer_packed.h"
#include "okk.h"

enum { QUERY, KEY, VALUE, OPERANDS, MOST = OPERANDS + 2 };

#define HEADS_SCALED 64 /* heads that may have factors of their own */

__BM_PARAM__(TPU_ATTENTION_INT8)
typedef struct {
    int heads;
    int size;       /* elements of a head's query and key, a multiple of four */
    int value_size; /* of its value and result, too */
    int batches;    /* whose queries have keys of their own */
    int from[3];    /* of q, k and v: the first head's first channel, a multiple of four */
    int step[3];    /* and channels from one head to the next */
    int shared;     /* above 1: so many heads of queries, one after another, have one of keys and of values */
    int masked;     /* 1: there is a mask */
    int evened;     /* 1: there are factors, by which the result is multiplied before it is rounded */
    int nobody;     /* of each fourth key of a batch, so many are none, from the last one on */
    float scale;    /* of a product of queries and keys */
    int scaled;     /* 1: also by a factor of each head */
    float scales[HEADS_SCALED];
    float unit; /* what an integer of v stands for */
    int dtype;  /* of the result: DTYPE_INT8 or DTYPE_UINT8 */
    float result_scale;
} tpu_attention_int8_param_t;

static bool fours(int a, int b) { return a % BM_PACKED == 0 && b % BM_PACKED == 0; }

/* Whether an operand's heads are among so many channels. */
static bool has_heads(const tpu_attention_int8_param_t *p, int operand, int channels) {
    const int count = operand != QUERY && p->shared > 1 ? p->heads / p->shared : p->heads;
    const int size = operand == VALUE ? p->value_size : p->size, from = p->from[operand], step = p->step[operand];
    if (size < BM_PACKED || from < 0 || step < 0 || !fours(from, step) || size % BM_PACKED != 0) return false;
    return (long long)from + (long long)(count - 1) * step + size <= channels;
}

/* Whether so many tokens are the batches', a multiple of them of each. */
static bool of_batches(const tpu_attention_int8_param_t *p, int tokens, int multiple) {
    return p->batches > 0 && tokens % ((long long)p->batches * multiple) == 0;
}

static bool has_rows(const tpu_tensor_t *t, int rows, long long columns) {
    return t->dtype == DTYPE_FP32 && t->dims == 3 && t->shape[0] == 1 && t->shape[1] == rows && t->shape[2] == columns;
}

__BM_SHAPE__(TPU_ATTENTION_INT8)
int attention_int8_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                         tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_attention_int8_param_t) || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_attention_int8_param_t *p = param;
    if ((p->masked & ~1) || (p->evened & ~1) || in_num != OPERANDS + p->masked + p->evened) return BM_LAYER_PARAM_INVALID;
    for (int i = 0; i < OPERANDS; i++) {
        const tpu_tensor_t *t = &in_tensors[i];
        if (!bm_is_packed(t) || t->dtype != DTYPE_INT8 || t->dims != 3 || t->shape[0] != BM_PACKED)
            return BM_LAYER_NOT_SUPPORTED;
    }
    if (p->heads < 1 || (p->scaled & ~1) || !(p->unit > 0) || !bm_packed_result(p->dtype, p->result_scale) || p->shared < 0 ||
        (p->shared > 1 && p->heads % p->shared != 0))
        return BM_LAYER_PARAM_INVALID;
    if (p->scaled && p->heads > HEADS_SCALED) return BM_LAYER_NOT_SUPPORTED;
    const int keys = in_tensors[VALUE].shape[1], queries = in_tensors[QUERY].shape[1];
    if (!has_heads(p, QUERY, BM_PACKED * in_tensors[QUERY].shape[2]) || !has_heads(p, KEY, in_tensors[KEY].shape[1]) ||
        !has_heads(p, VALUE, BM_PACKED * in_tensors[VALUE].shape[2]) || keys != BM_PACKED * in_tensors[KEY].shape[2] ||
        !of_batches(p, keys, BM_PACKED) || !of_batches(p, queries, 1) || p->nobody < 0 || p->nobody >= keys / p->batches / BM_PACKED)
        return BM_LAYER_PARAM_INVALID;
    if (p->size > CHIP_CHANNELS_MAX - CHIP_NPU_NUM) return BM_LAYER_NOT_SUPPORTED;
    const int made = p->heads * p->value_size;
    const int seen = keys / p->batches;
    if (p->masked && !has_rows(&in_tensors[OPERANDS], queries, seen) &&
        !has_rows(&in_tensors[OPERANDS], queries, (long long)p->heads * seen))
        return BM_LAYER_PARAM_INVALID;
    if (p->evened && !has_rows(&in_tensors[OPERANDS + p->masked], CHIP_NPU_NUM, made)) return BM_LAYER_PARAM_INVALID;
    bm_packed_output(&out_tensors[0], p->dtype, p->result_scale);
    out_tensors[0].dims = 3;
    out_tensors[0].shape[0] = BM_PACKED;
    out_tensors[0].shape[1] = queries;
    out_tensors[0].shape[2] = made / BM_PACKED;
    return BM_LAYER_OK;
}

/* ---- tiles in local memory ---- */

/* queries, keys: of a batch; inputs: where they lie; mask_row: words of a row of the mask there. */
typedef struct {
    const tpu_attention_int8_param_t *p;
    int queries, keys, columns[OPERANDS], mask_row;
    bool each_head;
    local_addr_t inputs[MOST], result;
} job;

static local_addr_t word(local_addr_t from, int at) { return from + 4u * (local_addr_t)at; }

/* Where a row of a tensor begins whose slots are so many words. 0: where its lane has what is the same for all slots. */
static local_addr_t row_of(local_addr_t from, int row, int slot) { return local_channel(from, row, 4 * slot); }

/* One batch: of its queries as many at a time as there is room for. */
static void attend_one(const job *j, const bm_attend_room *room, local_addr_t work, int batch) {
    const tpu_attention_int8_param_t *p = j->p;
    const int shared = larger(p->shared, 1), value = p->value_size / BM_PACKED;
    bm_head h = {.keys = j->keys, .value = p->value_size, .nobody = p->nobody, .key_slot = local_line(j->columns[KEY]),
                 .value_slot = local_line(j->columns[VALUE]), .masked = p->masked, .each = true, .mask_slot = j->mask_row};
    bm_bytes_result to = {p->unit, p->result_scale, p->dtype == DTYPE_INT8, local_line(p->heads * value), p->evened, 0};
    const int queries_slot = local_line(j->columns[QUERY]), first_key = batch * j->keys, end = (batch + 1) * j->queries;
    for (int row = batch * j->queries; row < end; row += h.rows) {
        h.rows = smaller(room->slots * CHIP_NPU_NUM - row % CHIP_NPU_NUM, end - row);
        h.scores = row_of(work, row, 0);
        h.powers = word(h.scores, room->scores);
        h.work = word(h.powers, room->powers);
        h.product = word(h.work, room->powers);
        h.wide = word(h.product, room->product);
        h.bytes = word(h.wide, room->wide);
        const local_addr_t begun = word(h.bytes, room->bytes);
        for (int head = 0; head < p->heads; head++) {
            const int key = head / shared, channel = p->from[KEY] + key * p->step[KEY];
            h.size = p->size;
            h.before = 0;
            h.scale = p->scale * (p->scaled ? p->scales[head] : 1);
            h.query_slot = queries_slot;
            h.query = word(row_of(j->inputs[QUERY], row, queries_slot), (p->from[QUERY] + head * p->step[QUERY]) / BM_PACKED);
            h.key = word(j->inputs[KEY], channel / CHIP_NPU_NUM * h.key_slot + first_key / BM_PACKED);
            h.values = word(row_of(j->inputs[VALUE], first_key, h.value_slot), (p->from[VALUE] + key * p->step[VALUE]) / BM_PACKED);
            h.result = word(row_of(j->result, row, to.slot), head * value);
            to.factors = word(row_of(j->inputs[OPERANDS + p->masked], row, 0), head * p->value_size);
            h.mask = word(row_of(j->inputs[OPERANDS], row, h.mask_slot), j->each_head ? head * j->keys : 0);
            if (channel % CHIP_NPU_NUM != 0) bm_attend_begun(&h, begun, channel % CHIP_NPU_NUM, BM_PACKED);
            bm_attend_to_bytes(&h, &to);
        }
    }
}

static void attend(const job *j, local_addr_t work) {
    const bm_attend_room room = bm_attend_room_of(j->queries, j->keys, j->p->size, j->p->value_size);
    for (int batch = 0; batch < j->p->batches; batch++) attend_one(j, &room, work, batch);
}

static job job_of(const tpu_attention_int8_param_t *p, const tpu_tensor_t *in) {
    job j = {.p = p, .queries = in[QUERY].shape[1] / p->batches, .keys = in[VALUE].shape[1] / p->batches};
    for (int i = 0; i < OPERANDS; i++) j.columns[i] = in[i].shape[2];
    const tpu_tensor_t *mask = &in[OPERANDS];
    if (p->masked) j.mask_row = mask->ttype == BMNET_COEFF_NEURON ? mask->shape[2] : local_line(mask->shape[2]);
    j.each_head = p->masked && mask->shape[2] > j.keys;
    return j;
}

/* ---- whole tensors: all of them at once ---- */

static local_addr_t words_of(int rows, int columns) { return 4u * (local_addr_t)(local_slots(rows) * local_line(columns)); }

__BM_GLOBAL__(TPU_ATTENTION_INT8)
int attention_int8_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                          const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                          const int out_num) {
    (void)param_size, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_attention_int8_param_t *p = param;
    job j = job_of(p, in_tensors);
    local_addr_t next = 0;
    for (int i = 0; i < in_num; i++) {
        j.inputs[i] = next;
        next += words_of(in_tensors[i].shape[1], in_tensors[i].shape[2]);
    }
    j.result = next;
    const int queries = in_tensors[QUERY].shape[1];
    const local_addr_t work = next + words_of(queries, out_tensors[0].shape[2]);
    if (p->masked) j.mask_row = local_line(in_tensors[OPERANDS].shape[2]);
    const bm_attend_room room = bm_attend_room_of(j.queries, j.keys, p->size, p->value_size);
    if ((long long)work + 4ll * room.all > CHIP_LOCAL_BYTES) return BM_LAYER_NOT_SUPPORTED;
    okk_initialize();
    for (int i = 0; i < in_num; i++) {
        const dim4 shape = {1, in_tensors[i].shape[1], 1, in_tensors[i].shape[2]};
        okk_gdma_32bit_cpy_S2L(j.inputs[i], in_tensors[i].addr, &shape, NULL, NULL);
    }
    attend(&j, work);
    const dim4 made = {1, queries, 1, out_tensors[0].shape[2]};
    okk_gdma_32bit_cpy_L2S(out_tensors[0].addr, j.result, &made, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_ATTENTION_INT8)
int attention_int8_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                         u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)buffer_size, (void)out_num;
    job j = job_of(param, in_tensors);
    for (int i = 0; i < in_num; i++) j.inputs[i] = (local_addr_t)in_tensors[i].addr;
    j.result = (local_addr_t)out_tensors[0].addr;
    attend(&j, (local_addr_t)buffer_offset);
    return BM_LAYER_OK;
}
