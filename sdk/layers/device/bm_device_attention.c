/* TPU_ATTENTION: softmax(scale * q k' + mask) v for each head, in one go: nothing of it but the result goes to DDR.
 *
 * Queries, keys and values lie as [batch, tokens, channels], where the heads are runs of channels (of one tensor for
 * all three, too), or as [batch, heads, tokens, size]; so may the result. Errors are those of TPU_MATMUL and
 * TPU_SOFTMAX; a mask that leaves out all keys of a query gives NaN. Heads may be mixed before and behind the softmax
 * (talking heads).
 *
 * Several heads of queries may share one of keys and values (grouped queries).
 *
 * With a unit it multiplies in 8 bits: q, k and v are rounded to whole numbers of -128 to 127, and v counts units
 * of this size. Scores have 16 bits, and e^x beside the largest one 8, without a sign.
 *
 * Inputs: q, k, v, perhaps a mask that is added
 * Makes: softmax(scale * q * k transposed + mask) * v, for each head
 */
#include "bm_atomic.h"
#include "bm_layer_attend.h"
#include "bm_layer_attend_bytes.h"
#include "bm_layer_functions.h"
#include "bm_layer_rows.h"
#include "bm_layer_rows_bytes.h"
#include "bm_layer_shape.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

enum { QUERY, KEY, VALUE, OPERANDS };

#define HEADS_SCALED 64 /* heads that may have factors of their own */
#define HEADS_MIXED 8   /* heads that may be mixed */

/* Inputs: q, k, v of three dimensions, [batch, tokens, channels], or four, [batch, heads, tokens, size]; and a mask that
 * broadcasts to [batch, heads, queries, keys]. */
__BM_PARAM__(TPU_ATTENTION)
typedef struct {
    int heads;
    int size;          /* elements of a head's query and key, an even number */
    int value_size;    /* of its value and result */
    int from[3];       /* of q, k and v with three dimensions: the first head's first channel */
    int step[3];       /* and channels from one head to the next */
    int apart;         /* 1: the result is [batch, heads, queries, value_size], else [.., queries, heads * value_size] */
    float scale;
    int scaled; /* 1: also by a factor of each head */
    float scales[HEADS_SCALED];
    int mixed; /* 1: there is no mask, and scores of head g are the sum over h of before[g * heads + h] times those of h; */
    float before[HEADS_MIXED * HEADS_MIXED];
    float after[HEADS_MIXED * HEADS_MIXED]; /* and so are weights, plus added[g] */
    float added[HEADS_MIXED];
    int shared; /* above 1: so many heads of queries, one after another, have one of keys and of values */
    int turned; /* 1: k is [batch, heads * size, ...], keys last, and a mask [1 or batch, queries, keys or heads * keys],
                 * one head after the other; nothing is mixed, a result not apart */
    float unit; /* above 0: in 8 bits, of which v counts these units; sizes are multiples of four then, nothing is mixed */
} tpu_attention_param_t;

static bool in_bytes(const tpu_attention_param_t *p) { return p->unit > 0; }

/* ---- shapes ---- */

/* Heads of tokens in DDR, in elements. */
typedef struct {
    system_addr_t addr;
    unsigned long long batch, head, row;
    int tokens, size;
    bool together; /* a token's heads follow one another: they are one run */
} heads;

/* Of keys that are turned; they may be a picture's pixels. */
static int keys_of(const tpu_tensor_t *t) { return (int)bm_layer_elements(t->shape, 2, (int)t->dims); }

static bool heads_of(const tpu_attention_param_t *p, const tpu_tensor_t *t, int operand, heads *h) {
    const bool apart = t->dims == 4;
    const int count = operand != QUERY && p->shared > 1 ? p->heads / p->shared : p->heads;
    if (t->dims != 3 && !apart) return false;
    const int size = operand == VALUE ? p->value_size : p->size, from = p->from[operand], step = p->step[operand];
    if (p->turned && operand == KEY) {
        const unsigned long long keys = (unsigned long long)keys_of(t);
        *h = (heads){.addr = t->addr, .tokens = (int)keys, .size = size, .row = keys};
        h->head = keys * (unsigned long long)size;
        h->batch = keys * (unsigned long long)t->shape[1];
        return t->shape[1] == count * size && from == 0 && step == size;
    }
    const unsigned long long channels = (unsigned long long)t->shape[t->dims - 1];
    *h = (heads){.addr = t->addr, .tokens = t->shape[t->dims - 2], .size = size, .row = channels};
    h->head = apart ? channels * (unsigned long long)h->tokens : (unsigned long long)step;
    h->batch = channels * (unsigned long long)(h->tokens * (apart ? count : 1));
    h->together = !apart && step == size;
    if (apart) return t->shape[1] == count && t->shape[3] == size;
    h->addr += 4ull * (unsigned long long)from;
    return from >= 0 && step >= 0 && (long long)from + (long long)(count - 1) * step + size <= t->shape[2];
}

