/* What the parts of libbmlib.so share, and what it has for the libraries of this toolkit that stand on it. */
#ifndef TPULAYER_BMLIB_INTERNAL_H_
#define TPULAYER_BMLIB_INTERNAL_H_

#include "connection.h"

/* The server's requests, firmware_sim/device/host_server.py. */
enum {
    OP_MALLOC = 1, OP_FREE, OP_WRITE, OP_READ, OP_COPY, OP_LOAD, OP_LAUNCH, OP_START, OP_SYNC, OP_MAP, OP_TABLE, OP_STATE
};

/* The reply to OP_STATE: bytes of device memory for programs, of them in use, its first address; modelled time, in
 * ns, of everything that ran, and of the newest launch. */
typedef struct {
    uint64_t heap_bytes, heap_used, heap_start, run_ns, last_ns;
} device_state;

/* Ask the process behind a handle, one thread at a time; BM_ERR_PARAM for what is not a handle. */
bm_status_t tpulayer_ask(bm_handle_t handle, const question *q);
/* What the host's side has counted. */
bm_status_t bmlib_profile(bm_handle_t handle, bm_profile_t *profile, const char *function);

/* "bmlib: function: why", and BM_ERR_PARAM. */
bm_status_t bmlib_refuse(const char *function, const char *why);
/* One line, as printf, at the level BMLIB_LOG_ERROR. */
void bmlib_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Device memory, however its descriptor looks. */
typedef struct {
    uint64_t addr, bytes;
    bool on_device;
} device_piece;

bm_status_t bmlib_map(bm_handle_t handle, device_piece memory, unsigned long long *vmem, const char *function);
bm_status_t bmlib_unmap(void *vmem, uint64_t bytes, const char *function);
/* Both sides see the same bytes at once: nothing to do but to look at the arguments. */
bm_status_t bmlib_coherent(device_piece memory, uint64_t offset, uint64_t bytes, const char *function);

#endif
