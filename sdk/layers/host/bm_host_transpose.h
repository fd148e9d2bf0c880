// TPU_TRANSPOSE: how the compiler may treat it.
#ifndef BM_HOST_TRANSPOSE_H
#define BM_HOST_TRANSPOSE_H

#include <cstddef>
#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_TRANSPOSE)
class TransposeDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "TRANSPOSE"; }
    // The compiler knows that its local function takes the input in DDR. A copy brings columns that follow one another.
    virtual bool force_use_global_layer() const override {
        const int dims = p()->dims;
        return dims < 2 || dims > 4 || !in_words(0) || (dims == 4 && p()->order[3] != 3 && in(0).shape[last()] != 1);
    }

  protected:
    virtual bool keeps_batches() const override { return p()->order[0] == 0; }

  private:
    const tpu_transpose_param_t *p() const { return param<tpu_transpose_param_t>(); }
    // The dimension of the input that is the last one of four of the output.
    std::size_t last() const { return static_cast<std::size_t>(p()->order[3]); }
};

#endif
