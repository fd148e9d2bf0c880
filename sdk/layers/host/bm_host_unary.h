// TPU_UNARY: how the compiler may treat it.
#ifndef BM_HOST_UNARY_H
#define BM_HOST_UNARY_H

#include <string>
#include <vector>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_UNARY)
class UnaryDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "UNARY"; }
    bool can_inplace(DATA_TYPE_T dtype) override;
    bm_size_t get_local_buffer_size(const std::vector<int> &split_shape) override;
};

#endif
