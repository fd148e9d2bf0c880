/* The bm_ spelling of the kernel API: what bmkernel projects call. It stands on okk.h; functions
 * appear here as they are implemented.
 */
#ifndef ATOMIC_H
#define ATOMIC_H

#include "okk.h"

#ifdef __cplusplus
extern "C" {
#endif

void bm_initialize(void); /* okk_initialize */
void bm_poll(void);       /* okk_poll */

#ifdef __cplusplus
}
#endif
#endif
