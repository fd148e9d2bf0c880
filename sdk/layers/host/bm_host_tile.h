// TPU_TILE: how the compiler may treat it.
#ifndef BM_HOST_TILE_H
#define BM_HOST_TILE_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_TILE)
class TileDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "TILE"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
