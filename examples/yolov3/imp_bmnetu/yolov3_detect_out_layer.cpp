// Caffe's layer TPUYolov3DetectOut becomes the layer TPU_YOLOV3_DETECT_OUT. The same in Python: ../caffe/.
#include "bmtpu.h"
#include "imp_bmnetu.h"

class TPUYolov3DetectOutLayer : public imp_bmnetu::Layer {
    template <class T, int N>
    void fill(T (&to)[N], const std::vector<T> &from, const char *field) {
        if (from.size() > N) error(std::string(field) + " has more than " + std::to_string(N) + " numbers");
        for (size_t i = 0; i < from.size(); i++) to[i] = from[i];
    }

    void add() override {
        const int heads = 3;
        if (bottom_num() > heads) error("it has more than 3 bottoms; the heads of a network are 1 to 3");
        tpu_yolov3_detect_out_param_t param = {};
        param.num_classes = get_int("yolov3_detect_out_param.num_classes");
        param.num_boxes = get_int("yolov3_detect_out_param.num_boxes", 3);
        param.mask_group_size = get_int("yolov3_detect_out_param.mask_group_size", param.num_boxes);
        param.keep_top_k = get_int("yolov3_detect_out_param.keep_top_k", 200);
        param.nms_threshold = get_float("yolov3_detect_out_param.nms_threshold", 0.45f);
        param.confidence_threshold = get_float("yolov3_detect_out_param.confidence_threshold", 0.5f);
        if (param.num_classes < 1) error("num_classes is below 1");
        if (param.num_boxes < 1 || param.mask_group_size < param.num_boxes)
            error("num_boxes is below 1, or above mask_group_size");
        fill(param.bias, get_floats("yolov3_detect_out_param.biases"), "biases");
        fill(param.anchor_scale, get_floats("yolov3_detect_out_param.anchors_scale"), "anchors_scale");
        fill(param.mask, get_ints("yolov3_detect_out_param.mask"), "mask");
        std::vector<std::string> bottoms;
        for (int i = 0; i < bottom_num(); i++) bottoms.push_back(bottom(i));
        add_tpu_layer(bottoms, {top(0)}, TPU_YOLOV3_DETECT_OUT, &param, sizeof param);
    }
};

IMP_BMNETU_LAYER("TPUYolov3DetectOut", TPUYolov3DetectOutLayer)
