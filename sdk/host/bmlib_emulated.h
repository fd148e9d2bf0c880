/* What libbmlib.so of an emulated card has beside the vendor's functions. Who uses it declares it weak (#pragma weak),
 * and does without where it is NULL: with the vendor's library.
 */
#ifndef TPULAYER_BMLIB_EMULATED_H_
#define TPULAYER_BMLIB_EMULATED_H_

#include <stdint.h>

#include "bmlib_runtime.h"

/* Commands of both engines that the device had executed when the newest request on the handle ended, and their
 * modelled time. Asks the device nothing. */
bm_status_t tpulayer_executed(bm_handle_t handle, uint64_t *commands, uint64_t *cycles);
/* The newest message of bmlib or bmruntime in this thread, without the line's end; "" when there was none since
 * tpulayer_forget_message. Longer ones are cut. */
const char *tpulayer_last_message(void);
void tpulayer_forget_message(void);
/* 1: errors in this thread do not go to stderr (a program's callback gets them) until 0, for the caller tells them
 * itself; tpulayer_last_message then has all of them, with "; " in between. */
void tpulayer_hush(int on);

#endif
