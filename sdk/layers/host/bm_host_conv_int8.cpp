#include "bm_host_conv_int8.h"

#include "bm_host_kernel.h"

// Weights [OC, IC / groups, KH, KW] and a bias of OC numbers become words, those of a channel side by side.
std::vector<int> ConvInt8Descriptor::prepared_shape(int in_idx) const {
    const auto &inputs = layer()->inputs;
    const bm_shape &w = inputs.at(1).shape;
    if (w.size() != 4 || inputs[1].dtype != DTYPE_INT8) throw std::invalid_argument("weights are int8 [OC, IC, KH, KW]");
    bm_check_kernel(*layer(), p()->groups, p()->kernel_h, p()->kernel_w, w[1] * p()->groups);
    if (inputs.size() == 3 &&
        (inputs[2].dtype != DTYPE_INT16 || bm_elements(inputs[2].shape) != static_cast<std::size_t>(w[0])))
        throw std::invalid_argument("the bias has one int16 for each output channel");
    return {1, w[0], 1, row_words() + (inputs.size() == 3 ? CONV_JOINED : 0)};
}

// Of one channel's weights.
int ConvInt8Descriptor::row_words() const {
    const bm_shape &w = layer()->inputs[1].shape;
    return is_depthwise() ? (w[2] * w[3] + 3) / 4 : (w[1] + 3) / 4 * w[2] * w[3];
}

void ConvInt8Descriptor::prepare(int, const void *constant, void *prepared) const {
    const bm_shape &w = layer()->inputs[1].shape;
    const auto size = [](int count) { return static_cast<std::size_t>(count); };
    const std::size_t taps = size(w[2] * w[3]), in_c = size(w[1]), bytes = 4 * size(row_words());
    const bool bias = layer()->inputs.size() == 3;
    const std::size_t row = bytes + (bias ? 4 * CONV_JOINED : 0);
    const auto *from = static_cast<const signed char *>(constant);
    auto *to = static_cast<unsigned char *>(prepared);
    for (std::size_t oc = 0; oc < size(w[0]); oc++, to += row) {
        for (std::size_t ic = 0; ic < in_c; ic++)
            for (std::size_t t = 0; t < taps; t++) {
                const std::size_t at = is_depthwise() ? t : (ic / 4 * taps + t) * 4 + ic % 4;
                to[at] = static_cast<unsigned char>(*from++);
            }
        if (bias) std::memcpy(to + bytes, static_cast<const char *>(layer()->inputs[2].data) + 2 * oc, 2);
    }
}
