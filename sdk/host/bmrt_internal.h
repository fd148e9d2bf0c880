/* What the parts of libbmrt.so share. */
#ifndef TPULAYER_BMRT_INTERNAL_H_
#define TPULAYER_BMRT_INTERNAL_H_

#include "bmlib_internal.h"
#include "bmruntime_interface.h"

typedef struct net net; /* one net and everything that its bm_net_info_t points to */

/* One net of a reply of user_layers/bmrt/bmrt_server.py (describe there); *at goes behind it. NULL when what is
 * there is no net, or without memory. */
net *net_parse(const char **at, const char *end);
void net_free(net *n);
const bm_net_info_t *net_info(const net *n);
net *net_next(const net *n);
net **net_next_place(net *n); /* where the next of a list is named */

/* "bmrt: function: ..." on stderr, as printf; false. */
__attribute__((format(printf, 2, 3))) bool bmrt_say(const char *function, const char *format, ...);

enum { OP_CREATE = 32, OP_DESTROY, OP_LOAD_NETS, OP_RUN_NET, OP_STAGE }; /* the server's */

/* The handle with this index of a runtime in use, and the runtime's number; NULL with a message. number: or NULL */
bm_handle_t bmrt_handle(void *p_bmrt, int index, uint64_t *number, const char *function);
/* From now on bmrt_destroy frees its handle. */
void bmrt_give_handle(void *p_bmrt);
/* A net of it by its place in the order of loading, or NULL with a message. */
const bm_net_info_t *bmrt_net_at(void *p_bmrt, int index, const char *function);
/* A net of it, or NULL with a message. */
const bm_net_info_t *bmrt_find(void *p_bmrt, const char *net_name, const char *function);

/* A tensor as it goes over the socket. */
typedef struct {
    int32_t dtype, st_mode, num_dims, dims[BM_MAX_DIMS_NUM], given; /* given: by the caller */
    uint64_t addr, size;
} wire_tensor;

#endif
