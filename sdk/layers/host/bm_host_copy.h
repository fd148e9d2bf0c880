// TPU_COPY: how the compiler may treat it.
#ifndef BM_HOST_COPY_H
#define BM_HOST_COPY_H

#include <string>

#include "bm_host_movement.h"

__BM_DESC__(TPU_COPY)
class CopyDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "COPY"; }
    virtual bool force_use_global_layer() const override { return true; }
    // The same bytes: the output can live in the input's memory.
    virtual bool just_reshape() const override { return true; }
    virtual bool is_share_mem_layer() const override { return true; }
};

#endif
