// TPU_EXPAND: how the compiler may treat it.
#ifndef BM_HOST_EXPAND_H
#define BM_HOST_EXPAND_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_EXPAND)
class ExpandDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "EXPAND"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
