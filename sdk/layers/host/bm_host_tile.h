// TPU_TILE: how the compiler may treat it.
#ifndef BM_HOST_TILE_H
#define BM_HOST_TILE_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_TILE)
class TileDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "TILE"; }
    virtual bool force_use_global_layer() const override { return true; }

  protected:
    virtual bool keeps_batches() const override { return param<tpu_tile_param_t>()->repeats[0] == 1; }
};

#endif
