#ifndef BM_HOST_SCALE_ADD_H
#define BM_HOST_SCALE_ADD_H

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_SCALE_ADD)
class ScaleAddDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "SCALE_ADD"; }
};

#endif
