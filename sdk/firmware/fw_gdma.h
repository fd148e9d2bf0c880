/* Parts of GDMA descriptors that okk_gdma.c and bm_atomic_gdma.c share; addresses are absolute. */
#ifndef FW_GDMA_H
#define FW_GDMA_H

#include <string.h>

#include "bm1684_fields.h"
#include "fw_internal.h"

/* Refuses what the local function of a layer may not move. */
void fw_gdma_check_scope(int direction, uint64_t source);
void fw_gdma_set_src(uint32_t *d, uint64_t addr, const dim4 *shape);
void fw_gdma_set_dst(uint32_t *d, uint64_t addr, const dim4 *shape);
void fw_gdma_set_src_stride(uint32_t *d, const dim4 *stride);
void fw_gdma_set_dst_stride(uint32_t *d, const dim4 *stride);

#endif
