// TPU_RESHAPE: how the compiler may treat it.
#ifndef BM_HOST_RESHAPE_H
#define BM_HOST_RESHAPE_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_RESHAPE)
class ReshapeDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "RESHAPE"; }
    virtual bool force_use_global_layer() const override { return true; }
    // The same bytes: the output can live in the input's memory.
    virtual bool just_reshape() const override { return true; }
    virtual bool is_share_mem_layer() const override { return true; }
};

#endif
