/* Loading, computing and storing at the same time. */
#ifndef BM_LAYER_PIPELINE_H
#define BM_LAYER_PIPELINE_H

#include "okk.h"

typedef void (*pipeline_function)(const void *run, int step);

/* Steps 0 to count - 1: while one is computed, the next is loaded and the one before is stored. What a step loads and
 * what it stores take turns in two buffers each. load and store use GDMA, compute the tensor unit only. */
static inline void run_pipeline(int count, const void *run, pipeline_function load, pipeline_function compute,
                                pipeline_function store) {
    for (int i = 0; i <= count + 1; i++) {
        okk_parallel_start();
        if (i < count) load(run, i);
        if (i >= 1 && i <= count) compute(run, i - 1);
        if (i >= 2) store(run, i - 2);
        okk_parallel_end();
    }
}

#endif
