/* delegate_calls PROGRAM BMODEL NET TIMES: microseconds of calls with one input and one output each, in turn: by
 * libbmrt.so on device memory, and by libtpulayer_delegate.so from and to the program's own. A line for each pair: both
 * times by the clock, then both of this thread's processor time, which other programs do not change. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bmruntime_interface.h"
#include "tpulayer_delegate.h"

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static char *content(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) return NULL;
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*bytes);
    return data != NULL && fread(data, 1, *bytes, file) == *bytes && fclose(file) == 0 ? data : NULL;
}

int main(int count, char **words) {
    if (count != 5) return 2;
    size_t bytes;
    char *program = content(words[1], &bytes);
    tpld_partition *p;
    tpld_tensor x, y;
    if (program == NULL || tpld_load(0, program, bytes, NULL, &p) != TPLD_OK || tpld_input(p, 0, &x) != TPLD_OK ||
        tpld_output(p, 0, &y) != TPLD_OK)
        return fprintf(stderr, "%s\n", tpld_last_error()), 1;
    bm_handle_t handle;
    if (bm_dev_request(&handle, 0) != BM_SUCCESS) return 1;
    void *runtime = bmrt_create(handle);
    if (!bmrt_load_bmodel(runtime, words[2])) return 1;
    const bm_net_info_t *info = bmrt_get_network_info(runtime, words[3]);
    bm_tensor_t input = {info->input_dtypes[0], info->stages[0].input_shapes[0], info->stages[0].input_mems[0], 0};
    bm_tensor_t output = {.device_mem = info->stages[0].output_mems[0]};
    void *from = calloc(1, x.bytes + 1), *to = calloc(1, y.bytes + 1);
    for (int i = 0; i < atoi(words[4]); i++) {
        double begin = now(CLOCK_MONOTONIC), begin_own = now(CLOCK_THREAD_CPUTIME_ID);
        if (!bmrt_launch_tensor_ex(runtime, words[3], &input, 1, &output, 1, true, false)) return 1;
        double middle = now(CLOCK_MONOTONIC), middle_own = now(CLOCK_THREAD_CPUTIME_ID);
        if (tpld_execute(p, (const void *const[]){from}, (void *const[]){to}) != TPLD_OK) return 1;
        printf("%.1f %.1f ", middle - begin, now(CLOCK_MONOTONIC) - middle);
        printf("%.1f %.1f\n", middle_own - begin_own, now(CLOCK_THREAD_CPUTIME_ID) - middle_own);
    }
    return 0;
}
