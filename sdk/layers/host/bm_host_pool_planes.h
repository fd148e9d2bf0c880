// TPU_POOL_PLANES: how the compiler may treat it.
#ifndef BM_HOST_POOL_PLANES_H
#define BM_HOST_POOL_PLANES_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

// The compiler knows that planes are batches, which stay together.
__BM_DESC__(TPU_POOL_PLANES)
class PoolPlanesDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "POOL_PLANES"; }
};

#endif
