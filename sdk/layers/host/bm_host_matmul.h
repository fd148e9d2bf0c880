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
    virtual bool force_use_global_layer() const override { return !is_local(); }
    virtual bool can_split_local_h_w() const override { return layer()->outputs[0].shape.size() == 4; }
    virtual int forward_height(int in_height) const override;
    virtual int backward_widx(int) const override { return 0; }
    virtual int backward_wslice(int) const override { return layer()->inputs[0].shape.back(); }
    virtual u32 get_local_buffer_size(const int *split_shape) const override;
    virtual u64 get_global_buffer_size() const override;
    virtual TENSOR_TYPE_T input_type(int in_idx) const override;
    virtual std::vector<int> prepared_shape(int in_idx) const override;
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override;

  private:
    bool turned(int in_idx) const;
    bool in_blocks() const;
    bool is_local() const;
    std::vector<int> local_bias() const;
};

#endif
