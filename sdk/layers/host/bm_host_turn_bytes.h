// TPU_TURN_BYTES: how the compiler may treat it.
#ifndef BM_HOST_TURN_BYTES_H
#define BM_HOST_TURN_BYTES_H

#include <string>

#include "bm_host_packed.h"
#include "bmbuiltin.h"

// The compiler knows that its local function runs on the DMA engine.
__BM_DESC__(TPU_TURN_BYTES)
class TurnBytesDescriptor : public PackedDescriptor {
  public:
    virtual std::string get_name() const override { return "TURN_BYTES"; }
    virtual bool force_use_global_layer() const override { return false; }
    virtual bool accepts_larger_tiles() const override { return false; }
    virtual bool can_split_local_h_w() const override { return false; }
    virtual int forward_height(int) const override { return layer()->outputs[0].shape[2]; }
};

#endif
