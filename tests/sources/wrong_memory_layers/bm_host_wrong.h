// TPU_WRONG: how the compiler may treat it.
#ifndef BM_HOST_WRONG_H
#define BM_HOST_WRONG_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"

__BM_DESC__(TPU_WRONG)
class WrongDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "WRONG"; }
    virtual u64 get_global_buffer_size() const override { return bytes(); }
    virtual u32 get_local_buffer_size(const int *tile) const override {
        (void)tile;
        return bytes();
    }

  private:
    u32 bytes() const { return static_cast<u32>(param<tpu_wrong_param_t>()->buffer); }
};

#endif
