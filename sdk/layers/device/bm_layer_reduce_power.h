/* e^(x - m) as a pass over tiles: what softmax and the logarithm of a sum of powers have in common. */
#ifndef BM_LAYER_REDUCE_POWER_H
#define BM_LAYER_REDUCE_POWER_H

#include "bm_layer_functions.h"
#include "bm_layer_tiles.h"
#include "okk.h"

/* y = e^(x0 - x1); needs a work buffer. */
static inline void bm_power_of_difference(const void *param, const bm_job *job) {
    (void)param;
    const local_addr_t x = job->x[0].addr;
    okk_bdc_sub(x, x, job->x[1].addr, &job->shape, NULL, NULL, job->x[1].stride);
    const dim4 flat = bm_flat(&job->shape);
    bm_exp(job->y.addr, x, bm_work(job, 0), &flat);
}

/* The result and operand 0 are [outer, reduced, inner], the other operands [outer, inner]. */
static inline bm_tiling bm_tiling_of_reduced(int outer, int reduced, int inner, int operands, system_addr_t out,
                                             const system_addr_t *in) {
    bm_tiling t = {.operands = operands, .dims = 3, .extent = {outer, reduced, inner}};
    for (int k = 0; k <= operands; k++) {
        const bool whole = k < 2;
        t.addr[k] = k == 0 ? out : in[k - 1];
        t.step[0][k] = whole ? reduced * inner : inner;
        t.step[1][k] = whole ? inner : 0;
        t.step[2][k] = 1;
    }
    return t;
}

#endif
