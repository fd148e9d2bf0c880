/* firmware_memory STAT: no call of a host writes where the firmware's own memory is; the device goes on. */
#include "bmruntime_interface.h"

#define DDR 0x100000000ull
#define OWN 0x105100000ull /* where the memory of programs begins */

int main(int argc, char **argv) {
    const unsigned long long places[] = {DDR, DDR + (17u << 20), OWN - 4};
    bm_handle_t h;
    bm_device_mem_t mine;
    bm_tensor_t in[2], out[2];
    bm_shape_t shapes[2] = {{3, {4, 3, 5}}, {2, {2, 6}}};
    float a[60], y[60], poison[60];
    char before[64], after[64], bytes[64] = {1, 2, 3};
    CHECK(argc == 2 && bm_dev_request(&h, 0) == BM_SUCCESS);
    CHECK(bm_malloc_device_byte(h, &mine, 64) == BM_SUCCESS && bm_mem_get_device_addr(mine) >= OWN);
    for (int i = 0; i < 3; i++) {
        bm_device_mem_t own = bm_mem_from_device(places[i], 64);
        bm_device_mem_u64_t own64 = bm_mem_from_device_u64(places[i], 64);
        unsigned long long at = 0;
        CHECK(bm_memcpy_d2s(h, before, own) == BM_SUCCESS);
        CHECK(bm_memcpy_s2d(h, own, bytes) == BM_ERR_PARAM && bm_memcpy_s2d_u64(h, own64, bytes) == BM_ERR_PARAM);
        CHECK(bm_memcpy_s2d_partial(h, own, bytes, 1) == BM_ERR_PARAM);
        CHECK(bm_memcpy_s2d_gather(h, own, 2, bytes, 8ull) == BM_ERR_PARAM);
        CHECK(bm_memset_device(h, 7, own) == BM_ERR_PARAM && bm_memset_device_ext(h, bytes, 1, own) == BM_ERR_PARAM);
        CHECK(bm_memcpy_d2d_byte(h, own, 0, mine, 0, 64) == BM_ERR_PARAM);
        CHECK(bm_memcpy_d2d(h, own, 0, mine, 0, 1) == BM_ERR_PARAM);
        CHECK(bm_memcpy_d2d_stride(h, own, 1, mine, 1, 4, 4) == BM_ERR_PARAM);
        CHECK(bm_memcpy_c2c(h, h, mine, own, false) == BM_ERR_PARAM);
        CHECK(bm_mem_mmap_device_mem(h, &own, &at) == BM_ERR_PARAM && at == 0);
        CHECK(bm_memcpy_d2s(h, after, own) == BM_SUCCESS && memcmp(before, after, sizeof after) == 0);
        CHECK(bm_memcpy_d2d_byte(h, mine, 0, own, 0, 64) == BM_SUCCESS); /* reading is allowed */
    }
    CHECK(bm_memcpy_s2d(h, bm_mem_from_device(OWN, 64), bytes) == BM_SUCCESS);
    void *rt = bmrt_create(h);
    CHECK(rt != NULL && bmrt_load_bmodel(rt, argv[1]));
    for (int i = 0; i < 2; i++) {
        CHECK(bmrt_tensor(&in[i], rt, BM_FLOAT32, shapes[i]) && bmrt_tensor(&out[i], rt, BM_FLOAT32, shapes[i]));
    }
    for (int i = 0; i < 60; i++) a[i] = (float)i;
    memset(poison, 0xA5, sizeof poison);
    CHECK(bm_memcpy_s2d(h, in[0].device_mem, a) == BM_SUCCESS && bm_memcpy_s2d(h, in[1].device_mem, a) == BM_SUCCESS);
    CHECK(bm_memcpy_s2d(h, out[0].device_mem, poison) == BM_SUCCESS);
    bm_device_mem_t right = out[1].device_mem;
    bm_mem_set_device_addr(&out[1].device_mem, OWN - 4);
    CHECK(!bmrt_launch_tensor_ex(rt, "stat", in, 2, out, 2, true, false));
    CHECK(bm_memcpy_d2s(h, y, out[0].device_mem) == BM_SUCCESS && memcmp(y, poison, sizeof y) == 0);
    out[1].device_mem = right;
    CHECK(bmrt_launch_tensor_ex(rt, "stat", in, 2, out, 2, true, false));
    CHECK(bm_memcpy_d2s(h, y, out[0].device_mem) == BM_SUCCESS && y[59] == 1.5f * 59);
    bmrt_destroy(rt);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
