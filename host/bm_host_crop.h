// TPU_CROP: how the compiler may treat it.
#ifndef BM_HOST_CROP_H
#define BM_HOST_CROP_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_CROP)
class CropDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "CROP"; }
    virtual bool force_use_global_layer() const override;
    virtual int backward_hidx(int out_hidx) const override;
    virtual int backward_widx(int out_widx) const override;
    virtual int forward_height(int in_height) const override;
};

#endif
