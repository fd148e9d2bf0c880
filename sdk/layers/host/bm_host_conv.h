// TPU_CONV: how the compiler may treat it.
#ifndef BM_HOST_CONV_H
#define BM_HOST_CONV_H

#include <string>
#include <vector>

#include "bm_host_conv_window.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_CONV)
class ConvDescriptor : public ConvWindow<tpu_conv_param_t> {
  public:
    virtual std::string get_name() const override { return "CONV"; }
    virtual TENSOR_TYPE_T input_type(int in_idx) const override { return in_idx == 0 ? BMNET_NEURON : BMNET_COEFF_NEURON; }
    virtual std::vector<int> prepared_shape(int in_idx) const override;
    virtual int prepared_with(int in_idx) const override;
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override;

  private:
    int row_words() const;
    bool joined() const;
};

#endif
