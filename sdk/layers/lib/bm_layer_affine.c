#include "bm_layer_affine.h"

void bm_affine_job(const void *param, const bm_job *job) {
    const bm_affine_options *o = param;
    const local_addr_t y = job->y.addr;
    okk_bdc_mul(y, job->x[0].addr, job->x[1].addr, &job->shape, NULL, NULL, job->x[1].stride);
    if (o->shift) okk_bdc_add(y, y, job->x[2].addr, &job->shape, NULL, NULL, job->x[2].stride);
    if (o->relu) okk_bdc_relu(y, y, &job->shape, NULL, NULL);
}

void bm_affine(system_addr_t out, system_addr_t in, system_addr_t scale, system_addr_t shift, int outer, int channels,
               int inner, bool relu) {
    const bm_affine_options options = {.shift = shift != 0, .relu = relu};
    const bm_tiling t = {.operands = shift != 0 ? 3 : 2, .dims = 3, .extent = {outer, channels, inner},
                         .step = {{channels * inner, channels * inner, 0, 0}, {inner, inner, 1, 1}, {1, 1, 0, 0}},
                         .addr = {out, in, scale, shift}};
    bm_run_tiles(t, bm_affine_job, &options);
}
