#include "bm_host_deconv.h"

#include "bm1684_chip.h"
#include "bm_host_elementwise.h"
#include "bm_host_kernel.h"
#include "bm_host_window.h"
#include "../lib/bm_layer_phases.h"

namespace {

// What one direction of the layer is as a convolution over an input with zeros between its elements.
struct Axis {
    int size, kernel, stride, dilation, low, high, more;

    int reach() const { return (kernel - 1) * dilation; }
    int before() const { return reach() - low; }
    int after() const { return reach() - high + more; }

    // Any tile is within one instruction's limits and meets an element of the input.
    bool is_local() const {
        const int most = before() > after() ? before() : after();
        return most <= CHIP_WINDOW_STEP_MAX && most <= reach() && stride <= reach() + 1 &&
               (size - 1LL) * stride + 1 + (before() > 0 ? before() : 0) + (after() > 0 ? after() : 0) <=
                   CHIP_WINDOW_SIDE_MAX;
    }

    phase_axis phases() const { return {kernel, stride, dilation, before(), after()}; }

    // Rounded down: the element at or below the first position of the window.
    int index(int out) const {
        const int position = out - before();
        return position >= 0 ? position / stride : -((stride - 1 - position) / stride);
    }

    // As many as any window of this extent can need from there on.
    int slice(int extent) const { return (extent + reach() + stride - 2) / stride + 1; }
};

Axis axis_h(const tpu_deconv_param_t *p, int size) {
    return {size, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom, p->output_pad_h};
}

Axis axis_w(const tpu_deconv_param_t *p, int size) {
    return {size, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left, p->pad_right, p->output_pad_w};
}

}  // namespace

// Weights [IC, OC / groups, KH, KW] and a bias of OC numbers. The kernel is not turned: the instruction does that.
std::vector<int> DeconvDescriptor::prepared_shape(int in_idx) const {
    const bmcompiler::GraphTensor &t = layer()->inputs.at(static_cast<std::size_t>(in_idx));
    const bm_shape &w = layer()->inputs.at(1).shape;
    if (in_idx == 0 || w.size() != 4 || t.dtype != DTYPE_FP32) return {};
    if (in_idx == 2) return bm_reshaped(t, {1, w[1] * p()->groups, 1, 1});
    bm_check_kernel(*layer(), p()->groups, p()->kernel_h, p()->kernel_w, w[0]);
    if (joined()) return {1, w[1] * p()->groups, 1, pairs() * 2 * w[2] * w[3] + CONV_JOINED};
    return {1, w[1] * p()->groups, pairs(), 2 * w[2] * w[3]};
}

int DeconvDescriptor::prepared_with(int in_idx) const { return in_idx == 2 && joined() ? 1 : in_idx; }

void DeconvDescriptor::prepare(int in_idx, const void *constant, void *prepared) const {
    if (in_idx == 2) return bm_keep_elements(layer()->inputs[2], constant, prepared);
    const bm_shape &w = layer()->inputs[1].shape;
    const float *from = static_cast<const float *>(constant);
    const float *bias = joined() ? static_cast<const float *>(layer()->inputs[2].data) : nullptr;
    const int taps = w[2] * w[3], in_c = w[0] / p()->groups, out_c = w[1];
    float *to = static_cast<float *>(prepared);
    bm_fill_pairs(to, out_c * p()->groups, in_c, pairs(), taps, bias, [=](int oc, int ic) {
        const std::size_t row = static_cast<std::size_t>(oc / out_c * in_c + ic);
        return from + (row * static_cast<std::size_t>(out_c) + static_cast<std::size_t>(oc % out_c)) *
                          static_cast<std::size_t>(taps);
    });
}

int DeconvDescriptor::pairs() const {
    return bm_kernel_pairs(p()->groups, layer()->inputs[1].shape[0] / p()->groups);
}

bool DeconvDescriptor::joined() const {
    const bm_shape &w = layer()->inputs[1].shape;
    return w.size() == 4 && p()->groups > 0 && bm_joins_bias(*layer(), w[1] * p()->groups, pairs() * 2 * w[2] * w[3]);
}

bool DeconvDescriptor::force_use_global_layer() const {
    const auto &inputs = layer()->inputs;
    if (inputs[0].shape.size() != 4 || !bm_is_constant(inputs.back())) return true;
    if (by_phases()) return false;
    return !axis_h(p(), inputs[0].shape[2]).is_local() || !axis_w(p(), inputs[0].shape[3]).is_local();
}

bool DeconvDescriptor::by_phases() const {
    const phase_axis h = axis_h(p(), 1).phases(), w = axis_w(p(), 1).phases();
    return bm_by_phases(layer()->inputs[0].shape[1] / p()->groups, &h, &w);
}

// The largest phase of the tile.
u32 DeconvDescriptor::get_local_buffer_size(const int *split_shape) const {
    if (!by_phases()) return 0;
    const int phase[4] = {split_shape[0], split_shape[1], (split_shape[2] - 1) / p()->stride_h + 1,
                          (split_shape[3] - 1) / p()->stride_w + 1};
    return window_room(backward_hslice(split_shape[2]), backward_wslice(split_shape[3]),
                       bm_local_bytes(bm_tile_bytes(phase)));
}

int DeconvDescriptor::backward_hidx(int out_hidx) const { return axis_h(p(), 1).index(out_hidx); }
int DeconvDescriptor::backward_hslice(int out_hslice) const { return axis_h(p(), 1).slice(out_hslice); }
int DeconvDescriptor::backward_widx(int out_widx) const { return axis_w(p(), 1).index(out_widx); }
int DeconvDescriptor::backward_wslice(int out_wslice) const { return axis_w(p(), 1).slice(out_wslice); }
