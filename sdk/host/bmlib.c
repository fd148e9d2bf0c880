/* bmlib's functions on the emulated device: a process running user_layers/bmrt/bmrt_server.py holds it, and
 * this library sends it requests. Asynchronous launches have no reply of their own, so neither side can wait
 * for the other to read; their errors come with the reply to the next OP_SYNC. Messages on errors go to stderr.
 */
#define _GNU_SOURCE
#include "bmlib_internal.h"
#include "bmlib_program.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES 64 /* numbers that may be asked for; every handle is a device of its own */

enum { OP_MALLOC = 1, OP_FREE, OP_WRITE, OP_READ, OP_COPY, OP_LOAD, OP_LAUNCH, OP_START, OP_SYNC };

struct bm_context {
    connection server;
    int devid;
    pthread_mutex_t lock;
    bm_handle_t next; /* in `live` */
};

/* ---- handles: a table of those in use, so that a freed or foreign one is an error and no crash ---- */

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static bm_handle_t live;

static int is_live(bm_handle_t handle) {
    pthread_mutex_lock(&live_lock);
    bm_handle_t h = live;
    while (h != NULL && h != handle) h = h->next;
    pthread_mutex_unlock(&live_lock);
    return h != NULL;
}

static int forget(bm_handle_t handle) {
    pthread_mutex_lock(&live_lock);
    bm_handle_t *at = &live;
    while (*at != NULL && *at != handle) at = &(*at)->next;
    int found = *at != NULL;
    if (found) *at = handle->next;
    pthread_mutex_unlock(&live_lock);
    return found;
}

/* On BM_SUCCESS the caller holds the handle's lock. */
static bm_status_t enter(bm_handle_t handle, const char *library, const char *function) {
    if (!is_live(handle)) {
        fprintf(stderr, "%s: %s: this is not a handle that bm_dev_request gave and bm_dev_free has not taken\n",
                library == NULL ? "bmlib" : library, function);
        return BM_ERR_PARAM;
    }
    pthread_mutex_lock(&handle->lock);
    return BM_SUCCESS;
}

static bm_status_t leave(bm_handle_t handle, bm_status_t status) {
    pthread_mutex_unlock(&handle->lock);
    return status;
}

static bm_status_t ask(bm_handle_t h, question q) {
    bm_status_t status = enter(h, q.library, q.function);
    return status == BM_SUCCESS ? leave(h, connection_ask(&h->server, &q)) : status;
}

bm_status_t tpulayer_ask(bm_handle_t handle, const question *q) { return ask(handle, *q); }

static bm_status_t refuse(const char *function, const char *why) {
    fprintf(stderr, "bmlib: %s: %s\n", function, why);
    return BM_ERR_PARAM;
}

/* ---- the device ---- */

bm_status_t bm_dev_getcount(int *count) {
    if (count == NULL) return refuse(__func__, "count is NULL");
    *count = 1;
    return BM_SUCCESS;
}

bm_status_t bm_dev_query(int devid) { return devid >= 0 && devid < DEVICES ? BM_SUCCESS : BM_ERR_FAILURE; }

bm_status_t bm_dev_request(bm_handle_t *handle, int devid) {
    if (handle == NULL) return refuse(__func__, "handle is NULL");
    *handle = NULL;
    if (devid < 0 || devid >= DEVICES) return refuse(__func__, "devices are numbered 0 to 63");
    bm_handle_t h = calloc(1, sizeof *h);
    if (h == NULL) return BM_ERR_NOMEM;
    h->devid = devid;
    snprintf(h->server.name, sizeof h->server.name, "device %d", devid);
    int kernels = program_server_start();
    int error = kernels < -1 ? EAGAIN : connection_start(&h->server, "user_layers.bmrt.bmrt_server", devid, kernels);
    if (kernels >= 0) close(kernels);
    if (error != 0) {
        free(h);
        return error == ENOMEM ? BM_ERR_NOMEM : BM_ERR_DEVNOTREADY;
    }
    pthread_mutex_init(&h->lock, NULL);
    pthread_mutex_lock(&live_lock);
    h->next = live;
    live = h;
    pthread_mutex_unlock(&live_lock);
    uint64_t protocol = 0;
    bm_status_t status = connection_reply(&h->server, &(question){.value = &protocol}); /* it is ready */
    if (status == BM_SUCCESS && protocol != CONNECTION_PROTOCOL) {
        fprintf(stderr, "bmlib: libbmlib.so and the toolkit it starts are of different versions; "
                        "build_layers again\n");
        status = BM_ERR_DEVNOTREADY;
    }
    if (status != BM_SUCCESS) {
        bm_dev_free(h);
        return status;
    }
    *handle = h;
    return BM_SUCCESS;
}

