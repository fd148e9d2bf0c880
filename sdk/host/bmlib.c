/* bmlib's functions on the emulated device: a process `python -m firmware_sim.host_server` holds it, and
 * this library sends it requests over a socket. Messages on errors go to stderr, one line each.
 */
#define _GNU_SOURCE
#include "bmlib_runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bmlib_python.h" /* TPULAYER_PYTHON: the interpreter that this library was built for */

extern char **environ;

enum { OP_MALLOC = 1, OP_FREE, OP_WRITE, OP_READ, OP_COPY, OP_LOAD, OP_LAUNCH };

typedef struct {
    uint32_t op, text_bytes;
    uint64_t a, b, c;
    uint64_t data_bytes;
} request_head;

typedef struct {
    int32_t status;
    uint32_t text_bytes;
    uint64_t value, data_bytes;
} reply_head;

struct bm_context {
    int fd, devid;
    pid_t pid;
    pthread_mutex_t lock;
    unsigned int outstanding; /* asynchronous launches whose replies were not read yet */
    bm_status_t failed;       /* the first error of those */
};

static int write_all(int fd, const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

static int read_all(int fd, void *data, size_t size) {
    char *at = data;
    while (size > 0) {
        ssize_t n = recv(fd, at, size, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

static bm_status_t gone(bm_handle_t h) {
    fprintf(stderr, "bmlib: device %d is gone: its process ended\n", h->devid);
    return BM_ERR_DEVNOTREADY;
}

static bm_status_t send_request(bm_handle_t h, request_head head, const char *text, const void *data) {
    head.text_bytes = text == NULL ? 0 : (uint32_t)strlen(text);
    if (write_all(h->fd, &head, sizeof head) != 0 || write_all(h->fd, text, head.text_bytes) != 0 ||
        write_all(h->fd, data, head.data_bytes) != 0)
        return gone(h);
    return BM_SUCCESS;
}

/* data: room for `capacity` bytes, or NULL. */
static bm_status_t read_reply(bm_handle_t h, uint64_t *value, void *data, size_t capacity) {
    reply_head head;
    char text[1024];
    if (read_all(h->fd, &head, sizeof head) != 0) return gone(h);
    uint32_t left = head.text_bytes;
    size_t kept = left < sizeof text - 1 ? left : sizeof text - 1;
    if (read_all(h->fd, text, kept) != 0) return gone(h);
    text[kept] = 0;
    for (left -= (uint32_t)kept; left > 0;) {
        char rest[256];
        uint32_t n = left < sizeof rest ? left : (uint32_t)sizeof rest;
        if (read_all(h->fd, rest, n) != 0) return gone(h);
        left -= n;
    }
    if (head.data_bytes > capacity) return gone(h);
    if (head.data_bytes > 0 && read_all(h->fd, data, head.data_bytes) != 0) return gone(h);
    if (head.status != 0) fprintf(stderr, "bmlib: %s\n", text);
    if (value != NULL) *value = head.value;
    return (bm_status_t)head.status;
}

static void drain(bm_handle_t h) {
    for (; h->outstanding > 0; h->outstanding--) {
        bm_status_t status = read_reply(h, NULL, NULL, 0);
        if (h->failed == BM_SUCCESS) h->failed = status;
        if (status == BM_ERR_DEVNOTREADY) h->outstanding = 1;
    }
}

static bm_status_t ask(bm_handle_t h, request_head head, const char *text, const void *data, uint64_t *value,
                       void *out, size_t capacity) {
    if (h == NULL) return BM_ERR_PARAM;
    pthread_mutex_lock(&h->lock);
    drain(h);
    bm_status_t status = send_request(h, head, text, data);
    if (status == BM_SUCCESS) status = read_reply(h, value, out, capacity);
    pthread_mutex_unlock(&h->lock);
    return status;
}

/* ---- the device ---- */

bm_status_t bm_dev_getcount(int *count) {
    if (count == NULL) return BM_ERR_PARAM;
    *count = 1;
    return BM_SUCCESS;
}

bm_status_t bm_dev_query(int devid) { return devid == 0 ? BM_SUCCESS : BM_ERR_FAILURE; }

bm_status_t bm_dev_request(bm_handle_t *handle, int devid) {
    if (handle == NULL || devid < 0) return BM_ERR_PARAM;
    *handle = NULL;
    const char *python = getenv("TPULAYER_PYTHON");
    if (python == NULL || *python == 0) python = TPULAYER_PYTHON;
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) return BM_ERR_NOMEM;
    bm_handle_t h = calloc(1, sizeof *h);
    if (h == NULL) {
        close(fds[0]);
        close(fds[1]);
        return BM_ERR_NOMEM;
    }
    char fd_text[16], dev_text[16];
    snprintf(fd_text, sizeof fd_text, "%d", fds[1]);
    snprintf(dev_text, sizeof dev_text, "%d", devid);
    char *argv[] = {(char *)python, "-m", "firmware_sim.host_server", fd_text, dev_text, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], fds[1]); /* keeps it open over exec */
    int error = posix_spawnp(&h->pid, python, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    if (error != 0) {
        fprintf(stderr, "bmlib: %s cannot be started: %s; set TPULAYER_PYTHON to the toolkit's python\n", python,
                strerror(error));
        close(fds[0]);
        free(h);
        return BM_ERR_DEVNOTREADY;
    }
    h->fd = fds[0];
    h->devid = devid;
    pthread_mutex_init(&h->lock, NULL);
    bm_status_t status = read_reply(h, NULL, NULL, 0); /* it is ready */
    if (status != BM_SUCCESS) {
        bm_dev_free(h);
        return status;
    }
    *handle = h;
    return BM_SUCCESS;
}

void bm_dev_free(bm_handle_t handle) {
    if (handle == NULL) return;
    pthread_mutex_lock(&handle->lock);
    drain(handle);
    close(handle->fd); /* the process ends with it */
    waitpid(handle->pid, NULL, 0);
    pthread_mutex_unlock(&handle->lock);
    pthread_mutex_destroy(&handle->lock);
    free(handle);
}

int bm_get_devid(bm_handle_t handle) { return handle == NULL ? -1 : handle->devid; }

bm_status_t bm_get_chipid(bm_handle_t handle, unsigned int *p_chipid) {
    if (handle == NULL || p_chipid == NULL) return BM_ERR_PARAM;
    *p_chipid = 0x1684;
    return BM_SUCCESS;
}

/* ---- device memory ---- */

bm_device_mem_t bm_mem_from_device(unsigned long long device_addr, unsigned int len) {
    bm_device_mem_t mem;
    memset(&mem, 0, sizeof mem);
    mem.u.device.device_addr = (unsigned long)device_addr;
    mem.flags.u.mem_type = BM_MEM_TYPE_DEVICE;
    mem.size = len;
    return mem;
}

void bm_set_device_mem(bm_device_mem_t *pmem, unsigned int size, unsigned long long addr) {
    *pmem = bm_mem_from_device(addr, size);
}

unsigned long long bm_mem_get_device_addr(struct bm_mem_desc mem) { return mem.u.device.device_addr; }
unsigned int bm_mem_get_device_size(struct bm_mem_desc mem) { return mem.size; }
bm_mem_type_t bm_mem_get_type(struct bm_mem_desc mem) { return mem.flags.u.mem_type; }
void bm_mem_set_device_size(struct bm_mem_desc *pmem, unsigned int size) { pmem->size = size; }

void bm_mem_set_device_addr(struct bm_mem_desc *pmem, unsigned long long addr) {
    pmem->u.device.device_addr = (unsigned long)addr;
}

bm_status_t bm_malloc_device_byte(bm_handle_t handle, bm_device_mem_t *pmem, unsigned int size) {
    if (pmem == NULL) return BM_ERR_PARAM;
    uint64_t addr;
    bm_status_t status = ask(handle, (request_head){.op = OP_MALLOC, .a = size}, NULL, NULL, &addr, NULL, 0);
    if (status == BM_SUCCESS) *pmem = bm_mem_from_device(addr, size);
    return status;
}

bm_status_t bm_malloc_device_dword(bm_handle_t handle, bm_device_mem_t *pmem, int count) {
    if (count < 0 || (unsigned int)count > 0xFFFFFFFFu / 4) return BM_ERR_PARAM;
    return bm_malloc_device_byte(handle, pmem, (unsigned int)count * 4);
}

void bm_free_device(bm_handle_t handle, bm_device_mem_t mem) {
    request_head head = {.op = OP_FREE, .a = bm_mem_get_device_addr(mem)};
    (void)ask(handle, head, NULL, NULL, NULL, NULL, 0);
}

/* ---- copies ---- */

static int inside(bm_device_mem_t mem, uint64_t offset, uint64_t size, const char *what) {
    if (offset + size <= mem.size) return 1;
    fprintf(stderr, "bmlib: %s: %llu bytes at offset %llu of %u bytes\n", what, (unsigned long long)size,
            (unsigned long long)offset, mem.size);
    return 0;
}

bm_status_t bm_memcpy_s2d_partial_offset(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size,
                                         unsigned int offset) {
    if (src == NULL || !inside(dst, offset, size, "bm_memcpy_s2d")) return BM_ERR_PARAM;
    request_head head = {.op = OP_WRITE, .a = bm_mem_get_device_addr(dst) + offset, .data_bytes = size};
    return ask(handle, head, NULL, src, NULL, NULL, 0);
}

bm_status_t bm_memcpy_s2d_partial(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size) {
    return bm_memcpy_s2d_partial_offset(handle, dst, src, size, 0);
}

bm_status_t bm_memcpy_s2d(bm_handle_t handle, bm_device_mem_t dst, void *src) {
    return bm_memcpy_s2d_partial(handle, dst, src, dst.size);
}

bm_status_t bm_memcpy_d2s_partial_offset(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size,
                                         unsigned int offset) {
    if (dst == NULL || !inside(src, offset, size, "bm_memcpy_d2s")) return BM_ERR_PARAM;
    request_head head = {.op = OP_READ, .a = bm_mem_get_device_addr(src) + offset, .b = size};
    return ask(handle, head, NULL, NULL, NULL, dst, size);
}

bm_status_t bm_memcpy_d2s_partial(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size) {
    return bm_memcpy_d2s_partial_offset(handle, dst, src, size, 0);
}

bm_status_t bm_memcpy_d2s(bm_handle_t handle, void *dst, bm_device_mem_t src) {
    return bm_memcpy_d2s_partial(handle, dst, src, src.size);
}

bm_status_t bm_memcpy_d2d_byte(bm_handle_t handle, bm_device_mem_t dst, size_t dst_offset, bm_device_mem_t src,
                               size_t src_offset, size_t size) {
    if (!inside(dst, dst_offset, size, "bm_memcpy_d2d, destination") ||
        !inside(src, src_offset, size, "bm_memcpy_d2d, source"))
        return BM_ERR_PARAM;
    request_head head = {.op = OP_COPY,
                         .a = bm_mem_get_device_addr(dst) + dst_offset,
                         .b = bm_mem_get_device_addr(src) + src_offset,
                         .c = size};
    return ask(handle, head, NULL, NULL, NULL, NULL, 0);
}

bm_status_t bm_memcpy_d2d(bm_handle_t handle, bm_device_mem_t dst, int dst_offset, bm_device_mem_t src,
                          int src_offset, int len) {
    if (dst_offset < 0 || src_offset < 0 || len < 0) return BM_ERR_PARAM;
    return bm_memcpy_d2d_byte(handle, dst, (size_t)dst_offset * 4, src, (size_t)src_offset * 4, (size_t)len * 4);
}

bm_status_t bm_memset_device(bm_handle_t handle, const int value, bm_device_mem_t mem) {
    if (mem.size % 4 != 0) return BM_ERR_PARAM;
    int *words = malloc(mem.size);
    if (words == NULL) return BM_ERR_NOMEM;
    for (unsigned int i = 0; i < mem.size / 4; i++) words[i] = value;
    bm_status_t status = bm_memcpy_s2d(handle, mem, words);
    free(words);
    return status;
}

/* ---- kernels ---- */

bm_status_t okkernel_load_firmware(bm_handle_t handle, const char *firmware_tcm, const char *firmware_ddr) {
    (void)firmware_ddr;
    if (firmware_tcm == NULL) return BM_ERR_PARAM;
    return ask(handle, (request_head){.op = OP_LOAD}, firmware_tcm, NULL, NULL, NULL, 0);
}

bm_status_t okkernel_launch_async(bm_handle_t handle, const char *func_name, const void *args,
                                  unsigned int size) {
    if (handle == NULL || func_name == NULL || (args == NULL && size > 0)) return BM_ERR_PARAM;
    pthread_mutex_lock(&handle->lock);
    if (handle->outstanding >= 4096) drain(handle); /* the replies must not fill the socket */
    bm_status_t status =
        send_request(handle, (request_head){.op = OP_LAUNCH, .data_bytes = size}, func_name, args);
    if (status == BM_SUCCESS) handle->outstanding++;
    pthread_mutex_unlock(&handle->lock);
    return status;
}

bm_status_t okkernel_sync(bm_handle_t handle) {
    if (handle == NULL) return BM_ERR_PARAM;
    pthread_mutex_lock(&handle->lock);
    drain(handle);
    bm_status_t status = handle->failed;
    handle->failed = BM_SUCCESS;
    pthread_mutex_unlock(&handle->lock);
    return status;
}

bm_status_t okkernel_launch_sync(bm_handle_t handle, const char *func_name, const void *args,
                                 unsigned int size) {
    bm_status_t status = okkernel_launch_async(handle, func_name, args, size);
    return status == BM_SUCCESS ? okkernel_sync(handle) : status;
}

bm_status_t bm_device_sync(bm_handle_t handle) { return okkernel_sync(handle); }
bm_status_t bm_handle_sync(bm_handle_t handle) { return okkernel_sync(handle); }
bm_status_t bm_thread_sync(bm_handle_t handle) { return okkernel_sync(handle); }
