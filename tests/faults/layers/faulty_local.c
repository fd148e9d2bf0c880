/* Layers whose local function has a mistake. */
#include "fault_layers.h"

/* Doubles its input tile, then copies it. */
__BM_PARAM__(TPU_F_WRITES_INPUT_TILE)
typedef struct {
} f_writes_input_tile_t;
__BM_SHAPE__(TPU_F_WRITES_INPUT_TILE)
SHAPE(f_writes_input_tile_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_WRITES_INPUT_TILE)
GLOBAL(f_writes_input_tile_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_WRITES_INPUT_TILE)
LOCAL(f_writes_input_tile_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_mul_C(in[0].addr, in[0].addr, 2.f, &shape, NULL, NULL); /* FAULT memory.read_only */
    okk_bdc_32bit_cpy(out[0].addr, in[0].addr, &shape, NULL, NULL);
    return BM_LAYER_OK;
}

/* Uses scratch that it does not ask for: as much as a tile, where it is told that its buffer is. */
__BM_PARAM__(TPU_F_NO_LOCAL_BUFFER)
typedef struct {
} f_no_local_buffer_t;
__BM_SHAPE__(TPU_F_NO_LOCAL_BUFFER)
SHAPE(f_no_local_buffer_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_NO_LOCAL_BUFFER)
GLOBAL(f_no_local_buffer_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_NO_LOCAL_BUFFER)
LOCAL(f_no_local_buffer_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_add_C(buffer, in[0].addr, 0.f, &shape, NULL, NULL); /* FAULT memory.no_buffer|memory.foreign|memory.read_only */
    okk_bdc_add(out[0].addr, buffer, in[0].addr, &shape, NULL, NULL, NULL); /* FAULT memory.no_buffer|memory.foreign */
    return BM_LAYER_OK;
}

/* Asks for a row of scratch and uses a tile of it. */
__BM_PARAM__(TPU_F_LOCAL_BUFFER_TOO_SMALL)
typedef struct {
} f_local_buffer_too_small_t;
__BM_SHAPE__(TPU_F_LOCAL_BUFFER_TOO_SMALL)
SHAPE(f_local_buffer_too_small_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_LOCAL_BUFFER_TOO_SMALL)
GLOBAL(f_local_buffer_too_small_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_LOCAL_BUFFER_TOO_SMALL)
LOCAL(f_local_buffer_too_small_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_32bit_cpy(buffer, in[0].addr, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign|memory.read_only */
    okk_bdc_add(out[0].addr, buffer, in[0].addr, &shape, NULL, NULL, NULL); /* FAULT memory.beyond|memory.foreign */
    return BM_LAYER_OK;
}

/* Sums three rows and tells the compiler nothing of a window. */
__BM_PARAM__(TPU_F_HALO_NOT_ASKED)
typedef struct {
} f_halo_not_asked_t;
__BM_SHAPE__(TPU_F_HALO_NOT_ASKED)
SHAPE(f_halo_not_asked_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_HALO_NOT_ASKED)
GLOBAL(f_halo_not_asked_global) { return sum_rows_all(in, out); }
__BM_LOCAL__(TPU_F_HALO_NOT_ASKED)
LOCAL(f_halo_not_asked_local) {
    const dim4 x = tile(&in[0]), y = tile(&out[0]);
    const local_addr_t to = out[0].addr, from = in[0].addr;
    const int row = y.w * FLOAT, first = out[0].processed[2];
    dim4 stride, part = y;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &x);
    okk_bdc_32bit_cpy(to, from, &y, &stride, &stride);
    const int above = first == 0; /* rows without one above them */
    part.h = y.h - above;
    okk_bdc_add(to + above * row, to + above * row, from + (above - 1) * row, &part, &stride, &stride, &stride); /* FAULT memory.beyond|memory.foreign|init.unwritten|memory.outside */
    part.h = y.h - (first + y.h == out[0].shape[2]);
    okk_bdc_add(to, to, from + row, &part, &stride, &stride, &stride); /* FAULT memory.beyond|memory.foreign|init.unwritten */
    return BM_LAYER_OK;
}

