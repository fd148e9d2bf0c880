// TPU_LEAKY8: how the compiler may treat it. Every method has a default; override what differs
// (docs/layer-api.md and bmcompiler_tpulayer_host.hpp list them all).
#ifndef BM_HOST_LEAKY8_H
#define BM_HOST_LEAKY8_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_LEAKY8)
class Leaky8Descriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override;
    // How the kernel takes an input; what the net has in another way is converted. The store mode follows: 4N.
    virtual DATA_TYPE_T input_dtype(int in_idx) const override;
    // What leaky8_local's instruction does not take.
    virtual bool force_use_global_layer() const override;
};

#endif
