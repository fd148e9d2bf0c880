// TPU_REDUCE: how the compiler may treat it.
#ifndef BM_HOST_REDUCE_H
#define BM_HOST_REDUCE_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_REDUCE)
class ReduceDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "REDUCE"; }
    virtual bool force_use_global_layer() const override { return true; }
    virtual u64 get_global_buffer_size() const override;
};

#endif