static bm_status_t sync_locked(bm_handle_t h) {
    bm_status_t status = connection_ask(&h->server, &(question){.head = {.op = OP_SYNC}});
    h->server.started = 0;
    return status;
}

void bm_dev_free(bm_handle_t handle) {
    if (enter(handle, NULL, __func__) != BM_SUCCESS) return;
    if (handle->server.started > 0 && !handle->server.ended) (void)sync_locked(handle);
    if (!forget(handle)) { /* another thread was here first, which is a mistake of the program */
        leave(handle, BM_SUCCESS);
        return;
    }
    connection_close(&handle->server);
    leave(handle, BM_SUCCESS);
    pthread_mutex_destroy(&handle->lock);
    free(handle);
}

int bm_get_devid(bm_handle_t handle) { return is_live(handle) ? handle->devid : -1; }

bm_status_t bm_get_chipid(bm_handle_t handle, unsigned int *p_chipid) {
    if (p_chipid == NULL) return refuse(__func__, "p_chipid is NULL");
    if (!is_live(handle)) return refuse(__func__, "no such handle");
    *p_chipid = 0x1684;
    return BM_SUCCESS;
}

/* ---- descriptors of memory ---- */

bm_device_mem_t bm_mem_from_device(unsigned long long device_addr, unsigned int len) {
    bm_device_mem_t mem;
    memset(&mem, 0, sizeof mem);
    mem.u.device.device_addr = (unsigned long)device_addr;
    mem.flags.u.mem_type = BM_MEM_TYPE_DEVICE;
    mem.size = len;
    return mem;
}

bm_device_mem_t bm_mem_null(void) { return bm_mem_from_device(BM_MEM_ADDR_NULL, 0); }

bm_system_mem_t bm_mem_from_system(void *system_addr) {
    bm_system_mem_t mem;
    memset(&mem, 0, sizeof mem);
    mem.u.system.system_addr = system_addr;
    mem.flags.u.mem_type = BM_MEM_TYPE_SYSTEM;
    return mem;
}

void bm_set_device_mem(bm_device_mem_t *pmem, unsigned int size, unsigned long long addr) {
    *pmem = bm_mem_from_device(addr, size);
}

bm_mem_type_t bm_mem_get_type(struct bm_mem_desc mem) { return mem.flags.u.mem_type; }
unsigned long long bm_mem_get_device_addr(struct bm_mem_desc mem) { return mem.u.device.device_addr; }
unsigned int bm_mem_get_device_size(struct bm_mem_desc mem) { return mem.size; }
void *bm_mem_get_system_addr(struct bm_mem_desc mem) { return mem.u.system.system_addr; }
void bm_mem_set_system_addr(struct bm_mem_desc *pmem, void *addr) { pmem->u.system.system_addr = addr; }
void bm_mem_set_device_size(struct bm_mem_desc *pmem, unsigned int size) { pmem->size = size; }

void bm_mem_set_device_addr(struct bm_mem_desc *pmem, unsigned long long addr) {
    pmem->u.device.device_addr = (unsigned long)addr;
}

/* ---- device memory ---- */

