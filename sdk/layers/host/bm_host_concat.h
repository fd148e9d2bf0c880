// TPU_CONCAT: how the compiler may treat it.
#ifndef BM_HOST_CONCAT_H
#define BM_HOST_CONCAT_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_CONCAT)
class ConcatDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "CONCAT"; }
    bool force_use_global_layer() override { return true; }
    bool joins_inputs() override;
};

#endif
