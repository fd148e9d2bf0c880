// TPU_CAST: how the compiler may treat it.
#ifndef BM_HOST_CAST_H
#define BM_HOST_CAST_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_CAST)
class CastDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "CAST"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