/* Has a window, and computes as many rows as it gets. */
__BM_PARAM__(TPU_F_BEHIND_ITS_TILE)
typedef struct {
} f_behind_its_tile_t;
__BM_SHAPE__(TPU_F_BEHIND_ITS_TILE)
SHAPE(f_behind_its_tile_shape) {
    out[0].ttype = BMNET_NEURON;
    out[0].dtype = in[0].dtype;
    out[0].dims = 4;
    for (int d = 0; d < 4; d++) out[0].shape[d] = in[0].shape[d];
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_F_BEHIND_ITS_TILE)
GLOBAL(f_behind_its_tile_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_BEHIND_ITS_TILE)
LOCAL(f_behind_its_tile_local) {
    const dim4 shape = tile(&in[0]);
    okk_bdc_mul_C(out[0].addr, in[0].addr, 2.f, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign|memory.too_much|memory.read_only */
    return BM_LAYER_OK;
}

/* Takes the extents of the tensor for those of its tile. */
__BM_PARAM__(TPU_F_WHOLE_FOR_TILE)
typedef struct {
} f_whole_for_tile_t;
__BM_SHAPE__(TPU_F_WHOLE_FOR_TILE)
SHAPE(f_whole_for_tile_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_WHOLE_FOR_TILE)
GLOBAL(f_whole_for_tile_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_WHOLE_FOR_TILE)
LOCAL(f_whole_for_tile_local) {
    const dim4 shape = whole(&out[0]);
    okk_bdc_mul_C(out[0].addr, in[0].addr, 2.f, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign|memory.read_only|memory.too_much|init.unwritten */
    return BM_LAYER_OK;
}

/* The last row of a tile is left out. */
__BM_PARAM__(TPU_F_LAST_ROW)
typedef struct {
} f_last_row_t;
__BM_SHAPE__(TPU_F_LAST_ROW)
SHAPE(f_last_row_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_LAST_ROW)
GLOBAL(f_last_row_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_LAST_ROW)
LOCAL(f_last_row_local) { /* FAULT memory.not_written */
    dim4 shape = tile(&out[0]), stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    shape.h--;
    okk_bdc_mul_C(out[0].addr, in[0].addr, 2.f, &shape, &stride, &stride); /* FAULT memory.not_written */
    return BM_LAYER_OK;
}

/* Takes an aligned tile for a compact one. */
__BM_PARAM__(TPU_F_COMPACT_TILE)
typedef struct {
} f_compact_tile_t;
__BM_SHAPE__(TPU_F_COMPACT_TILE)
SHAPE(f_compact_tile_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_COMPACT_TILE)
GLOBAL(f_compact_tile_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_COMPACT_TILE)
LOCAL(f_compact_tile_local) {
    const dim4 shape = tile(&out[0]);
    dim4 compact;
    okk_compact_stride(&compact, 0, &shape);
    okk_bdc_mul_C(out[0].addr, in[0].addr, 2.f, &shape, NULL, &compact); /* FAULT init.unwritten */
    return BM_LAYER_OK;
}

/* The constant per channel becomes its reciprocal where it lies. */
__BM_PARAM__(TPU_F_WRITES_LOCAL_CONSTANT)
typedef struct {
} f_writes_local_constant_t;
__BM_SHAPE__(TPU_F_WRITES_LOCAL_CONSTANT)
SHAPE(f_writes_local_constant_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_WRITES_LOCAL_CONSTANT)
GLOBAL(f_writes_local_constant_global) {
    const dim4 shape = whole(&in[0]), vector = {1, in[0].shape[1], 1, 1}, once = {0, 1, 0, 0};
    dim4 compact;
    okk_compact_stride(&compact, 0, &vector);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(HALF, in[1].addr, &vector, &compact, NULL);
    okk_bdc_div(0, 0, HALF, &shape, NULL, NULL, &once);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
__BM_LOCAL__(TPU_F_WRITES_LOCAL_CONSTANT)
LOCAL(f_writes_local_constant_local) {
    const dim4 shape = tile(&out[0]), vector = {1, shape.c, 1, 1}, once = {0, 1, 0, 0};
    dim4 compact;
    okk_compact_stride(&compact, 0, &vector);
    okk_bdc_reciprocal(in[1].addr, in[1].addr, &vector, &compact, &compact); /* FAULT memory.read_only */
    okk_bdc_mul(out[0].addr, in[0].addr, in[1].addr, &shape, NULL, NULL, &once);
    return BM_LAYER_OK;
}

/* Works where a tile was in the first net that it was tried in. */
__BM_PARAM__(TPU_F_FIXED_ADDRESS)
typedef struct {
} f_fixed_address_t;
__BM_SHAPE__(TPU_F_FIXED_ADDRESS)
SHAPE(f_fixed_address_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_FIXED_ADDRESS)
GLOBAL(f_fixed_address_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_FIXED_ADDRESS)
LOCAL(f_fixed_address_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_mul_C(out[0].addr, 7 * BANK, 2.f, &shape, NULL, NULL); /* FAULT memory.foreign|memory.outside|init.unwritten */
    return BM_LAYER_OK;
}

/* Adds to its output tile, which holds nothing. */
__BM_PARAM__(TPU_F_ADDS_TO_TILE)
typedef struct {
} f_adds_to_tile_t;
__BM_SHAPE__(TPU_F_ADDS_TO_TILE)
SHAPE(f_adds_to_tile_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_ADDS_TO_TILE)
GLOBAL(f_adds_to_tile_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_ADDS_TO_TILE)
LOCAL(f_adds_to_tile_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_mac_C(out[0].addr, in[0].addr, 2.f, &shape, NULL, NULL); /* FAULT init.unwritten */
    return BM_LAYER_OK;
}

/* The constant has one number per channel, and is read as a tile. */
__BM_PARAM__(TPU_F_CONSTANT_AS_TILE)
typedef struct {
} f_constant_as_tile_t;
__BM_SHAPE__(TPU_F_CONSTANT_AS_TILE)
SHAPE(f_constant_as_tile_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_CONSTANT_AS_TILE)
GLOBAL(f_constant_as_tile_global) {
    const dim4 shape = whole(&in[0]), vector = {1, in[0].shape[1], 1, 1}, once = {0, 1, 0, 0};
    dim4 compact;
    okk_compact_stride(&compact, 0, &vector);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(HALF, in[1].addr, &vector, &compact, NULL);
    okk_bdc_add(0, 0, HALF, &shape, NULL, NULL, &once);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
__BM_LOCAL__(TPU_F_CONSTANT_AS_TILE)
LOCAL(f_constant_as_tile_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_add(out[0].addr, in[0].addr, in[1].addr, &shape, NULL, NULL, NULL); /* FAULT memory.beyond|memory.foreign|init.unwritten */
    return BM_LAYER_OK;
}

/* exp needs work memory: it takes what follows its output. */
__BM_PARAM__(TPU_F_WORK_BEHIND_OUTPUT)
typedef struct {
} f_work_behind_output_t;
__BM_SHAPE__(TPU_F_WORK_BEHIND_OUTPUT)
SHAPE(f_work_behind_output_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_WORK_BEHIND_OUTPUT)
GLOBAL(f_work_behind_output_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_exp(2 * BANK, 0, 4 * BANK, &shape);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
__BM_LOCAL__(TPU_F_WORK_BEHIND_OUTPUT)
LOCAL(f_work_behind_output_local) {
    const dim4 shape = tile(&out[0]);
    const local_addr_t work = (local_addr_t)out[0].addr + aligned_bytes(&shape);
    okk_bdc_exp(out[0].addr, in[0].addr, work, &shape); /* FAULT memory.foreign|memory.outside|memory.read_only|memory.beyond */
    return BM_LAYER_OK;
}

/* A window of three rows whose upper edge is forgotten: the first tile has no row above. */
__BM_PARAM__(TPU_F_TOP_EDGE)
typedef struct {
} f_top_edge_t;
__BM_SHAPE__(TPU_F_TOP_EDGE)
SHAPE(f_top_edge_shape) {
    out[0].ttype = BMNET_NEURON;
    out[0].dtype = in[0].dtype;
    out[0].dims = 4;
    for (int d = 0; d < 4; d++) out[0].shape[d] = in[0].shape[d];
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_F_TOP_EDGE)
GLOBAL(f_top_edge_global) {
    const int *s = in[0].shape;
    okk_initialize();
    for (int n = 0; n < s[0]; n++) {
        const dim4 shape = {1, s[1], s[2], s[3]}, below = {1, s[1], s[2] - 1, s[3]};
        const u64 at = 4ull * n * s[1] * s[2] * s[3];
        dim4 stride;
        okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
        okk_gdma_32bit_cpy_S2L(0, in[0].addr + at, &shape, NULL, NULL);
        okk_bdc_32bit_cpy(HALF, 0, &shape, NULL, NULL);
        okk_bdc_add(HALF + s[3] * FLOAT, HALF + s[3] * FLOAT, 0, &below, &stride, &stride, &stride);
        okk_gdma_32bit_cpy_L2S(out[0].addr + at, HALF, &shape, NULL, NULL);
    }
    okk_poll();
    return BM_LAYER_OK;
}
__BM_LOCAL__(TPU_F_TOP_EDGE)
LOCAL(f_top_edge_local) {
    const dim4 x = tile(&in[0]), y = tile(&out[0]);
    dim4 xs;
    okk_128_byte_aligned_stride_for_32bit(&xs, 0, &x);
    const int row = x.w * FLOAT;
    const local_addr_t same = in[0].addr + (out[0].processed[2] - in[0].processed[2]) * row;
    okk_bdc_add(out[0].addr, same, same - row, &y, NULL, &xs, &xs); /* FAULT memory.beyond|memory.foreign|memory.outside|init.unwritten */
    return BM_LAYER_OK;
}
