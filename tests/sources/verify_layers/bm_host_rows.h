#include <string>

#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"

__BM_DESC__(TPU_ROWS)
class RowsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "ROWS"; }
    int step() const { return param<tpu_rows_param_t>()->step ? param<tpu_rows_param_t>()->step : 1; }
    virtual int backward_hidx(int out_hidx) const override { return out_hidx * step(); }
    virtual int backward_hslice(int out_hslice) const override { return (out_hslice - 1) * step() + 3; }
    virtual u64 get_global_buffer_size() const override {
        const auto &shape = layer()->inputs[0].shape;
        return 4ull * (u64)(shape[2] * shape[3]);
    }
};
