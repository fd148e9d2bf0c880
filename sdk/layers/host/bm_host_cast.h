// TPU_CAST: how the compiler may treat it.
#ifndef BM_HOST_CAST_H
#define BM_HOST_CAST_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_CAST)
class CastDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "CAST"; }
    bool force_use_global_layer() override { return true; }
};

#endif
