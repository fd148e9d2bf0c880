// What the descriptors of element-wise layers on 8-bit integers in 4N share.
#ifndef BM_HOST_PACKED_H
#define BM_HOST_PACKED_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bm1684_chip.h"
#include "bm_host_elementwise.h"
#include "bmcompiler_tpulayer_host.hpp"

// Inputs of 8 bits as they are; where the net has fp32 with a scale, int8.
class PackedDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual DATA_TYPE_T input_dtype(int in_idx) const override { return is_bytes(in(in_idx)) ? in(in_idx).dtype : DTYPE_INT8; }
    // The instructions take no more channels.
    virtual bool force_use_global_layer() const override {
        const std::vector<int> &shape = in(0).shape;
        return shape.size() > 1 && shape[1] > CHIP_CHANNELS_MAX;
    }
    virtual bool accepts_larger_tiles() const override { return bm_all_of_one_shape(*layer()); }

  protected:
    const bmcompiler::GraphTensor &in(int in_idx) const { return layer()->inputs.at(static_cast<std::size_t>(in_idx)); }

    static bool is_bytes(const bmcompiler::GraphTensor &t) { return t.dtype == DTYPE_INT8 || t.dtype == DTYPE_UINT8; }

    // Bytes per NPU of the words of a tile.
    static bm_size_t word_bytes(const int *tile) {
        const int words[4] = {(tile[0] + 3) / 4, tile[1], tile[2], tile[3]};
        return bm_tile_bytes(words);
    }
};

// Those of two inputs, which read both before they write. The second may be a constant: the kernels get words of four
// equal bytes, whose type keeps the sign, with as many dimensions and channels as the first input has.
class PackedPairDescriptor : public PackedDescriptor {
  public:
    virtual bool can_inplace(DATA_TYPE_T dtype) const override { return dtype == DTYPE_INT8 || dtype == DTYPE_UINT8; }
    virtual bool force_use_global_layer() const override {
        if (PackedDescriptor::force_use_global_layer()) return true;
        const bm_shape &out = layer()->outputs[0].shape, b = bm_is_constant(in(1)) ? laid_out() : in(1).shape;
        if (in(0).shape.size() != out.size() || b.size() != out.size()) return true;
        return out.size() > 1 && (in(0).shape[1] != out[1] || b[1] != out[1]); // strides broadcast n, h and w
    }
    virtual std::vector<int> prepared_shape(int in_idx) const override { return in_idx == 1 ? laid_out() : bm_shape{}; }
    virtual DATA_TYPE_T prepared_dtype(int in_idx) const override {
        return in(in_idx).dtype == DTYPE_INT8 ? DTYPE_INT32 : DTYPE_UINT32;
    }
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override {
        const std::uint8_t *bytes = static_cast<const std::uint8_t *>(constant);
        const std::size_t given = bm_elements(in(in_idx).shape);
        for (std::size_t i = 0; i < bm_elements(laid_out()); i++)
            static_cast<std::uint32_t *>(prepared)[i] = 0x01010101u * bytes[i % given];
    }

  private:
    // Empty for what is no such constant.
    bm_shape laid_out() const {
        const bm_shape &x = in(0).shape;
        bm_shape shape = in(1).shape;
        if (!is_bytes(in(1)) || shape.size() > x.size()) return {};
        shape.insert(shape.begin(), x.size() - shape.size(), 1);
        if (shape.size() > 1 && shape[0] == 1 && shape[1] == 1) shape[1] = x[1];
        return shape;
    }
};

#endif
