// TPU_ARG: how the compiler may treat it.
#ifndef BM_HOST_ARG_H
#define BM_HOST_ARG_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_ARG)
class ArgDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "ARG"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
