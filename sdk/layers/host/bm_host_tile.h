// TPU_TILE: how the compiler may treat it.
#ifndef BM_HOST_TILE_H
#define BM_HOST_TILE_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_TILE)
class TileDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "TILE"; }
    bool force_use_global_layer() override { return true; }
};

#endif
