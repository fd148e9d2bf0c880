// TPU_CONST_BINARY: how the compiler may treat it.
#ifndef BM_HOST_CONST_BINARY_H
#define BM_HOST_CONST_BINARY_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_CONST_BINARY)
class ConstBinaryDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "CONST_BINARY"; }
    // One instruction reads each element once and writes it to the same place.
    virtual bool can_inplace(DATA_TYPE_T dtype) const override { return dtype == DTYPE_FP32; }
};

#endif
