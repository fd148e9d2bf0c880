// TPU_STRIPS_JOIN: how the compiler may treat it.
#ifndef BM_HOST_STRIPS_JOIN_H
#define BM_HOST_STRIPS_JOIN_H

#include <string>

#include "bm_host_strips.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_STRIPS_JOIN)
class StripsJoinDescriptor : public StripsDescriptor {
  public:
    virtual std::string get_name() const override { return "STRIPS_JOIN"; }
    virtual int forward_height(int in_height) const override {
        (void)in_height;
        return param<tpu_strips_join_param_t>()->height;
    }
};

#endif
