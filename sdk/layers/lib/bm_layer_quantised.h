/* Between fp32 and 8-bit integers in 4N: value = scale x integer. */
#ifndef BM_LAYER_QUANTISED_H
#define BM_LAYER_QUANTISED_H

#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

/* y = the nearest integers to x / scale, of two the even one; those outside of the type become its ends. x and y are
 * aligned tiles of this shape, n batches of fp32 and as many in 4N; work: as large as x; may be x, which is lost then.
 * x is multiplied with the nearest fp32 to 1 / scale. */
void bm_quantise(local_addr_t y, local_addr_t x, local_addr_t work, const dim4 *shape, float scale, bool is_signed);

/* y = scale * x; work: as large as x; may be x, which is lost then, not y. */
void bm_dequantise(local_addr_t y, local_addr_t x, local_addr_t work, const dim4 *shape, float scale, bool is_signed);

/* The whole of a tensor in DDR, fp32 on one side and 4N on the other (quantise: which way). */
void bm_convert_whole(const tpu_tensor_t *out, const tpu_tensor_t *in, bool quantise);

#endif
