/* The memory that reductions need beside their operands; for the kernels and their descriptors. */
#ifndef BM_LAYER_REDUCE_BYTES_H
#define BM_LAYER_REDUCE_BYTES_H

#include "bm1684_chip.h"

#define BM_REDUCE_RESULTS 1024 /* with more inner elements, lanes hold runs of these that are worth copying */

/* Bytes of DDR for the results of each lane. */
#define BM_REDUCE_BYTES (4 * (CHIP_NPU_NUM + 1) * BM_REDUCE_RESULTS)

#endif
