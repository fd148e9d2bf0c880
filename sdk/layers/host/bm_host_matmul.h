// TPU_MATMUL: how the compiler may treat it.
#ifndef BM_HOST_MATMUL_H
#define BM_HOST_MATMUL_H

#include <string>
#include <vector>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_MATMUL)
class MatmulDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "MATMUL"; }
    virtual bool force_use_global_layer() const override { return true; }
    virtual u64 get_global_buffer_size() const override;
    virtual TENSOR_TYPE_T input_type(int in_idx) const override;
    virtual std::vector<int> prepared_shape(int in_idx) const override;
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override;

  private:
    bool turned(int in_idx) const;
    bool in_blocks() const;
};

#endif
