// TPU_SPACE_TO_DEPTH: how the compiler may treat it.
#ifndef BM_HOST_SPACE_TO_DEPTH_H
#define BM_HOST_SPACE_TO_DEPTH_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_SPACE_TO_DEPTH)
class SpaceToDepthDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "SPACE_TO_DEPTH"; }
    bool force_use_global_layer() override { return true; }
};

#endif
