// TPU_BINARY: how the compiler may treat it.
#ifndef BM_HOST_BINARY_H
#define BM_HOST_BINARY_H

#include <string>
#include <vector>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_BINARY)
class BinaryDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "BINARY"; }
    bool can_inplace(DATA_TYPE_T dtype) override;
    bool force_use_global_layer() override;
    std::vector<int> prepared_shape(int in_idx) override;
    void prepare(int in_idx, const void *constant, void *prepared) override;
    bm_size_t get_local_buffer_size(const std::vector<int> &split_shape) override;
    bool accepts_larger_pieces() override;
};

#endif
