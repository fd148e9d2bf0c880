// TPU_MATMUL: how the compiler may treat it.
#ifndef BM_HOST_MATMUL_H
#define BM_HOST_MATMUL_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_MATMUL)
class MatmulDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "MATMUL"; }
    bool force_use_global_layer() override { return true; }
};

#endif
