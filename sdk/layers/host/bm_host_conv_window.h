// How a convolution's output looks at its input: what the descriptors of TPU_CONV and TPU_CONV_INT8 share.
#ifndef BM_HOST_CONV_WINDOW_H
#define BM_HOST_CONV_WINDOW_H

#include "bm_host_constants.h"
#include "bm_host_elementwise.h"
#include "bm_host_window.h"
#include "bmcompiler_tpulayer_host.hpp"

// Param: the layer's parameters, with kernel, stride, dilation, pads and groups.
template <typename Param>
class ConvWindow : public bmcompiler::LayerDescriptor {
  public:
    // The local function takes what one instruction per group, or per tap, takes, and any pads; each window meets the tensor.
    virtual bool force_use_global_layer() const override {
        const std::size_t dims = layer()->inputs[0].shape.size();
        if ((dims != 3 && dims != 4) || !bm_is_constant(layer()->inputs.back())) return true;
        if (!window_meets(p()->kernel_h, p()->dilation_h, p()->pad_top, p()->pad_bottom) ||
            !window_meets(p()->kernel_w, p()->dilation_w, p()->pad_left, p()->pad_right))
            return true;
        const bool fits = window_extent(p()->kernel_h, p()->dilation_h) && window_extent(p()->kernel_w, p()->dilation_w);
        return !fits && !by_taps();
    }
    // The input with its pads, where an instruction does not take these.
    virtual u32 get_local_buffer_size(const int *split_shape) const override {
        const int rows = backward_hslice(split_shape[2]), columns = backward_wslice(split_shape[3]);
        if (by_taps() && !filled()) return window_room(split_shape[2], split_shape[3], 0); // the output is the longest
        const int tile[4] = {words(split_shape[0]), layer()->inputs[0].shape[1], rows, columns};
        return window_room(rows, columns, filled() ? bm_local_bytes(bm_tile_bytes(tile)) : 0);
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
    // Words for each element of so many batches.
    virtual int words(int batches) const { return batches; }
    // The local function takes one instruction for each tap then.
    bool by_taps() const {
        return !window_steps(p()->stride_h, p()->dilation_h) || !window_steps(p()->stride_w, p()->dilation_w);
    }
    // Whether it has pads that an instruction does not take, and puts them around its input in the work buffer.
    bool filled() const {
        const bool any = (p()->pad_top | p()->pad_bottom | p()->pad_left | p()->pad_right) != 0;
        return by_taps() ? any
                         : !window_margins(p()->pad_top, p()->pad_bottom) || !window_margins(p()->pad_left, p()->pad_right);
    }
    bool is_depthwise() const {
        const bm_shape &w = layer()->inputs[1].shape;
        return p()->groups > 1 && p()->groups == w[0] && w[1] == 1;
    }
    const Param *p() const { return param<Param>(); }
};

#endif
