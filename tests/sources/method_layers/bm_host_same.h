#ifndef BM_HOST_SAME_H
#define BM_HOST_SAME_H
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_SAME)
class SameDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "SAME"; }
    virtual bool is_backslice_optimize_support_layer() const override { return true; }
};
#endif
