/* Device memory in the program's address space: the device's memories are a file without a name, which the process
 * behind the handle has open. Both sides see the same bytes at once, so there is nothing to flush or invalidate.
 */
#define _GNU_SOURCE
#include "bmlib_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OP_MAP = 10 };

static bm_status_t refuse(const char *function, const char *why) {
    fprintf(stderr, "bmlib: %s: %s\n", function, why);
    return BM_ERR_PARAM;
}

static uint64_t below(uint64_t offset) { return offset % (uint64_t)sysconf(_SC_PAGESIZE); }

/* The file's path as the process tells it, and where in it the memory lies. */
static bm_status_t map(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem, const char *function) {
    if (dmem == NULL || vmem == NULL) return refuse(function, "dmem or vmem is NULL");
    if (bm_mem_get_type(*dmem) != BM_MEM_TYPE_DEVICE || bm_mem_get_device_size(*dmem) == 0)
        return refuse(function, "the memory is not the device's, or has no bytes");
    uint64_t offset;
    char *path = NULL;
    size_t path_bytes;
    question q = {.function = function,
                  .head = {.op = OP_MAP, .a = bm_mem_get_device_addr(*dmem), .b = bm_mem_get_device_size(*dmem)},
                  .value = &offset,
                  .taken = &path,
                  .taken_bytes = &path_bytes};
    bm_status_t status = tpulayer_ask(handle, &q);
    if (status != BM_SUCCESS) return status;
    path[path_bytes] = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint64_t before = below(offset); /* pages are mapped, memory may begin between two */
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, before + bm_mem_get_device_size(*dmem), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                             (off_t)(offset - before));
    if (at == MAP_FAILED) {
        fprintf(stderr, "bmlib: %s: %s cannot be mapped: %s\n", function, path, strerror(errno));
        status = BM_ERR_FAILURE;
    } else {
        *vmem = (unsigned long long)(uintptr_t)at + before;
    }
    if (fd >= 0) close(fd);
    free(path);
    return status;
}

bm_status_t bm_mem_mmap_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem) {
    return map(handle, dmem, vmem, __func__);
}

bm_status_t bm_mem_mmap_device_mem_no_cache(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem) {
    return map(handle, dmem, vmem, __func__);
}

bm_status_t bm_mem_unmap_device_mem(bm_handle_t handle, void *vmem, int size) {
    (void)handle; /* the mapping may outlive it */
    if (vmem == NULL || size <= 0) return refuse(__func__, "vmem is NULL or size is not positive");
    uint64_t before = below((uint64_t)(uintptr_t)vmem);
    if (munmap((char *)vmem - before, before + (size_t)size) == 0) return BM_SUCCESS;
    return refuse(__func__, strerror(errno));
}

static bm_status_t coherent(const bm_device_mem_t *dmem, uint64_t offset, uint64_t len, const char *function) {
    if (dmem == NULL) return refuse(function, "dmem is NULL");
    if (offset > dmem->size || len > dmem->size - offset) return refuse(function, "more than the memory has");
    return BM_SUCCESS;
}

bm_status_t bm_mem_invalidate_device_mem(bm_handle_t handle, bm_device_mem_t *dmem) {
    (void)handle;
    return coherent(dmem, 0, 0, __func__);
}

bm_status_t bm_mem_invalidate_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset,
                                                 unsigned int len) {
    (void)handle;
    return coherent(dmem, offset, len, __func__);
}

bm_status_t bm_mem_flush_device_mem(bm_handle_t handle, bm_device_mem_t *dmem) {
    (void)handle;
    return coherent(dmem, 0, 0, __func__);
}

bm_status_t bm_mem_flush_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset,
                                            unsigned int len) {
    (void)handle;
    return coherent(dmem, offset, len, __func__);
}
