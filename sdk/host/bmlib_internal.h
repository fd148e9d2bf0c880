/* What libbmlib.so has for the libraries of this toolkit that stand on it. */
#ifndef TPULAYER_BMLIB_INTERNAL_H_
#define TPULAYER_BMLIB_INTERNAL_H_

#include "connection.h"

/* Ask the process behind a handle, one thread at a time; BM_ERR_PARAM for what is not a handle. */
bm_status_t tpulayer_ask(bm_handle_t handle, const question *q);

#endif
