// TPU_STRIPS_CUT: how the compiler may treat it.
#ifndef BM_HOST_STRIPS_CUT_H
#define BM_HOST_STRIPS_CUT_H

#include <string>

#include "bm_host_strips.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_STRIPS_CUT)
class StripsCutDescriptor : public StripsDescriptor {
  public:
    virtual std::string get_name() const override { return "STRIPS_CUT"; }
    virtual u32 get_local_buffer_size(const int *tile) const override { return bm_local_bytes(word_bytes(tile)); }
    virtual int forward_height(int in_height) const override {
        (void)in_height;
        return param<tpu_strips_cut_param_t>()->rows;
    }
};

#endif
