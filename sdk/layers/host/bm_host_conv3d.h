// TPU_CONV3D: how the compiler may treat it.
#ifndef BM_HOST_CONV3D_H
#define BM_HOST_CONV3D_H

#include <string>
#include <vector>

#include "bm_host_conv_window.h"
#include "bmbuiltin.h"

// The compiler knows that planes are batches, which stay together.
__BM_DESC__(TPU_CONV3D)
class Conv3dDescriptor : public ConvWindow<tpu_conv3d_param_t> {
  public:
    virtual std::string get_name() const override { return "CONV3D"; }
    virtual TENSOR_TYPE_T input_type(int in_idx) const override { return in_idx == 0 ? BMNET_NEURON : BMNET_COEFF_NEURON; }
    virtual u32 get_local_buffer_size(const int *split_shape) const override;
    virtual std::vector<int> prepared_shape(int in_idx) const override;
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override;
};

#endif
