// TPU_TRANSPOSE: how the compiler may treat it.
#ifndef BM_HOST_TRANSPOSE_H
#define BM_HOST_TRANSPOSE_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_TRANSPOSE)
class TransposeDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "TRANSPOSE"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