/* Steps of the mask in elements, 0 where it is broadcast; false where it does not fit. */
static bool mask_steps(const tpu_attention_param_t *p, const tpu_tensor_t *t, const int *extent, long long *step) {
    long long size = 1;
    if (p->turned) {
        if (t->dims != 3) return false;
        const int row = t->shape[2];
        step[3] = 1;
        step[2] = row;
        step[1] = row == extent[3] ? 0 : extent[3];
        step[0] = t->shape[0] == 1 ? 0 : (long long)row * extent[2];
        return (t->shape[0] == 1 || t->shape[0] == extent[0]) && t->shape[1] == extent[2] &&
               (row == extent[3] || (long long)row == (long long)extent[1] * extent[3]);
    }
    if (t->dims > 4) return false;
    for (int i = 0; i < 4; i++) {
        const int d = 3 - i, own = (int)t->dims - 1 - i, has = own < 0 ? 1 : t->shape[own];
        if (has != 1 && has != extent[d]) return false;
        step[d] = has == 1 ? 0 : size;
        size *= has;
    }
    return true;
}

__BM_SHAPE__(TPU_ATTENTION)
int attention_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_attention_param_t) || in_num < 3 || in_num > 4 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_attention_param_t *p = param;
    if (!bm_layer_all_fp32(in_tensors, in_num)) return BM_LAYER_NOT_SUPPORTED;
    if (p->heads < 1 || p->size < 2 || p->size % 2 != 0 || p->value_size < 1 || (p->apart & ~1) || (p->scaled & ~1))
        return BM_LAYER_PARAM_INVALID;
    if ((p->scaled && p->heads > HEADS_SCALED) || (p->mixed && p->heads > HEADS_MIXED)) return BM_LAYER_NOT_SUPPORTED;
    if ((p->mixed & ~1) || (p->mixed && in_num == 4) || !(p->unit >= 0)) return BM_LAYER_PARAM_INVALID;
    if (p->shared < 0 || (p->shared > 1 && (p->mixed || p->heads % p->shared != 0))) return BM_LAYER_PARAM_INVALID;
    const bool rows = in_tensors[QUERY].dims == 3 && in_tensors[VALUE].dims == 3;
    if ((p->turned & ~1) || (p->turned && (!rows || p->mixed || p->apart || in_bytes(p)))) return BM_LAYER_PARAM_INVALID;
    if (in_bytes(p) && (p->mixed || p->size % 4 != 0 || p->value_size % 4 != 0 || p->size > CHIP_CHANNELS_MAX))
        return BM_LAYER_NOT_SUPPORTED;
    heads h[OPERANDS];
    for (int i = 0; i < OPERANDS; i++)
        if (!heads_of(p, &in_tensors[i], i, &h[i]) || in_tensors[i].shape[0] != in_tensors[0].shape[0])
            return BM_LAYER_PARAM_INVALID;
    if (h[KEY].tokens != h[VALUE].tokens) return BM_LAYER_PARAM_INVALID;
    const int extent[4] = {in_tensors[0].shape[0], p->heads, h[QUERY].tokens, h[KEY].tokens};
    long long step[4];
    if (in_num == 4 && !mask_steps(p, &in_tensors[3], extent, step)) return BM_LAYER_PARAM_INVALID;
    tpu_tensor_t *out = &out_tensors[0];
    out->ttype = BMNET_NEURON;
    out->dtype = DTYPE_FP32;
    out->dims = p->apart ? 4 : 3;
    out->shape[0] = extent[0];
    out->shape[1] = p->apart ? p->heads : extent[2];
    if (p->apart) out->shape[2] = extent[2];
    out->shape[out->dims - 1] = p->apart ? p->value_size : p->heads * p->value_size;
    return BM_LAYER_OK;
}

/* ---- what lies where ---- */

/* A tile of heads in local memory, its tokens in channels: words from one head, and from one slot of tokens, to the
 * next. */
