/* Pools of DDR data: planes of all batches and channels side by side, a pipeline of tiles and parts of the kernel. */
#ifndef BM_LAYER_POOL_RUN_H
#define BM_LAYER_POOL_RUN_H

#include "bm_layer_pool.h"
#include "bm_layer_pool_plan.h"
#include "bm_layer_pool_window.h"
#include "bmcompiler_tpulayer_device.h"

typedef struct {
    int c, h, w;               /* first plane, output row and column */
    window_axis rows, columns; /* windows with the step's taps */
    int in, out, beside;       /* buffers */
    bool first, last;          /* parts of the kernel */
    int planes, bands;
    int back; /* rows that the last band begins earlier, so that it has as many as the others */
    dim4 output, input;
    window_part from_h, from_w; /* from_h: of the first band */
} pool_step;

typedef struct pool_run {
    const void *param;
    void (*compute)(const struct pool_run *r, const pool_step *s); /* one step's part of the results */
    void (*load)(const struct pool_run *r, const pool_step *s);    /* what lies beside the tile's planes; NULL: nothing */
    x32 fill;                                                      /* what pads are, as words */
    pool_problem problem;
    pool_plan plan;
    bool taps, filled; /* the instructions do not have these strides or dilations; pads lie in local memory */
    bm_addr_t x, y;
} pool_run;

void bm_pool_axes(const pool_window *p, const int *shape, window_axis *h, window_axis *w);

/* Shape of an output, but its format; BM_LAYER_OK, or what is wrong. */
int bm_pool_shape(const pool_window *p, tpu_tensor_t *out, const tpu_tensor_t *in);

/* Everything but param, compute, fill and problem.weights, which are given. In 4N planes are those of words. */
void bm_pool_prepare(pool_run *r, const pool_window *p, const tpu_tensor_t *out, const tpu_tensor_t *in);

/* The same of windows with a kernel for each plane (problem.plane_words); false where a tile does not fit. */
bool bm_pool_prepare_planes(pool_run *r, const window_axis *h, const window_axis *w, const tpu_tensor_t *out,
                            const tpu_tensor_t *in);

/* First output row of a step's band. */
int bm_pool_band_row(const pool_step *s, int band);

/* The step's first of all tiles with its planes. */
static inline bool bm_pool_new_planes(const pool_step *s) { return s->h == 0 && s->w == 0 && s->first; }

/* The work of one step but for mode and factor; its result goes to the output or, of further parts of the kernel, to
 * plan.part. */
pool_work bm_pool_step_work(const pool_run *r, const pool_step *s);

/* All steps. The caller has initialised the engines and polls afterwards. */
void bm_pool_run(const pool_run *r);

#endif
