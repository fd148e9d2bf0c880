// TPU_RESIZE: how the compiler may treat it.
#ifndef BM_HOST_RESIZE_H
#define BM_HOST_RESIZE_H

#include <string>

#include "bm_host_constants.h"
#include "bm_host_elementwise.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_RESIZE)
class ResizeDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "RESIZE"; }
    virtual bool force_use_global_layer() const override { return !is_local(); }
    // The indices are read by the controller. In local memory all weights lie in the first lane.
    virtual TENSOR_TYPE_T input_type(int in_idx) const override {
        if (in_idx == 1) return BMNET_NEURON_SHAPE;
        return in_idx == 2 && is_local() ? BMNET_COEFF_NEURON : BMNET_NEURON;
    }
    virtual bm_shape prepared_shape(int in_idx) const override {
        if (in_idx != 2 || !is_local()) return {};
        const bm_shape &shape = weights();
        return {1, 1, shape[0], shape[1]};
    }
    virtual void prepare(int in_idx, const void *constant, void *prepared) const override {
        bm_keep_elements(layer()->inputs[(std::size_t)in_idx], constant, prepared);
    }
    // The weights of the tile in every lane, and its products.
    virtual u32 get_local_buffer_size(const int *split_shape) const override {
        const int line[4] = {1, 1, 1, split_shape[axis()]};
        return bm_local_bytes((u64)weights()[0] * bm_tile_bytes(line) + bm_tile_bytes(split_shape));
    }
    virtual int backward_hidx(int out_hidx) const override { return along(2) ? first(out_hidx) : out_hidx; }
    virtual int backward_hslice(int out_hslice) const override { return along(2) ? under(out_hslice) : out_hslice; }
    virtual int backward_widx(int out_widx) const override { return along(3) ? first(out_widx) : out_widx; }
    virtual int backward_wslice(int out_wslice) const override { return along(3) ? under(out_wslice) : out_wslice; }
    virtual bool accepts_larger_tiles() const override { return true; }

  private:
    const tpu_resize_param_t *p() const { return param<tpu_resize_param_t>(); }
    const bm_shape &x() const { return layer()->inputs[0].shape; }
    const bm_shape &weights() const { return layer()->inputs.at(2).shape; }
    int axis() const { return p()->axis < 0 ? p()->axis + (int)x().size() : p()->axis; }
    bool along(int d) const { return is_local() && axis() == d; }
    bool is_local() const {
        return p()->denominator > 0 && layer()->inputs.size() == 3 && weights().size() == 2 &&
               bm_is_constant(layer()->inputs[2]) && x().size() <= 4 && (axis() == 2 || axis() == 3);
    }
    // First and number of the elements of x that elements of y from this one on, and so many of them, read.
    int first(int i) const { return (int)((long long)i * p()->numerator / p()->denominator) + p()->low; }
    int under(int count) const {
        const long long moved = (long long)(count - 1) * p()->numerator;
        return (int)((moved + p()->denominator - 1) / p()->denominator) + p()->reach;
    }
};

#endif