typedef struct {
    int head, slot, words; /* words: all of it */
} layout;

typedef struct {
    heads in[OPERANDS], out;
    system_addr_t mask; /* 0: none */
    long long mask_step[4];
    int batches, number, queries, keys;
    float scale, unit;
    const float *scales; /* of heads, beside scale; NULL: none */
    const tpu_attention_param_t *mixes; /* NULL: heads are not mixed */
    bool keys_turned;    /* in DDR, too */
    bool whole;          /* q, k and v of a token are loaded as one run, channels of one tensor */
    int from[OPERANDS];  /* the first channel of each in it */
    int shared;         /* heads of queries that have one of keys and values */
    int packed;         /* elements of q, k and v in a word: 1, or 4 bytes */
    int together, rows; /* heads and queries of a turn, at most */
    layout lies[OPERANDS], made, turned, masked; /* turned: keys with their elements in channels */
    local_addr_t raw[2], query[2], key[2], value[2], result[2], masks[2], scores, powers, work, product, mixing, wide, bytes;
    int score; /* words of a lane that scores of a head take */
} job;

static layout layout_of(const heads *h, int count, int tokens, int packed) {
    layout l;
    const int slots = local_slots(tokens), size = h->size / packed;
    l.slot = local_line(h->together ? count * size : size);
    l.head = h->together ? size : slots * l.slot;
    l.words = slots * l.slot * (h->together ? 1 : count);
    return l;
}

/* Heads of keys and values for these of queries. */
static int key_heads(const job *j, int count) { return divide_up(count, j->shared); }

/* Places for turns of this size; how many words of a lane they take. */
static long long lay_out(job *j, int together, int rows) {
    const int score = local_slots(rows) * local_line(j->keys), slots = local_slots(j->in[QUERY].size);
    const int value = local_slots(rows) * local_line(j->in[VALUE].size), keys = divide_up(j->keys, j->packed);
    const int wide = local_slots(rows) * bm_wide_slot(larger(j->keys, j->in[VALUE].size));
    const bool bytes = j->packed > 1;
    j->together = together;
    j->rows = rows;
    j->lies[QUERY] = layout_of(&j->in[QUERY], together, rows, j->packed);
    j->lies[KEY] = layout_of(&j->in[KEY], key_heads(j, together), j->keys, j->packed);
    j->lies[VALUE] = layout_of(&j->in[VALUE], key_heads(j, together), j->keys, j->packed);
    if (j->whole) {
        const int line = local_line(divide_up((int)j->in[KEY].row, j->packed));
        for (int i = 0; i < OPERANDS; i++)
            j->lies[i] = (layout){(int)j->in[i].head / j->packed, line, i == KEY ? local_slots(j->keys) * line : 0};
    }
    j->made = layout_of(&j->out, together, rows, 1);
    if (j->keys_turned) j->lies[KEY].words = 0;
    const int turned = slots * local_line(keys);
    j->turned = (layout){turned, local_line(keys), key_heads(j, together) * turned};
    j->masked = (layout){j->mask_step[1] != 0 ? score : 0, local_line(j->keys), 0};
    j->masked.words = j->mask == 0 ? 0 : j->mask_step[1] != 0 ? together * score : score;
    const struct {
        local_addr_t *place;
        int words;
    } all[] = {{&j->raw[0], j->lies[KEY].words},
               {&j->raw[1], j->whole ? j->lies[KEY].words : 0},
               {&j->query[0], j->lies[QUERY].words},
               {&j->query[1], j->lies[QUERY].words},
               {&j->key[0], j->turned.words},
               {&j->key[1], j->turned.words},
               {&j->value[0], j->lies[VALUE].words},
               {&j->value[1], j->lies[VALUE].words},
               {&j->result[0], j->made.words},
               {&j->result[1], j->made.words},
               {&j->masks[0], j->masked.words},
               {&j->masks[1], j->masked.words},
               {&j->scores, bytes ? larger(score, value) : score},
               {&j->powers, score},
               {&j->work, score},
               {&j->product, value},
               {&j->wide, bytes ? wide : 0},
               {&j->bytes, bytes ? local_slots(rows) * local_line(keys) : 0},
               {&j->mixing, j->mixes != NULL ? 2 * j->number * score : 0}};
    j->score = score;
    long long words = 0;
    for (int i = 0; i < BM_COUNT(all); i++) {
        *all[i].place = (local_addr_t)(4 * words);
        words += all[i].words;
    }
    for (int i = 0; i < 2 && j->whole; i++) {
        j->query[i] = j->raw[i] + 4u / (unsigned)j->packed * (local_addr_t)j->from[QUERY];
        j->value[i] = j->raw[i] + 4u / (unsigned)j->packed * (local_addr_t)j->from[VALUE];
    }
    return words;
}

