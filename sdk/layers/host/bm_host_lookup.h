// TPU_LOOKUP: how the compiler may treat it.
#ifndef BM_HOST_LOOKUP_H
#define BM_HOST_LOOKUP_H

#include <string>
#include <vector>

#include "bm_host_packed.h"

__BM_DESC__(TPU_LOOKUP)
class LookupDescriptor : public PackedDescriptor {
  public:
    virtual std::string get_name() const override { return "LOOKUP"; }
    virtual bool should_input_on_l2mem(int in_idx) const override { return in_idx == 1; }
    virtual bool accepts_larger_tiles() const override { return false; } // the instruction takes aligned tiles only
    // The results of one batch of each word.
    virtual u32 get_local_buffer_size(const int *tile) const override { return bm_local_bytes(word_bytes(tile)); }
    // The table for each byte of a word.
    virtual std::vector<int> prepared_shape(int in_idx) const override {
        const bool table = in_idx == 1 && is_bytes(in(1)) && bm_elements(in(1).shape) == ENTRIES;
        return table ? std::vector<int>{BYTES, ENTRIES} : std::vector<int>{};
    }
    virtual DATA_TYPE_T prepared_dtype(int /*in_idx*/) const override { return DTYPE_UINT32; }
    virtual void prepare(int /*in_idx*/, const void *constant, void *prepared) const override {
        const std::uint8_t *bytes = static_cast<const std::uint8_t *>(constant);
        for (int k = 0; k < BYTES; k++)
            for (int i = 0; i < ENTRIES; i++)
                static_cast<std::uint32_t *>(prepared)[k * ENTRIES + i] = static_cast<std::uint32_t>(bytes[i]) << 8 * k;
    }

  private:
    static constexpr int BYTES = 4, ENTRIES = 256;
};

#endif
