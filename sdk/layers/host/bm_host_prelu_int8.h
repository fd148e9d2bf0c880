// TPU_PRELU_INT8: how the compiler may treat it.
#ifndef BM_HOST_PRELU_INT8_H
#define BM_HOST_PRELU_INT8_H

#include <string>

#include "bm_host_packed.h"

__BM_DESC__(TPU_PRELU_INT8)
class PreluInt8Descriptor : public PackedPairDescriptor {
  public:
    virtual std::string get_name() const override { return "PRELU_INT8"; }
    // What is below 0.
    virtual u32 get_local_buffer_size(const int *tile) const override { return bm_local_bytes(word_bytes(tile)); }
};

#endif
