// What the descriptors of pools share.
#ifndef BM_HOST_POOLING_H
#define BM_HOST_POOLING_H

#include "../lib/bm_layer_pool_window.h"
#include "bm_host_elementwise.h"
#include "bm_host_window.h"

class PoolingDescriptor : public bmcompiler::LayerDescriptor {
  public:
    // The local function takes what one instruction takes.
    virtual bool force_use_global_layer() const override {
        const std::size_t dims = layer()->inputs[0].shape.size();
        if (dims != 3 && dims != 4) return true;
        const pool_window p = window();
        if (p.whole) return kernel_h() > CHIP_WINDOW_SIDE_MAX || kernel_w() > CHIP_WINDOW_SIDE_MAX;
        return p.dilation_h > 1 || p.dilation_w > 1 || !window_steps(p.stride_h, 1) || !window_steps(p.stride_w, 1) ||
               !window_pads(p.kernel_h, 1, p.pad_top, p.pad_bottom + p.extra_bottom) ||
               !window_pads(p.kernel_w, 1, p.pad_left, p.pad_right + p.extra_right);
    }
    virtual int backward_hidx(int out_hidx) const override {
        return out_hidx * stride_h() - (window().whole ? 0 : window().pad_top);
    }
    virtual int backward_hslice(int out_hslice) const override {
        return window_length(out_hslice, kernel_h(), stride_h(), 1);
    }
    virtual int backward_widx(int out_widx) const override {
        return out_widx * stride_w() - (window().whole ? 0 : window().pad_left);
    }
    virtual int backward_wslice(int out_wslice) const override {
        return window_length(out_wslice, kernel_w(), stride_w(), 1);
    }

  protected:
    virtual pool_window window() const = 0;

    // Bytes per NPU of rows that are pooled along w, but not yet along h, of so many batches of words: only large
    // kernels are worth two steps.
    u32 two_steps(int batches, const int *split_shape) const {
        const int rows = backward_hslice(split_shape[2]), columns = backward_wslice(split_shape[3]);
        if (kernel_h() < 2 || kernel_w() < 2 || kernel_h() * kernel_w() < 16) return window_room(rows, columns, 0);
        const int between[] = {batches, split_shape[1], rows, split_shape[3]};
        return window_room(rows, columns, bm_local_bytes(bm_tile_bytes(between)));
    }

    int kernel_h() const {
        const pool_window p = window();
        if (p.whole == POOL_WHOLE_NONE) return p.kernel_h;
        return p.whole == POOL_WHOLE_ROW ? 1 : layer()->inputs[0].shape[2];
    }
    int kernel_w() const {
        const pool_window p = window();
        if (p.whole == POOL_WHOLE_NONE) return p.kernel_w;
        return p.whole == POOL_WHOLE_COLUMN ? 1 : width();
    }

  private:
    int width() const { return layer()->inputs[0].shape.size() == 4 ? layer()->inputs[0].shape[3] : 1; }
    int stride_h() const { return window().whole ? 1 : window().stride_h; }
    int stride_w() const { return window().whole ? 1 : window().stride_w; }
};

#endif
