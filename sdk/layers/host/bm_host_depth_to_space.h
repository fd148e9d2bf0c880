// TPU_DEPTH_TO_SPACE: how the compiler may treat it.
#ifndef BM_HOST_DEPTH_TO_SPACE_H
#define BM_HOST_DEPTH_TO_SPACE_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_DEPTH_TO_SPACE)
class DepthToSpaceDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "DEPTH_TO_SPACE"; }
    // The compiler knows that its local function runs on the DMA engine. It makes rows, or columns of whole pictures.
    virtual bool force_use_global_layer() const override {
        const int block = p()->block_h * p()->block_w;
        const bool both = p()->block_h != 1 && p()->block_w != 1;
        return both || (p()->crd != 0 && block != 1 && in(0).shape[1] != block) || !in_words(0);
    }
    virtual bool can_split_local_h_w() const override { return p()->block_w == 1; }
    virtual bool can_h_w_dynamic() const override { return p()->height == 0 && p()->width == 0; }
    virtual int backward_hidx(int out_hidx) const override { return out_hidx / p()->block_h; }
    virtual int backward_hslice(int out_hslice) const override { return (out_hslice + p()->block_h - 2) / p()->block_h + 1; }
    virtual bool accepts_larger_tiles() const override { return true; }

  private:
    const tpu_depth_to_space_param_t *p() const { return param<tpu_depth_to_space_param_t>(); }
};

#endif