/* Whether a token's q, k and v are most of a run of one tensor, and all heads and queries fit at a time. */
static bool plan_whole(job *j) {
    const heads *q = &j->in[QUERY], *k = &j->in[KEY], *v = &j->in[VALUE];
    const unsigned long long used = (unsigned long long)(j->number * q->size) +
                                    (unsigned long long)(key_heads(j, j->number) * (k->size + v->size));
    if (j->queries != j->keys || q->row != k->row || q->row != v->row || 3 * used < 2 * k->row) return false;
    if (q->addr - 4ull * (unsigned int)j->from[QUERY] != k->addr - 4ull * (unsigned int)j->from[KEY] ||
        k->addr - 4ull * (unsigned int)j->from[KEY] != v->addr - 4ull * (unsigned int)j->from[VALUE] ||
        j->from[QUERY] % 2 != 0 || (j->number > 1 && q->head % 2 != 0))
        return false;
    for (int i = 0; i < OPERANDS && j->packed > 1; i++) /* heads begin at words */
        if (j->from[i] % j->packed != 0 || (j->number > 1 && j->in[i].head % (unsigned int)j->packed != 0)) return false;
    if (k->row > CHIP_EXTENT_MAX || j->keys > CHIP_CHANNELS_MAX) return false;
    j->whole = true;
    j->whole = lay_out(j, j->number, j->queries) <= CHIP_LOCAL_WORDS;
    return j->whole;
}

/* About half as many heads, all of some keys or a part of those of one. */
static int fewer(const job *j, int together) {
    if (together > j->shared) return divide_up(together / j->shared, 2) * j->shared;
    int count = together / 2;
    while (j->shared % count != 0) count--;
    return count;
}

/* As many heads together as fit with a slot of queries, then as many queries. False where not even one head fits. */
static bool plan(job *j, bool one_tensor) {
    if (one_tensor && plan_whole(j)) return true;
    int together = j->number, slots = smaller(local_slots(j->queries), CHIP_CHANNELS_MAX / CHIP_NPU_NUM);
    while (together > 1 && j->mixes == NULL && lay_out(j, together, smaller(CHIP_NPU_NUM, j->queries)) > CHIP_LOCAL_WORDS)
        together = fewer(j, together);
    while (slots > 1 && lay_out(j, together, smaller(slots * CHIP_NPU_NUM, j->queries)) > CHIP_LOCAL_WORDS)
        slots = divide_up(slots, 2);
    slots = divide_up(local_slots(j->queries), divide_up(local_slots(j->queries), slots));
    return lay_out(j, together, smaller(slots * CHIP_NPU_NUM, j->queries)) <= CHIP_LOCAL_WORDS;
}

/* ---- turns: some queries of some heads of a batch ---- */

typedef struct {
    int batch, head, heads, query, queries;
    int key_at, query_at, mask_at; /* which buffers */
    bool loads_keys, loads_mask;
    system_addr_t mask;
} turn;

static void complete(const job *j, turn *t, const turn *before) {
    t->heads = smaller(j->together, j->number - t->head);
    t->queries = smaller(j->rows, j->queries - t->query);
    t->loads_keys = before == NULL || before->batch != t->batch || before->head / j->shared != t->head / j->shared;
    const long long mask = t->batch * j->mask_step[0] + t->head * j->mask_step[1] + t->query * j->mask_step[2];
    t->mask = j->mask + 4ull * (unsigned long long)mask;
    t->loads_mask = j->mask != 0 && (before == NULL || before->mask != t->mask || before->queries != t->queries ||
                                     before->heads != t->heads);
    t->key_at = before == NULL ? 0 : before->key_at ^ (int)t->loads_keys;
    t->mask_at = before == NULL ? 0 : before->mask_at ^ (int)t->loads_mask;
    t->query_at = before == NULL ? 0 : before->query_at ^ 1;
}

