/* The devices of this process: one handle each, opened with the first partition and kept. */
#include "core.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEVICES = 64 };

struct core_device {
    int dev_id;
    pid_t process; /* that opened it: a copy made by fork has no part in its connection */
    bm_handle_t handle;
    bool opened; /* once */
    pthread_mutex_t lock;
    core_member *first;
    tpld_counters_info counted;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static core_device *table[DEVICES];

/* A copy of the process has one thread: nobody holds the locks in it that others held when it was made. */
static void unlock_copies(void) {
    pthread_mutex_init(&table_lock, NULL);
    for (int i = 0; i < DEVICES; i++)
        if (table[i] != NULL) pthread_mutex_init(&table[i]->lock, NULL);
}

static void once(void) { (void)pthread_atfork(NULL, NULL, unlock_copies); }

bool core_is_ours(const core_device *d) { return d->process == getpid(); }

static core_device *known(int dev_id) {
    static pthread_once_t is_done = PTHREAD_ONCE_INIT;
    pthread_once(&is_done, once);
    pthread_mutex_lock(&table_lock);
    core_device *d = table[dev_id];
    if (d == NULL && (d = calloc(1, sizeof *d)) != NULL) {
        d->dev_id = dev_id;
        pthread_mutex_init(&d->lock, NULL);
        table[dev_id] = d;
    }
    pthread_mutex_unlock(&table_lock);
    return d;
}

static void unload_all(core_device *d, bool foreign) {
    for (core_member *m = d->first; m != NULL; m = m->next) m->unload(m, foreign);
}

/* Closes a handle that is no good any more. */
static void give_up(core_device *d) {
    unload_all(d, false);
    bm_dev_free(d->handle);
    d->handle = NULL;
}

static int open_locked(core_device *d) {
    if (d->handle != NULL && !core_is_ours(d)) {
        unload_all(d, true);
        d->handle = NULL;
        d->opened = false;
    }
    if (d->handle != NULL) return TPLD_OK;
    core_listen();
    bm_handle_t handle = NULL;
    bm_dev_stat_t stat;
    bm_status_t status = bm_dev_request(&handle, d->dev_id);
    if (status == BM_SUCCESS && (status = bm_get_stat(handle, &stat)) != BM_SUCCESS) bm_dev_free(handle);
    if (status != BM_SUCCESS)
        return core_fail(TPLD_NO_DEVICE, "device %d cannot be used: %s", d->dev_id, core_heard("it is not there"));
    d->handle = handle;
    d->process = getpid();
    if (d->opened) d->counted.reopened++;
    d->opened = true;
    return TPLD_OK;
}

void core_lock(core_device *d) {
    pthread_mutex_lock(&d->lock);
    core_hush(true);
}

void core_leave(core_device *d) {
    core_hush(false);
    pthread_mutex_unlock(&d->lock);
}

int core_reenter(core_device *d) {
    core_lock(d);
    int status = open_locked(d);
    if (status != TPLD_OK) core_leave(d);
    return status;
}

int core_enter(int dev_id, core_device **out) {
    if (dev_id < 0 || dev_id >= DEVICES)
        return core_fail(TPLD_NO_DEVICE, "there is no device %d; they are numbered 0 to %d", dev_id, DEVICES - 1);
    *out = known(dev_id);
    return *out != NULL ? core_reenter(*out) : core_fail(TPLD_FAILED, "out of memory");
}

bm_handle_t core_handle(const core_device *d) { return d->handle; }
tpld_counters_info *core_counted(core_device *d) { return &d->counted; }

bool core_is_alive(core_device *d) {
    bm_dev_stat_t stat;
    if (d->handle != NULL && bm_get_stat(d->handle, &stat) == BM_SUCCESS) return true;
    if (d->handle != NULL) give_up(d);
    return false;
}

void core_add(core_device *d, core_member *m) {
    m->next = d->first;
    d->first = m;
}

void core_remove(core_device *d, core_member *m) {
    core_member **at = &d->first;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
}

void core_count_all(tpld_counters_info *sum) {
    for (int i = 0; i < DEVICES; i++) {
        pthread_mutex_lock(&table_lock);
        core_device *d = table[i];
        pthread_mutex_unlock(&table_lock);
        if (d == NULL) continue;
        core_lock(d);
        const tpld_counters_info *one = &d->counted;
        sum->runs += one->runs;
        sum->failures += one->failures;
        sum->bytes_in += one->bytes_in;
        sum->bytes_out += one->bytes_out;
        sum->commands += one->commands;
        sum->cycles += one->cycles;
        sum->wall_ns += one->wall_ns;
        sum->copy_wall_ns += one->copy_wall_ns;
        sum->has_commands |= one->has_commands;
        sum->reopened += one->reopened;
        core_leave(d);
    }
}

int tpld_open_device(int dev_id) {
    core_device *d = NULL;
    int status = core_enter(dev_id, &d);
    if (status == TPLD_OK) core_leave(d);
    return status;
}

int tpld_close_device(int dev_id) {
    if (dev_id < 0 || dev_id >= DEVICES) return core_fail(TPLD_NO_DEVICE, "there is no device %d", dev_id);
    core_device *d = known(dev_id);
    if (d == NULL) return core_fail(TPLD_FAILED, "out of memory");
    core_lock(d);
    int status = TPLD_OK;
    if (d->first != NULL) status = core_fail(TPLD_BAD_ARGUMENT, "partitions are loaded on device %d", dev_id);
    else if (d->handle != NULL && core_is_ours(d)) bm_dev_free(d->handle);
    if (status == TPLD_OK) d->handle = NULL;
    if (status == TPLD_OK) d->opened = false;
    core_leave(d);
    return status;
}
