// TPU_LRN: how the compiler may treat it.
#ifndef BM_HOST_LRN_H
#define BM_HOST_LRN_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_LRN)
class LrnDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "LRN"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
