// TPU_YOLOV3_DETECT_OUT: how the compiler may treat it.
#ifndef BM_HOST_YOLOV3_DETECT_OUT_H
#define BM_HOST_YOLOV3_DETECT_OUT_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_YOLOV3_DETECT_OUT)
class Yolov3DetectOutDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "YOLOV3_DETECT_OUT"; }
    // The controller sorts and suppresses boxes: it reads what the engines have written.
    virtual bool must_dynamic_run() const override { return true; }
    // As many rows as there are detections.
    virtual bool output_shape_is_dynamic() const override { return true; }
    virtual u64 get_global_buffer_size() const override;
};

#endif
