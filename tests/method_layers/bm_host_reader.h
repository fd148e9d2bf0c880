#ifndef BM_HOST_READER_H
#define BM_HOST_READER_H
#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"

__BM_DESC__(TPU_READER)
class ReaderDescriptor : public bmcompiler::LayerDescriptor {
    const tpu_reader_param_t *p() const { return param<tpu_reader_param_t>(); }

  public:
    std::string get_name() override { return "READER"; }
    bool must_dynamic_run() override { return p()->says_so; }
    bool output_shape_is_dynamic() override { return p()->depends; }
    bool can_h_w_dynamic() override { return !p()->fixed; }
};
#endif
