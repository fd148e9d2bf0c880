// Weights of convolutions as the instruction reads them.
#ifndef BM_HOST_KERNEL_H
#define BM_HOST_KERNEL_H

#include "../lib/bm_layer_joined.h"
#include "bm1684_chip.h"
#include "bm_host_constants.h"

// Pairs of input channels of a group's weights; conv_told of ../lib/bm_layer_conv_plan.h says why two at least.
inline int bm_kernel_pairs(int groups, int in_c) { return groups == 1 && in_c < 4 ? 2 : (in_c + 1) / 2; }

// Whether a bias that is a constant is laid out behind the weights, `words` to a channel: where all of them are weights
// that one command loads.
inline bool bm_joins_bias(const bmcompiler::GraphNode &node, int out_c, int words) {
    const auto &inputs = node.inputs;
    return inputs.size() == 3 && bm_is_constant(inputs[1]) && bm_is_constant(inputs[2]) &&
           inputs[1].dtype == DTYPE_FP32 && inputs[2].dtype == DTYPE_FP32 &&
           bm_elements(inputs[2].shape) == static_cast<std::size_t>(out_c) && words + CONV_JOINED <= CHIP_EXTENT_MAX;
}

// Weights in pairs of input channels: [1, output channels, pairs, taps * 2], where the two numbers of a pair lie side by
// side; what in_c channels leave of the pairs stays zero. at(oc, ic): the taps of one kernel, ic counted in its group.
// bias: NULL, or what lies behind each channel's pairs.
template <typename At>
void bm_fill_pairs(float *prepared, int out_c, int in_c, int pairs, int taps, const float *bias, At at) {
    const std::size_t size = static_cast<std::size_t>(taps), words = static_cast<std::size_t>(pairs) * size * 2;
    const std::size_t row = words + (bias != nullptr ? CONV_JOINED : 0);
    for (int oc = 0; oc < out_c; oc++) {
        for (int ic = 0; ic < in_c; ic++) {
            const float *from = at(oc, ic);
            float *to = prepared + static_cast<std::size_t>(oc) * row + static_cast<std::size_t>(ic / 2) * size * 2 +
                        ic % 2;
            for (std::size_t i = 0; i < size; i++) to[2 * i] = from[i];
        }
        if (bias != nullptr) prepared[static_cast<std::size_t>(oc) * row + words] = bias[oc];
    }
}

// What a convolution of x and its weights [rows, columns, .., KH, KW] must have in common; throws otherwise. in_c: channels
// of the input that the weights are for.
inline void bm_check_kernel(const bmcompiler::GraphNode &node, int groups, int kernel_h, int kernel_w, int in_c) {
    const bm_shape &x = node.inputs.at(0).shape, &w = node.inputs.at(1).shape;
    if (groups < 1 || w[0] % groups != 0)
        throw std::invalid_argument("the first extent of weights " + bm_text(w) + " does not divide into " +
                                    std::to_string(groups) + " groups");
    if (w[w.size() - 2] != kernel_h || w.back() != kernel_w)
        throw std::invalid_argument("weights " + bm_text(w) + " for a kernel of " + std::to_string(kernel_h) + " x " +
                                    std::to_string(kernel_w));
    if (x.size() >= 3 && x[1] != in_c)
        throw std::invalid_argument("weights " + bm_text(w) + " in " + std::to_string(groups) + " groups for " +
                                    std::to_string(x[1]) + " input channels");
}

#endif
