// TPU_TRANSPOSE: how the compiler may treat it.
#ifndef BM_HOST_TRANSPOSE_H
#define BM_HOST_TRANSPOSE_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_TRANSPOSE)
class TransposeDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "TRANSPOSE"; }
    // The compiler knows that its local function takes the input in DDR. Rows stay whole; single elements are faster
    // brought into another order from local memory.
    virtual bool force_use_global_layer() const override {
        const int dims = p()->dims;
        return dims < 3 || dims > 4 || !in_words(0) || p()->order[dims - 1] != dims - 1;
    }

  protected:
    virtual bool keeps_batches() const override { return p()->order[0] == 0; }

  private:
    const tpu_transpose_param_t *p() const { return param<tpu_transpose_param_t>(); }
};

#endif
