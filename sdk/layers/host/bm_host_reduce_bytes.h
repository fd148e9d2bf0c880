// Scratch memory of layers that reduce: BM_REDUCE_BYTES of sdk/layers/device/bm_layer_reduce.h.
#ifndef BM_HOST_REDUCE_BYTES_H
#define BM_HOST_REDUCE_BYTES_H

#include "bmcompiler_tpulayer_device.h"

constexpr bm_size_t REDUCE_BYTES = 4 * 65 * 1024;

#endif
