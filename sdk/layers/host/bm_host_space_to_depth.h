// TPU_SPACE_TO_DEPTH: how the compiler may treat it.
#ifndef BM_HOST_SPACE_TO_DEPTH_H
#define BM_HOST_SPACE_TO_DEPTH_H

#include <string>

#include "bm_host_movement.h"

__BM_DESC__(TPU_SPACE_TO_DEPTH)
class SpaceToDepthDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "SPACE_TO_DEPTH"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
