#include "bm_layer_pipeline.h"

void bm_run_pipeline(int count, const void *run, pipeline_function load, pipeline_function compute,
                     pipeline_function store) {
    for (int i = 0; i <= count + 1; i++) {
        okk_parallel_start();
        if (i < count) load(run, i);
        if (i >= 1 && i <= count) compute(run, i - 1);
        if (i >= 2) store(run, i - 2);
        okk_parallel_end();
    }
}
