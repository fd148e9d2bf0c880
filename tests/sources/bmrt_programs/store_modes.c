/* store_modes BMODEL N: the net "net" copies int8 [N, 2, 3]. Inputs and outputs in 1N and 4N. */
#include "bmruntime_interface.h"

enum { REST = 6, MOST = 16 };

static signed char value(int n, int i) { return (signed char)(n * REST + i - 20); }

/* Where element i of batch n lies. */
static int place(bm_store_mode_t mode, int n, int i) {
    return mode == BM_STORE_4N ? (n / 4 * REST + i) * 4 + n % 4 : n * REST + i;
}

int main(int argc, char **argv) {
    bm_handle_t h;
    CHECK(argc == 3 && bm_dev_request(&h, 0) == BM_SUCCESS);
    const int batches = atoi(argv[2]), filled = (batches + 3) / 4 * 4;
    void *rt = bmrt_create(h);
    CHECK(rt != NULL && bmrt_load_bmodel(rt, argv[1]));
    const bm_net_info_t *info = bmrt_get_network_info(rt, "net");
    CHECK(info != NULL && info->max_input_bytes[0] == (size_t)filled * REST);
    const bm_store_mode_t modes[] = {BM_STORE_1N, BM_STORE_4N};
    const bm_shape_t shape = {3, {batches, 2, 3}};
    for (int k = 0; k < 8; k++) {
        bm_store_mode_t in_mode = modes[k & 1], out_mode = modes[k >> 1 & 1];
        bool user_mem = k >> 2;
        signed char data[MOST * REST] = {0}, back[MOST * REST];
        bm_tensor_t in = {.dtype = BM_INT8, .shape = shape, .st_mode = in_mode}, out = {.st_mode = out_mode};
        unsigned int in_bytes = (unsigned int)(in_mode == BM_STORE_4N ? filled : batches) * REST;
        unsigned int out_bytes = (unsigned int)(out_mode == BM_STORE_4N ? filled : batches) * REST;
        for (int n = 0; n < batches; n++)
            for (int i = 0; i < REST; i++) data[place(in_mode, n, i)] = value(n, i);
        CHECK(bm_malloc_device_byte(h, &in.device_mem, in_bytes) == BM_SUCCESS);
        CHECK(bm_memcpy_s2d(h, in.device_mem, data) == BM_SUCCESS);
        if (user_mem) CHECK(bm_malloc_device_byte(h, &out.device_mem, out_bytes) == BM_SUCCESS);
        CHECK(bmrt_launch_tensor_ex(rt, "net", &in, 1, &out, 1, user_mem, true));
        CHECK(out.dtype == BM_INT8 && out.st_mode == out_mode && bmrt_shape_is_same(&out.shape, &shape));
        CHECK(bm_mem_get_device_size(out.device_mem) == out_bytes);
        CHECK(bm_memcpy_d2s(h, back, out.device_mem) == BM_SUCCESS);
        for (int n = 0; n < (out_mode == BM_STORE_4N ? filled : batches); n++)
            for (int i = 0; i < REST; i++)
                CHECK(back[place(out_mode, n, i)] == (n < batches ? value(n, i) : 0));
        bm_free_device(h, out.device_mem);
        out.st_mode = BM_STORE_4N; /* not looked at */
        CHECK(bmrt_launch_tensor(rt, "net", &in, 1, &out, 1) && out.st_mode == BM_STORE_1N);
        CHECK(bm_mem_get_device_size(out.device_mem) == (unsigned int)batches * REST);
        if (filled > batches) { /* memory for 1N is too small for 4N */
            out.st_mode = BM_STORE_4N;
            CHECK(!bmrt_launch_tensor_ex(rt, "net", &in, 1, &out, 1, true, true));
        }
        bm_free_device(h, out.device_mem);
        bm_free_device(h, in.device_mem);
    }
    bmrt_destroy(rt);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