bm_status_t bm_malloc_device_byte(bm_handle_t handle, bm_device_mem_t *pmem, unsigned int size) {
    if (pmem == NULL) return refuse(__func__, "pmem is NULL");
    uint64_t addr;
    bm_status_t status =
        ask(handle, (question){.function = __func__, .head = {.op = OP_MALLOC, .a = size}, .value = &addr});
    if (status == BM_SUCCESS) *pmem = bm_mem_from_device(addr, size);
    return status;
}

bm_status_t bm_malloc_device_dword(bm_handle_t handle, bm_device_mem_t *pmem, int count) {
    if (count < 0 || (unsigned int)count > UINT32_MAX / 4)
        return refuse(__func__, "the size is not a number of bytes in 32 bits");
    return bm_malloc_device_byte(handle, pmem, (unsigned int)count * 4);
}

enum { HEAPS = 3 };

typedef struct {
    int extents[4];
} shape;

static bm_status_t malloc_elements(bm_handle_t handle, bm_device_mem_t *pmem, shape s, unsigned int width,
                                   const char *function) {
    uint64_t size = width;
    for (int i = 0; i < 4; i++) {
        if (s.extents[i] < 1) return refuse(function, "extents are 1 or more");
        size *= (uint64_t)s.extents[i];
        if (size > UINT32_MAX) return refuse(function, "the size is not a number of bytes in 32 bits");
    }
    return bm_malloc_device_byte(handle, pmem, (unsigned int)size);
}

bm_status_t bm_malloc_neuron_device(bm_handle_t handle, bm_device_mem_t *pmem, int n, int c, int h, int w) {
    return malloc_elements(handle, pmem, (shape){{n, c, h, w}}, 4, __func__);
}

bm_status_t bm_malloc_device_byte_heap(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id, unsigned int size) {
    if (heap_id < 0 || heap_id >= HEAPS) return refuse(__func__, "heap_id is 0, 1 or 2");
    return bm_malloc_device_byte(handle, pmem, size);
}

bm_status_t bm_malloc_device_byte_heap_mask(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id_mask,
                                            unsigned int size) {
    if ((heap_id_mask & ((1 << HEAPS) - 1)) == 0)
        return refuse(__func__, "heap_id_mask has none of bits 0, 1 and 2");
    return bm_malloc_device_byte(handle, pmem, size);
}

static bm_status_t convert(bm_handle_t handle, bm_device_mem_t *dev_mem, bm_system_mem_t sys_mem, bool need_copy,
                           shape s, unsigned int width, const char *function) {
    if (need_copy && (sys_mem.flags.u.mem_type != BM_MEM_TYPE_SYSTEM || sys_mem.u.system.system_addr == NULL))
        return refuse(function, "there is nothing to copy: sys_mem is not a memory of the host");
    bm_status_t status = malloc_elements(handle, dev_mem, s, width, function);
    if (status != BM_SUCCESS || !need_copy) return status;
    status = bm_memcpy_s2d(handle, *dev_mem, sys_mem.u.system.system_addr);
    if (status != BM_SUCCESS) bm_free_device(handle, *dev_mem);
    return status;
}

bm_status_t bm_mem_convert_system_to_device_neuron(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                   struct bm_mem_desc sys_mem, bool need_copy, int n, int c, int h,
                                                   int w) {
    return convert(handle, dev_mem, sys_mem, need_copy, (shape){{n, c, h, w}}, 4, __func__);
}

bm_status_t bm_mem_convert_system_to_device_neuron_byte(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                        struct bm_mem_desc sys_mem, bool need_copy, int n, int c,
                                                        int h, int w) {
    return convert(handle, dev_mem, sys_mem, need_copy, (shape){{n, c, h, w}}, 1, __func__);
}

bm_status_t bm_mem_convert_system_to_device_coeff(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                  struct bm_mem_desc sys_mem, bool need_copy, int coeff_count) {
    return convert(handle, dev_mem, sys_mem, need_copy, (shape){{1, 1, 1, coeff_count}}, 4, __func__);
}

