// TPU_RESHAPE: how the compiler may treat it.
#ifndef BM_HOST_RESHAPE_H
#define BM_HOST_RESHAPE_H

#include <string>
#include <vector>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_RESHAPE)
class ReshapeDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "RESHAPE"; }
    // In local memory lanes and batches stay; rows and columns lie one behind the other, under whatever names.
    virtual bool force_use_global_layer() const override {
        const std::vector<int> &x = in(0).shape, &y = layer()->outputs[0].shape;
        return x.size() < 2 || x.size() > 4 || y.size() < 2 || y.size() > 4 || x[0] != y[0] || x[1] != y[1] || !in_words(0);
    }
    virtual bool can_split_local_h_w() const override { return false; }
    virtual bool can_inplace(DATA_TYPE_T) const override { return true; }
    // The same bytes: the output can live in the input's memory.
    virtual bool just_reshape() const override { return true; }
    virtual bool is_share_mem_layer() const override { return true; }

  protected:
    // By number or by place; -1 finds it only where the others leave it.
    virtual bool keeps_batches() const override {
        const tpu_reshape_param_t *p = param<tpu_reshape_param_t>();
        const int first = p->shape[0];
        if (first != -1) return first == 0 || first == -2 || first == in(0).shape[0];
        long long left = 1, known = 1;
        for (const int extent : in(0).shape) left *= extent;
        for (int d = 1; d < p->dims && d < MAX_SHAPE_DIMS; d++) {
            const int wanted = p->shape[d], source = wanted == 0 ? d : -2 - wanted;
            if (wanted <= 0 && (source < 0 || source >= static_cast<int>(in(0).shape.size()))) return false;
            known *= wanted > 0 ? wanted : in(0).shape[static_cast<std::size_t>(source)];
        }
        return known * in(0).shape[0] == left;
    }
};

#endif
