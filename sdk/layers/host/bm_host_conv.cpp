#include "bm_host_conv.h"

#include "bm_host_kernel.h"

// Weights [OC, IC / groups, KH, KW] and a bias of OC numbers.
std::vector<int> ConvDescriptor::prepared_shape(int in_idx) const {
    const bmcompiler::GraphTensor &t = layer()->inputs.at(static_cast<std::size_t>(in_idx));
    if (in_idx == 2) return bm_reshaped(t, {1, layer()->inputs[1].shape[0], 1, 1});
    const bm_shape &w = t.shape;
    if (in_idx != 1 || w.size() != 4 || t.dtype != DTYPE_FP32) return {};
    bm_check_kernel(*layer(), p()->groups, p()->kernel_h, p()->kernel_w, w[1] * p()->groups);
    if (joined()) return {1, w[0], 1, row_words() + CONV_JOINED};
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
int ConvDescriptor::row_words() const {
    const bm_shape &w = layer()->inputs[1].shape;
    return is_depthwise() ? w[2] * w[3] : bm_kernel_pairs(p()->groups, w[1]) * 2 * w[2] * w[3];
}

bool ConvDescriptor::joined() const {
    const bm_shape &w = layer()->inputs[1].shape;
    return w.size() == 4 && bm_joins_bias(*layer(), w[0], row_words());
}