bm_status_t bm_mem_convert_system_to_device_coeff_byte(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                       struct bm_mem_desc sys_mem, bool need_copy,
                                                       int coeff_count) {
    return convert(handle, dev_mem, sys_mem, need_copy, (shape){{1, 1, 1, coeff_count}}, 1, __func__);
}

void bm_free_device(bm_handle_t handle, bm_device_mem_t mem) {
    (void)ask(handle, (question){.function = __func__, .head = {.op = OP_FREE, .a = bm_mem_get_device_addr(mem)}});
}

/* ---- copies ---- */

static int is_device(bm_device_mem_t mem, uint64_t offset, uint64_t size, const char *function) {
    if (mem.flags.u.mem_type != BM_MEM_TYPE_DEVICE) {
        fprintf(stderr, "bmlib: %s: the memory is not the device's\n", function);
        return 0;
    }
    if (offset <= mem.size && size <= mem.size - offset) return 1;
    fprintf(stderr, "bmlib: %s: %llu bytes at offset %llu of %u bytes\n", function, (unsigned long long)size,
            (unsigned long long)offset, mem.size);
    return 0;
}

static bm_status_t write_device(bm_handle_t handle, bm_device_mem_t dst, const void *src, unsigned int size,
                                unsigned int offset, const char *function) {
    if (src == NULL) return refuse(function, "the host's address is NULL");
    if (!is_device(dst, offset, size, function)) return BM_ERR_PARAM;
    request_head head = {.op = OP_WRITE, .a = bm_mem_get_device_addr(dst) + offset, .data_bytes = size};
    return ask(handle, (question){.function = function, .head = head, .data = src});
}

static bm_status_t read_device(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size,
                               unsigned int offset, const char *function) {
    if (dst == NULL) return refuse(function, "the host's address is NULL");
    if (!is_device(src, offset, size, function)) return BM_ERR_PARAM;
    request_head head = {.op = OP_READ, .a = bm_mem_get_device_addr(src) + offset, .b = size};
    return ask(handle, (question){.function = function, .head = head, .out = dst, .capacity = size});
}

bm_status_t bm_memcpy_s2d(bm_handle_t handle, bm_device_mem_t dst, void *src) {
    return write_device(handle, dst, src, dst.size, 0, __func__);
}

bm_status_t bm_memcpy_s2d_partial(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size) {
    return write_device(handle, dst, src, size, 0, __func__);
}

bm_status_t bm_memcpy_s2d_partial_offset(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size,
                                         unsigned int offset) {
    return write_device(handle, dst, src, size, offset, __func__);
}

bm_status_t bm_memcpy_d2s(bm_handle_t handle, void *dst, bm_device_mem_t src) {
    return read_device(handle, dst, src, src.size, 0, __func__);
}

bm_status_t bm_memcpy_d2s_partial(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size) {
    return read_device(handle, dst, src, size, 0, __func__);
}

bm_status_t bm_memcpy_d2s_partial_offset(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size,
                                         unsigned int offset) {
    return read_device(handle, dst, src, size, offset, __func__);
}

bm_status_t bm_memcpy_d2d_byte(bm_handle_t handle, bm_device_mem_t dst, size_t dst_offset, bm_device_mem_t src,
                               size_t src_offset, size_t size) {
    if (!is_device(dst, dst_offset, size, __func__) || !is_device(src, src_offset, size, __func__))
        return BM_ERR_PARAM;
    request_head head = {.op = OP_COPY,
                         .a = bm_mem_get_device_addr(dst) + dst_offset,
                         .b = bm_mem_get_device_addr(src) + src_offset,
                         .c = size};
    return ask(handle, (question){.function = __func__, .head = head});
}

bm_status_t bm_memcpy_d2d(bm_handle_t handle, bm_device_mem_t dst, int dst_offset, bm_device_mem_t src,
                          int src_offset, int len) {
    if (dst_offset < 0 || src_offset < 0 || len < 0) return refuse(__func__, "a negative offset or length");
    return bm_memcpy_d2d_byte(handle, dst, (size_t)dst_offset * 4, src, (size_t)src_offset * 4, (size_t)len * 4);
}

