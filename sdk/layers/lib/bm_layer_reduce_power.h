/* e^(x - m) as a pass over tiles: what softmax and the logarithm of a sum of powers have in common. */
#ifndef BM_LAYER_REDUCE_POWER_H
#define BM_LAYER_REDUCE_POWER_H

#include "bm_layer_functions.h"
#include "bm_layer_tiles.h"
#include "okk.h"

/* y = e^(x0 - x1); needs a work buffer. */
void bm_power_of_difference(const void *param, const bm_job *job);

/* The result and operand 0 are [outer, reduced, inner], the other operands [outer, inner]. */
bm_tiling bm_tiling_of_reduced(int outer, int reduced, int inner, int operands, system_addr_t out,
                               const system_addr_t *in);

#endif
