// TPU_SPLIT: how the compiler may treat it.
#ifndef BM_HOST_SPLIT_H
#define BM_HOST_SPLIT_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_SPLIT)
class SplitDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "SPLIT"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