static bm_status_t fill(bm_handle_t handle, const void *value, unsigned int width, bm_device_mem_t mem,
                        const char *function) {
    if (mem.size % width != 0) {
        fprintf(stderr, "bmlib: %s: the size %u is not a multiple of %u\n", function, mem.size, width);
        return BM_ERR_PARAM;
    }
    char *bytes = malloc((size_t)mem.size + 1);
    if (bytes == NULL) return BM_ERR_NOMEM;
    for (size_t i = 0; i < mem.size; i += width) memcpy(bytes + i, value, width);
    bm_status_t status = write_device(handle, mem, bytes, mem.size, 0, function);
    free(bytes);
    return status;
}

bm_status_t bm_memset_device(bm_handle_t handle, const int value, bm_device_mem_t mem) {
    return fill(handle, &value, 4, mem, __func__);
}

bm_status_t bm_memset_device_ext(bm_handle_t handle, void *value, int mode, bm_device_mem_t mem) {
    if (value == NULL) return refuse(__func__, "value is NULL");
    if (mode < 1 || mode > 4) return refuse(__func__, "mode is 1 to 4 bytes");
    return fill(handle, value, (unsigned int)mode, mem, __func__);
}

/* ---- kernels ---- */

bm_status_t okkernel_load_firmware(bm_handle_t handle, const char *firmware_tcm, const char *firmware_ddr) {
    if (firmware_tcm == NULL) return refuse(__func__, "firmware_tcm is NULL");
    uint64_t bytes = firmware_ddr == NULL ? 0 : strlen(firmware_ddr);
    return ask(handle, (question){.function = __func__,
                                  .head = {.op = OP_LOAD, .data_bytes = bytes},
                                  .text = firmware_tcm,
                                  .data = firmware_ddr});
}

static bm_status_t check_launch(const char *func_name, const void *args, unsigned int size,
                                const char *function) {
    if (func_name == NULL) return refuse(function, "func_name is NULL");
    if (args == NULL && size > 0) return refuse(function, "args is NULL");
    if (program_has_kernels()) fflush(stdout); /* the kernel prints from another process */
    return BM_SUCCESS;
}

bm_status_t okkernel_launch_sync(bm_handle_t handle, const char *func_name, const void *args,
                                 unsigned int size) {
    bm_status_t status = check_launch(func_name, args, size, __func__);
    if (status != BM_SUCCESS) return status;
    return ask(handle, (question){.function = __func__,
                                  .head = {.op = OP_LAUNCH, .data_bytes = size},
                                  .text = func_name,
                                  .data = args});
}

bm_status_t okkernel_launch_async(bm_handle_t handle, const char *func_name, const void *args,
                                  unsigned int size) {
    bm_status_t status = check_launch(func_name, args, size, __func__);
    if (status == BM_SUCCESS) status = enter(handle, NULL, __func__);
    if (status != BM_SUCCESS) return status;
    question q = {.head = {.op = OP_START, .data_bytes = size}, .text = func_name, .data = args};
    status = connection_send(&handle->server, &q);
    if (status == BM_SUCCESS) handle->server.started++;
    return leave(handle, status);
}

static bm_status_t sync_all(bm_handle_t handle, const char *function) {
    bm_status_t status = enter(handle, NULL, function);
    return status == BM_SUCCESS ? leave(handle, sync_locked(handle)) : status;
}

bm_status_t okkernel_sync(bm_handle_t handle) { return sync_all(handle, __func__); }
bm_status_t bm_device_sync(bm_handle_t handle) { return sync_all(handle, __func__); }
bm_status_t bm_handle_sync(bm_handle_t handle) { return sync_all(handle, __func__); }
bm_status_t bm_thread_sync(bm_handle_t handle) { return sync_all(handle, __func__); }
void bm_flush(bm_handle_t handle) { (void)sync_all(handle, __func__); }
