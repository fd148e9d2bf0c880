#include "bm_host_pool.h"

#include "bm_host_elementwise.h"
#include "bm_host_window.h"

// The local function takes what one instruction takes.
bool PoolDescriptor::force_use_global_layer() const {
    const std::size_t dims = layer()->inputs[0].shape.size();
    if (dims != 3 && dims != 4) return true;
    if (whole()) return kernel_h() > CHIP_WINDOW_SIDE_MAX || kernel_w() > CHIP_WINDOW_SIDE_MAX;
    return p()->dilation_h > 1 || p()->dilation_w > 1 || !window_steps(p()->stride_h, 1) ||
           !window_steps(p()->stride_w, 1) ||
           !window_pads(p()->kernel_h, 1, p()->pad_top, p()->pad_bottom + p()->extra_bottom) ||
           !window_pads(p()->kernel_w, 1, p()->pad_left, p()->pad_right + p()->extra_right);
}

// Rows that are pooled along w, but not yet along h: only large kernels are worth two steps.
u32 PoolDescriptor::get_local_buffer_size(const int *split_shape) const {
    const int rows = backward_hslice(split_shape[2]), columns = backward_wslice(split_shape[3]);
    if (kernel_h() < 2 || kernel_w() < 2 || kernel_h() * kernel_w() < 16) return window_room(rows, columns, 0);
    const int between[] = {split_shape[0], split_shape[1], rows, split_shape[3]};
    return window_room(rows, columns, bm_local_bytes(bm_tile_bytes(between)));
}

int PoolDescriptor::backward_hidx(int out_hidx) const { return out_hidx * stride_h() - (whole() ? 0 : p()->pad_top); }
int PoolDescriptor::backward_hslice(int out_hslice) const { return window_length(out_hslice, kernel_h(), stride_h(), 1); }
int PoolDescriptor::backward_widx(int out_widx) const { return out_widx * stride_w() - (whole() ? 0 : p()->pad_left); }
int PoolDescriptor::backward_wslice(int out_wslice) const { return window_length(out_wslice, kernel_w(), stride_w(), 1); }
