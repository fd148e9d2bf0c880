// TPU_CONV: how the compiler may treat it.
#ifndef BM_HOST_CONV_H
#define BM_HOST_CONV_H

#include <string>
#include <vector>

#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_CONV)
class ConvDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "CONV"; }
    bool force_use_global_layer() override;
    TENSOR_TYPE_T input_type(int in_idx) override { return in_idx == 0 ? BMNET_NEURON : BMNET_COEFF_NEURON; }
    std::vector<int> prepared_shape(int in_idx) override;
    int prepared_with(int in_idx) override;
    void prepare(int in_idx, const void *constant, void *prepared) override;
    int backward_hidx(int out_hidx) override;
    int backward_hslice(int out_hslice) override;
    int backward_widx(int out_widx) override;
    int backward_wslice(int out_wslice) override;
    int backward_kh() override;
    int backward_stride_h() override;
    int backward_up_pad_h() override;
    int backward_down_pad_h() override;
    bool accepts_larger_pieces() override;

  private:
    bool is_depthwise() const;
    int words() const;
    bool joined() const;
    const tpu_conv_param_t *p() const { return param<tpu_conv_param_t>(); }
};

#endif
