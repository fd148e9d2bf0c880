// TPU_SLICE: how the compiler may treat it.
#ifndef BM_HOST_SLICE_H
#define BM_HOST_SLICE_H

#include <algorithm>
#include <cstddef>
#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_SLICE)
class SliceDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "SLICE"; }
    // The compiler knows that its local function runs on the DMA engine where channels change lanes: there columns are taken
    // one after the other.
    virtual bool force_use_global_layer() const override {
        if (in(0).shape.size() < 2 || in(0).shape.size() > 4 || !in_words(0) || !keeps_batches()) return true;
        return cut(1).step != 1 || cut(2).step < 1 || cut(3).step < 1 || (cut(1).first != 0 && cut(3).step > 1);
    }
    virtual int backward_hidx(int out_hidx) const override { return cut(2).at(out_hidx); }
    virtual int backward_hslice(int out_hslice) const override { return cut(2).under(out_hslice); }
    virtual int backward_widx(int out_widx) const override { return cut(3).at(out_widx); }
    virtual int backward_wslice(int out_wslice) const override { return cut(3).under(out_wslice); }
    virtual bool accepts_larger_tiles() const override { return true; }

  protected:
    virtual bool keeps_batches() const override {
        const tpu_slice_param_t *p = param<tpu_slice_param_t>();
        for (int i = 0; i < p->count && i < MAX_SHAPE_DIMS; i++)
            if (is_first(p->axes[i]) && (p->starts[i] != 0 || p->steps[i] != 1 || p->ends[i] < in(0).shape[0]))
                return false;
        return true;
    }

  private:
    // Along a dimension: which elements are taken.
    struct Cut {
        int first, step;
        int at(int out) const { return first + out * step; }
        int under(int count) const { return (count - 1) * step + 1; }
    };

    Cut cut(int d) const {
        const tpu_slice_param_t *p = param<tpu_slice_param_t>();
        for (int i = 0; i < p->count && i < MAX_SHAPE_DIMS; i++)
            if (is_along(p->axes[i], d)) {
                const int extent = in(0).shape[static_cast<std::size_t>(d)], start = p->starts[i];
                return {std::max(0, std::min(start < 0 ? start + extent : start, extent)), p->steps[i]};
            }
        return {0, 1};
    }
};

#endif
