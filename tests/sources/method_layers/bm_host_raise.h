#ifndef BM_HOST_RAISE_H
#define BM_HOST_RAISE_H
#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"

__BM_DESC__(TPU_RAISE)
class RaiseDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "RAISE"; }
    virtual bool is_share_mem_layer() const override { return param<tpu_raise_param_t>()->shares; }
    virtual bool just_reshape() const override { return param<tpu_raise_param_t>()->reshape; }
};
#endif
