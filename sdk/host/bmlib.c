/* bmlib's functions on the emulated device: a process running user_layers/bmrt/bmrt_server.py holds it, and
 * this library sends it requests. Asynchronous launches have no reply of their own, so neither side can wait
 * for the other to read; their errors come with the reply to the next OP_SYNC. Messages on errors go to stderr.
 */
#define _GNU_SOURCE
#include "bmlib_emulated.h"
#include "bmlib_internal.h"
#include "bmlib_program.h"
#include "fw_wire.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEVICES 64 /* numbers that may be asked for; every handle is a device of its own */

struct bm_context {
    connection server;
    int devid;
    bm_profile_t profile; /* what this side counts */
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
        bmlib_say("%s: %s: this is not a handle that bm_dev_request gave and bm_dev_free has not taken",
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

static unsigned long microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long)now.tv_sec * 1000000 + (unsigned long)now.tv_nsec / 1000;
}

static bm_status_t ask(bm_handle_t h, question q) {
    bm_status_t status = enter(h, q.library, q.function);
    if (status != BM_SUCCESS) return status;
    unsigned long begin = microseconds();
    status = connection_ask(&h->server, &q);
    if (q.library == NULL && q.head.op == OP_WRITE) {
        h->profile.cdma_in_counter++;
        h->profile.cdma_in_time += microseconds() - begin;
    } else if (q.library == NULL && q.head.op == OP_READ) {
        h->profile.cdma_out_counter++;
        h->profile.cdma_out_time += microseconds() - begin;
    } else if (q.launches) {
        h->profile.sent_api_counter++;
        h->profile.completed_api_counter = h->profile.sent_api_counter;
    }
    return leave(h, status);
}

bm_status_t tpulayer_ask(bm_handle_t handle, const question *q) { return ask(handle, *q); }

bm_status_t bmlib_profile(bm_handle_t handle, bm_profile_t *profile, const char *function) {
    bm_status_t status = enter(handle, NULL, function);
    if (status != BM_SUCCESS) return status;
    *profile = handle->profile;
    return leave(handle, BM_SUCCESS);
}

bm_status_t tpulayer_executed(bm_handle_t handle, uint64_t *commands, uint64_t *cycles) {
    if (commands == NULL || cycles == NULL) return bmlib_refuse(__func__, "commands or cycles is NULL");
    bm_status_t status = enter(handle, NULL, __func__);
    if (status != BM_SUCCESS) return status;
    *commands = handle->server.executed.commands;
    *cycles = handle->server.executed.cycles;
    return leave(handle, BM_SUCCESS);
}

bm_status_t bm_set_sync_timeout(bm_handle_t handle, int timeout) {
    if (timeout <= 0) return bmlib_refuse(__func__, "timeout is a number of milliseconds, 1 or more");
    bm_status_t status = enter(handle, NULL, __func__);
    if (status != BM_SUCCESS) return status;
    handle->server.limit = ((long)timeout + 999) / 1000;
    return leave(handle, BM_SUCCESS);
}


/* ---- the device ---- */

bm_status_t bm_dev_getcount(int *count) {
    if (count == NULL) return bmlib_refuse(__func__, "count is NULL");
    *count = 1;
    return BM_SUCCESS;
}

bm_status_t bm_dev_query(int devid) { return devid >= 0 && devid < DEVICES ? BM_SUCCESS : BM_ERR_FAILURE; }

bm_status_t bm_dev_request(bm_handle_t *handle, int devid) {
    if (handle == NULL) return bmlib_refuse(__func__, "handle is NULL");
    *handle = NULL;
    if (devid < 0 || devid >= DEVICES) return bmlib_refuse(__func__, "devices are numbered 0 to 63");
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
        bmlib_say("bmlib: libbmlib.so and the toolkit it starts are of different versions; build_layers again");
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
    h->profile.completed_api_counter = h->profile.sent_api_counter;
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

/* ---- kernels ---- */

bm_status_t okkernel_load_firmware(bm_handle_t handle, const char *firmware_tcm, const char *firmware_ddr) {
    if (firmware_tcm == NULL) return bmlib_refuse(__func__, "firmware_tcm is NULL");
    uint64_t bytes = firmware_ddr == NULL ? 0 : strlen(firmware_ddr);
    return ask(handle, (question){.function = __func__,
                                  .head = {.op = OP_LOAD, .data_bytes = bytes},
                                  .text = firmware_tcm,
                                  .data = firmware_ddr});
}

static bm_status_t check_launch(const char *func_name, const void *args, unsigned int size,
                                const char *function) {
    if (func_name == NULL) return bmlib_refuse(function, "func_name is NULL");
    if (args == NULL && size > 0) return bmlib_refuse(function, "args is NULL");
    if (size > FW_MAX_ARGUMENTS) {
        bmlib_say("bmlib: %s: size is %u; a kernel has at most %d bytes of arguments", function, size, FW_MAX_ARGUMENTS);
        return BM_ERR_PARAM;
    }
    if (program_has_kernels()) fflush(stdout); /* the kernel prints from another process */
    return BM_SUCCESS;
}

bm_status_t okkernel_launch_sync(bm_handle_t handle, const char *func_name, const void *args,
                                 unsigned int size) {
    bm_status_t status = check_launch(func_name, args, size, __func__);
    if (status != BM_SUCCESS) return status;
    return ask(handle, (question){.function = __func__,
                                  .head = {.op = OP_LAUNCH, .data_bytes = size},
                                  .launches = true,
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
    if (status == BM_SUCCESS) {
        handle->server.started++;
        handle->profile.sent_api_counter++;
    }
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

bm_status_t bm_thread_sync_from_core(bm_handle_t handle, int core_id) {
    if (core_id != 0) return bmlib_refuse(__func__, "a BM1684 has core 0 alone");
    return sync_all(handle, __func__);
}

/* ---- the same by other names, and the kernel project with one entry for all ---- */

bm_status_t bm_load_firmware(bm_handle_t handle, const char *firmware_tcm, const char *firmware_ddr) {
    return okkernel_load_firmware(handle, firmware_tcm, firmware_ddr);
}

bm_status_t tpu_kernel_launch_sync(bm_handle_t handle, const char *func_name, const void *args, unsigned int size) {
    return okkernel_launch_sync(handle, func_name, args, size);
}

bm_status_t tpu_kernel_sync(bm_handle_t handle) { return sync_all(handle, __func__); }

bm_status_t bmkernel_init(bm_handle_t *handle, int dev_id) { return bm_dev_request(handle, dev_id); }
void bmkernel_deinit(bm_handle_t handle) { bm_dev_free(handle); }

bm_status_t bmkernel_launch(bm_handle_t handle, const void *args, unsigned int size) {
    return okkernel_launch_async(handle, "bmkernel_func", args, args == NULL ? 0 : size);
}

bm_status_t bmkernel_load_lookup_table(bm_handle_t handle, const void *table, unsigned int size) {
    if (table == NULL) return bmlib_refuse(__func__, "table is NULL");
    return ask(handle,
               (question){.function = __func__, .head = {.op = OP_TABLE, .data_bytes = size}, .data = table});
}
