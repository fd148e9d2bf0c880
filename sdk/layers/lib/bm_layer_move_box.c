/* Boxes of elements, dimension by dimension. */
#include "bm_layer_move.h"
#include "okk.h"

void bm_move_add(bm_move *m, int extent, long long to, long long from) {
    OKKERNEL_ASSERT(m->dims < BM_MOVE_DIMS);
    m->extent[m->dims] = extent;
    m->to[m->dims] = to;
    m->from[m->dims] = from;
    m->dims++;
}

void bm_move_remove(bm_move *m, int d) {
    m->dims--;
    if (m->ordered > d) m->ordered = m->ordered == d + 1 ? 0 : m->ordered - 1;
    for (; d < m->dims; d++) {
        m->extent[d] = m->extent[d + 1];
        m->to[d] = m->to[d + 1];
        m->from[d] = m->from[d + 1];
    }
}

void bm_move_insert(bm_move *m, int at, int extent, long long to, long long from) {
    bm_move_add(m, extent, to, from);
    for (int d = m->dims - 1; d > at; d--) {
        m->extent[d] = m->extent[d - 1];
        m->to[d] = m->to[d - 1];
        m->from[d] = m->from[d - 1];
    }
    m->extent[at] = extent;
    m->to[at] = to;
    m->from[at] = from;
    if (m->ordered > at) m->ordered++;
}

bm_move bm_move_folded(const bm_move *m) {
    bm_move f = {.dims = 0, .order = m->order};
    for (int d = 0; d < m->dims; d++) {
        if (m->extent[d] == 1) continue;
        int at = 0;
        while (at < f.dims && f.to[at] > m->to[d]) at++;
        bm_move_insert(&f, at, m->extent[d], m->to[d], m->from[d]);
        if (m->ordered == d + 1) f.ordered = at + 1;
    }
    for (int d = f.dims - 2; d >= 0; d--) {
        const int inner = f.extent[d + 1];
        if (f.ordered == d + 1 || f.ordered == d + 2) continue;
        if (f.to[d] != f.to[d + 1] * inner || f.from[d] != f.from[d + 1] * inner) continue;
        f.extent[d + 1] = inner * f.extent[d];
        bm_move_remove(&f, d);
    }
    return f;
}
