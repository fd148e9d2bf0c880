// TPU_RECURRENT: how the compiler may treat it.
#ifndef BM_HOST_RECURRENT_H
#define BM_HOST_RECURRENT_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_RECURRENT)
class RecurrentDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "RECURRENT"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
