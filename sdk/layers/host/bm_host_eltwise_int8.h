// TPU_ELTWISE_INT8: how the compiler may treat it.
#ifndef BM_HOST_ELTWISE_INT8_H
#define BM_HOST_ELTWISE_INT8_H

#include <string>

#include "bm_host_packed.h"

__BM_DESC__(TPU_ELTWISE_INT8)
class EltwiseInt8Descriptor : public PackedPairDescriptor {
  public:
    virtual std::string get_name() const override { return "ELTWISE_INT8"; }
    // The numbers in 16 bits.
    virtual u32 get_local_buffer_size(const int *tile) const override { return bm_local_bytes(2 * word_bytes(tile)); }
};

#endif
