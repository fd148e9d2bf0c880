/* Launches the net stat or dyn of the tests with inputs of na and nb of their rows, in each way that there is. */
#include "bmruntime_interface.h"

static int check(const float *y, const float *z, const float *a, const float *b, int na, int nb) {
    for (int i = 0; i < na * 15; i++) CHECK(y[i] == 1.5f * a[i]);
    for (int i = 0; i < nb * 6; i++) CHECK(z[i] == -2.0f * b[i]);
    return 0;
}

static int fetch(bm_handle_t h, const bm_tensor_t out[2], const float *a, const float *b, int na, int nb) {
    float y[60], z[12];
    CHECK(out[0].dtype == BM_FLOAT32 && out[0].st_mode == BM_STORE_1N);
    CHECK(out[0].shape.num_dims == 3 && out[0].shape.dims[0] == na && out[0].shape.dims[2] == 5);
    CHECK(out[1].shape.num_dims == 2 && out[1].shape.dims[0] == nb && out[1].shape.dims[1] == 6);
    CHECK(bmrt_tensor_bytesize(&out[0]) == (size_t)na * 60 && bmrt_tensor_bytesize(&out[1]) == (size_t)nb * 24);
    CHECK(bm_memcpy_d2s_partial(h, y, out[0].device_mem, (unsigned)bmrt_tensor_bytesize(&out[0])) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s_partial(h, z, out[1].device_mem, (unsigned)bmrt_tensor_bytesize(&out[1])) == BM_SUCCESS);
    return check(y, z, a, b, na, nb);
}

/* own: also in the net's own memory, which one thread at a time may use. */
static int launches(bm_handle_t h, void *rt, const char *net, int na, int nb, int seed, bool own) {
    const bm_net_info_t *info = bmrt_get_network_info(rt, net);
    float a[60], b[12];
    for (int i = 0; i < 60; i++) a[i] = (float)(i * seed - 7);
    for (int i = 0; i < 12; i++) b[i] = (float)(seed - i);
    bm_tensor_t in[2], out[2];
    bm_shape_t shapes[2] = {{3, {na, 3, 5}}, {2, {nb, 6}}}, made[2];
    CHECK(info != NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(bmrt_tensor(&in[i], rt, info->input_dtypes[i], shapes[i]));
        CHECK(bmrt_tensor_device_size(&in[i]) == bmrt_tensor_bytesize(&in[i]));
        CHECK(bm_memcpy_s2d(h, in[i].device_mem, i == 0 ? a : b) == BM_SUCCESS);
    }
    /* new memory for the outputs */
    CHECK(bmrt_launch_tensor(rt, net, in, 2, out, 2) && bm_thread_sync(h) == BM_SUCCESS);
    CHECK(bmrt_tensor_device_size(&out[0]) == (size_t)na * 60);
    CHECK(fetch(h, out, a, b, na, nb) == 0);
    for (int i = 0; i < 2; i++) bm_free_device(h, out[i].device_mem);
    /* memory of the caller, whose other bytes stay */
    unsigned size[2] = {(unsigned)info->max_output_bytes[0] + 8, (unsigned)info->max_output_bytes[1]};
    for (int i = 0; i < 2; i++) {
        CHECK(bm_malloc_device_byte(h, &out[i].device_mem, size[i]) == BM_SUCCESS);
        CHECK(bm_memset_device(h, 77, out[i].device_mem) == BM_SUCCESS);
        out[i].st_mode = BM_STORE_1N;
    }
    CHECK(bmrt_launch_tensor_ex(rt, net, in, 2, out, 2, true, true));
    CHECK(fetch(h, out, a, b, na, nb) == 0 && bmrt_tensor_device_size(&out[0]) == size[0]);
    int after;
    CHECK(bm_memcpy_d2s_partial_offset(h, &after, out[0].device_mem, 4, (unsigned)na * 60) == BM_SUCCESS);
    CHECK(after == 77);
    int core = 0;
    CHECK(bmrt_launch_tensor_multi_cores(rt, net, in, 2, out, 2, true, false, &core, 1));
    CHECK(fetch(h, out, a, b, na, nb) == 0);
    for (int i = 0; i < 2; i++) bm_free_device(h, out[i].device_mem);
    if (own) {
        bm_tensor_t inside[2];
        for (int i = 0; i < 2; i++) {
            bmrt_tensor_with_device(&inside[i], info->stages[0].input_mems[i], BM_FLOAT32, shapes[i]);
            CHECK(bm_memcpy_d2d_byte(h, inside[i].device_mem, 0, in[i].device_mem, 0,
                                     bmrt_tensor_bytesize(&in[i])) == BM_SUCCESS);
            bmrt_tensor_with_device(&out[i], info->stages[0].output_mems[i], BM_FLOAT32, shapes[i]);
        }
        CHECK(bmrt_launch_tensor_ex(rt, net, inside, 2, out, 2, true, false));
        CHECK(fetch(h, out, a, b, na, nb) == 0);
    }
    for (int i = 0; i < 2; i++) bm_free_device(h, in[i].device_mem);
    /* data of the host, with and without memory of the caller */
    void *ins[2] = {a, b}, *outs[2] = {NULL, NULL};
    float y[60], z[12];
    void *mine[2] = {y, z};
    CHECK(bmrt_launch_data(rt, net, ins, shapes, 2, outs, made, 2, false));
    CHECK(bmrt_shape_is_same(&made[0], &shapes[0]) && bmrt_shape_is_same(&made[1], &shapes[1]));
    CHECK(check((float *)outs[0], (float *)outs[1], a, b, na, nb) == 0);
    free(outs[0]);
    free(outs[1]);
    CHECK(bmrt_launch_data(rt, net, ins, shapes, 2, mine, made, 2, true));
    return check(y, z, a, b, na, nb);
}
