/* One direction (rows or columns) of a sliding window over a tensor, and the parts of it that a tile of the
 * output needs. Shared by convolutions and pools. */
#ifndef BM_LAYER_AXIS_H
#define BM_LAYER_AXIS_H

#include <stdbool.h>

#include "bm1684_chip.h"

#define AXIS_PARAM_MAX CHIP_EXTENT_MAX /* what a parameter of a window may be at all */

typedef struct {
    int size, out; /* elements of input and output */
    int kernel, stride, dilation;
    int before, after; /* pads */
    int insert;        /* zeros between neighbours of the input; positions count them */
} window_axis;

/* What a run of output elements sees: `count` input elements from `first`, and `before` and `after` positions
 * around them. Where the elements that the tensor lacks are put into local memory as zeros, there are zeros_before
 * and zeros_after of them, and edge_before and edge_after positions around those. count 0: nothing of the tensor;
 * there is at least one zero then. */
typedef struct {
    int first, count, before, after, zeros_before, zeros_after, edge_before, edge_after;
} window_part;

/* Elements from the first to the last tap. */
static inline long long axis_extent(const window_axis *a) {
    return (long long)(a->kernel - 1) * a->dilation + 1;
}

/* Parameters that make sense; sizes do not count. */
static inline bool axis_valid(const window_axis *a) {
    return a->kernel >= 1 && a->kernel <= AXIS_PARAM_MAX && a->stride >= 1 && a->stride <= AXIS_PARAM_MAX &&
           a->dilation >= 1 && a->dilation <= AXIS_PARAM_MAX && a->before >= 0 && a->before <= AXIS_PARAM_MAX &&
           a->after >= 0 && a->after <= AXIS_PARAM_MAX && a->insert >= 0 && a->insert < AXIS_PARAM_MAX;
}

/* Output elements that the input gives; 0 where the kernel does not fit, or for parameters without sense. */
static inline int axis_result(const window_axis *a) {
    if (!axis_valid(a)) return 0;
    const long long positions = (long long)(a->size - 1) * (a->insert + 1) + 1;
    const long long room = positions + a->before + a->after - axis_extent(a);
    return room < 0 || room / a->stride > 0x7FFFFFFE ? 0 : (int)(room / a->stride + 1);
}

/* Positions, pads included, below `count` output elements. */
static inline long long axis_length(const window_axis *a, int count) {
    return (long long)(count - 1) * a->stride + axis_extent(a);
}

/* The most elements below `count` output elements. */
static inline long long axis_elements(const window_axis *a, int count) {
    return (axis_length(a, count) - 1) / (a->insert + 1) + 1;
}

/* Stride, dilation and inserted zeros that one instruction takes. */
static inline bool axis_in_instruction(const window_axis *a) {
    return a->stride <= CHIP_WINDOW_STEP_MAX && a->dilation <= CHIP_WINDOW_STEP_MAX && a->insert <= CHIP_WINDOW_STEP_MAX &&
           axis_extent(a) <= CHIP_WINDOW_SIDE_MAX;
}

/* Whether some tile has more pads than an instruction takes, or windows that see nothing of the tensor. */
static inline bool axis_needs_zeros(const window_axis *a) {
    const long long extent = axis_extent(a), most = a->before > a->after ? a->before : a->after;
    return most > CHIP_WINDOW_STEP_MAX || most >= extent || extent <= a->insert;
}

static inline window_part axis_part(const window_axis *a, int first, int count) {
    const long long start = (long long)first * a->stride - a->before, length = axis_length(a, count);
    const long long step = a->insert + 1, last = start + length - 1;
    /* Elements in the window, whether the tensor has them or not; rounded up and down. */
    const long long from = start > 0 ? (start + step - 1) / step : -(-start / step);
    const long long to = last >= 0 ? last / step + 1 : -((-last + step - 1) / step) + 1;
    if (from >= to) return (window_part){.zeros_before = 1, .edge_after = (int)(length - 1)};
    window_part p = {.edge_before = (int)(from * step - start), .edge_after = (int)(last - (to - 1) * step)};
    const long long low = from > 0 ? from : 0, high = to < a->size ? to : a->size;
    if (low >= high) {
        p.zeros_before = (int)(to - from);
        return p;
    }
    p.first = (int)low;
    p.count = (int)(high - low);
    p.zeros_before = (int)(low - from);
    p.zeros_after = (int)(to - high);
    p.before = p.edge_before + (int)(p.zeros_before * step);
    p.after = p.edge_after + (int)(p.zeros_after * step);
    return p;
}

/* Elements of a part with the zeros that the tensor lacks. */
static inline int part_length(const window_part *p) { return p->zeros_before + p->count + p->zeros_after; }

#endif
