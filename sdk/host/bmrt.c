/* Runtimes and their nets. All work is done by the process behind the handle (bmlib.c, bmrt_server.py). */
#define _GNU_SOURCE
#include "bmrt_internal.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct runtime {
    bm_handle_t *handles;
    int handle_num;
    bool owns_handle;
    uint64_t number; /* in the process behind the first handle */
    uint32_t flags;
    net *nets, **nets_end;
    struct runtime *next; /* in `live` */
} runtime;

/* Runtimes in use, so that one that is gone is an error and no crash. The lock is for them and all they hold, and
 * nobody waits for a device while holding it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static runtime *live;

/* On success the caller holds the lock. */
static runtime *enter(void *p_bmrt, const char *function) {
    pthread_mutex_lock(&lock);
    runtime *r = live;
    while (r != NULL && r != p_bmrt) r = r->next;
    if (r == NULL) {
        pthread_mutex_unlock(&lock);
        bmrt_say(function, p_bmrt == NULL ? "p_bmrt is NULL"
                                          : "this is not a p_bmrt that bmrt_create gave and bmrt_destroy has not taken");
    }
    return r;
}

static void leave(void) { pthread_mutex_unlock(&lock); }

bm_handle_t bmrt_handle(void *p_bmrt, int index, uint64_t *number, const char *function) {
    runtime *r = enter(p_bmrt, function);
    if (r == NULL) return NULL;
    bm_handle_t handle = index >= 0 && index < r->handle_num ? r->handles[index] : NULL;
    int handle_num = r->handle_num;
    if (number != NULL) *number = r->number;
    leave();
    if (handle == NULL) bmrt_say(function, "there is no device %d; p_bmrt has %d, counted from 0", index, handle_num);
    return handle;
}

static void free_all(net *n) {
    while (n != NULL) {
        net *next = net_next(n);
        net_free(n);
        n = next;
    }
}

void bmrt_give_handle(void *p_bmrt) {
    runtime *r = enter(p_bmrt, __func__);
    if (r == NULL) return;
    r->owns_handle = true;
    leave();
}

/* ---- create and destroy ---- */

static void *create(bm_handle_t *handles, int num_handles, const char *function) {
    for (int i = 0; i < num_handles; i++) {
        if (bm_get_devid(handles[i]) < 0) {
            bmrt_say(function, "no handle that bm_dev_request gave");
            return NULL;
        }
    }
    uint64_t number;
    question q = {.library = "bmrt", .function = function, .head = {.op = OP_CREATE}, .value = &number};
    if (tpulayer_ask(handles[0], &q) != BM_SUCCESS) return NULL;
    runtime *r = calloc(1, sizeof *r);
    if (r != NULL) r->handles = calloc((size_t)num_handles, sizeof *handles);
    if (r == NULL || r->handles == NULL) {
        free(r);
        bmrt_say(function, "out of memory");
        return NULL;
    }
    memcpy(r->handles, handles, (size_t)num_handles * sizeof *handles);
    r->handle_num = num_handles;
    r->number = number;
    r->nets_end = &r->nets;
    pthread_mutex_lock(&lock);
    r->next = live;
    live = r;
    leave();
    return r;
}

void *bmrt_create(bm_handle_t bm_handle) { return create(&bm_handle, 1, __func__); }

void *bmrt_create_ex(bm_handle_t *bm_handles, int num_handles) {
    if (bm_handles != NULL && num_handles > 0) return create(bm_handles, num_handles, __func__);
    bmrt_say(__func__, bm_handles == NULL ? "bm_handles is NULL" : "num_handles is 1 or more");
    return NULL;
}

void bmrt_destroy(void *p_bmrt) {
    if (p_bmrt == NULL) return;
    runtime *r = enter(p_bmrt, __func__);
    if (r == NULL) return;
    runtime **at = &live;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    leave();
    question q = {.library = "bmrt", .function = __func__, .head = {.op = OP_DESTROY, .a = r->number}};
    (void)tpulayer_ask(r->handles[0], &q);
    if (r->owns_handle) bm_dev_free(r->handles[0]);
    free_all(r->nets);
    free(r->handles);
    free(r);
}

void *bmrt_get_bm_handle(void *p_bmrt) { return bmrt_handle(p_bmrt, 0, NULL, __func__); }

void bmrt_set_flags(void *p_bmrt, uint32_t flags) {
    runtime *r = enter(p_bmrt, __func__);
    if (r == NULL) return;
    r->flags = flags;
    leave();
}

uint32_t bmrt_get_flags(void *p_bmrt) {
    runtime *r = enter(p_bmrt, __func__);
    if (r == NULL) return 0;
    uint32_t flags = r->flags;
    leave();
    return flags;
}

/* ---- loading ---- */

/* The nets of a reply, which holds their number and one behind the other; *end: where the list may go on. */
static bool parse(const char *at, size_t bytes, net **first, net ***end) {
    const char *stop = at + bytes;
    uint32_t count = 0;
    *first = NULL;
    *end = first;
    if (bytes < sizeof count) return false;
    memcpy(&count, at, sizeof count);
    at += sizeof count;
    for (; count > 0; count--) {
        net *n = net_parse(&at, stop);
        if (n == NULL) return false;
        **end = n;
        *end = net_next_place(n);
    }
    return true;
}

