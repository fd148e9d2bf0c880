// TPU_ATTENTION: how the compiler may treat it.
#ifndef BM_HOST_ATTENTION_H
#define BM_HOST_ATTENTION_H

#include <string>

#include "../lib/bm_layer_attend_bytes.h"
#include "bm_host_elementwise.h"
#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_ATTENTION)
class AttentionDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "ATTENTION"; }
    // In local memory keys come turned (compiler/turned_keys.py).
    virtual bool force_use_global_layer() const override { return !param<tpu_attention_param_t>()->turned; }
    // A mask of one batch is there for all of them.
    virtual TENSOR_TYPE_T input_type(int in_idx) const override {
        const auto &inputs = layer()->inputs;
        return in_idx == 3 && inputs[3].shape[0] < inputs[0].shape[0] ? BMNET_COEFF_NEURON : BMNET_NEURON;
    }
    virtual bool can_split_local_h_w() const override { return false; }
    virtual int forward_height(int) const override { return layer()->outputs[0].shape[2]; }
    // Scores and two of their size, the product, and a query of a head that begins within a slot.
    virtual u32 get_local_buffer_size(const int *) const override {
        const tpu_attention_param_t *p = param<tpu_attention_param_t>();
        const int queries = layer()->inputs[0].shape[1], keys = layer()->inputs[2].shape[1];
        const int rows = bm_attend_slots(queries, keys) * CHIP_NPU_NUM;
        const int scores[4] = {1, rows, 1, keys}, product[4] = {1, rows, 1, p->value_size};
        const int begun[4] = {1, rows, 1, bm_attend_reach(p->size)};
        return bm_local_bytes(3 * bm_tile_bytes(scores) + bm_tile_bytes(product) + bm_tile_bytes(begun));
    }
};

#endif
