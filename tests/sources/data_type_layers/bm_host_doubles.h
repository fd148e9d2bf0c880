#ifndef BM_HOST_DOUBLES_H
#define BM_HOST_DOUBLES_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_DOUBLE8)
class Double8Descriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "DOUBLE8"; }
    // Integers with or without a sign, as the net has them.
    virtual DATA_TYPE_T input_dtype(int in_idx) const override {
        return layer()->inputs[in_idx].dtype == DTYPE_UINT8 ? DTYPE_UINT8 : DTYPE_INT8;
    }
    virtual bool can_inplace(DATA_TYPE_T) const override { return true; }
};

__BM_DESC__(TPU_DOUBLE16)
class Double16Descriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "DOUBLE16"; }
    virtual DATA_TYPE_T input_dtype(int) const override { return DTYPE_INT16; }
};

#endif
