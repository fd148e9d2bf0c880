// TPU_ATTENTION_INT8: how the compiler may treat it.
#ifndef BM_HOST_ATTENTION_INT8_H
#define BM_HOST_ATTENTION_INT8_H

#include <string>

#include "../lib/bm_layer_attend_bytes.h"
#include "bm_host_packed.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_ATTENTION_INT8)
class AttentionInt8Descriptor : public PackedDescriptor {
  public:
    virtual std::string get_name() const override { return "ATTENTION_INT8"; }
    virtual DATA_TYPE_T input_dtype(int in_idx) const override {
        return in_idx >= OPERANDS ? DTYPE_FP32 : PackedDescriptor::input_dtype(in_idx);
    }
    virtual TENSOR_TYPE_T input_type(int in_idx) const override {
        return in_idx >= OPERANDS ? BMNET_COEFF_NEURON : BMNET_NEURON; // a mask and factors are there for all four batches
    }
    virtual bool accepts_larger_tiles() const override { return false; }
    virtual bool can_split_local_h_w() const override { return false; }
    virtual int forward_height(int) const override { return layer()->outputs[0].shape[2]; }
    virtual u32 get_local_buffer_size(const int *) const override {
        const tpu_attention_int8_param_t *p = param<tpu_attention_int8_param_t>();
        const int queries = in(0).shape[1] / p->batches, keys = in(2).shape[1] / p->batches;
        return bm_local_bytes(4ull * bm_attend_room_of(queries, keys, p->size, p->value_size).all);
    }

  private:
    static constexpr int OPERANDS = 3;
};

#endif
