// Windows over rows or columns: what the descriptors of convolutions and pools compute.
#ifndef BM_HOST_WINDOW_H
#define BM_HOST_WINDOW_H

#include "bm1684_chip.h"
#include "bmcompiler_tpulayer_host.hpp"

// Input elements below `count` output elements, pads included.
inline int window_length(int count, int kernel, int stride, int dilation) {
    return (count - 1) * stride + (kernel - 1) * dilation + 1;
}

// Whether one instruction takes these steps.
inline bool window_steps(int stride, int dilation) {
    return stride <= CHIP_WINDOW_STEP_MAX && dilation <= CHIP_WINDOW_STEP_MAX;
}

// Whether each window meets the tensor.
inline bool window_meets(int kernel, int dilation, int before, int after) {
    const long long extent = (kernel - 1LL) * dilation + 1;
    return before < extent && after < extent;
}

// Whether one instruction takes a kernel over so many elements.
inline bool window_extent(int kernel, int dilation) {
    return (kernel - 1LL) * dilation + 1 <= CHIP_WINDOW_SIDE_MAX;
}

// Whether one instruction takes these pads.
inline bool window_margins(int before, int after) { return before <= CHIP_WINDOW_STEP_MAX && after <= CHIP_WINDOW_STEP_MAX; }

// Whether one instruction takes this kernel and these pads, and each window meets the tensor.
inline bool window_pads(int kernel, int dilation, int before, int after) {
    return window_extent(kernel, dilation) && window_margins(before, after) && window_meets(kernel, dilation, before, after);
}

// What a local function says of its work buffer for a tile with windows over h and w, of so many rows and columns, pads
// included: too much for a tile that is too long for an instruction, so that the compiler cuts shorter ones.
inline u32 window_room(int rows, int columns, u32 bytes) {
    return rows > CHIP_WINDOW_SIDE_MAX || columns > CHIP_WINDOW_SIDE_MAX ? CHIP_LOCAL_BYTES + 1 : bytes;
}

#endif
