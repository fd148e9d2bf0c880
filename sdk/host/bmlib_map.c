/* Device memory in the program's address space: the device's memories are a file without a name, which the process
 * behind the handle has open. Both sides see the same bytes at once, so there is nothing to flush or invalidate.
 */
#define _GNU_SOURCE
#include "bmlib_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t below(uint64_t offset) { return offset % (uint64_t)sysconf(_SC_PAGESIZE); }

/* What is mapped now, for bm_mem_vir_to_phy. */
typedef struct mapping {
    uint64_t at, bytes, addr;
    struct mapping *next;
} mapping;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mapping *mappings;

static void note(uint64_t at, uint64_t bytes, uint64_t addr) {
    mapping *m = malloc(sizeof *m);
    if (m == NULL) return; /* the mapping is good, only its address cannot be asked for */
    pthread_mutex_lock(&lock);
    *m = (mapping){at, bytes, addr, mappings};
    mappings = m;
    pthread_mutex_unlock(&lock);
}

static void forget(uint64_t at) {
    pthread_mutex_lock(&lock);
    mapping **m = &mappings;
    while (*m != NULL && (*m)->at != at) m = &(*m)->next;
    mapping *gone = *m;
    if (gone != NULL) *m = gone->next;
    pthread_mutex_unlock(&lock);
    free(gone);
}

/* The file's path as the process tells it, and where in it the memory lies. */
bm_status_t bmlib_map(bm_handle_t handle, device_piece memory, unsigned long long *vmem, const char *function) {
    if (vmem == NULL) return bmlib_refuse(function, "vmem is NULL");
    if (!memory.on_device || memory.bytes == 0)
        return bmlib_refuse(function, "the memory is not the device's, or has no bytes");
    uint64_t offset;
    char *path = NULL;
    size_t path_bytes;
    question q = {.function = function,
                  .head = {.op = OP_MAP, .a = memory.addr, .b = memory.bytes},
                  .value = &offset,
                  .taken = &path,
                  .taken_bytes = &path_bytes};
    bm_status_t status = tpulayer_ask(handle, &q);
    if (status != BM_SUCCESS) return status;
    path[path_bytes] = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint64_t before = below(offset); /* pages are mapped, memory may begin between two */
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, before + memory.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                             (off_t)(offset - before));
    if (at == MAP_FAILED) {
        bmlib_say("bmlib: %s: %s cannot be mapped: %s", function, path, strerror(errno));
        status = BM_ERR_FAILURE;
    } else {
        *vmem = (unsigned long long)(uintptr_t)at + before;
        note(*vmem, memory.bytes, memory.addr);
    }
    if (fd >= 0) close(fd);
    free(path);
    return status;
}

bm_status_t bmlib_unmap(void *vmem, uint64_t bytes, const char *function) {
    if (vmem == NULL || bytes == 0) return bmlib_refuse(function, "vmem is NULL or size is not positive");
    uint64_t before = below((uint64_t)(uintptr_t)vmem);
    forget((uint64_t)(uintptr_t)vmem);
    if (munmap((char *)vmem - before, before + bytes) == 0) return BM_SUCCESS;
    return bmlib_refuse(function, strerror(errno));
}

bm_status_t bmlib_coherent(device_piece memory, uint64_t offset, uint64_t bytes, const char *function) {
    if (offset > memory.bytes || bytes > memory.bytes - offset)
        return bmlib_refuse(function, "more than the memory has");
    return BM_SUCCESS;
}

bm_status_t bm_mem_vir_to_phy(bm_handle_t handle, unsigned long long vmem, unsigned long long *device_mem) {
    (void)handle; /* a mapping may outlive it */
    if (device_mem == NULL) return bmlib_refuse(__func__, "device_mem is NULL");
    pthread_mutex_lock(&lock);
    const mapping *m = mappings;
    while (m != NULL && (vmem < m->at || vmem - m->at >= m->bytes)) m = m->next;
    if (m != NULL) *device_mem = m->addr + (vmem - m->at);
    pthread_mutex_unlock(&lock);
    return m != NULL ? BM_SUCCESS : bmlib_refuse(__func__, "no device memory is mapped there");
}
