/* Transposed convolutions by phases of their stride: output elements that are `stride` apart see the same taps of the
 * kernel, so that they are a convolution of those, and none of the zeros between elements is multiplied. */
#ifndef BM_LAYER_CONV_PHASES_H
#define BM_LAYER_CONV_PHASES_H

#include "bm_layer_conv_plan.h"

/* First elements of a tile of the input, and of that of the output. */
typedef struct {
    int in_h, in_w, out_h, out_w;
} conv_place;

/* w: as for the instruction, with the tile of the input from its first element on; room: of the largest phase. False:
 * the tile of the input lacks elements. */
bool bm_conv_phases(const conv_problem *p, const conv_work *w, const conv_place *at, local_addr_t room);

#endif
