/* TPU_PAD: elements around its input, or cut off where a number is negative; any type.
 *
 * Inputs: x of any type
 * Makes: elements around x, or less of it
 */
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_PAD)
typedef struct {
    int mode; /* 0: a constant, 1: mirrored without the edge, 2: the edge, 3: from the other end (wrapped) */
    int before[MAX_SHAPE_DIMS], after[MAX_SHAPE_DIMS]; /* elements added at both ends of each dimension */
    float value; /* the constant for fp32 */
    int bits;    /* for other types its bits: for integers the number itself, whatever their scale */
} tpu_pad_param_t;

enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

/* What a dimension of the output holds: elements [first, first + count) of the output are elements
 * [source, source + count) of the input. */
typedef struct {
    int first, count, source;
} inside;

static inside inside_of(const tpu_pad_param_t *p, const tpu_tensor_t *in, int d) {
    const int before = p->before[d], after = p->after[d];
    inside s = {before > 0 ? before : 0, in->shape[d], before < 0 ? -before : 0};
    s.count -= s.source + (after < 0 ? -after : 0);
    return s;
}

/* Where the elements of a dimension before or behind the input come from, as indices of the output. */
typedef struct {
    int mode, start; /* start: the first element wanted */
    inside s;
} outside;

static int outside_at(const void *list, int i) {
    const outside *o = list;
    int at = o->start + i - o->s.first; /* as index of what is inside */
    const int last = o->s.count - 1;
    if (o->mode == PAD_EDGE) {
        at = at < 0 ? 0 : last;
    } else {
        const int period = o->mode == PAD_WRAP ? o->s.count : last > 0 ? 2 * last : 1;
        at %= period;
        if (at < 0) at += period;
        if (at > last) at = period - at;
    }
    return o->s.first + at;
}

/* The constant as often as the tensor has batches in a word. */
static unsigned int filling(const tpu_pad_param_t *p, const tpu_tensor_t *t) {
    const unsigned int bits = (unsigned int)p->bits;
    switch (bm_layer_together(t)) {
    case 4:
        return 0x01010101u * (unsigned char)bits;
    case 2:
        return 0x00010001u * (unsigned short)bits;
    default:
        return t->dtype == DTYPE_FP32 ? (x32){.fp32 = p->value}.u32 : bits;
    }
}

/* Elements [start, start + count) of dimension d; of the dimensions before d what is inside, of those behind it
 * all. value: the constant. */
static void fill(const tpu_pad_param_t *p, const tpu_tensor_t *in, const tpu_tensor_t *out, unsigned int value, int d,
                 int start, int count) {
    if (count < 1) return;
    bm_move m = {.dims = 0};
    const int bytes = bm_element_bytes(out->dtype);
    const long long stride = bm_stride_of(out, d);
    u64 plane = out->addr;
    for (int i = 0; i < (int)out->dims; i++) {
        const inside s = inside_of(p, in, i);
        const long long step = bm_stride_of(out, i);
        if (i < d) plane += (u64)(s.first * step * bytes);
        if (i != d) bm_move_add(&m, i < d ? s.count : out->shape[i], step, step);
    }
    const u64 target = plane + (u64)(start * stride * bytes);
    if (p->mode == PAD_CONSTANT) {
        bm_move_add(&m, count, stride, stride);
        bm_move_fill(target, value, &m, bytes);
        return;
    }
    const outside o = {p->mode, start, inside_of(p, in, d)};
    bm_move_indexed(target, plane, &m, bytes, stride, stride, outside_at, &o, count);
}

