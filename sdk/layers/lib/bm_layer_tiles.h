/* Element-wise work on tensors in DDR: cut into tiles, moved through local memory, computed on the way.
 *
 * A layer says how its result is indexed (extents, and for each operand how far one step goes in DDR, 0 where it
 * is broadcast) and gives a function that computes one tile. Here the dimensions are merged, cut and dealt over the
 * lanes, and loading the next tile, computing one and storing the last go on at the same time.
 *
 * The results of a tile lie in local memory as [n, c, h, w], aligned, from NPU 0 on; c is at most their number. An
 * operand lies there in the same way, with extent 1 where it is broadcast over n, h or w (its strides are 0 there); one
 * that is broadcast over c is copied to every lane.
 */
#ifndef BM_LAYER_TILES_H
#define BM_LAYER_TILES_H

#include "bm_layer_local.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define BM_TILE_OPERANDS 3 /* the most that a layer reads */

/* A tensor in local memory. stride: NULL for the aligned layout of the result's shape. */
typedef struct {
    local_addr_t addr;
    const dim4 *stride;
} bm_local;

/* One tile of work: y = f(x[0], x[1], ...), 32-bit words. y is aligned at a line; so is work buffer i,
 * at work + i * work_step, of the same shape. y may lie on an operand that has its shape, on nothing else. */
typedef struct {
    bm_local y, x[BM_TILE_OPERANDS];
    local_addr_t work;
    unsigned int work_step;
    dim4 shape;
} bm_job;

typedef void (*bm_job_function)(const void *param, const bm_job *job);

static inline local_addr_t bm_work(const bm_job *job, int i) {
    return job->work + (local_addr_t)i * job->work_step;
}

/* What is to be done. extent: of the result, outermost first; step[d][k]: words from one element along d to the next,
 * for the result (k = 0) and operand k - 1. */
typedef struct {
    int operands; /* 1 .. BM_TILE_OPERANDS */
    int work_buffers;
    int dims;
    int extent[MAX_SHAPE_DIMS];
    int step[MAX_SHAPE_DIMS][1 + BM_TILE_OPERANDS];
    system_addr_t addr[1 + BM_TILE_OPERANDS]; /* of the result, then of the operands */
} bm_tiling;

/* ---- the plan of a layer whose operands are broadcast as numpy does ---- */

/* Fill everything but work_buffers. The shapes must fit (bm_broadcast_shape). */
bm_tiling bm_tiling_of(const tpu_tensor_t *out, const tpu_tensor_t *in, int operands);

/* ---- all tiles ---- */

/* Do all of it. The caller has initialised the engines and polls afterwards. */
void bm_run_tiles(bm_tiling t, bm_job_function function, const void *param);

/* ---- shapes ---- */

/* The result of broadcasting `num` inputs; false when their shapes do not fit. Says nothing about tiles: those of the
 * inputs may be larger than the output's (accepts_larger_tiles). */
bool bm_broadcast_shape(tpu_tensor_t *out, const tpu_tensor_t *in, int num);

/* ---- the same work on tiles in local memory ---- */

/* The job of a local call with inputs of the same channels (or see bm_spread), and of the same rank unless they have
 * only one element; strides: room for each operand's. Tiles of inputs may have more rows and columns than that of the
 * output. */
bm_job bm_local_job(const tpu_tensor_t *out, const tpu_tensor_t *in, int operands, u64 buffer_offset, dim4 *strides);

/* Operand k of a local job with one channel where the result has more: copied to every lane, into *room, which moves
 * behind the copy. The copy is a product with 1, in which a zero loses its sign. stride: room for its strides. */
void bm_spread(bm_job *job, int k, const tpu_tensor_t *in, local_addr_t *room, dim4 *stride);

#endif
