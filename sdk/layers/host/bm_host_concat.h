// TPU_CONCAT: how the compiler may treat it.
#ifndef BM_HOST_CONCAT_H
#define BM_HOST_CONCAT_H

#include <algorithm>
#include <string>
#include <vector>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_CONCAT)
class ConcatDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "CONCAT"; }
    virtual bool force_use_global_layer() const override { return true; }
    // No more than one index before the axis.
    virtual bool is_concat_layer() const override {
        const std::vector<int> &shape = layer()->inputs[0].shape;
        const int axis = param<tpu_concat_param_t>()->axis;
        const int from = axis < 0 ? axis + static_cast<int>(shape.size()) : axis;
        return from == 0 || (batches() == 1 && std::all_of(shape.begin() + 1, shape.begin() + from,
                                                           [](int extent) { return extent == 1; }));
    }

  protected:
    // Of one format, or of fp32.
    virtual bool keeps_batches() const override {
        return !is_first(param<tpu_concat_param_t>()->axis) &&
               std::all_of(layer()->inputs.begin(), layer()->inputs.end(), [&](const bmcompiler::GraphTensor &x) {
                   return x.dtype == in(0).dtype && x.store_mode == in(0).store_mode && x.scale == in(0).scale;
               });
    }
};

#endif
