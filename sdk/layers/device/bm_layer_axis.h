/* One direction (rows or columns) of a sliding window over a tensor, and the parts of it that a tile of the
 * output needs. Shared by convolutions and pools. */
#ifndef BM_LAYER_AXIS_H
#define BM_LAYER_AXIS_H

#include <stdbool.h>

#define AXIS_SIDE_MAX 2047  /* elements of an instruction's input along one direction, pads included */
#define AXIS_STEP_MAX 15    /* largest stride, dilation and pad of an instruction */
#define AXIS_PARAM_MAX 65535 /* what a parameter of a window may be at all */

typedef struct {
    int size, out; /* elements of input and output */
    int kernel, stride, dilation;
    int before, after; /* pads */
} window_axis;

/* What a run of output elements sees: `count` input elements from `first`, and `before` and `after` elements
 * beyond the tensor's edges. count 0: nothing of the tensor. */
typedef struct {
    int first, count, before, after;
} window_part;

/* Elements from the first to the last tap. */
static inline long long axis_extent(const window_axis *a) {
    return (long long)(a->kernel - 1) * a->dilation + 1;
}

/* Parameters that make sense; sizes do not count. */
static inline bool axis_valid(const window_axis *a) {
    return a->kernel >= 1 && a->kernel <= AXIS_PARAM_MAX && a->stride >= 1 && a->stride <= AXIS_PARAM_MAX &&
           a->dilation >= 1 && a->dilation <= AXIS_PARAM_MAX && a->before >= 0 && a->before <= AXIS_PARAM_MAX &&
           a->after >= 0 && a->after <= AXIS_PARAM_MAX;
}

/* Output elements that the input gives; 0 where the kernel does not fit, or for parameters without sense. */
static inline int axis_result(const window_axis *a) {
    if (!axis_valid(a)) return 0;
    const long long room = (long long)a->size + a->before + a->after - axis_extent(a);
    return room < 0 ? 0 : (int)(room / a->stride + 1);
}

/* Elements, pads included, below `count` output elements. */
static inline long long axis_length(const window_axis *a, int count) {
    return (long long)(count - 1) * a->stride + axis_extent(a);
}

/* Pads, stride and dilation that one instruction takes. */
static inline bool axis_in_instruction(const window_axis *a) {
    return a->stride <= AXIS_STEP_MAX && a->dilation <= AXIS_STEP_MAX && axis_extent(a) <= AXIS_SIDE_MAX;
}

static inline window_part axis_part(const window_axis *a, int first, int count) {
    const long long start = (long long)first * a->stride - a->before, end = start + axis_length(a, count);
    const long long low = start > 0 ? start : 0, high = end < a->size ? end : a->size;
    if (low >= high) return (window_part){0, 0, (int)(end - start), 0};
    return (window_part){(int)low, (int)(high - low), (int)(low - start), (int)(end - high)};
}

/* Elements of a part with what lies beyond the edges. */
static inline int part_length(const window_part *p) { return p->before + p->count + p->after; }

#endif
