// TPU_ROWS: how the compiler may treat it.
#ifndef BM_HOST_ROWS_H
#define BM_HOST_ROWS_H

#include <string>
#include <vector>

#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"

__BM_DESC__(TPU_ROWS)
class RowsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "ROWS"; }
    virtual int backward_hidx(int out_hidx) const override { return out_hidx - 1; }
    virtual int backward_hslice(int out_hslice) const override { return out_hslice + 2; }
    virtual u32 get_local_buffer_size(const int *tile) const override {
        return static_cast<u32>(param<tpu_rows_param_t>()->scratch * tile[2]);
    }
};

#endif
