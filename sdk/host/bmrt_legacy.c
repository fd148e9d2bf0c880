/* bmruntime_legacy.h on the functions that took its place. */
#include "bmruntime_legacy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bmrt_internal.h"

void *create_bmrt_helper(void *pbm_handle, const char *chip_type, int devid) {
    if (chip_type == NULL || strstr(chip_type, "BM1684") == NULL || strstr(chip_type, "BM1684X") != NULL) {
        bmrt_say(__func__, "chip_type is %s; the device is a BM1684", chip_type == NULL ? "NULL" : chip_type);
        return NULL;
    }
    if (pbm_handle != NULL) return bmrt_create(*(bm_handle_t *)pbm_handle);
    bm_handle_t handle;
    if (bm_dev_request(&handle, devid) != BM_SUCCESS) return NULL;
    void *p_bmrt = bmrt_create(handle);
    if (p_bmrt == NULL)
        bm_dev_free(handle);
    else
        bmrt_give_handle(p_bmrt);
    return p_bmrt;
}

void destroy_bmruntime(void *p_bmrt) { bmrt_destroy(p_bmrt); }

bool bmrt_load_context(void *p_bmrt, const char *ctx_dir) {
    static const char name[] = "/compilation.bmodel";
    if (ctx_dir == NULL || *ctx_dir == 0) return bmrt_say(__func__, "ctx_dir is NULL or empty");
    char *path = malloc(strlen(ctx_dir) + sizeof name);
    if (path == NULL) return bmrt_say(__func__, "out of memory");
    strcpy(path, ctx_dir);
    strcat(path, name);
    bool good = bmrt_load_bmodel(p_bmrt, path);
    free(path);
    return good;
}

/* The rest of a function: bmlib's on the device of a runtime in use. */
#define ON_DEVICE(function, ...)                                                            \
    bm_handle_t device = bmrt_handle(p_bmrt, 0, NULL, __func__);                            \
    return device == NULL ? (int)BM_ERR_PARAM : (int)function(device, __VA_ARGS__)

int bmrt_malloc_neuron_device(void *p_bmrt, bm_device_mem_t *pmem, int n, int c, int h, int w) {
    ON_DEVICE(bm_malloc_neuron_device, pmem, n, c, h, w);
}

int bmrt_malloc_device_byte(void *p_bmrt, bm_device_mem_t *pmem, unsigned int size) {
    ON_DEVICE(bm_malloc_device_byte, pmem, size);
}

void bmrt_free_device(void *p_bmrt, bm_device_mem_t mem) {
    bm_handle_t device = bmrt_handle(p_bmrt, 0, NULL, __func__);
    if (device != NULL) bm_free_device(device, mem);
}

int bmrt_memcpy_s2d(void *p_bmrt, bm_device_mem_t dst, void *src) { ON_DEVICE(bm_memcpy_s2d, dst, src); }
int bmrt_memcpy_d2s(void *p_bmrt, void *dst, bm_device_mem_t src) { ON_DEVICE(bm_memcpy_d2s, dst, src); }

int bmrt_memcpy_s2d_withsize(void *p_bmrt, bm_device_mem_t dst, void *src, unsigned int size) {
    ON_DEVICE(bm_memcpy_s2d_partial, dst, src, size);
}

int bmrt_memcpy_d2s_withsize(void *p_bmrt, void *dst, bm_device_mem_t src, unsigned int size) {
    ON_DEVICE(bm_memcpy_d2s_partial, dst, src, size);
}

int bmrt_memcpy_s2d_withsize_offset(void *p_bmrt, bm_device_mem_t dst, void *src, unsigned int size,
                                    unsigned int dev_offset) {
    ON_DEVICE(bm_memcpy_s2d_partial_offset, dst, src, size, dev_offset);
}

int bmrt_memcpy_d2s_withsize_offset(void *p_bmrt, void *dst, bm_device_mem_t src, unsigned int size,
                                    unsigned int dev_offset) {
    ON_DEVICE(bm_memcpy_d2s_partial_offset, dst, src, size, dev_offset);
}

int bmrt_thread_sync(void *p_bmrt) {
    bm_handle_t device = bmrt_handle(p_bmrt, 0, NULL, __func__);
    return device == NULL ? (int)BM_ERR_PARAM : (int)bm_thread_sync(device);
}

int bmrt_dev_getcount(void *p_bmrt, int *dev_count) {
    (void)p_bmrt;
    return bm_dev_getcount(dev_count);
}
