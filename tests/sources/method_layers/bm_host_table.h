#ifndef BM_HOST_TABLE_H
#define BM_HOST_TABLE_H
#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"

__BM_DESC__(TPU_TABLE)
class TableDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "TABLE"; }
    virtual TENSOR_TYPE_T input_type(int i) const override {
        return i == 1 ? static_cast<TENSOR_TYPE_T>(param<tpu_table_param_t>()->ttype) : BMNET_NEURON;
    }
    virtual bool should_input_on_l2mem(int i) const override { return i == 1 && param<tpu_table_param_t>()->on_l2; }
    virtual u64 get_global_buffer_size() const override {
        bm_size_t bytes = 4;
        for (int extent : layer()->inputs[0].shape) bytes *= static_cast<bm_size_t>(extent);
        return bytes;
    }
    virtual u32 get_local_buffer_size(const int *split) const override {
        return param<tpu_table_param_t>()->on_l2 ? 4 * ((split[1] + 63) / 64) : 0;
    }
};
#endif
