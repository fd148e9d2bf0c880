/* The toolkit's compiler for programs in C: a process running user_layers/delegates/serve.py, which says what a request
 * is. It starts with the first request, serves one after the other, and ends with this process.
 */
#ifndef TPULAYER_COMPILER_H_
#define TPULAYER_COMPILER_H_

#include <stddef.h>

#include "tpulayer_delegate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ask the compiler. json: the request, ended by a 0; data: what it refers to, or NULL. *reply: to be freed with free().
 * A tpld_status: TPLD_BAD_PROGRAM when the compiler refuses (tpld_last_error() says why, in at most 2,047 bytes), TPLD_NO_DEVICE when it
 * cannot be started, TPLD_FAILED when it died or gave no answer within TPULAYER_HOST_LIMIT seconds (600): the next
 * request starts another one. */
int tpld_ask_compiler(const char *json, const void *data, size_t bytes, void **reply, size_t *reply_bytes);
/* End the process; the next request starts another one. */
void tpld_stop_compiler(void);

#ifdef __cplusplus
}
#endif
#endif
