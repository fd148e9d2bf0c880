// TPU_ATTENTION: how the compiler may treat it.
#ifndef BM_HOST_ATTENTION_H
#define BM_HOST_ATTENTION_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_ATTENTION)
class AttentionDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "ATTENTION"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