static bool load(void *p_bmrt, const void *data, size_t size, int is_path, const char *function) {
    uint64_t number;
    bm_handle_t handle = bmrt_handle(p_bmrt, 0, &number, function);
    if (handle == NULL) return false;
    char *reply = NULL;
    size_t reply_bytes = 0;
    question q = {.library = "bmrt",
                  .function = function,
                  .head = {.op = OP_LOAD_NETS, .a = number, .b = (uint64_t)is_path, .data_bytes = size},
                  .data = data,
                  .taken = &reply,
                  .taken_bytes = &reply_bytes};
    if (tpulayer_ask(handle, &q) != BM_SUCCESS) return false;
    net *first, **end;
    bool good = parse(reply, reply_bytes, &first, &end);
    free(reply);
    if (!good) bmrt_say(function, "out of memory");
    runtime *r = good ? enter(p_bmrt, function) : NULL;
    if (r == NULL) {
        free_all(first);
        return false;
    }
    *r->nets_end = first;
    if (first != NULL) r->nets_end = end;
    leave();
    return true;
}

bool bmrt_load_bmodel(void *p_bmrt, const char *bmodel_path) {
    if (bmodel_path == NULL || *bmodel_path == 0) return bmrt_say(__func__, "bmodel_path is NULL or empty");
    if (bmrt_handle(p_bmrt, 0, NULL, __func__) == NULL) return false;
    char *path = realpath(bmodel_path, NULL); /* the process stays in the folder where it started */
    if (path == NULL) return bmrt_say(__func__, "cannot read %s: %s", bmodel_path, strerror(errno));
    bool good = load(p_bmrt, path, strlen(path), 1, __func__);
    free(path);
    return good;
}

bool bmrt_load_bmodel_data(void *p_bmrt, const void *bmodel_data, size_t size) {
    if (bmodel_data == NULL || size == 0) return bmrt_say(__func__, "bmodel_data is NULL or size is 0");
    return load(p_bmrt, bmodel_data, size, 0, __func__);
}

/* ---- what is loaded ---- */

static int number_of(const runtime *r) {
    int count = 0;
    for (net *n = r->nets; n != NULL; n = net_next(n)) count++;
    return count;
}

int bmrt_get_network_number(void *p_bmrt) {
    runtime *r = enter(p_bmrt, __func__);
    if (r == NULL) return 0;
    int count = number_of(r);
    leave();
    return count;
}

void bmrt_get_network_names(void *p_bmrt, const char ***network_names) {
    if (network_names == NULL) {
        bmrt_say(__func__, "network_names is NULL");
        return;
    }
    *network_names = NULL;
    runtime *r = enter(p_bmrt, __func__);
    if (r == NULL) return;
    int count = number_of(r);
    const char **names = count > 0 ? malloc((size_t)count * sizeof *names) : NULL;
    net *n = r->nets;
    for (int i = 0; names != NULL && i < count; i++, n = net_next(n)) names[i] = net_info(n)->name;
    leave();
    *network_names = names;
}

/* Its place in the order of loading, or -1 with a message; *info: or NULL. */
static int find(void *p_bmrt, const char *net_name, const bm_net_info_t **info, const char *function) {
    *info = NULL;
    if (net_name == NULL) {
        bmrt_say(function, "net_name is NULL");
        return -1;
    }
    runtime *r = enter(p_bmrt, function);
    if (r == NULL) return -1;
    int index = 0;
    net *n = r->nets;
    while (n != NULL && strcmp(net_info(n)->name, net_name) != 0) {
        n = net_next(n);
        index++;
    }
    if (n != NULL) *info = net_info(n);
    leave();
    if (n != NULL) return index;
    bmrt_say(function, "no net named '%s' is loaded", net_name);
    return -1;
}

const bm_net_info_t *bmrt_net_at(void *p_bmrt, int index, const char *function) {
    runtime *r = enter(p_bmrt, function);
    if (r == NULL) return NULL;
    net *n = index < 0 ? NULL : r->nets;
    for (int i = 0; n != NULL && i < index; i++) n = net_next(n);
    int loaded = number_of(r);
    leave();
    if (n == NULL) bmrt_say(function, "there is no net %d; loaded are %d, counted from 0", index, loaded);
    return n == NULL ? NULL : net_info(n);
}

const bm_net_info_t *bmrt_find(void *p_bmrt, const char *net_name, const char *function) {
    const bm_net_info_t *info;
    (void)find(p_bmrt, net_name, &info, function);
    return info;
}

const bm_net_info_t *bmrt_get_network_info(void *p_bmrt, const char *net_name) {
    return bmrt_find(p_bmrt, net_name, __func__);
}

int bmrt_get_network_index(void *p_bmrt, const char *net_name) {
    const bm_net_info_t *info;
    return find(p_bmrt, net_name, &info, __func__);
}

void bmrt_show_neuron_network(void *p_bmrt) {
    runtime *r = enter(p_bmrt, __func__);
    if (r == NULL) return;
    for (net *n = r->nets; n != NULL; n = net_next(n)) bmrt_print_network_info(net_info(n));
    leave();
}

void bmrt_trace(void *p_bmrt) {
    runtime *r = enter(p_bmrt, __func__);
    if (r == NULL) return;
    fprintf(stderr, "bmrt: runtime %llu on device %d, nets loaded: %d\n", (unsigned long long)r->number,
            bm_get_devid(r->handles[0]), number_of(r));
    for (net *n = r->nets; n != NULL; n = net_next(n)) fprintf(stderr, "bmrt: net '%s'\n", net_info(n)->name);
    leave();
}
