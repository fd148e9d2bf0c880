// TPU_BINARY: how the compiler may treat it.
#ifndef BM_HOST_BINARY_H
#define BM_HOST_BINARY_H

#include <string>
#include <vector>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_BINARY)
class BinaryDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "BINARY"; }
    virtual bool can_inplace(DATA_TYPE_T dtype) const override;
    virtual bool force_use_global_layer() const override;
    virtual std::vector<int> prepared_shape(int in_idx) const override;
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override;
    virtual u32 get_local_buffer_size(const int *split_shape) const override;
    virtual bool accepts_larger_tiles() const override;
};

#endif
