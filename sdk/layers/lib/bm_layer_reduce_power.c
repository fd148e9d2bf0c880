#include "bm_layer_reduce_power.h"

void bm_power_of_difference(const void *param, const bm_job *job) {
    (void)param;
    const local_addr_t x = job->x[0].addr;
    okk_bdc_sub(x, x, job->x[1].addr, &job->shape, NULL, NULL, job->x[1].stride);
    const dim4 flat = bm_flat(&job->shape);
    bm_exp(job->y.addr, x, bm_work(job, 0), &flat);
}

bm_tiling bm_tiling_of_reduced(int outer, int reduced, int inner, int operands, system_addr_t out,
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
