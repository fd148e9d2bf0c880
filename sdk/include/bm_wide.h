/* What the chip's instructions can do and the vendor's calls have no word for: for layers of this toolkit. */
#ifndef BM_WIDE_H
#define BM_WIDE_H

#include "bm_atomic.h"

/** As bm_atomic_conv_quantized, with a result of 16 bits: four batches lie side by side, in 64 bits a pixel, and a
 * channel of some slot takes 256 bytes for each 32 pixels, the last ones whole. Saturates to -32768..32767. */
void bm_conv_quantized_wide(const ConvQuantParam *param);

#endif
