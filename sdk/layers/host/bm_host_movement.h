// What the descriptors of layers that only move elements share.
#ifndef BM_HOST_MOVEMENT_H
#define BM_HOST_MOVEMENT_H

#include <algorithm>
#include <cstddef>
#include <vector>

#include "bmcompiler_tpulayer_host.hpp"

// Inputs as they are, of any format. Where several batches share a word, the layer moves words, as long as no batch
// becomes another one; else the input is taken as fp32, so conversions stand around the layer.
class MovementDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual DATA_TYPE_T input_dtype(int in_idx) const override { return taken(in_idx) ? in(in_idx).dtype : DTYPE_FP32; }
    virtual STORE_MODE_T input_store_mode(int in_idx) const override {
        return taken(in_idx) ? in(in_idx).store_mode : STORE_MODE_1N;
    }

  protected:
    // Whether batch k of each output has elements of batch k of the inputs only, and their number stays.
    virtual bool keeps_batches() const { return true; }

    const bmcompiler::GraphTensor &in(int in_idx) const { return layer()->inputs.at(static_cast<std::size_t>(in_idx)); }

    // The extent of the first dimension in words.
    int batches() const {
        const int together = 1 << in(0).store_mode;
        return (in(0).shape[0] + together - 1) / together;
    }

    // Whether an axis, negative ones counted from the end, is this dimension.
    bool is_along(int axis, int d) const { return (axis < 0 ? axis + static_cast<int>(in(0).shape.size()) : axis) == d; }
    bool is_first(int axis) const { return is_along(axis, 0); }

    // Whether an input's elements, or what several of its batches share, are words of 32 bits.
    bool in_words(int in_idx) const {
        const DATA_TYPE_T dtype = in(in_idx).dtype;
        return in(in_idx).store_mode != STORE_MODE_1N || dtype == DTYPE_FP32 || dtype == DTYPE_INT32 || dtype == DTYPE_UINT32;
    }

  private:
    bool taken(int in_idx) const { return in(in_idx).store_mode == STORE_MODE_1N || keeps_batches(); }
};

#endif
