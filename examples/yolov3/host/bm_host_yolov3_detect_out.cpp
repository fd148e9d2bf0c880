#include "bm_host_yolov3_detect_out.h"

#include "bmtpu.h"
#include "yolov3_detect_out.h"

u64 Yolov3DetectOutDescriptor::get_global_buffer_size() const {
    const auto *p = param<tpu_yolov3_detect_out_param_t>();
    u64 boxes = 0;
    for (const auto &head : layer()->inputs) boxes += (u64)p->num_boxes * head.shape[2] * head.shape[3];
    const u64 most = p->keep_top_k < 0 || (u64)p->keep_top_k > boxes ? boxes : (u64)p->keep_top_k;
    return yolov3_buffer_of(boxes, most).bytes;
}
