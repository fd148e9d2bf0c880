#include "bm_host_conv.h"

#include "bm_host_window.h"

// The local function takes what one instruction per group takes, and weights and bias as the constants lie.
bool ConvDescriptor::force_use_global_layer() {
    const auto &inputs = layer().inputs;
    if (inputs.back().shape.size() != 4) return true;
    const auto &x = inputs[0].shape;
    if (x.size() != 4) return true;
    return !window_is_local(x[2], p()->kernel_h, p()->stride_h, p()->dilation_h, p()->pad_top, p()->pad_bottom) ||
           !window_is_local(x[3], p()->kernel_w, p()->stride_w, p()->dilation_w, p()->pad_left, p()->pad_right);
}

int ConvDescriptor::backward_hidx(int out_hidx) { return out_hidx * p()->stride_h - p()->pad_top; }
int ConvDescriptor::backward_hslice(int out_hslice) {
    return window_length(out_hslice, p()->kernel_h, p()->stride_h, p()->dilation_h);
}
int ConvDescriptor::backward_widx(int out_widx) { return out_widx * p()->stride_w - p()->pad_left; }
int ConvDescriptor::backward_wslice(int out_wslice) {
    return window_length(out_wslice, p()->kernel_w, p()->stride_w, p()->dilation_w);
}
int ConvDescriptor::backward_kh() { return p()->kernel_h; }
int ConvDescriptor::backward_stride_h() { return p()->stride_h; }
int ConvDescriptor::backward_up_pad_h() { return p()->pad_top; }
int ConvDescriptor::backward_down_pad_h() { return p()->pad_bottom; }
