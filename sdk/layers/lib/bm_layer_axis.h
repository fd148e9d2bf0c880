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
static inline long long bm_axis_extent(const window_axis *a) {
    return (long long)(a->kernel - 1) * a->dilation + 1;
}

/* Parameters that make sense; sizes do not count. */
bool bm_axis_valid(const window_axis *a);

/* Output elements that the input gives; 0 where the kernel does not fit, or for parameters without sense. */
int bm_axis_result(const window_axis *a);

/* Positions, pads included, below `count` output elements. */
static inline long long bm_axis_length(const window_axis *a, int count) {
    return (long long)(count - 1) * a->stride + bm_axis_extent(a);
}

/* The most elements below `count` output elements. */
static inline long long bm_axis_elements(const window_axis *a, int count) {
    return (bm_axis_length(a, count) - 1) / (a->insert + 1) + 1;
}

/* Stride, dilation and inserted zeros that one instruction takes. */
static inline bool bm_axis_in_instruction(const window_axis *a) {
    const int most = CHIP_WINDOW_STEP_MAX;
    return a->stride <= most && a->dilation <= most && a->insert <= most && bm_axis_extent(a) <= CHIP_WINDOW_SIDE_MAX;
}

/* Whether some tile has more pads than an instruction takes, or windows that see nothing of the tensor. */
static inline bool bm_axis_needs_zeros(const window_axis *a) {
    const long long extent = bm_axis_extent(a), most = a->before > a->after ? a->before : a->after;
    return most > CHIP_WINDOW_STEP_MAX || most >= extent || extent <= a->insert;
}

/* The part of the input below `count` output elements from `first` on. */
window_part bm_axis_part(const window_axis *a, int first, int count);

/* Whether an instruction that takes a tile of `extent` elements from `first` on makes of it what the part gives: the tile
 * is the part, or goes on behind it to the tensor's end by what the stride leaves over. */
static inline bool bm_axis_takes(const window_axis *a, const window_part *p, int first, int extent) {
    const int over = extent - p->count;
    return first == p->first && (over == 0 || (over > 0 && over < a->stride && p->after == 0 && first + extent == a->size));
}

/* Output elements from `first` up to, without it, `end`. */
typedef struct {
    int first, end;
} window_outputs;

/* Those of the `count` output elements from `start` on of which one tap sees something of the tensor; first == end: none,
 * at the end of these that the tap is nearer to. Without inserted zeros. */
window_outputs bm_axis_seen(const window_axis *a, int tap, int start, int count);

/* Whether there is a window that sees nothing of the tensor. Without inserted zeros. */
bool bm_axis_misses(const window_axis *a);

/* Elements of a part with the zeros that the tensor lacks. */
static inline int bm_part_length(const window_part *p) { return p->zeros_before + p->count + p->zeros_after; }

#endif
