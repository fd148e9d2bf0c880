// TPU_SCALE_SHIFT: how the compiler may treat it.
#ifndef BM_HOST_SCALE_SHIFT_H
#define BM_HOST_SCALE_SHIFT_H

#include <string>
#include <vector>

#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_SCALE_SHIFT)
class ScaleShiftDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "SCALE_SHIFT"; }
    virtual bool force_use_global_layer() const override;
    virtual bool can_inplace(DATA_TYPE_T dtype) const override { return dtype == DTYPE_FP32; }
    virtual TENSOR_TYPE_T input_type(int in_idx) const override { return in_idx == 0 ? BMNET_NEURON : BMNET_COEFF_NEURON; }
    virtual std::vector<int> prepared_shape(int in_idx) const override;
    virtual int prepared_with(int in_idx) const override;
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override;

  private:
    bool joined() const;
    bool has_channels() const; // one number to each of four dimensions' second
};

#endif
