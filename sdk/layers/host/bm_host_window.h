// Windows over rows or columns: what the descriptors of convolutions and pools compute.
#ifndef BM_HOST_WINDOW_H
#define BM_HOST_WINDOW_H

#include "bm1684_chip.h"

// Input elements below `count` output elements, pads included.
inline int window_length(int count, int kernel, int stride, int dilation) {
    return (count - 1) * stride + (kernel - 1) * dilation + 1;
}

// Whether any tile of the output is within the limits of one instruction, and each window meets the tensor.
inline bool window_is_local(int size, int kernel, int stride, int dilation, int before, int after) {
    const long long extent = (kernel - 1LL) * dilation + 1;
    const int most = CHIP_WINDOW_STEP_MAX;
    return stride <= most && dilation <= most && before <= most && after <= most && before < extent &&
           after < extent && static_cast<long long>(size) + before + after <= CHIP_WINDOW_SIDE_MAX;
}

#endif
