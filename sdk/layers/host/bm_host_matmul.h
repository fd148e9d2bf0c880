// TPU_MATMUL: how the compiler may treat it.
#ifndef BM_HOST_MATMUL_H
#define BM_HOST_MATMUL_H

#include <string>
#include <vector>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_MATMUL)
class MatmulDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "MATMUL"; }
    bool force_use_global_layer() override { return true; }
    bm_size_t get_global_buffer_size() override;
    TENSOR_TYPE_T input_type(int in_idx) override;
    std::vector<int> prepared_shape(int in_idx) override;
    void prepare(int in_idx, const void *constant, void *prepared) override;

  private:
    bool turned(int in_idx) const;
    bool in_blocks() const;
};

#endif
