/* threads STAT DYN: two threads on each of two devices; then one runtime on both. */
#include <pthread.h>

#include "launches.h"

static bm_handle_t handles[2];
static void *runtimes[2];
static void *work(void *argument) {
    int t = *(int *)argument, i = t % 2;
    for (int k = 0; k < 4; k++)
        if (launches(handles[i], runtimes[i], k % 2 ? "stat" : "dyn", 4, 2, 10 * t + k + 1, false) != 0) return argument;
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t threads[4];
    int which[4] = {0, 1, 2, 3};
    void *failed;
    for (int i = 0; i < 2; i++) {
        CHECK(bm_dev_request(&handles[i], i) == BM_SUCCESS && (runtimes[i] = bmrt_create(handles[i])) != NULL);
        CHECK(bmrt_load_bmodel(runtimes[i], argv[1]) && bmrt_load_bmodel(runtimes[i], argv[2]));
    }
    for (int t = 0; t < 4; t++) CHECK(pthread_create(&threads[t], NULL, work, &which[t]) == 0);
    for (int t = 0; t < 4; t++) CHECK(pthread_join(threads[t], &failed) == 0 && failed == NULL);
    /* several devices in one runtime: copies to each */
    bm_tensor_t tensors[2], copies[2];
    bm_shape_t shape = {1, {4}};
    float x[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, y[2][4];
    void *from[2] = {x[0], x[1]}, *to[2] = {y[0], y[1]};
    int numbers[2] = {1, 1};
    size_t target[2] = {4, 0}, source[2] = {0, 4}, sizes[2] = {12, 8};
    void *both = bmrt_create_ex(handles, 2);
    CHECK(both != NULL && bmrt_get_bm_handle(both) == (void *)handles[0]);
    for (int i = 0; i < 2; i++) {
        CHECK(bmrt_tensor_ex(&tensors[i], both, i, BM_FLOAT32, shape));
        CHECK(bmrt_tensor_ex(&copies[i], both, i, BM_FLOAT32, shape));
    }
    CHECK(bmrt_memcpy_s2d_parallel(both, tensors, from, numbers, 2));
    CHECK(bmrt_memcpy_s2d_parallel(both, copies, from, numbers, 2));
    CHECK(bmrt_memcpy_d2d_byte_parallel(both, copies, target, tensors, source, sizes, numbers, 2));
    CHECK(bmrt_memcpy_d2s_parallel(both, to, copies, numbers, 2));
    CHECK(y[0][0] == 1 && y[0][1] == 1 && y[0][3] == 3 && y[1][0] == 6 && y[1][1] == 7 && y[1][2] == 7);
    bmrt_trace(both);
    numbers[1] = 0;
    CHECK(!bmrt_memcpy_d2s_parallel(both, to, copies, numbers, 3));
    bmrt_destroy(both);
    for (int i = 0; i < 2; i++) {
        bmrt_destroy(runtimes[i]);
        bm_dev_free(handles[i]);
    }
    printf("ok\n");
    return 0;
}
