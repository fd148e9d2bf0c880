// TPU_STRIPS_HALO: how the compiler may treat it.
#ifndef BM_HOST_STRIPS_HALO_H
#define BM_HOST_STRIPS_HALO_H

#include <string>

#include "bm_host_strips.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_STRIPS_HALO)
class StripsHaloDescriptor : public StripsDescriptor {
  public:
    virtual std::string get_name() const override { return "STRIPS_HALO"; }
    virtual int forward_height(int in_height) const override {
        const tpu_strips_halo_param_t *p = param<tpu_strips_halo_param_t>();
        return p->top + in_height + p->bottom;
    }
};

#endif
