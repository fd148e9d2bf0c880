#include "bm_layer_conv_phases.h"

/* What one phase of a direction makes in a tile of the output, and what it needs. */
typedef struct {
    int tap, taps, step;     /* the first of its taps, their number, and how far they are apart */
    int first, count;        /* output elements of the tile, `step` apart */
    int from, elements;      /* of the tensor */
    int before, after;       /* pads */
} conv_phase;

/* Where nothing is between elements there is one phase. */
static conv_phase whole_of(const window_axis *a, int first, int count) {
    const window_part part = bm_axis_part(a, first, count);
    return (conv_phase){0, a->kernel, 1, 0, count, part.first, part.count, part.before, part.after};
}

static conv_phase phase_of(const window_axis *a, int tap, int first, int count) {
    const int step = a->insert + 1;
    if (step == 1) return whole_of(a, first, count);
    const int at = first + a->kernel - 1 - a->before; /* among all results, those that are left out too */
    conv_phase f = {.tap = tap, .taps = (a->kernel - 1 - tap) / step + 1, .step = step};
    f.first = (tap - at % step + step) % step;
    f.count = f.first < count ? (count - f.first - 1) / step + 1 : 0;
    const int last = (at + f.first - tap) / step, low = last - f.taps + 1, high = last + f.count - 1;
    f.before = low < 0 ? -low : 0;
    f.after = high >= a->size ? high - a->size + 1 : 0;
    f.from = low + f.before;
    f.elements = high + 1 - f.after - f.from;
    return f;
}

/* One phase, put to its place. Whether the tile has what it needs. */
static bool run_phase(const conv_work *w, const conv_place *at, const conv_phase *h, const conv_phase *v, local_addr_t room) {
    const dim4 *in = &w->input_shape, *out = &w->output_shape, *stride = &w->input_stride;
    const int down = h->from - at->in_h, right = v->from - at->in_w;
    if (down < 0 || right < 0 || down + h->elements > in->h || right + v->elements > in->w) return false;
    const conv_some_taps some = {w->kernel, {h->step, v->step}, h->tap * w->kernel.w + v->tap};
    conv_work one = *w;
    one.output = room;
    one.input = w->input + 4u * (local_addr_t)(down * stride->h + right);
    one.input_shape = (dim4){in->n, in->c, h->elements, v->elements};
    one.output_shape = (dim4){out->n, out->c, h->count, v->count};
    one.kernel = (dim2){h->taps, v->taps};
    one.insert = (dim2){0, 0};
    one.some = &some;
    one.pad = (Padding){h->before, h->after, v->before, v->after};
    bm_conv_compute(&one, false);
    dim4 whole;
    okk_128_byte_aligned_stride_for_32bit(&whole, 0, out);
    const local_addr_t to = w->output + 4u * (local_addr_t)(h->first * whole.h + v->first);
    const dim4 apart = {whole.n, whole.c, h->step * whole.h, v->step * whole.w};
    okk_bdc_32bit_cpy(to, room, &one.output_shape, &apart, NULL);
    return true;
}

bool bm_conv_phases(const conv_problem *p, const conv_work *w, const conv_place *at, local_addr_t room) {
    for (int y = 0; y <= p->h.insert; y++) {
        const conv_phase h = phase_of(&p->h, y, at->out_h, w->output_shape.h);
        for (int x = 0; x <= p->w.insert; x++) {
            const conv_phase v = phase_of(&p->w, x, at->out_w, w->output_shape.w);
            if (h.count > 0 && v.count > 0 && !run_phase(w, at, &h, &v, room)) return false;
        }
    }
    return true;
}
