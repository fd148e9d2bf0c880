// TPU_NORM: how the compiler may treat it.
#ifndef BM_HOST_NORM_H
#define BM_HOST_NORM_H

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "../lib/bm_layer_reduce_bytes.h"
#include "bm_host_elementwise.h"
#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_NORM)
class NormDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "NORM"; }
    virtual bool force_use_global_layer() const override { return !is_local(); }
    virtual bool can_split_local_h_w() const override { return positions(); }
    virtual TENSOR_TYPE_T input_type(int in_idx) const override {
        return in_idx == 0 || of_elements() ? BMNET_NEURON : BMNET_COEFF_NEURON;
    }
    virtual std::vector<int> prepared_shape(int in_idx) const override {
        if (in_idx == 0 || !is_local()) return {};
        const bmcompiler::GraphTensor &t = layer()->inputs.at((std::size_t)in_idx);
        const bm_shape &x = layer()->inputs[0].shape;
        bm_shape shape(x.size(), 1);
        if (of_elements())
            std::copy(x.begin() + 1, x.end(), shape.begin() + 1);
        else if (param<tpu_norm_param_t>()->groups != 0)
            shape[1] = x[1];
        else
            shape.back() = x.back();
        return bm_reshaped(t, shape);
    }
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override {
        bm_keep_elements(layer()->inputs[(std::size_t)in_idx], constant, prepared);
    }
    // Work of the tile's size, a number for each row (or position, or plane), copies of scale and shift.
    virtual u32 get_local_buffer_size(const int *split_shape) const override {
        if (positions()) {
            const int mean[4] = {split_shape[0], 1, split_shape[2], split_shape[3]};
            return bm_local_bytes(bm_tile_bytes(split_shape) + bm_tile_bytes(mean));
        }
        const bool rows = layer()->inputs[0].shape.size() == 4 && !planes();
        const int each[4] = {split_shape[0], split_shape[1], rows ? split_shape[2] : 1, 1};
        if (planes()) return bm_local_bytes(bm_tile_bytes(split_shape) + bm_tile_bytes(each));
        const int line[4] = {1, 1, 1, layer()->inputs[0].shape.back()};
        return bm_local_bytes(bm_tile_bytes(split_shape) + bm_tile_bytes(each) +
                              (layer()->inputs.size() - 1) * bm_tile_bytes(line));
    }
    // Partial results of reductions, one number for all that is normalized together, and one for each channel.
    virtual u64 get_global_buffer_size() const override {
        const tpu_norm_param_t *p = param<tpu_norm_param_t>();
        const std::vector<int> &shape = layer()->inputs[0].shape;
        // With groups: at most one row per channel.
        int axis = p->groups != 0 ? 2 : p->axis < 0 ? p->axis + (int)shape.size() : p->axis;
        bm_size_t rows = 1;
        for (int d = 0; d < axis && d < (int)shape.size(); d++) rows *= (bm_size_t)shape[(std::size_t)d];
        return BM_REDUCE_BYTES + 8 * rows;
    }

  private:
    bool positions() const { return param<tpu_norm_param_t>()->groups == -2; }
    // The first of the dimensions that are normalized together, without groups.
    int axis() const {
        const int axis = param<tpu_norm_param_t>()->axis;
        return axis < 0 ? axis + (int)layer()->inputs[0].shape.size() : axis;
    }
    // One number of scale and shift for each element of a batch.
    bool of_elements() const { return param<tpu_norm_param_t>()->groups == 0 && axis() == 1 && is_local(); }
    // Whole planes, of one channel or several.
    bool planes() const {
        const int groups = param<tpu_norm_param_t>()->groups;
        return groups > 0 || groups == -1 || (groups == 0 && axis() == 1);
    }
    // In local memory the last of three or four dimensions lies in a lane, whole.
    bool is_local() const {
        const auto &inputs = layer()->inputs;
        const int dims = (int)inputs[0].shape.size();
        for (std::size_t i = 1; i < inputs.size(); i++)
            if (!bm_is_constant(inputs[i])) return false;
        if (dims != 3 && dims != 4) return false;
        return positions() || (planes() ? inputs[0].shape[1] <= CHIP_CHANNELS_MAX : axis() == dims - 1);
    }
};

#endif
