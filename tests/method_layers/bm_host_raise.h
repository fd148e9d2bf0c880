#ifndef BM_HOST_RAISE_H
#define BM_HOST_RAISE_H
#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"

__BM_DESC__(TPU_RAISE)
class RaiseDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "RAISE"; }
    bool is_share_mem_layer() override { return param<tpu_raise_param_t>()->shares; }
    bool just_reshape() override { return param<tpu_raise_param_t>()->reshape; }
};
#endif
