// TPU_UNFOLD: how the compiler may treat it.
#ifndef BM_HOST_UNFOLD_H
#define BM_HOST_UNFOLD_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

// The compiler knows that its local function takes the input in DDR.
__BM_DESC__(TPU_UNFOLD)
class UnfoldDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "UNFOLD"; }
};

#endif
