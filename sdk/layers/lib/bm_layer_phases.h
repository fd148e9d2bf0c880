/* When a transposed convolution is made by phases of its stride. Plain numbers only: the descriptor asks too, and
 * user_layers/net/phases.py says the same. */
#ifndef BM_LAYER_PHASES_H
#define BM_LAYER_PHASES_H

#include <stdbool.h>

#include "bm1684_chip.h"

#define PHASE_WORTH 32 /* products that take as long as what an element's way to its place takes besides, at least */

/* One direction. before, after: positions before and behind all elements that windows see, zeros between elements counted. */
typedef struct {
    int kernel, stride, dilation, before, after;
} phase_axis;

/* Whether an instruction takes the pads of a direction without zeros between elements, and windows meet the tensor. */
static inline bool bm_is_one_phase(const phase_axis *a) {
    const long long reach = (a->kernel - 1LL) * a->dilation;
    const bool fits = a->before <= CHIP_WINDOW_STEP_MAX && a->after <= CHIP_WINDOW_STEP_MAX;
    return fits && a->before <= reach && a->after <= reach;
}

/* Whether each phase of a direction has taps, its instruction takes its pads, and each of its windows meets the tensor. */
static inline bool bm_has_phases(const phase_axis *a) {
    if (a->stride == 1) return bm_is_one_phase(a);
    return a->dilation == 1 && a->kernel >= a->stride && a->after < a->kernel &&
           (a->kernel - 1) / a->stride <= CHIP_WINDOW_STEP_MAX;
}

/* Whether it has them in both, and the products that are saved, of so many input channels, take longer than the copies. */
static inline bool bm_by_phases(int channels, const phase_axis *h, const phase_axis *w) {
    const long long taps = ((h->kernel - 1LL) / h->stride + 1) * ((w->kernel - 1LL) / w->stride + 1);
    return bm_has_phases(h) && bm_has_phases(w) && ((long long)h->kernel * w->kernel - taps) * channels >= PHASE_WORTH;
}

#endif