static bool next_turn(const job *j, const turn *now, turn *next) {
    *next = *now;
    if ((next->query += j->rows) >= j->queries) {
        next->query = 0;
        if ((next->head += j->together) >= j->number) {
            next->head = 0;
            if (++next->batch == j->batches) return false;
        }
    }
    complete(j, next, now);
    return true;
}

/* From fp32 in DDR, to bytes if there are several in a word. near: steps in words. */
static void fetch(int packed, local_addr_t local, system_addr_t far, const dim4 *shape, const dim4 *near,
                  const dim4 *stride) {
    if (packed == 1) {
        okk_gdma_32bit_cpy_S2L(local, far, shape, near, stride);
        return;
    }
    const unsigned int n = (unsigned)shape->n, c = (unsigned)shape->c, w = (unsigned)shape->w;
    const MemCpy4DParam param = {.src_addr = far,
                                 .src_shape = {n, c, 1, w},
                                 .src_stride = {(unsigned)stride->n, (unsigned)stride->c, w, 1},
                                 .src_format = BM_GDMA_FORMAT_FLOAT32,
                                 .dst_addr = local,
                                 .dst_shape = {n, c, 1, w},
                                 .dst_stride = {4u * (unsigned)near->n, 4u * (unsigned)near->c, w, 1},
                                 .dst_format = BM_GDMA_FORMAT_INT8,
                                 .direction = BM_GDMA_DIR_S2L};
    bm_atomic_memcpy_4D(&param);
}

/* Tokens of the turn's heads between DDR and local memory; shared: heads of the turn that have one of these. */
static void move(const heads *h, const layout *l, const turn *t, local_addr_t local, int first, int tokens,
                 bool to_local, int packed, int shared) {
    const unsigned long long at = (unsigned long long)t->batch * h->batch +
                                  (unsigned long long)(t->head / shared) * h->head +
                                  (unsigned long long)first * h->row;
    const int count = divide_up(t->heads, shared);
    const system_addr_t far = h->addr + 4 * at;
    dim4 shape, near, stride;
    if (h->together) { /* a token's heads are one run */
        shape = (dim4){1, tokens, 1, count * h->size};
        near = (dim4){0, l->slot, shape.w, 1};
        stride = (dim4){0, (int)h->row, shape.w, 1};
    } else {
        shape = (dim4){count, tokens, 1, h->size};
        near = (dim4){l->head, l->slot, h->size, 1};
        stride = (dim4){(int)h->head, (int)h->row, h->size, 1};
    }
    if (to_local)
        fetch(packed, local, far, &shape, &near, &stride);
    else
        okk_gdma_32bit_cpy_L2S(far, local, &shape, &stride, &near);
}

static void load(const job *j, const turn *t) {
    local_addr_t keys = j->raw[0];
    if (j->whole) { /* a turn has a batch */
        const dim4 shape = {1, j->keys, 1, (int)j->in[KEY].row}, near = {0, j->lies[KEY].slot, shape.w, 1};
        const dim4 stride = {0, shape.w, shape.w, 1};
        const system_addr_t far = j->in[KEY].addr - 4ull * (unsigned int)j->from[KEY];
        fetch(j->packed, j->raw[t->key_at], far + 4ull * (unsigned int)t->batch * j->in[KEY].batch, &shape, &near,
              &stride);
        keys = j->raw[t->key_at] + 4u / (unsigned)j->packed * (local_addr_t)j->from[KEY];
    } else {
        move(&j->in[QUERY], &j->lies[QUERY], t, j->query[t->query_at], t->query, t->queries, true, j->packed, 1);
    }
    if (t->loads_keys) {
        if (j->keys_turned) {
            const heads *h = &j->in[KEY];
            const dim4 shape = {key_heads(j, t->heads), h->size, 1, j->keys}, stride = {(int)h->head, j->keys, j->keys, 1};
            const dim4 near = {j->turned.head, j->turned.slot, j->keys, 1};
            const unsigned long long at =
                (unsigned int)t->batch * h->batch + (unsigned int)(t->head / j->shared) * h->head;
            okk_gdma_32bit_cpy_S2L(j->key[t->key_at], h->addr + 4 * at, &shape, &near, &stride);
        } else if (!j->whole) {
            move(&j->in[KEY], &j->lies[KEY], t, keys, 0, j->keys, true, j->packed, j->shared);
        }
        if (!j->whole)
            move(&j->in[VALUE], &j->lies[VALUE], t, j->value[t->key_at], 0, j->keys, true, j->packed, j->shared);
        for (int i = 0; i < key_heads(j, t->heads) && !j->keys_turned; i++) {
            const CWTransParam turned = {.src_addr = keys + 4u * (local_addr_t)(i * j->lies[KEY].head),
                                         .dst_addr = j->key[t->key_at] + 4u * (local_addr_t)(i * j->turned.head),
                                         .src_c = (unsigned int)(divide_up(j->keys, j->packed) * j->packed),
                                         .src_w = (unsigned int)j->in[KEY].size,
                                         .format = j->packed > 1 ? BM_GDMA_FORMAT_INT8 : BM_GDMA_FORMAT_FLOAT32,
                                         .src_c_stride = (unsigned int)(j->packed * j->lies[KEY].slot),
                                         .dst_c_stride = (unsigned int)(j->packed * j->turned.slot)};
            bm_atomic_cwtrans(&turned);
        }
    }
    if (!t->loads_mask) return;
    const int count = j->mask_step[1] != 0 ? t->heads : 1;
    const dim4 shape = {count, t->queries, 1, j->keys}, near = {j->masked.head, j->masked.slot, j->keys, 1};
    if (j->mask_step[3] != 0) {
        const dim4 stride = {(int)j->mask_step[1], (int)j->mask_step[2], j->keys, 1};
        okk_gdma_32bit_cpy_S2L(j->masks[t->mask_at], t->mask, &shape, &near, &stride);
        return;
    }
    const dim4 one = {count, t->queries, 1, 1}, stride = {(int)j->mask_step[1], (int)j->mask_step[2], 1, 1};
    okk_gdma_32bit_cpy_S2L(j->masks[t->mask_at], t->mask, &one, &near, &stride);
}

