// TPU_DEPTH_TO_SPACE: how the compiler may treat it.
#ifndef BM_HOST_DEPTH_TO_SPACE_H
#define BM_HOST_DEPTH_TO_SPACE_H

#include <string>

#include "bm_host_movement.h"

__BM_DESC__(TPU_DEPTH_TO_SPACE)
class DepthToSpaceDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "DEPTH_TO_SPACE"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
