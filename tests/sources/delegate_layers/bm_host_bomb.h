// TPU_BOMB: runs alone.
#ifndef BM_HOST_BOMB_H
#define BM_HOST_BOMB_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_BOMB)
class BombDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "BOMB"; }
};

#endif
