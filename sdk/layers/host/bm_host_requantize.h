// TPU_REQUANTIZE: how the compiler may treat it.
#ifndef BM_HOST_REQUANTIZE_H
#define BM_HOST_REQUANTIZE_H

#include <string>

#include "bm_host_packed.h"

__BM_DESC__(TPU_REQUANTIZE)
class RequantizeDescriptor : public PackedDescriptor {
  public:
    virtual std::string get_name() const override { return "REQUANTIZE"; }
    virtual bool can_inplace(DATA_TYPE_T dtype) const override { return dtype == DTYPE_INT8 || dtype == DTYPE_UINT8; }
};

#endif
