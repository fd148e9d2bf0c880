// How a convolution's output looks at its input: what the descriptors of TPU_CONV and TPU_CONV_INT8 share.
#ifndef BM_HOST_CONV_WINDOW_H
#define BM_HOST_CONV_WINDOW_H

#include "bm_host_constants.h"
#include "bm_host_window.h"
#include "bmcompiler_tpulayer_host.hpp"

// Param: the layer's parameters, with kernel, stride, dilation, pads and groups.
template <typename Param>
class ConvWindow : public bmcompiler::LayerDescriptor {
  public:
    // The local function takes what one instruction per group takes, or (see by_taps) one per tap without pads.
    virtual bool force_use_global_layer() const override {
        const std::size_t dims = layer()->inputs[0].shape.size();
        if ((dims != 3 && dims != 4) || !bm_is_constant(layer()->inputs.back())) return true;
        if (by_taps()) return (p()->pad_top | p()->pad_bottom | p()->pad_left | p()->pad_right) != 0;
        return !window_pads(p()->kernel_h, p()->dilation_h, p()->pad_top, p()->pad_bottom) ||
               !window_pads(p()->kernel_w, p()->dilation_w, p()->pad_left, p()->pad_right);
    }
    // Of instructions for one tap the output is the longest.
    virtual u32 get_local_buffer_size(const int *split_shape) const override {
        const int rows = split_shape[2], columns = split_shape[3];
        return by_taps() ? window_room(rows, columns, 0)
                         : window_room(backward_hslice(rows), backward_wslice(columns), 0);
    }
    virtual int backward_hidx(int out_hidx) const override { return out_hidx * p()->stride_h - p()->pad_top; }
    virtual int backward_hslice(int out_hslice) const override {
        return window_length(out_hslice, p()->kernel_h, p()->stride_h, p()->dilation_h);
    }
    virtual int backward_widx(int out_widx) const override { return out_widx * p()->stride_w - p()->pad_left; }
    virtual int backward_wslice(int out_wslice) const override {
        return window_length(out_wslice, p()->kernel_w, p()->stride_w, p()->dilation_w);
    }
    // The depthwise instruction takes its input in whole tiles.
    virtual bool accepts_larger_tiles() const override {
        const int groups = p()->groups;
        return groups == 1 || groups != layer()->inputs[0].shape[1] || groups != layer()->outputs[0].shape[1];
    }

  protected:
    bool by_taps() const {
        return !window_steps(p()->stride_h, p()->dilation_h) || !window_steps(p()->stride_w, p()->dilation_w);
    }
    bool is_depthwise() const {
        const bm_shape &w = layer()->inputs[1].shape;
        return p()->groups > 1 && p()->groups == w[0] && w[1] == 1;
    }
    const Param *p() const { return param<Param>(); }
};

#endif