/* Which of the turn's keys and values a head of it has. */
static int key_of(const job *j, const turn *t, int head) { return (t->head + head) / j->shared - t->head / j->shared; }

/* A head of a turn, where it is computed. */
static bm_head head_of(const job *j, const turn *t, int head) {
    const int key = key_of(j, t, head);
    return (bm_head){.rows = t->queries,
                     .size = j->in[QUERY].size,
                     .keys = j->keys,
                     .value = j->in[VALUE].size,
                     .query_slot = j->lies[QUERY].slot,
                     .key_slot = j->turned.slot,
                     .value_slot = j->lies[VALUE].slot,
                     .result_slot = j->made.slot,
                     .mask_slot = j->masked.slot,
                     .query = j->query[t->query_at] + 4u * (local_addr_t)(head * j->lies[QUERY].head),
                     .key = j->key[t->key_at] + 4u * (local_addr_t)(key * j->turned.head),
                     .values = j->value[t->key_at] + 4u * (local_addr_t)(key * j->lies[VALUE].head),
                     .result = j->result[t->query_at] + 4u * (local_addr_t)(head * j->made.head),
                     .mask = j->masks[t->mask_at] + 4u * (local_addr_t)(head * j->masked.head),
                     .masked = j->mask != 0,
                     .each = j->mask_step[3] != 0,
                     .scale = j->scale * (j->scales != NULL ? j->scales[t->head + head] : 1),
                     .scores = j->scores,
                     .powers = j->powers,
                     .work = j->work,
                     .product = j->product,
                     .wide = j->wide,
                     .bytes = j->bytes};
}

static void compute(const job *j, const turn *t, int head) {
    const bm_head h = head_of(j, t, head);
    if (j->packed > 1)
        bm_attend_in_bytes(&h, j->unit);
    else
        bm_attend(&h);
}

/* Head g of sums over all heads of what lies one head after the other at x. */
static void mix(const job *j, int g, local_addr_t y, local_addr_t x, const float *factors, const dim4 *shape) {
    okk_bdc_mul_C(y, x, factors[g * j->number], shape, NULL, NULL);
    for (int h = 1; h < j->number; h++)
        okk_bdc_mac_C(y, x + 4u * (local_addr_t)(h * j->score), factors[g * j->number + h], shape, NULL, NULL);
}

