/* Scale and shift, element by element, as a pass over tiles: what normalizations end with. */
#ifndef BM_LAYER_AFFINE_H
#define BM_LAYER_AFFINE_H

#include "bm_layer_tiles.h"
#include "okk.h"

typedef struct {
    bool shift; /* there is a third operand */
    bool relu;
} bm_affine_options;

/* y = x0 * x1 + x2, then without what is negative. */
void bm_affine_job(const void *param, const bm_job *job);

/* out = in * scale[c] + shift[c] for tensors [outer, c, inner]; shift 0: none. out may be in. */
void bm_affine(system_addr_t out, system_addr_t in, system_addr_t scale, system_addr_t shift, int outer, int channels,
               int inner, bool relu);

#endif
