#include "bm_host_conv.h"

#include "bm_host_kernel.h"
#include "bm_host_window.h"

// Weights [OC, IC / groups, KH, KW] and a bias of OC numbers.
std::vector<int> ConvDescriptor::prepared_shape(int in_idx) const {
    const bmcompiler::GraphTensor &t = layer()->inputs.at(static_cast<std::size_t>(in_idx));
    if (in_idx == 2) return bm_reshaped(t, {1, layer()->inputs[1].shape[0], 1, 1});
    const bm_shape &w = t.shape;
    if (in_idx != 1 || w.size() != 4 || t.dtype != DTYPE_FP32) return {};
    bm_check_kernel(*layer(), p()->groups, p()->kernel_h, p()->kernel_w, w[1] * p()->groups);
    if (joined()) return {1, w[0], 1, words() + CONV_JOINED};
    if (is_depthwise()) return {1, w[0], w[2], w[3]};
    return {1, w[0], bm_kernel_pairs(p()->groups, w[1]), 2 * w[2] * w[3]};
}

int ConvDescriptor::prepared_with(int in_idx) const { return in_idx == 2 && joined() ? 1 : in_idx; }

void ConvDescriptor::prepare(int in_idx, const void *constant, void *prepared) const {
    const bm_shape &w = layer()->inputs[1].shape;
    if (in_idx == 2) return bm_keep_elements(layer()->inputs[2], constant, prepared);
    const float *from = static_cast<const float *>(constant);
    const float *bias = joined() ? static_cast<const float *>(layer()->inputs[2].data) : nullptr;
    const std::size_t taps = static_cast<std::size_t>(w[2] * w[3]), in_c = static_cast<std::size_t>(w[1]);
    float *to = static_cast<float *>(prepared);
    if (!is_depthwise()) {
        bm_fill_pairs(to, w[0], w[1], bm_kernel_pairs(p()->groups, w[1]), w[2] * w[3], bias, [=](int oc, int ic) {
            return from + (static_cast<std::size_t>(oc) * in_c + static_cast<std::size_t>(ic)) * taps;
        });
        return;
    }
    for (std::size_t c = 0; c < static_cast<std::size_t>(w[0]); c++) {
        to = std::copy_n(from + c * taps, taps, to);
        if (bias == nullptr) continue;
        *to = bias[c];
        to += CONV_JOINED;
    }
}

// Of one channel's weights.
int ConvDescriptor::words() const {
    const bm_shape &w = layer()->inputs[1].shape;
    return is_depthwise() ? w[2] * w[3] : bm_kernel_pairs(p()->groups, w[1]) * 2 * w[2] * w[3];
}

bool ConvDescriptor::joined() const {
    const bm_shape &w = layer()->inputs[1].shape;
    return w.size() == 4 && bm_joins_bias(*layer(), w[0], words());
}

bool ConvDescriptor::is_depthwise() const {
    const bm_shape &w = layer()->inputs[1].shape;
    return p()->groups > 1 && p()->groups == w[0] && w[1] == 1;
}

// The local function takes what one instruction per group takes, or without pads one per tap.
bool ConvDescriptor::force_use_global_layer() const {
    const std::size_t dims = layer()->inputs[0].shape.size();
    if ((dims != 3 && dims != 4) || !bm_is_constant(layer()->inputs.back())) return true;
    if (by_taps()) return (p()->pad_top | p()->pad_bottom | p()->pad_left | p()->pad_right) != 0;
    return !window_pads(p()->kernel_h, p()->dilation_h, p()->pad_top, p()->pad_bottom) ||
           !window_pads(p()->kernel_w, p()->dilation_w, p()->pad_left, p()->pad_right);
}

// Of instructions for one tap the output is the longest.
u32 ConvDescriptor::get_local_buffer_size(const int *split_shape) const {
    const int rows = split_shape[2], columns = split_shape[3];
    return by_taps() ? window_room(rows, columns, 0) : window_room(backward_hslice(rows), backward_wslice(columns), 0);
}

bool ConvDescriptor::by_taps() const {
    return !window_steps(p()->stride_h, p()->dilation_h) || !window_steps(p()->stride_w, p()->dilation_w);
}

int ConvDescriptor::backward_hidx(int out_hidx) const { return out_hidx * p()->stride_h - p()->pad_top; }
int ConvDescriptor::backward_hslice(int out_hslice) const {
    return window_length(out_hslice, p()->kernel_h, p()->stride_h, p()->dilation_h);
}
int ConvDescriptor::backward_widx(int out_widx) const { return out_widx * p()->stride_w - p()->pad_left; }
int ConvDescriptor::backward_wslice(int out_wslice) const {
    return window_length(out_wslice, p()->kernel_w, p()->stride_w, p()->dilation_w);
}
// The depthwise instruction takes its input in whole tiles.
bool ConvDescriptor::accepts_larger_tiles() const {
    const int groups = p()->groups;
    return groups == 1 || groups != layer()->inputs[0].shape[1] || groups != layer()->outputs[0].shape[1];
}
