/* Bytes gathered and results finished; see firmware_sim.instructions.small. */
#ifndef TPULAYER_SMALL_H
#define TPULAYER_SMALL_H

#include "loops.h"

/* Bytes into numbers, 0 where at[i] is negative; signed: they are two's complement. */
void tl_gather_bytes(int32_t *values, const uint8_t *memory, const int64_t *at, int64_t count, bool is_signed);

/* results (+ 16-bit numbers) shifted right, saturated and written. added_at: i64[2, count], -1: none: the bias, and
 * the old result to be shifted left. how: i64[8]: (two for the caller), bits and sign of the result, right shift,
 * sign of the bias, sign and left shift of the old result. */
void tl_finish(uint8_t *memory, int64_t *results, const int64_t *out_at, int64_t count, const int64_t *added_at,
               const int64_t *how);

#endif
