// TPU_UNARY: how the compiler may treat it.
#ifndef BM_HOST_UNARY_H
#define BM_HOST_UNARY_H

#include <string>
#include <vector>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_UNARY)
class UnaryDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "UNARY"; }
    virtual bool can_inplace(DATA_TYPE_T dtype) const override;
    virtual u32 get_local_buffer_size(const int *split_shape) const override;
};

#endif
