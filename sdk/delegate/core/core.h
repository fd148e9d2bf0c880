/* What the parts of libtpulayer_delegate.so share. */
#ifndef TPULAYER_DELEGATE_CORE_H_
#define TPULAYER_DELEGATE_CORE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bmruntime_interface.h"
#include "tpulayer_delegate.h"

/* ---- errors (error.c) ---- */

/* Keeps the text, as printf, for tpld_last_error; returns the status. */
__attribute__((format(printf, 2, 3))) int core_fail(int status, const char *format, ...);
/* What libbmlib and libbmrt said since core_listen in this thread, or `otherwise`. */
const char *core_heard(const char *otherwise);
void core_listen(void);
/* Their errors in this thread are told by core_heard, and so not printed until false. On while a device is locked. */
void core_hush(bool on);

/* ---- programs (program.c, the twin of user_layers/delegates/program.py) ---- */

/* An input or output. order: its axes in the net's order; place: its index in the net, -1 for none; held: the
 * net's type of elements; most: the shape that was compiled. */
typedef struct {
    tpld_tensor now;
    int64_t most[TPLD_MAX_RANK];
    int32_t order[TPLD_MAX_RANK];
    int32_t held, place;
} core_tensor;

typedef struct {
    char *name;
    bool dynamic;
    uint32_t input_num, output_num, layer_num;
    core_tensor *tensors; /* inputs, then outputs */
    tpld_layer_info *layers;
    void *bmodel;
    size_t bmodel_bytes;
} core_program;

/* Everything in it is a copy, for core_free_program. A status. */
int core_read_program(const void *program, size_t bytes, const char *name, core_program *out);
void core_free_program(core_program *p);
size_t core_element_bytes(int32_t dtype); /* 0 for no dtype */
/* Shape and bytes of a tensor from here on. */
void core_set_shape(core_tensor *t, const int64_t *shape);

/* ---- copies (copy.c) ---- */

/* Between a framework's buffer and the net's, permuted and converted on the way. false: a value does not fit into
 * the net's type. */
bool core_copy_in(const core_tensor *t, const void *buffer, void *net);
void core_copy_out(const core_tensor *t, const void *net, void *buffer);
/* Whether both sides have the same bytes. */
bool core_is_plain(const core_tensor *t);

/* ---- devices (device.c) ---- */

/* Of this process; never freed. The lock is for all of it and for what uses it. */
typedef struct core_device core_device;

/* A partition, as its device knows it. unload: forget what is on the device; foreign: that belongs to the process which
 * this one is a copy of, and stays as it is. */
typedef struct core_member {
    void (*unload)(struct core_member *m, bool foreign);
    struct core_member *next;
} core_member;

/* The device, locked, with an open handle; a status. */
int core_enter(int dev_id, core_device **out);
int core_reenter(core_device *d); /* the same for one that is known */
void core_lock(core_device *d);   /* whether it is open or not */
void core_leave(core_device *d);
bm_handle_t core_handle(const core_device *d);
bool core_is_ours(const core_device *d); /* opened by this process, not by one that it is a copy of */
/* After something failed: whether the device is still there. If not, it is closed and its partitions unloaded; the next
 * core_reenter opens it anew. */
bool core_is_alive(core_device *d);
void core_add(core_device *d, core_member *m);
void core_remove(core_device *d, core_member *m);
tpld_counters_info *core_counted(core_device *d);
void core_count_all(tpld_counters_info *sum);

#endif
