#include "kernels.h"

int main(void) {
    bm_handle_t h, second;
    bm_device_mem_t mem;
    float x[64];
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    CHECK(bm_malloc_device_byte(h, &mem, sizeof x) == BM_SUCCESS);
    args_t args = {bm_mem_get_device_addr(mem), 64, 1.5f};
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    CHECK(bm_memcpy_s2d(h, mem, x) == BM_SUCCESS);
    printf("before\n");
    CHECK(okkernel_launch_sync(h, "plus", &args, sizeof args) == BM_SUCCESS);
    CHECK(okkernel_launch_async(h, "plus", &args, sizeof args) == BM_SUCCESS);
    CHECK(okkernel_sync(h) == BM_SUCCESS);
    printf("after, launches %d here\n", launches);
    /* each of these ends, is told with its place, and the memories stay */
    CHECK(okkernel_launch_sync(h, "crash", NULL, 0) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "leaves", NULL, 0) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "refused", NULL, 0) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "illegal", NULL, 0) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "deep", &args, sizeof args) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "endless", NULL, 0) == BM_ERR_TIMEOUT);
    CHECK(okkernel_launch_sync(h, "absent", NULL, 0) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "plus", &args, sizeof args) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s(h, x, mem) == BM_SUCCESS);
    for (int i = 0; i < 64; i++) CHECK(x[i] == (float)i + 4.5f);
    /* one entry for all kernels */
    int table[2] = {77, 78};
    static char large[1 << 20];
    CHECK(bmkernel_load_lookup_table(h, table, sizeof table) == BM_SUCCESS);
    CHECK(bmkernel_load_lookup_table(h, large, sizeof large) == BM_ERR_PARAM);
    CHECK(bmkernel_launch(h, &args, sizeof args) == BM_SUCCESS && bm_thread_sync(h) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s(h, x, mem) == BM_SUCCESS && memcmp(x, table, 4) == 0);
    args.n = 0;
    CHECK(bmkernel_launch(h, &args, sizeof args) == BM_SUCCESS && bm_thread_sync(h) == BM_ERR_FAILURE);
    /* another device has its own copy */
    CHECK(bm_dev_request(&second, 1) == BM_SUCCESS && bm_malloc_device_byte(second, &mem, sizeof x) == BM_SUCCESS);
    args = (args_t){bm_mem_get_device_addr(mem), 64, 1.f};
    CHECK(okkernel_launch_sync(second, "plus", &args, sizeof args) == BM_SUCCESS);
    bm_dev_free(second);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
