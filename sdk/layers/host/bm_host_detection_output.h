// TPU_DETECTION_OUTPUT: how the compiler may treat it.
#ifndef BM_HOST_DETECTION_OUTPUT_H
#define BM_HOST_DETECTION_OUTPUT_H

#include <string>

#include "../lib/bm_layer_detection.h"
#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_DETECTION_OUTPUT)
class DetectionOutputDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "DETECTION_OUTPUT"; }
    virtual bool force_use_global_layer() const override { return true; }
    // The controller reads scores and boxes, and says how many detections there are.
    virtual bool must_dynamic_run() const override { return true; }
    virtual bool output_shape_is_dynamic() const override { return true; }
    virtual u64 get_global_buffer_size() const override {
        const auto *p = param<tpu_detection_output_param_t>();
        const auto &inputs = layer()->inputs;
        return bm_detection_buffer_at(0, p->num_classes, p->background_label_id, p->share_location, p->top_k,
                                      p->keep_top_k, inputs.at(0).shape.at(0), inputs.at(2).shape.at(2) / 4)
            .end;
    }
};

#endif
