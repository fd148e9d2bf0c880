/* How a pool on DDR data is cut into tiles that fit into local memory. */
#ifndef BM_LAYER_POOL_PLAN_H
#define BM_LAYER_POOL_PLAN_H

#include "bm_layer_axis.h"
#include "bm_layer_local.h"
#include "bm_layer_pool.h"

typedef struct {
    int planes; /* of all batches and channels */
    window_axis h, w;
    bool filled; /* the pads lie in local memory */
    bool weights; /* the kernel's taps have weights, a byte each, instead of rows that are pooled along w first */
    int plane_words; /* that are loaded beside each plane: a kernel of its own, which is not cut; 0: none */
} pool_problem;

/* Extents of the tiles: planes, output rows and columns, and rows and columns of the kernel, whose parts are
 * combined one after the other; how many there are; and where the buffers lie. A few planes lie in several bands over
 * the lanes: band b of plane c on lane b * planes + c, with h output rows each and, in local memory, the pads above and
 * below them. */
typedef struct {
    int c, bands, h, w, kernel_h, kernel_w;
    int cs, hs, ws, kernel_hs, kernel_ws;
    local_addr_t input[2], output[2], beside[2], part, temporary;
} pool_plan;

/* The window with only some taps of its kernel. */
window_axis bm_pool_taps_of(const window_axis *a, int first, int count);

/* Whether the kernel is too large for one tile. */
static inline bool bm_pool_cut_kernel(const pool_problem *p, const pool_plan *t) {
    return t->kernel_h < p->h.kernel || t->kernel_w < p->w.kernel;
}

/* The whole kernel if it fits, then what takes the least time. One tap of one element always fits; false: not with a
 * kernel that is not cut. */
bool bm_pool_make_plan(const pool_problem *p, pool_plan *t);

#endif
