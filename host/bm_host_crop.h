// TPU_CROP: how the compiler may treat it.
#ifndef BM_HOST_CROP_H
#define BM_HOST_CROP_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_CROP)
class CropDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "CROP"; }
    bool force_use_global_layer() override;
    int backward_hidx(int out_hidx) override;
    int backward_widx(int out_widx) override;
    int forward_height(int in_height) override;
};

#endif
