#include "bm_host_pool.h"

#include "bm_host_elementwise.h"
#include "bm_host_window.h"

// The local function takes what one instruction takes.
bool PoolDescriptor::force_use_global_layer() const {
    const auto &x = layer()->inputs[0].shape;
    if (x.size() != 4) return true;
    if (whole()) return x[2] > CHIP_WINDOW_SIDE_MAX || x[3] > CHIP_WINDOW_SIDE_MAX;
    return p()->dilation_h > 1 || p()->dilation_w > 1 ||
           !window_is_local(x[2], p()->kernel_h, p()->stride_h, 1, p()->pad_top, p()->pad_bottom + p()->extra_bottom) ||
           !window_is_local(x[3], p()->kernel_w, p()->stride_w, 1, p()->pad_left, p()->pad_right + p()->extra_right);
}

// Rows that are pooled along w, but not yet along h: only large kernels are worth two steps.
u32 PoolDescriptor::get_local_buffer_size(const int *split_shape) const {
    if (kernel_h() < 2 || kernel_w() < 2 || kernel_h() * kernel_w() < 16) return 0;
    const int between[] = {split_shape[0], split_shape[1], backward_hslice(split_shape[2]), split_shape[3]};
    return bm_local_bytes(bm_tile_bytes(between));
}

int PoolDescriptor::backward_hidx(int out_hidx) const { return out_hidx * stride_h() - (whole() ? 0 : p()->pad_top); }
int PoolDescriptor::backward_hslice(int out_hslice) const { return window_length(out_hslice, kernel_h(), stride_h(), 1); }
int PoolDescriptor::backward_widx(int out_widx) const { return out_widx * stride_w() - (whole() ? 0 : p()->pad_left); }
int PoolDescriptor::backward_wslice(int out_wslice) const { return window_length(out_wslice, kernel_w(), stride_w(), 1); }
