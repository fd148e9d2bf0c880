#include "bm_host_deconv.h"

namespace {

// What one direction of the layer is as a convolution over an input with zeros between its elements.
struct Axis {
    int size, kernel, stride, dilation, low, high, more;

    int reach() const { return (kernel - 1) * dilation; }
    int before() const { return reach() - low; }
    int after() const { return reach() - high + more; }

    // Any piece is within one instruction's limits and meets an element of the input.
    bool is_local() const {
        const int most = before() > after() ? before() : after();
        return most <= 15 && most <= reach() && stride <= reach() + 1 &&
               (size - 1LL) * stride + 1 + (before() > 0 ? before() : 0) + (after() > 0 ? after() : 0) <= 2047;
    }

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

bool DeconvDescriptor::force_use_global_layer() {
    const auto &inputs = layer().inputs;
    if (inputs[0].shape.size() != 4 || inputs.back().shape.size() != 4) return true;
    return !axis_h(p(), inputs[0].shape[2]).is_local() || !axis_w(p(), inputs[0].shape[3]).is_local();
}

int DeconvDescriptor::backward_hidx(int out_hidx) { return axis_h(p(), 1).index(out_hidx); }
int DeconvDescriptor::backward_hslice(int out_hslice) { return axis_h(p(), 1).slice(out_hslice); }
int DeconvDescriptor::backward_widx(int out_widx) { return axis_w(p(), 1).index(out_widx); }
int DeconvDescriptor::backward_wslice(int out_wslice) { return axis_w(p(), 1).slice(out_wslice); }
