#include "bm_host_crop.h"

#include "bmtpu.h"

// The local version copies rows and columns of 4-byte elements: batches and channels must be whole.
bool CropDescriptor::force_use_global_layer() const {
    const auto *crop = param<tpu_crop_param_t>();
    const auto &input = layer()->inputs[0];
    if (input.shape.size() != 4) return true;
    if (input.dtype != DTYPE_FP32 && input.dtype != DTYPE_INT32 && input.dtype != DTYPE_UINT32) return true;
    for (int d = 0; d < 2; d++)
        if (crop->before[d] != 0 || crop->after[d] != 0) return true;
    return false;
}

// Row h of the output is row h + before of the input; a slice is as high as what it gives.
int CropDescriptor::backward_hidx(int out_hidx) const { return out_hidx + param<tpu_crop_param_t>()->before[2]; }
int CropDescriptor::backward_widx(int out_widx) const { return out_widx + param<tpu_crop_param_t>()->before[3]; }

int CropDescriptor::forward_height(int in_height) const {
    const auto *crop = param<tpu_crop_param_t>();
    return in_height - crop->before[2] - crop->after[2];
}
