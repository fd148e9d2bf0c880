#include "bm_host_conv.h"

#include "bm_host_kernel.h"
#include "bm_host_window.h"

// Weights [OC, IC / groups, KH, KW] and a bias of OC numbers.
std::vector<int> ConvDescriptor::prepared_shape(int in_idx) {
    const bmcompiler::GraphTensor &t = layer().inputs.at(static_cast<std::size_t>(in_idx));
    if (in_idx == 2) return bm_reshaped(t, {1, layer().inputs[1].shape[0], 1, 1});
    const bm_shape &w = t.shape;
    if (in_idx != 1 || w.size() != 4 || t.dtype != DTYPE_FP32) return {};
    bm_check_kernel(layer(), p()->groups, p()->kernel_h, p()->kernel_w, w[1] * p()->groups);
    if (is_depthwise()) return {1, w[0], w[2], w[3]};
    return {1, w[0], bm_kernel_pairs(p()->groups, w[1]), 2 * w[2] * w[3]};
}

void ConvDescriptor::prepare(int in_idx, const void *constant, void *prepared) {
    const bm_shape &w = layer().inputs[1].shape;
    if (in_idx == 2 || is_depthwise()) return bm_keep_elements(layer().inputs[in_idx], constant, prepared);
    const float *from = static_cast<const float *>(constant);
    const int taps = w[2] * w[3], in_c = w[1];
    bm_fill_pairs(static_cast<float *>(prepared), w[0], in_c, bm_kernel_pairs(p()->groups, in_c), taps, [=](int oc, int ic) {
        return from + (static_cast<std::size_t>(oc) * static_cast<std::size_t>(in_c) + static_cast<std::size_t>(ic)) *
                          static_cast<std::size_t>(taps);
    });
}

bool ConvDescriptor::is_depthwise() const {
    const bm_shape &w = layer().inputs[1].shape;
    return p()->groups > 1 && p()->groups == w[0] && w[1] == 1;
}

// The local function takes what one instruction per group takes.
bool ConvDescriptor::force_use_global_layer() {
    const auto &x = layer().inputs[0].shape;
    if (x.size() != 4 || !bm_is_constant(layer().inputs.back())) return true;
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
// The depthwise instruction takes its input in whole pieces.
bool ConvDescriptor::accepts_larger_pieces() {
    const int groups = p()->groups;
    return groups == 1 || groups != layer().inputs[0].shape[1] || groups != layer().outputs[0].shape[1];
}
