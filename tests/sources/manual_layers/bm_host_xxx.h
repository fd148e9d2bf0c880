// The class of the manual, with every method that it lists, spelled as there.
#pragma once
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_XXX)
class XxxDescriptor: public bmcompiler::LayerDescriptor {
public:
    virtual std::string get_name() const override { return "XXX"; }
    virtual bool must_dynamic_run() const override { return false; }
    virtual bool output_shape_is_dynamic() const override { return false; }
    virtual bool force_use_global_layer() const override { return layer()->inputs.size() != 1; }
    virtual bool can_split_local_h_w() const override { return true; }
    virtual bool can_inplace(DATA_TYPE_T data_prec) const override { return data_prec == DTYPE_FP32; }
    virtual bool can_h_w_dynamic() const override { return true; }
    virtual bool just_reshape() const override { return false; }
    virtual bool is_share_mem_layer() const override { return false; }
    virtual u64 get_global_buffer_size() const override { return 0; }
    virtual TENSOR_TYPE_T input_type(int in_idx) const override { return BMNET_NEURON; }
    virtual u32 get_local_buffer_size(const int* split_shape) const override { return 4 * split_shape[3]; }
    virtual bool is_backslice_optimize_support_layer() const override { return false; }
    virtual int backward_hslice(int out_hslice) const override { return out_hslice; }
    virtual int backward_wslice(int out_wslice) const override { return out_wslice; }
    virtual int backward_hidx(int out_hidx) const override { return out_hidx; }
    virtual int backward_widx(int out_widx) const override { return out_widx; }
    virtual int backward_kh(int out_kh) const override { return out_kh; }
    virtual int backward_stride_h(int out_stride_h) const override { return out_stride_h; }
    virtual int backward_up_pad_h(int out_up_pad_h) const override { return out_up_pad_h; }
    virtual int backward_down_pad_h(int out_down_pad_h) const override { return out_down_pad_h; }
    virtual bool should_input_on_l2mem(int in_idx) const override { return false; };
    virtual int forward_height(int in_height) const override { return in_height; }
};
