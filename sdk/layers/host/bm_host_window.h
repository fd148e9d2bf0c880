// Windows over rows or columns: what the descriptors of convolutions and pools compute.
#ifndef BM_HOST_WINDOW_H
#define BM_HOST_WINDOW_H

// Input elements below `count` output elements, pads included.
inline int window_length(int count, int kernel, int stride, int dilation) {
    return (count - 1) * stride + (kernel - 1) * dilation + 1;
}

// Whether any piece of the output is within one instruction's limits: strides, dilations and pads to 15, 2047
// elements, and each window meets the tensor.
inline bool window_is_local(int size, int kernel, int stride, int dilation, int before, int after) {
    const long long extent = (kernel - 1LL) * dilation + 1;
    return stride <= 15 && dilation <= 15 && before <= 15 && after <= 15 && before < extent && after < extent &&
           static_cast<long long>(size) + before + after <= 2047;
}

#endif
