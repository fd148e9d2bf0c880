/* Boxes of elements as copies and fills by the GDMA within DDR. */
#include "bm_layer_move.h"

#include "bm1684_chip.h"
#include "bm_layer_shape.h"
#include "okk.h"

enum {
    MOST = CHIP_EXTENT_MAX, /* largest extent of a command */
    ROW = MOST / 2 + 1,     /* where a larger one is cut */
    DOUBLE = 8              /* one element so often or more: copies of copies are faster */
};

/* What is to be done with a box. */
typedef struct {
    u64 dst, src;
    int bytes;
    bool fill;
    unsigned int value;
} task;

/* ---- commands ---- */

static void command(const task *t, long long to, long long from, const dim4 *shape, const dim4 *dst_stride,
                    const dim4 *src_stride) {
    const u64 dst = t->dst + (u64)(to * t->bytes), src = t->src + (u64)(from * t->bytes);
    if (t->fill && t->bytes == 4)
        okk_gdma_32bit_set_C_system(dst, (x32){.u32 = t->value}, shape, dst_stride);
    else if (t->fill && t->bytes == 2)
        okk_gdma_16bit_set_C_system(dst, (x16){.u16 = (unsigned short)t->value}, shape, dst_stride);
    else if (t->fill)
        okk_gdma_8bit_set_C_system(dst, (x8){.u8 = (unsigned char)t->value}, shape, dst_stride);
    else if (t->bytes == 4)
        okk_gdma_32bit_cpy_S2S(dst, src, shape, dst_stride, src_stride);
    else if (t->bytes == 2)
        okk_gdma_16bit_cpy_S2S(dst, src, shape, dst_stride, src_stride);
    else
        okk_gdma_8bit_cpy_S2S(dst, src, shape, dst_stride, src_stride);
}

/* Moves dimension d of `from` to the end of `to`. */
static void take(bm_move *to, bm_move *from, int d) {
    bm_move_add(to, from->extent[d], from->to[d], from->from[d]);
    bm_move_remove(from, d);
}

/* The longest dimension that a command can step through, or -1. Commands step forward only. */
static int longest(const bm_move *m) {
    int best = -1;
    for (int d = 0; d < m->dims; d++)
        if (m->from[d] >= 0 && (best < 0 || m->extent[d] > m->extent[best])) best = d;
    return best;
}

/* No extent is over MOST: the three longest dimensions and columns one after the other make a command; what
 * remains is walked through. */
static void walk(const task *t, bm_move m) {
    bm_move c = {.dims = 0};
    const int last = m.dims - 1;
    const bool columns = last >= 0 && m.to[last] == 1 && m.from[last] == 1;
    if (columns) take(&c, &m, last);
    else bm_move_add(&c, 1, 1, 1);
    for (int i = 0; i < 3; i++) {
        const int d = longest(&m);
        if (d >= 0) take(&c, &m, d);
        else bm_move_add(&c, 1, 0, 0);
    }
    const dim4 shape = {c.extent[1], c.extent[2], c.extent[3], c.extent[0]};
    const dim4 dst_stride = {(int)c.to[1], (int)c.to[2], (int)c.to[3], 1};
    const dim4 src_stride = {(int)c.from[1], (int)c.from[2], (int)c.from[3], 1};
    int at[BM_MOVE_DIMS] = {0};
    for (;;) {
        long long to = 0, from = 0;
        for (int d = 0; d < m.dims; d++) {
            to += at[d] * m.to[d];
            from += at[d] * m.from[d];
        }
        command(t, to, from, &shape, &dst_stride, &src_stride);
        int d = m.dims - 1;
        while (d >= 0 && ++at[d] == m.extent[d]) at[d--] = 0;
        if (d < 0) return;
    }
}

/* Extents over MOST become rows of ROW elements and a rest. */
static void cut(const task *t, bm_move m) {
    for (int d = 0; d < m.dims; d++) {
        if (m.extent[d] <= MOST) continue;
        const int rows = m.extent[d] / ROW, rest = m.extent[d] % ROW;
        if (rest != 0) {
            task tail = *t;
            bm_move last = m;
            tail.dst += (u64)((m.extent[d] - rest) * m.to[d] * t->bytes);
            tail.src += (u64)((m.extent[d] - rest) * m.from[d] * t->bytes);
            last.extent[d] = rest;
            cut(&tail, last);
        }
        m.extent[d] = ROW;
        bm_move_insert(&m, d, rows, m.to[d] * ROW, m.from[d] * ROW);
    }
    walk(t, m);
}

/* ---- copies ---- */

/* The last dimension is one element of the source many times: written once, then what is there is copied
 * behind itself, twice as much each time. */
static void repeat(u64 dst, u64 src, bm_move m, int bytes) {
    const int last = m.dims - 1, count = m.extent[last];
    m.extent[last] = 1;
    bm_move_run(dst, src, &m, bytes);
    for (int d = 0; d <= last; d++) m.from[d] = m.to[d];
    for (int done = 1; done < count; done += m.extent[last]) {
        m.extent[last] = count - done < done ? count - done : done;
        bm_move_run(dst + (u64)((long long)done * bytes), dst, &m, bytes);
    }
}

