#ifndef BM_HOST_NONZERO_H
#define BM_HOST_NONZERO_H
#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"

__BM_DESC__(TPU_NONZERO)
class NonzeroDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "NONZERO"; }
    virtual bool must_dynamic_run() const override { return true; }
    virtual bool output_shape_is_dynamic() const override { return true; }
};
#endif
