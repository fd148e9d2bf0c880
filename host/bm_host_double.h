// TPU_DOUBLE: how the compiler may treat it.
#ifndef BM_HOST_DOUBLE_H
#define BM_HOST_DOUBLE_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_DOUBLE)
class DoubleDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "DOUBLE"; }
    virtual bool can_inplace(DATA_TYPE_T dtype) const override;
};

#endif
