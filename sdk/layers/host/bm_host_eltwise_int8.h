// TPU_ELTWISE_INT8: how the compiler may treat it.
#ifndef BM_HOST_ELTWISE_INT8_H
#define BM_HOST_ELTWISE_INT8_H

#include <string>
#include <vector>

#include "bm_host_packed.h"

__BM_DESC__(TPU_ELTWISE_INT8)
class EltwiseInt8Descriptor : public PackedDescriptor {
  public:
    virtual std::string get_name() const override { return "ELTWISE_INT8"; }
    virtual bool can_inplace(DATA_TYPE_T dtype) const override { return dtype == DTYPE_INT8 || dtype == DTYPE_UINT8; }
    virtual bool force_use_global_layer() const override {
        return PackedDescriptor::force_use_global_layer() || !bm_broadcasts_locally(*layer(), false);
    }
    // The numbers in 16 bits.
    virtual u32 get_local_buffer_size(const int *tile) const override { return bm_local_bytes(2 * word_bytes(tile)); }
    // A constant as words of four equal bytes, whose type keeps the sign.
    virtual std::vector<int> prepared_shape(int in_idx) const override {
        return in_idx == 1 && is_bytes(in(1)) ? bm_broadcast_shape(*layer(), 1) : bm_shape{};
    }
    virtual DATA_TYPE_T prepared_dtype(int in_idx) const override {
        return in(in_idx).dtype == DTYPE_INT8 ? DTYPE_INT32 : DTYPE_UINT32;
    }
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override {
        const unsigned char *bytes = static_cast<const unsigned char *>(constant);
        for (std::size_t i = 0; i < bm_elements(in(in_idx).shape); i++)
            static_cast<std::uint32_t *>(prepared)[i] = 0x01010101u * bytes[i];
    }
};

#endif
