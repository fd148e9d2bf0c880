/* Room for partial sums of convolutions of volumes; their descriptor asks for it. */
#ifndef BM_LAYER_VOLUME_ROOM_H
#define BM_LAYER_VOLUME_ROOM_H

#include "bm1684_chip.h"

#define VOLUME_ROOM (CHIP_LOCAL_BYTES / 16) /* more saves few commands, less leaves little more for others */

/* Planes of a tap's products that are added at once, of `planes` with so many bytes each. */
static inline int bm_volume_planes(int planes, long long plane_bytes) {
    const long long fit = VOLUME_ROOM / plane_bytes;
    return fit >= planes ? planes : fit > 1 ? (int)fit : 1;
}

#endif
