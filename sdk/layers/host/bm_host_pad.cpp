#include "bm_host_pad.h"

// In local memory a constant can be put around rows and columns of 32-bit elements.
bool PadDescriptor::force_use_global_layer() const {
    const bmcompiler::GraphTensor &x = layer()->inputs[0];
    if (x.shape.size() != 4 || p()->mode != 0) return true;
    if (x.dtype != DTYPE_FP32 && x.dtype != DTYPE_INT32 && x.dtype != DTYPE_UINT32) return true;
    for (int d = 0; d < 4; d++)
        if (p()->before[d] < 0 || p()->after[d] < 0 || (d < 2 && p()->before[d] + p()->after[d] > 0)) return true;
    return false;
}
