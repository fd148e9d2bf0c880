// TPU_TURN: how the compiler may treat it.
#ifndef BM_HOST_TURN_H
#define BM_HOST_TURN_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

// The compiler knows that its local function runs on the DMA engine.
__BM_DESC__(TPU_TURN)
class TurnDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "TURN"; }
    virtual bool can_split_local_h_w() const override { return false; }
    virtual bool force_use_global_layer() const override { return layer()->inputs[0].shape.size() > 4; }
    // Rows of the output's picture, or its elements of a line.
    virtual int forward_height(int) const override {
        return layer()->outputs[0].shape.size() > 2 ? layer()->outputs[0].shape[2] : 1;
    }
};

#endif
