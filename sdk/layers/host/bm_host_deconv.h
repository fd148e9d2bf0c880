// TPU_DECONV: how the compiler may treat it.
#ifndef BM_HOST_DECONV_H
#define BM_HOST_DECONV_H

#include <string>
#include <vector>

#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_DECONV)
class DeconvDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "DECONV"; }
    bool force_use_global_layer() override;
    TENSOR_TYPE_T input_type(int in_idx) override { return in_idx == 0 ? BMNET_NEURON : BMNET_COEFF_NEURON; }
    std::vector<int> prepared_shape(int in_idx) override;
    int prepared_with(int in_idx) override;
    void prepare(int in_idx, const void *constant, void *prepared) override;
    int backward_hidx(int out_hidx) override;
    int backward_hslice(int out_hslice) override;
    int backward_widx(int out_widx) override;
    int backward_wslice(int out_wslice) override;

  private:
    int pairs() const;
    bool joined() const;
    const tpu_deconv_param_t *p() const { return param<tpu_deconv_param_t>(); }
};

#endif
