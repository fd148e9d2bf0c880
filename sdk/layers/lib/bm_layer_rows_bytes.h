/* Rows of bytes in local memory, four of a row side by side in a word: products of them, and the way to fp32 and back. */
#ifndef BM_LAYER_ROWS_BYTES_H
#define BM_LAYER_ROWS_BYTES_H

#include "bm_layer_local.h"

#define BM_WIDE_MAX 32767
#define BM_BYTES_SUMMED 256 /* products of any byte with any int8: their sum, shifted right by 8, has 16 bits */
#define BM_BYTES_SHIFT 8

/* A product of matrices as of bm_row_product, of bytes, with results of 16 bits: (sum + half) >> rshift, saturated.
 * Words of a row of the right one are pixels, whose bytes are four batches. */
typedef struct {
    int rows, sums, columns;   /* columns: of four */
    int left_slot, right_slot; /* words from one slot of channels to the next, one of y is bm_wide_slot(columns) */
    int rshift;
    bool left_signed; /* the right one is int8 */
} bm_byte_product;

/* Words of a lane that a slot of 16-bit results takes. */
static inline int bm_wide_slot(int columns) { return 2 * local_line(divide_up(columns, 4)); }

/* y = x times right; y at a line, x at a word. */
void bm_multiply_byte_rows(const bm_byte_product *p, local_addr_t y, local_addr_t x, local_addr_t right);

/* y = BM_WIDE_OFFSET + x, exactly, of `columns`, an even number, of 16 bits in each row as bm_multiply_byte_rows makes
 * them; y lies by lines. x is overwritten. */
#define BM_WIDE_OFFSET 8421376.0f /* 2^23 + 2^15 */
void bm_wide_to_float(local_addr_t y, local_addr_t x, int rows, int columns);

/* To numbers of 0 to 255 added, the sum has the nearest integer in its low bits. */
#define BM_BYTES_ROUNDED 8388608.0f
#define BM_BYTES_SUMMABLE 32768.0f /* and to these, the nearest multiple of 2^-8 */

/* y = bytes of such sums; columns: of four. x lies by lines and is overwritten; slot: words from one slot of y to the
 * next. */
void bm_pack_bytes(local_addr_t y, local_addr_t x, int rows, int columns, int slot);

/* y = 255 e^(factor x) for x * factor at most 0, with a relative error of 1e-4; what is below 1e-5 is something as
 * small. NaN gives NaN. x is overwritten; y, x and t lie by lines. */
void bm_byte_powers(local_addr_t y, local_addr_t x, local_addr_t t, int rows, int columns, float factor);

#endif
