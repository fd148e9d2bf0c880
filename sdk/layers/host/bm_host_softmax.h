// TPU_SOFTMAX: how the compiler may treat it.
#ifndef BM_HOST_SOFTMAX_H
#define BM_HOST_SOFTMAX_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_SOFTMAX)
class SoftmaxDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "SOFTMAX"; }
    virtual bool force_use_global_layer() const override { return true; }
    virtual u64 get_global_buffer_size() const override;
};

#endif