/* The same of all heads, which are mixed. */
static void compute_mixed(const job *j, const turn *t) {
    const int value = j->in[VALUE].size, line = local_line(j->keys);
    const local_addr_t first = j->mixing, second = first + 4u * (local_addr_t)(j->number * j->score);
    const dim4 shape = {1, t->queries, 1, j->keys}, last = {1, t->queries, 1, 1};
    const dim4 stride = {0, line, line, 1}, once = {0, line, line, 0};
    for (int h = 0; h < j->number; h++) {
        const bm_row_product scores = {t->queries, j->in[QUERY].size, j->keys, j->lies[QUERY].slot, line, line};
        const local_addr_t to = first + 4u * (local_addr_t)(h * j->score);
        const float scale = j->scale * (j->scales != NULL ? j->scales[h] : 1);
        bm_multiply_rows(&scores, to, j->query[t->query_at] + 4u * (local_addr_t)(h * j->lies[QUERY].head),
                         j->key[t->key_at] + 4u * (local_addr_t)(h * j->turned.head));
        if (scale != 1) okk_bdc_mul_C(to, to, scale, &shape, NULL, NULL);
    }
    for (int g = 0; g < j->number; g++)
        mix(j, g, second + 4u * (local_addr_t)(g * j->score), first, j->mixes->before, &shape);
    for (int g = 0; g < j->number; g++) {
        const local_addr_t x = second + 4u * (local_addr_t)(g * j->score);
        const local_addr_t y = first + 4u * (local_addr_t)(g * j->score);
        bm_row_powers(y, x, x, j->work, &shape);
        bm_row_reciprocals(x, j->work, &last, &stride);
        okk_bdc_mul(y, y, x, &shape, &stride, &stride, &once);
    }
    for (int g = 0; g < j->number; g++) {
        mix(j, g, second, first, j->mixes->after, &shape);
        if (j->mixes->added[g] != 0) okk_bdc_add_C(second, second, j->mixes->added[g], &shape, NULL, NULL);
        if (j->keys % 2 != 0)
            okk_bdc_32bit_set_C(second + 4u * (local_addr_t)j->keys, (x32){.u32 = 0}, &last, &stride);
        const bm_row_product weighted = {t->queries, j->keys, value, line, j->lies[VALUE].slot, local_line(value)};
        bm_multiply_rows(&weighted, j->product, second,
                         j->value[t->key_at] + 4u * (local_addr_t)(g * j->lies[VALUE].head));
        const dim4 made = {1, t->queries, 1, value}, to = {0, j->made.slot, value, 1};
        const dim4 from = {0, local_line(value), value, 1};
        okk_bdc_32bit_cpy(j->result[t->query_at] + 4u * (local_addr_t)(g * j->made.head), j->product, &made, &to, &from);
    }
}

/* Keys in bytes are columns of four: those that complete the last four are 0. */
static void clear_ends(const job *j) {
    const int lanes = j->packed > 1 ? (4 - j->keys % 4) % 4 : 0;
    const int words = j->whole ? j->lies[KEY].slot : j->lies[KEY].words;
    if (lanes == 0) return;
    const int steps = j->in[KEY].together ? 1 : key_heads(j, j->together);
    const dim4 ends = {steps, lanes, 1, j->lies[KEY].slot};
    const dim4 stride = {words / steps, 0, 0, 1};
    for (int i = 0; i < (j->whole ? 2 : 1); i++)
        okk_bdc_32bit_set_C(local_channel(j->raw[i], j->keys, 4 * j->lies[KEY].slot), (x32){.u32 = 0}, &ends, &stride);
}

