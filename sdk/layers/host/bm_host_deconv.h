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
    virtual std::string get_name() const override { return "DECONV"; }
    virtual bool force_use_global_layer() const override;
    virtual u32 get_local_buffer_size(const int *split_shape) const override;
    virtual TENSOR_TYPE_T input_type(int in_idx) const override { return in_idx == 0 ? BMNET_NEURON : BMNET_COEFF_NEURON; }
    virtual std::vector<int> prepared_shape(int in_idx) const override;
    virtual int prepared_with(int in_idx) const override;
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override;
    virtual int backward_hidx(int out_hidx) const override;
    virtual int backward_hslice(int out_hslice) const override;
    virtual int backward_widx(int out_widx) const override;
    virtual int backward_wslice(int out_wslice) const override;

  private:
    bool by_phases() const;
    int pairs() const;
    bool joined() const;
    const tpu_deconv_param_t *p() const { return param<tpu_deconv_param_t>(); }
};

#endif
