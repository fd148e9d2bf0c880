// TPU_CONV_INT8: how the compiler may treat it.
#ifndef BM_HOST_CONV_INT8_H
#define BM_HOST_CONV_INT8_H

#include <string>
#include <vector>

#include "bm_host_conv_window.h"
#include "bm_host_quantised.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_CONV_INT8)
class ConvInt8Descriptor : public ConvWindow<tpu_conv_int8_param_t> {
  public:
    virtual std::string get_name() const override { return "CONV_INT8"; }
    virtual TENSOR_TYPE_T input_type(int in_idx) const override { return in_idx == 0 ? BMNET_NEURON : BMNET_COEFF_NEURON; }
    virtual DATA_TYPE_T input_dtype(int in_idx) const override { return bm_bytes_of(*layer(), in_idx); }
    virtual std::vector<int> prepared_shape(int in_idx) const override;
    virtual DATA_TYPE_T prepared_dtype(int) const override { return DTYPE_INT32; }
    virtual int prepared_with(int in_idx) const override { return in_idx == 2 ? 1 : in_idx; }
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override;

  protected:
    virtual int words(int batches) const override { return (batches + 3) / 4; }

  private:
    int row_words() const;
};

#endif
