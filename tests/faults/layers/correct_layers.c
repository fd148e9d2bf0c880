/* Layers without a mistake, near to what is wrong. */
#include "fault_layers.h"

/* Adds 1 to the first half of the batches, in the input's own memory. */
__BM_PARAM__(TPU_C_SHARES)
typedef struct {
} c_shares_t;
__BM_SHAPE__(TPU_C_SHARES)
SHAPE(c_shares_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_SHARES)
GLOBAL(c_shares_global) {
    const int *s = in[0].shape;
    const dim4 all = whole(&in[0]), half = {s[0] / 2, s[1], s[2], s[3]};
    okk_initialize();
    if (in[0].addr != out[0].addr) okk_gdma_32bit_cpy_S2S(out[0].addr, in[0].addr, &all, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &half, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &half, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &half, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* 2 x, perhaps in the memory of x. */
__BM_PARAM__(TPU_C_IN_PLACE)
typedef struct {
} c_in_place_t;
__BM_SHAPE__(TPU_C_IN_PLACE)
SHAPE(c_in_place_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_IN_PLACE)
GLOBAL(c_in_place_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_C_IN_PLACE)
LOCAL(c_in_place_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_mul_C(out[0].addr, in[0].addr, 2.f, &shape, NULL, NULL);
    return BM_LAYER_OK;
}

/* 2 x by whole lines of 128 bytes, the padding of the tile with it. */
__BM_PARAM__(TPU_C_PADDED_TILE)
typedef struct {
} c_padded_tile_t;
__BM_SHAPE__(TPU_C_PADDED_TILE)
SHAPE(c_padded_tile_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_PADDED_TILE)
GLOBAL(c_padded_tile_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_C_PADDED_TILE)
LOCAL(c_padded_tile_local) {
    const dim4 shape = tile(&out[0]), flat = {1, MIN(shape.c, NPUS), 1, (int)aligned_bytes(&shape) / FLOAT};
    okk_bdc_mul_C(out[0].addr, in[0].addr, 2.f, &flat, NULL, NULL);
    return BM_LAYER_OK;
}

/* x + x by way of a buffer, of DDR in the global function and of local memory in the local one. */
__BM_PARAM__(TPU_C_BUFFERS)
typedef struct {
} c_buffers_t;
__BM_SHAPE__(TPU_C_BUFFERS)
SHAPE(c_buffers_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_BUFFERS)
GLOBAL(c_buffers_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(buffer, in[0].addr, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(0, buffer, &shape, NULL, NULL);
    okk_bdc_add(0, 0, 0, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
__BM_LOCAL__(TPU_C_BUFFERS)
LOCAL(c_buffers_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_add_C(buffer, in[0].addr, 0.f, &shape, NULL, NULL);
    okk_bdc_add(out[0].addr, buffer, in[0].addr, &shape, NULL, NULL, NULL);
    return BM_LAYER_OK;
}

/* Three rows, with the window that they need. */
__BM_PARAM__(TPU_C_ROWS)
typedef struct {
} c_rows_t;
__BM_SHAPE__(TPU_C_ROWS)
SHAPE(c_rows_shape) {
    out[0].ttype = BMNET_NEURON;
    out[0].dtype = in[0].dtype;
    out[0].dims = 4;
    for (int d = 0; d < 4; d++) out[0].shape[d] = in[0].shape[d];
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_C_ROWS)
GLOBAL(c_rows_global) { return sum_rows_all(in, out); }
__BM_LOCAL__(TPU_C_ROWS)
LOCAL(c_rows_local) {
    sum_rows(out[0].addr, in[0].addr, tile(&out[0]), tile(&in[0]), out[0].processed[2], in[0].processed[2], in[0].shape[2]);
    return BM_LAYER_OK;
}

/* x + a constant of one number per channel, by strides of 0. */
__BM_PARAM__(TPU_C_PER_CHANNEL)
typedef struct {
} c_per_channel_t;
__BM_SHAPE__(TPU_C_PER_CHANNEL)
SHAPE(c_per_channel_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_PER_CHANNEL)
GLOBAL(c_per_channel_global) {
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
__BM_LOCAL__(TPU_C_PER_CHANNEL)
LOCAL(c_per_channel_local) {
    const dim4 shape = tile(&out[0]), once = {0, 1, 0, 0};
    okk_bdc_add(out[0].addr, in[0].addr, in[1].addr, &shape, NULL, NULL, &once);
    return BM_LAYER_OK;
}

/* 2 x and 3 x. */
__BM_PARAM__(TPU_C_TWO_OUTPUTS)
typedef struct {
} c_two_outputs_t;
__BM_SHAPE__(TPU_C_TWO_OUTPUTS)
SHAPE(c_two_outputs_shape) {
    same_shape(in, &out[0]);
    return same_shape(in, &out[1]);
}
__BM_GLOBAL__(TPU_C_TWO_OUTPUTS)
GLOBAL(c_two_outputs_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_mul_C(HALF, 0, 2.f, &shape, NULL, NULL);
    okk_parallel_start();
    okk_gdma_32bit_cpy_L2S(out[0].addr, HALF, &shape, NULL, NULL);
    okk_bdc_mul_C(HALF + 2 * BANK, 0, 3.f, &shape, NULL, NULL);
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(out[1].addr, HALF + 2 * BANK, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
__BM_LOCAL__(TPU_C_TWO_OUTPUTS)
LOCAL(c_two_outputs_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_mul_C(out[0].addr, in[0].addr, 2.f, &shape, NULL, NULL);
    okk_bdc_mul_C(out[1].addr, in[0].addr, 3.f, &shape, NULL, NULL);
    return BM_LAYER_OK;
}

/* e^x, with the output's own tile for what is computed in between. */
__BM_PARAM__(TPU_C_OUTPUT_AS_SCRATCH)
typedef struct {
} c_output_as_scratch_t;
__BM_SHAPE__(TPU_C_OUTPUT_AS_SCRATCH)
SHAPE(c_output_as_scratch_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_OUTPUT_AS_SCRATCH)
GLOBAL(c_output_as_scratch_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(out[0].addr, in[0].addr, &shape, NULL, NULL); /* written twice */
    okk_gdma_32bit_cpy_S2L(0, out[0].addr, &shape, NULL, NULL);
    okk_bdc_exp(2 * BANK, 0, 4 * BANK, &shape);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
__BM_LOCAL__(TPU_C_OUTPUT_AS_SCRATCH)
LOCAL(c_output_as_scratch_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_exp(buffer, in[0].addr, out[0].addr, &shape);
    okk_bdc_32bit_cpy(out[0].addr, buffer, &shape, NULL, NULL);
    return BM_LAYER_OK;
}

/* Maxima of 2x2 windows at steps of 2; an odd last row or column is not needed. */
__BM_PARAM__(TPU_C_POOL)
typedef struct {
} c_pool_t;
__BM_SHAPE__(TPU_C_POOL)
SHAPE(c_pool_shape) {
    out[0].ttype = BMNET_NEURON;
    out[0].dtype = in[0].dtype;
    out[0].dims = 4;
    for (int d = 0; d < 4; d++) out[0].shape[d] = d < 2 ? in[0].shape[d] : in[0].shape[d] / 2;
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_C_POOL)
GLOBAL(c_pool_global) {
    const dim4 shape = whole(&in[0]), result = whole(&out[0]);
    const dim2 two = {2, 2};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_max_pool2d(HALF, 0, &shape, 2, 2, NULL, &two);
    okk_gdma_32bit_cpy_L2S(out[0].addr, HALF, &result, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
__BM_LOCAL__(TPU_C_POOL)
LOCAL(c_pool_local) {
    const dim4 shape = tile(&in[0]);
    const dim2 two = {2, 2};
    okk_bdc_max_pool2d(out[0].addr, in[0].addr, &shape, 2, 2, NULL, &two);
    return BM_LAYER_OK;
}

/* Rows for columns, by strides of the store. */
__BM_PARAM__(TPU_C_TURN)
typedef struct {
} c_turn_t;
__BM_SHAPE__(TPU_C_TURN)
SHAPE(c_turn_shape) {
    same_shape(in, out);
    out[0].shape[2] = in[0].shape[3];
    out[0].shape[3] = in[0].shape[2];
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_C_TURN)
GLOBAL(c_turn_global) {
    const int *s = in[0].shape;
    const dim4 column = {1, s[1], s[2], 1}, from = {0, s[2] * s[3], s[3], 1}, to = {0, s[2] * s[3], 1, 1};
    okk_initialize();
    for (int n = 0; n < s[0]; n++) {
        for (int w = 0; w < s[3]; w++) {
            const u64 plane = 4ull * n * s[1] * s[2] * s[3];
            okk_gdma_32bit_cpy_S2S(out[0].addr + plane + 4ull * w * s[2], in[0].addr + plane + 4ull * w, &column, &to, &from);
        }
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* x less its mean, which the controller finds: so it cannot be recorded. */
__BM_PARAM__(TPU_C_POINTER)
typedef struct {
} c_pointer_t;
__BM_SHAPE__(TPU_C_POINTER)
SHAPE(c_pointer_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_POINTER)
GLOBAL(c_pointer_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_poll();
    const float *x = (const float *)okk_global_mem_addr(in[0].addr);
    float sum = 0;
    for (int i = 0; i < in[0].elem_num; i++) sum += x[i];
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_sub_C(0, 0, sum / (float)in[0].elem_num, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* Batch after batch on two buffers each way. */
__BM_PARAM__(TPU_C_PING_PONG)
typedef struct {
} c_ping_pong_t;
__BM_SHAPE__(TPU_C_PING_PONG)
SHAPE(c_ping_pong_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_PING_PONG)
GLOBAL(c_ping_pong_global) {
    const int *s = in[0].shape;
    const dim4 one = {1, s[1], s[2], s[3]};
    const u64 bytes = 4ull * s[1] * s[2] * s[3];
    okk_initialize();
    for (int i = 0; i < s[0] + 2; i++) {
        okk_parallel_start();
        if (i < s[0]) okk_gdma_32bit_cpy_S2L(i % 2 * BANK, in[0].addr + i * bytes, &one, NULL, NULL);
        if (i >= 1 && i <= s[0]) okk_bdc_neg((2 + (i - 1) % 2) * BANK, (i - 1) % 2 * BANK, &one, NULL, NULL);
        if (i >= 2) okk_gdma_32bit_cpy_L2S(out[0].addr + (i - 2) * bytes, (2 + i % 2) * BANK, &one, NULL, NULL);
        okk_parallel_end();
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* fp32 to 8-bit numbers, batch after batch of which four share words in local memory. */
__BM_PARAM__(TPU_C_TO_BYTES)
typedef struct {
} c_to_bytes_t;
__BM_SHAPE__(TPU_C_TO_BYTES)
SHAPE(c_to_bytes_shape) {
    same_shape(in, out);
    out[0].dtype = DTYPE_INT8;
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_C_TO_BYTES)
GLOBAL(c_to_bytes_global) {
    const int *s = in[0].shape, plane = s[2] * s[3];
    const dim4 shape = whole(&in[0]), one = {1, s[1], plane, 1}, byte = {0, ALIGN(plane, 32) * 4, 4, 1}, to = {0, plane, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_fp32_to_4N_int8(2 * BANK, 0, 4 * BANK, &shape, true);
    for (int n = 0; n < s[0]; n++) {
        const local_addr_t from = 2 * BANK + n / 4 * (unsigned)(ALIGN(plane, 32) * 4 * ((s[1] + 63) / 64)) + n % 4;
        okk_gdma_8bit_cpy_L2S(out[0].addr + (u64)n * s[1] * plane, from, &one, &to, &byte);
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* The inside of its input: the frame is never read. */
__BM_PARAM__(TPU_C_INSIDE)
typedef struct {
} c_inside_t;
__BM_SHAPE__(TPU_C_INSIDE)
SHAPE(c_inside_shape) {
    same_shape(in, out);
    out[0].shape[2] = in[0].shape[2] - 2;
    out[0].shape[3] = in[0].shape[3] - 2;
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_C_INSIDE)
GLOBAL(c_inside_global) {
    const int *s = in[0].shape;
    const dim4 shape = whole(&out[0]), from = {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(out[0].addr, in[0].addr + 4ull * (s[3] + 1), &shape, NULL, &from);
    okk_poll();
    return BM_LAYER_OK;
}

/* Two inputs one behind the other along the channels. */
__BM_PARAM__(TPU_C_JOIN)
typedef struct {
} c_join_t;
__BM_SHAPE__(TPU_C_JOIN)
SHAPE(c_join_shape) {
    same_shape(in, out);
    out[0].shape[1] = in[0].shape[1] + in[1].shape[1];
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_C_JOIN)
GLOBAL(c_join_global) {
    const int *s = out[0].shape;
    const dim4 to = {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
    u64 at = out[0].addr;
    okk_initialize();
    for (int i = 0; i < 2; i++) {
        const dim4 shape = whole(&in[i]);
        okk_gdma_32bit_cpy_S2S(at, in[i].addr, &shape, &to, NULL);
        at += 4ull * shape.c * shape.h * shape.w;
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* A frame of zeros: the output is cleared, then its inside written. */
__BM_PARAM__(TPU_C_FRAME)
typedef struct {
} c_frame_t;
__BM_SHAPE__(TPU_C_FRAME)
SHAPE(c_frame_shape) {
    same_shape(in, out);
    out[0].shape[2] = in[0].shape[2] + 2;
    out[0].shape[3] = in[0].shape[3] + 2;
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_C_FRAME)
GLOBAL(c_frame_global) {
    const int *s = out[0].shape;
    const dim4 shape = whole(&in[0]), all = whole(&out[0]), to = {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
    okk_initialize();
    okk_gdma_32bit_set_C_system(out[0].addr, (x32){.fp32 = 0}, &all, NULL);
    okk_gdma_32bit_cpy_S2S(out[0].addr + 4ull * (s[3] + 1), in[0].addr, &shape, &to, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