__BM_GLOBAL__(TPU_ATTENTION)
int attention_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                     const int out_num) {
    (void)param_size, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_attention_param_t *p = param;
    job j = {.batches = in_tensors[0].shape[0], .number = p->heads, .scale = p->scale};
    bool one_tensor = !p->turned;
    for (int i = 0; i < OPERANDS; i++) {
        if (!heads_of(p, &in_tensors[i], i, &j.in[i])) return BM_LAYER_PARAM_INVALID;
        j.from[i] = p->from[i];
        one_tensor &= in_tensors[i].dims == 3;
    }
    if (p->scaled) j.scales = p->scales;
    if (p->mixed) j.mixes = p;
    j.shared = larger(p->shared, 1);
    j.unit = p->unit;
    j.keys_turned = p->turned;
    j.packed = in_bytes(p) ? 4 : 1;
    j.queries = j.in[QUERY].tokens;
    j.keys = j.in[KEY].tokens;
    const tpu_attention_param_t result = {.heads = p->heads, .value_size = p->value_size,
                                          .step = {0, 0, p->value_size}};
    if (!heads_of(&result, &out_tensors[0], VALUE, &j.out)) return BM_LAYER_PARAM_INVALID;
    if (in_num == 4) {
        const int extent[4] = {j.batches, p->heads, j.queries, j.keys};
        if (!mask_steps(p, &in_tensors[3], extent, j.mask_step)) return BM_LAYER_PARAM_INVALID;
        j.mask = in_tensors[3].addr;
    }
    if (!plan(&j, one_tensor)) return BM_LAYER_NOT_SUPPORTED;

    /* While one turn is computed, the next one's operands are loaded and the last one's results stored. */
    okk_initialize();
    clear_ends(&j);
    turn now = {0}, next = {0}, stored = {0};
    complete(&j, &now, NULL);
    load(&j, &now);
    for (bool more = true, storing = false; more || storing;) {
        const bool computing = more;
        okk_parallel_start();
        if (computing) {
            more = next_turn(&j, &now, &next);
            if (more) load(&j, &next);
            if (j.mixes != NULL) compute_mixed(&j, &now);
            for (int i = 0; i < now.heads && j.mixes == NULL; i++)
                compute(&j, &now, i);
        }
        if (storing)
            move(&j.out, &j.made, &stored, j.result[stored.query_at], stored.query, stored.queries, false, 1, 1);
        okk_parallel_end();
        storing = computing;
        stored = now;
        now = next;
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: keys come turned, queries and values are rows of lanes ---- */

static local_addr_t word(const tpu_tensor_t *t, int at) { return (local_addr_t)t->addr + 4u * (local_addr_t)at; }

__BM_LOCAL__(TPU_ATTENTION)
int attention_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)buffer_size, (void)out_num;
    const tpu_attention_param_t *p = param;
    const int queries = in_tensors[0].shape[1], keys = keys_of(&in_tensors[1]), shared = larger(p->shared, 1);
    const int slots = bm_attend_slots(queries, keys), line = local_line(keys);
    const local_addr_t work = (local_addr_t)buffer_offset;
    const layout q = {p->step[QUERY], local_line(in_tensors[0].shape[2]), 0};
    const layout v = {p->step[VALUE], local_line(in_tensors[2].shape[2]), 0};
    bm_head h = {.keys = keys, .value = p->value_size, .key_slot = line, .value_slot = v.slot,
                 .result_slot = local_line(out_tensors[0].shape[2]), .masked = in_num == 4, .each = true};
    const bool each_batch = h.masked && in_tensors[3].shape[0] > 1, each_head = h.masked && in_tensors[3].shape[2] > keys;
    if (h.masked) {
        const int row = in_tensors[3].shape[2];
        h.mask_slot = in_tensors[3].ttype == BMNET_COEFF_NEURON ? row : local_line(row);
    }
    h.scores = work;
    h.powers = h.scores + 4u * (local_addr_t)(slots * line);
    h.work = h.powers + 4u * (local_addr_t)(slots * line);
    h.product = h.work + 4u * (local_addr_t)(slots * line);
    const local_addr_t begun = h.product + 4u * (local_addr_t)(slots * local_line(h.value));
    for (int n = 0; n < in_tensors[0].slice_shape[0]; n++)
        for (int slot = 0; slot < local_slots(queries); slot += slots)
            for (int head = 0; head < p->heads; head++) {
                const int key = head / shared, channel = key * p->size;
                const int first = n * local_slots(queries) + slot;
                const int key_slot = n * local_slots(in_tensors[1].shape[1]) + channel / CHIP_NPU_NUM;
                h.rows = smaller(slots * CHIP_NPU_NUM, queries - slot * CHIP_NPU_NUM);
                h.size = p->size;
                h.scale = p->scale * (p->scaled ? p->scales[head] : 1);
                h.query_slot = q.slot;
                const int query = p->from[QUERY] + head * q.head;
                h.query = word(&in_tensors[0], first * q.slot + query);
                h.key = word(&in_tensors[1], key_slot * line);
                h.values = word(&in_tensors[2], n * local_slots(keys) * v.slot + p->from[VALUE] + key * v.head);
                h.result = word(&out_tensors[0], first * h.result_slot + head * h.value);
                if (h.masked)
                    h.mask = word(&in_tensors[3], (each_batch ? first : slot) * h.mask_slot + (each_head ? head * keys : 0));
                if (channel % CHIP_NPU_NUM != 0 || query % 2 != 0) bm_attend_begun(&h, begun, channel % CHIP_NPU_NUM, 1);
                bm_attend(&h);
            }
    return BM_LAYER_OK;
}