__BM_SHAPE__(TPU_PAD)
int pad_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
              tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_pad_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_pad_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    if (p->mode < PAD_CONSTANT || p->mode > PAD_WRAP) return BM_LAYER_PARAM_INVALID;
    bm_output_like(&out_tensors[0], in, (int)in->dims);
    for (int d = 0; d < MAX_SHAPE_DIMS; d++) {
        const long long before = p->before[d], after = p->after[d];
        if (d >= (int)in->dims) {
            if (before != 0 || after != 0) return BM_LAYER_PARAM_INVALID;
            continue;
        }
        const long long cut = (before < 0 ? -before : 0) + (after < 0 ? -after : 0);
        const long long extent = in->shape[d] + before + after;
        /* Something of the input has to be left to pad with. */
        if (cut >= in->shape[d] || extent > 0x7fffffff) return BM_LAYER_PARAM_INVALID;
        out_tensors[0].shape[d] = (int)extent;
    }
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_PAD)
int pad_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_pad_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const tpu_tensor_t *in = &x, *out = &y;
    const int bytes = bm_element_bytes(in->dtype);
    bm_move m = {.dims = 0};
    u64 source = in->addr, target = out->addr;
    for (int d = 0; d < (int)in->dims; d++) {
        const inside s = inside_of(p, in, d);
        const long long to = bm_stride_of(out, d), from = bm_stride_of(in, d);
        bm_move_add(&m, s.count, to, from);
        target += (u64)(s.first * to * bytes);
        source += (u64)(s.source * from * bytes);
    }
    const unsigned int value = filling(p, &out_tensors[0]);
    okk_initialize();
    bm_move_run(target, source, &m, bytes);
    for (int d = (int)in->dims - 1; d >= 0; d--) {
        const inside s = inside_of(p, in, d);
        fill(p, in, out, value, d, 0, s.first);
        fill(p, in, out, value, d, s.first + s.count, out->shape[d] - s.first - s.count);
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- in local memory: around rows and columns, the descriptor lets nothing else come here ---- */

/* Rows or columns of the tiles: elements [first, first + count) of the output, of the input those from `low` on. */
typedef struct {
    int mode;
    inside s;
    int extent; /* of the whole output */
    int first, count, low, held;
} tile_axis;

/* The next elements of a tile of the output that one command can copy: they begin at element `to` of it and come from
 * element `from` of the input's tile, and then every `step` elements. */
typedef struct {
    int to, count, from, step;
    bool within; /* the tensor itself, not what is around it */
} piece;

static tile_axis tile_axis_of(const tpu_pad_param_t *p, const tpu_tensor_t *in, const tpu_tensor_t *out, int d) {
    return (tile_axis){p->mode, inside_of(p, in, d), out->shape[d], out->processed[d], out->slice_shape[d],
                       in->processed[d], in->slice_shape[d]};
}

static piece piece_at(const tile_axis *a, int to) {
    const outside o = {a->mode, a->first + to, a->s};
    const int at = o.start - a->s.first; /* as index of the input */
    const int end = at < 0 ? a->s.first : at < a->s.count ? a->s.first + a->s.count : a->extent;
    const int count = smaller(a->count - to, end - o.start);
    if (at >= 0 && at < a->s.count) return (piece){to, count, at - a->low, 1, true};
    const bm_runs r = bm_runs_of(outside_at, &o, 0, count, false);
    return (piece){to, r.length, outside_at(&o, 0) - a->s.first - a->low, r.step, false};
}

/* Whether the input's tile has all that the output's is made of. */
static bool has_all(const tile_axis *a) {
    for (piece p = piece_at(a, 0);; p = piece_at(a, p.to + p.count)) {
        if (p.from < 0 || p.from + (p.count - 1) * p.step >= a->held) return false;
        if (p.to + p.count == a->count) return true;
    }
}

typedef struct {
    local_addr_t x, y;
    tile_axis h, w;
    dim4 shape, in, out; /* of the output; strides */
} mirrored;

static void copy_piece(const mirrored *m, local_addr_t source, dim4 stride, piece h, piece w) {
    const dim4 shape = {m->shape.n, m->shape.c, h.count, w.count};
    const local_addr_t target = m->y + 4u * (local_addr_t)(h.to * m->out.h + w.to);
    source += 4u * (local_addr_t)(h.from * stride.h + w.from);
    stride.h *= h.step;
    stride.w = w.step;
    okk_bdc_32bit_cpy(target, source, &shape, &m->out, &stride);
}

/* All rows of these columns: at once from columns of the output that are complete, if it has those that are wanted. */
static void copy_columns(const mirrored *m, piece w) {
    piece there = w;
    there.from += m->w.low + m->w.s.first - m->w.first;
    if (!w.within && there.from >= 0 && there.from + (w.count - 1) * w.step < m->w.count) {
        copy_piece(m, m->y, m->out, (piece){0, m->h.count, 0, 1, true}, there);
        return;
    }
    for (int row = 0; row < m->h.count;) {
        const piece h = piece_at(&m->h, row);
        copy_piece(m, m->x, m->in, h, w);
        row += h.count;
    }
}

/* First the columns that are not padding. */
static int pad_mirrored(const tpu_pad_param_t *p, const tpu_tensor_t *in, const tpu_tensor_t *out) {
    const int *a = in->slice_shape, *b = out->slice_shape;
    const dim4 held = {a[0], a[1], a[2], a[3]};
    mirrored m = {(local_addr_t)in->addr, (local_addr_t)out->addr, tile_axis_of(p, in, out, 2),
                  tile_axis_of(p, in, out, 3), {b[0], b[1], b[2], b[3]}, held, held};
    if (!has_all(&m.h) || !has_all(&m.w)) return BM_LAYER_RUNTIME_ERROR;
    okk_128_byte_aligned_stride_for_32bit(&m.in, 0, &held);
    okk_128_byte_aligned_stride_for_32bit(&m.out, 0, &m.shape);
    for (int padding = 0; padding < 2; padding++) {
        for (int column = 0; column < m.w.count;) {
            const piece w = piece_at(&m.w, column);
            if (w.within != padding) copy_columns(&m, w);
            column += w.count;
        }
    }
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_PAD)
int pad_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
              u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_pad_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const tpu_tensor_t *in = &x, *out = &y;
    if (p->mode != PAD_CONSTANT) return pad_mirrored(p, in, out);
    const int *a = in->slice_shape, *b = out->slice_shape;
    const dim4 tile = {a[0], a[1], a[2], a[3]}, whole = {b[0], b[1], b[2], b[3]};
    const int row = in->processed[2] + p->before[2] - out->processed[2];
    const int column = in->processed[3] + p->before[3] - out->processed[3];
    if (row < 0 || column < 0 || row + tile.h > whole.h || column + tile.w > whole.w) return BM_LAYER_RUNTIME_ERROR;
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &whole);
    okk_bdc_32bit_set_C((local_addr_t)out->addr, (x32){.u32 = filling(p, &out_tensors[0])}, &whole, NULL);
    okk_bdc_32bit_cpy((local_addr_t)out->addr + 4u * (local_addr_t)(row * stride.h + column), (local_addr_t)in->addr,
                      &tile, &stride, NULL);
    return BM_LAYER_OK;
}
