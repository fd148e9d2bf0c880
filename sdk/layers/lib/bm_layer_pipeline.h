/* Loading, computing and storing at the same time. */
#ifndef BM_LAYER_PIPELINE_H
#define BM_LAYER_PIPELINE_H

#include "okk.h"

/* The index along the innermost of several directions whose steps are counted together; rest: over the others. */
static inline int bm_next_of(int *rest, int count) {
    const int index = *rest % count;
    *rest /= count;
    return index;
}

typedef void (*pipeline_function)(const void *run, int step);

/* Steps 0 to count - 1: while one is computed, the next is loaded and the one before is stored. What a step loads and
 * what it stores take turns in two buffers each. load and store use GDMA, compute the tensor unit only. */
void bm_run_pipeline(int count, const void *run, pipeline_function load, pipeline_function compute,
                     pipeline_function store);

#endif