/* What is left of a box of 32-bit elements. */
static void move_last(u64 dst, u64 src, bm_move m, const bm_move_rest *rest) {
    const int d = rest->dim;
    const long long done = m.extent[d] - rest->count;
    m.extent[d] = rest->count;
    bm_move_run(dst + (u64)(done * m.to[d] * 4), src + (u64)(done * m.from[d] * 4), &m, 4);
}

/* A list of indices run by run; m: without the listed dimension, whose strides are to and from. */
static void move_by_runs(u64 dst, u64 src, const bm_move *m, int bytes, long long to, long long from, bm_index_at at,
                         const void *list, int count) {
    for (int i = 0; i < count;) {
        const bm_runs r = bm_runs_of(at, list, i, count, true);
        bm_move part = *m;
        bm_move_add(&part, r.length, to, from * r.step);
        bm_move_add(&part, r.repeats, to * r.length, from * r.again);
        bm_move_run(dst + (u64)(i * to * bytes), src + (u64)(at(list, i) * from * bytes), &part, bytes);
        i += r.length * r.repeats;
    }
}

void bm_move_run(u64 dst, u64 src, const bm_move *box, int bytes) {
    bm_move m = bm_move_folded(box);
    const int last = m.dims - 1;
    bm_move_rest rest;
    if (bytes == 4 && bm_move_through_local(dst, src, &m, &rest)) {
        if (rest.count != 0) move_last(dst, src, m, &rest);
        return;
    }
    if (m.ordered != 0) {
        const int d = m.ordered - 1, count = m.extent[d];
        const long long to = m.to[d], from = m.from[d];
        bm_move_remove(&m, d);
        move_by_runs(dst, src, &m, bytes, to, from, bm_order_at, m.order, count);
        return;
    }
    if (last >= 0 && m.to[last] == 1 && m.from[last] == 0 && m.extent[last] >= DOUBLE) {
        repeat(dst, src, m, bytes);
        return;
    }
    const task t = {dst, src, bytes, false, 0};
    cut(&t, m);
}

void bm_move_fill(u64 dst, unsigned int value, const bm_move *m, int bytes) {
    bm_move box = *m;
    for (int d = 0; d < box.dims; d++) box.from[d] = box.to[d];
    const task t = {dst, dst, bytes, true, value};
    cut(&t, bm_move_folded(&box));
}

void bm_move_straight(u64 dst, u64 src, int count, int bytes) {
    bm_move m = {.dims = 0};
    bm_move_add(&m, count, 1, 1);
    bm_move_run(dst, src, &m, bytes);
}

/* ---- axes that are read by a list of indices ---- */

void bm_move_indexed(u64 dst, u64 src, const bm_move *m, int bytes, long long to, long long from, bm_index_at at,
                     const void *list, int count) {
    int order[BM_ORDER_MOST];
    const bm_runs first = bm_runs_of(at, list, 0, count, false);
    if (bytes != 4 || count > BM_ORDER_MOST || first.length * first.repeats == count) {
        move_by_runs(dst, src, m, bytes, to, from, at, list, count);
        return;
    }
    bm_move box = *m;
    for (int i = 0; i < count; i++) order[i] = at(list, i);
    bm_move_add(&box, count, to, from);
    box.ordered = box.dims;
    box.order = order;
    bm_move_run(dst, src, &box, bytes);
}

void bm_move_turned(u64 dst, u64 src, int count, int rows, int columns) {
    const long long size = (long long)rows * columns;
    bm_move m = {.dims = 0};
    bm_move_add(&m, count, size, size);
    bm_move_add(&m, columns, rows, 1);
    bm_move_add(&m, rows, 1, columns);
    bm_move_run(dst, src, &m, 4);
}

/* ---- tensors ---- */

int bm_element_bytes(int dtype) {
    static const unsigned char bytes[] = {4, 2, 1, 1, 2, 2, 4, 4};
    return bytes[dtype];
}

long long bm_stride_of(const tpu_tensor_t *t, int d) {
    return (long long)bm_layer_elements(t->shape, d + 1, (int)t->dims);
}

void bm_output_like(tpu_tensor_t *out, const tpu_tensor_t *in, int dims) {
    out->ttype = BMNET_NEURON;
    out->dtype = in->dtype;
    out->store_mode = in->store_mode;
    out->scale = in->scale;
    out->dims = (unsigned int)dims;
}

void bm_move_whole(const tpu_tensor_t *out, const tpu_tensor_t *in) {
    if (in->addr == out->addr) return;
    const tpu_tensor_t moved = bm_layer_as_words(in);
    okk_initialize();
    bm_move_straight(out->addr, in->addr, moved.elem_num, bm_element_bytes(moved.dtype));
    okk_poll();
}
