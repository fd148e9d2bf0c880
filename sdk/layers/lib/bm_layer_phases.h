/* When a transposed convolution is made by phases of its stride. Plain numbers only: the descriptor asks too. */
#ifndef BM_LAYER_PHASES_H
#define BM_LAYER_PHASES_H

#include <stdbool.h>

#include "bm1684_chip.h"

#define PHASE_WORTH 32 /* products that take as long as what an element's way to its place takes besides, at least */

/* Whether an instruction takes the pads of a direction without zeros between elements, and windows meet the tensor. */
static inline bool bm_is_one_phase(long long reach, int before, int after) {
    return before <= reach && after <= reach && before <= CHIP_WINDOW_STEP_MAX && after <= CHIP_WINDOW_STEP_MAX;
}

/* Whether each phase of a direction has taps, its instruction takes its pads, and each of its windows meets the tensor.
 * before, after: positions before and behind all elements that windows see, zeros between elements counted. */
static inline bool bm_has_phases(int kernel, int stride, int dilation, int before, int after) {
    const long long reach = (kernel - 1LL) * dilation;
    if (stride == 1) return bm_is_one_phase(reach, before, after);
    return dilation == 1 && kernel >= stride && after <= reach && reach / stride <= CHIP_WINDOW_STEP_MAX;
}

/* Whether the products that are saved, of so many input channels and kernels, take longer than the copies. */
static inline bool bm_phases_pay(int channels, int kernel_h, int kernel_w, int stride_h, int stride_w) {
    const long long taps = (long long)((kernel_h - 1) / stride_h + 1) * ((kernel_w - 1) / stride_w + 1);
    return ((long long)kernel_h * kernel_w - taps) * channels >= PHASE_WORTH;
}

#endif
