#ifndef BM_HOST_READER_H
#define BM_HOST_READER_H
#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"

__BM_DESC__(TPU_READER)
class ReaderDescriptor : public bmcompiler::LayerDescriptor {
    const tpu_reader_param_t *p() const { return param<tpu_reader_param_t>(); }

  public:
    virtual std::string get_name() const override { return "READER"; }
    virtual bool must_dynamic_run() const override { return p()->says_so; }
    virtual bool output_shape_is_dynamic() const override { return p()->depends; }
    virtual bool can_h_w_dynamic() const override { return !p()->fixed; }
};
#endif
