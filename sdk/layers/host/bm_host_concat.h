// TPU_CONCAT: how the compiler may treat it.
#ifndef BM_HOST_CONCAT_H
#define BM_HOST_CONCAT_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_CONCAT)
class ConcatDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "CONCAT"; }
    virtual bool force_use_global_layer() const override { return true; }
    virtual bool joins_inputs() const override;
};

#endif
