// TPU_GATHER: how the compiler may treat it.
#ifndef BM_HOST_GATHER_H
#define BM_HOST_GATHER_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_GATHER)
class GatherDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "GATHER"; }
    bool force_use_global_layer() override { return true; }
    bool must_dynamic_run() override { return computed(); }
    TENSOR_TYPE_T input_type(int in_idx) override;

  private:
    bool computed() const;  // the indices are no constants: the controller reads them when the layer runs
};

#endif
