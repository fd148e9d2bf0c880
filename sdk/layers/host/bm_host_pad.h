// TPU_PAD: how the compiler may treat it.
#ifndef BM_HOST_PAD_H
#define BM_HOST_PAD_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_PAD)
class PadDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "PAD"; }
    // In local memory a constant, the edge, or what is mirrored can be put around rows and columns of 32-bit elements,
    // or words; not what comes from the other end, for which a tile would have to have all.
    virtual bool force_use_global_layer() const override {
        const bmcompiler::GraphTensor &x = layer()->inputs[0];
        if ((x.shape.size() != 3 && x.shape.size() != 4) || p()->mode > EDGE || !in_words(0)) return true;
        for (int d = 0; d < 4; d++)
            if (p()->before[d] < 0 || p()->after[d] < 0 || (d < 2 && p()->before[d] + p()->after[d] > 0)) return true;
        return false;
    }
    virtual int backward_hidx(int out_hidx) const override { return first(2, out_hidx); }
    virtual int backward_hslice(int out_hslice) const override { return out_hslice + reach(2); }
    virtual int backward_widx(int out_widx) const override { return first(3, out_widx); }
    virtual int backward_wslice(int out_wslice) const override { return out_wslice + reach(3); }
    // Around a constant the local function puts all that it has.
    virtual bool accepts_larger_tiles() const override { return p()->mode != CONSTANT; }

  protected:
    virtual bool keeps_batches() const override { return p()->before[0] == 0 && p()->after[0] == 0; }

  private:
    enum { CONSTANT, REFLECT, EDGE };

    const tpu_pad_param_t *p() const { return param<tpu_pad_param_t>(); }

    // The first element of the input that elements of the output from this one on need. What lies behind the input
    // comes from its last element or those before it, of which a part that begins there has to have as many.
    int first(int d, int out) const {
        const int at = out - p()->before[d];
        if (p()->mode == CONSTANT) return at;
        const int extent = d < static_cast<int>(in(0).shape.size()) ? in(0).shape[static_cast<std::size_t>(d)] : 1;
        const int last = extent - 1 - (p()->mode == REFLECT ? p()->after[d] : 0);
        return std::max(0, std::min(at, last));
    }

    // How many more elements of the input than of the output suffice from there on, wherever the part lies: mirrored,
    // its last element may be as far from where it comes from as the pads are long.
    int reach(int d) const { return p()->mode == REFLECT ? std::max(p()->before[d], p()->after[d]) : 0; }
};

#endif
