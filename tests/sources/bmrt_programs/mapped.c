/* mapped FOLDER: the names of bmruntime_legacy.h, with the net stat's tensors in the program's address space. */
#include "bmruntime_interface.h"
#include "bmruntime_legacy.h"

static float *mapped(bm_handle_t h, bm_device_mem_t *mem) {
    unsigned long long at = 0;
    return bm_mem_mmap_device_mem(h, mem, &at) == BM_SUCCESS ? (float *)(size_t)at : NULL;
}

int main(int argc, char **argv) {
    int count = 0;
    bm_tensor_t in[2], out[2];
    bm_shape_t shapes[2] = {{3, {4, 3, 5}}, {2, {2, 6}}};
    CHECK(create_bmruntime(NULL, "BM1684X") == NULL && create_bmrt_helper(NULL, NULL, 0) == NULL);
    void *rt = create_bmruntime(NULL, "BM1684");
    CHECK(rt != NULL && bmrt_dev_getcount(rt, &count) == BM_SUCCESS && count == 1);
    bm_handle_t h = (bm_handle_t)bmrt_get_bm_handle(rt);
    CHECK(!bmrt_load_context(rt, "") && !bmrt_load_context(rt, "/absent") && bmrt_load_context(rt, argv[1]));
    for (int i = 0; i < 2; i++) CHECK(bmrt_tensor(&in[i], rt, BM_FLOAT32, shapes[i]));
    float *a = mapped(h, &in[0].device_mem), *b = mapped(h, &in[1].device_mem), copy[60];
    CHECK(a != NULL && b != NULL);
    for (int i = 0; i < 60; i++) a[i] = (float)i;
    for (int i = 0; i < 12; i++) b[i] = (float)(i * i);
    CHECK(bm_mem_flush_device_mem(h, &in[0].device_mem) == BM_SUCCESS);
    CHECK(bm_mem_flush_partial_device_mem(h, &in[1].device_mem, 4, 44) == BM_SUCCESS);
    CHECK(bmrt_memcpy_d2s(rt, copy, in[0].device_mem) == BM_SUCCESS && memcmp(a, copy, sizeof copy) == 0);
    CHECK(bmrt_launch_tensor(rt, "stat", in, 2, out, 2) && bmrt_thread_sync(rt) == BM_SUCCESS);
    CHECK(bm_mem_invalidate_device_mem(h, &out[0].device_mem) == BM_SUCCESS);
    CHECK(bm_mem_invalidate_partial_device_mem(h, &out[1].device_mem, 0, 48) == BM_SUCCESS);
    /* memory that begins between two pages */
    bm_device_mem_t part = bm_mem_from_device(bm_mem_get_device_addr(out[0].device_mem) + 100, 140);
    float *y = mapped(h, &out[0].device_mem), *z = mapped(h, &out[1].device_mem), *tail = mapped(h, &part);
    CHECK(y != NULL && z != NULL && tail != NULL);
    for (int i = 0; i < 60; i++) CHECK(y[i] == 1.5f * (float)i);
    for (int i = 0; i < 35; i++) CHECK(tail[i] == 1.5f * (float)(i + 25));
    for (int i = 0; i < 12; i++) CHECK(z[i] == -2.0f * (float)(i * i));
    /* the copies of that time */
    CHECK(bmrt_memcpy_s2d(rt, in[0].device_mem, y) == BM_SUCCESS && a[59] == 1.5f * 59);
    CHECK(bmrt_memcpy_s2d_withsize(rt, in[0].device_mem, z, 8) == BM_SUCCESS && a[1] == -2 && a[2] == 3);
    CHECK(bmrt_memcpy_s2d_withsize_offset(rt, in[0].device_mem, z, 8, 8) == BM_SUCCESS && a[3] == -2);
    CHECK(bmrt_memcpy_d2s_withsize(rt, copy, in[0].device_mem, 8) == BM_SUCCESS && copy[1] == -2);
    CHECK(bmrt_memcpy_d2s_withsize_offset(rt, copy, in[0].device_mem, 4, 16) == BM_SUCCESS && copy[0] == 6);
    bm_device_mem_t more;
    CHECK(bmrt_malloc_neuron_device(rt, &more, 1, 2, 3, 4) == BM_SUCCESS && bm_mem_get_device_size(more) == 96);
    bmrt_free_device(rt, more);
    CHECK(bmrt_malloc_device_byte(rt, &more, 5) == BM_SUCCESS);
    bmrt_free_device(rt, more);
    /* mistakes */
    unsigned long long at;
    bm_device_mem_t none = bm_mem_null(), outside = bm_mem_from_device(64, 64), host = bm_mem_from_system(copy);
    CHECK(bm_mem_mmap_device_mem(h, NULL, &at) == BM_ERR_PARAM && bm_mem_mmap_device_mem(h, &more, NULL) != 0);
    CHECK(bm_mem_mmap_device_mem(h, &none, &at) == BM_ERR_PARAM && bm_mem_mmap_device_mem(h, &host, &at) != 0);
    CHECK(bm_mem_mmap_device_mem(h, &outside, &at) == BM_ERR_PARAM);
    CHECK(bm_mem_mmap_device_mem_no_cache(NULL, &more, &at) == BM_ERR_PARAM);
    CHECK(bm_mem_unmap_device_mem(h, NULL, 4) == BM_ERR_PARAM && bm_mem_unmap_device_mem(h, y, 0) == BM_ERR_PARAM);
    CHECK(bm_mem_flush_device_mem(h, NULL) == BM_ERR_PARAM);
    CHECK(bm_mem_flush_partial_device_mem(h, &in[1].device_mem, 4, 48) == BM_ERR_PARAM);
    CHECK(bmrt_thread_sync(NULL) == BM_ERR_PARAM && bmrt_malloc_device_byte(NULL, &more, 5) == BM_ERR_PARAM);
    bmrt_free_device(rt, in[0].device_mem);
    destroy_bmruntime(rt); /* and the device; what is mapped stays */
    CHECK(bm_get_devid(h) == -1 && y[2] == 3 && tail[34] == 1.5f * 59);
    CHECK(bm_mem_unmap_device_mem(h, tail, 140) == BM_SUCCESS && bm_mem_unmap_device_mem(h, y, 240) == BM_SUCCESS);
    printf("ok\n");
    return 0;
}
