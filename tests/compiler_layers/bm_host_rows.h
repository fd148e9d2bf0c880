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
    std::string get_name() override { return "ROWS"; }
    int backward_hidx(int out_hidx) override { return out_hidx - 1; }
    int backward_hslice(int out_hslice) override { return out_hslice + 2; }
    bm_size_t get_local_buffer_size(const std::vector<int> &piece) override {
        return static_cast<bm_size_t>(param<tpu_rows_param_t>()->scratch) * static_cast<bm_size_t>(piece[2]);
    }
};

#endif
