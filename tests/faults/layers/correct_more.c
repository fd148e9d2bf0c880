/* More layers without a mistake, near to what is wrong. */
#include "fault_layers.h"

/* Two outputs: x, and the larger of two rows. */
__BM_PARAM__(TPU_C_TWO_SHAPES)
typedef struct {
} c_two_shapes_t;
__BM_SHAPE__(TPU_C_TWO_SHAPES)
SHAPE(c_two_shapes_shape) {
    same_shape(in, &out[0]);
    same_shape(in, &out[1]);
    out[1].shape[2] = out[1].slice_shape[2] = in[0].shape[2] / 2;
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_C_TWO_SHAPES)
GLOBAL(c_two_shapes_global) {
    const dim4 shape = whole(&in[0]), half = whole(&out[1]);
    const dim2 two = {2, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_parallel_start();
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_bdc_max_pool2d(HALF, 0, &shape, 2, 1, NULL, &two);
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(out[1].addr, HALF, &half, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* 3 x, added up in its buffer, which it clears. */
__BM_PARAM__(TPU_C_SUMS_IN_ITS_BUFFER)
typedef struct {
} c_sums_in_its_buffer_t;
__BM_SHAPE__(TPU_C_SUMS_IN_ITS_BUFFER)
SHAPE(c_sums_in_its_buffer_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_SUMS_IN_ITS_BUFFER)
GLOBAL(c_sums_in_its_buffer_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_set_C_system(buffer, (x32){.fp32 = 0}, &shape, NULL);
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        okk_gdma_32bit_cpy_S2L(BANK, buffer, &shape, NULL, NULL);
        okk_bdc_add(BANK, BANK, 0, &shape, NULL, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(buffer, BANK, &shape, NULL, NULL);
    }
    okk_gdma_32bit_cpy_S2S(out[0].addr, buffer, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* Three inputs behind each other by channels. */
__BM_PARAM__(TPU_C_THREE_IN_A_ROW)
typedef struct {
} c_three_in_a_row_t;
__BM_SHAPE__(TPU_C_THREE_IN_A_ROW)
SHAPE(c_three_in_a_row_shape) {
    same_shape(in, out);
    out->shape[1] = out->slice_shape[1] = in[0].shape[1] + in[1].shape[1] + in[2].shape[1];
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_C_THREE_IN_A_ROW)
GLOBAL(c_three_in_a_row_global) {
    u64 at = out[0].addr;
    okk_initialize();
    for (int i = 0; i < 3; i++) {
        const dim4 shape = whole(&in[i]), to = {out[0].shape[1] * shape.h * shape.w, shape.h * shape.w, shape.w, 1};
        okk_gdma_32bit_cpy_S2S(at, in[i].addr, &shape, &to, NULL);
        at += 4ull * shape.c * shape.h * shape.w;
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* Keeps the rows that begin with a number above 0. */
__BM_PARAM__(TPU_C_ROWS_ABOVE)
typedef struct {
} c_rows_above_t;
__BM_SHAPE__(TPU_C_ROWS_ABOVE)
SHAPE(c_rows_above_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_ROWS_ABOVE)
GLOBAL(c_rows_above_global) {
    const int rows = in[0].shape[0], width = in[0].shape[1];
    okk_initialize();
    okk_poll();
    const float *from = (const float *)okk_global_mem_addr(in[0].addr);
    float *to = (float *)okk_global_mem_addr(out[0].addr);
    int kept = 0;
    for (int row = 0; row < rows; row++) {
        if (from[row * width] <= 0) continue;
        for (int i = 0; i < width; i++) to[kept * width + i] = from[row * width + i];
        kept++;
    }
    same_shape(in, out);
    out[0].shape[0] = kept;
    return BM_LAYER_OK;
}

/* Adds the largest number of all, which the controller finds among those of the channels. */
__BM_PARAM__(TPU_C_LARGEST_OF_ALL)
typedef struct {
} c_largest_of_all_t;
__BM_SHAPE__(TPU_C_LARGEST_OF_ALL)
SHAPE(c_largest_of_all_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_LARGEST_OF_ALL)
GLOBAL(c_largest_of_all_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_max_pool2d(HALF, 0, &shape, shape.h, shape.w, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(buffer, HALF, &(dim4){1, shape.c, 1, 1}, NULL, NULL);
    okk_poll();
    const float *largest = (const float *)okk_global_mem_addr(buffer);
    float most = largest[0];
    for (int c = 1; c < shape.c; c++) most = MAX(most, largest[c]);
    okk_bdc_add_C(0, 0, most, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* x - max(x, 0) through scratch, so that the tile may lie where the input's lies. */
__BM_PARAM__(TPU_C_REPLACES_ITS_INPUT)
typedef struct {
} c_replaces_its_input_t;
__BM_SHAPE__(TPU_C_REPLACES_ITS_INPUT)
SHAPE(c_replaces_its_input_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_REPLACES_ITS_INPUT)
GLOBAL(c_replaces_its_input_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_min_C(0, 0, 0.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
__BM_LOCAL__(TPU_C_REPLACES_ITS_INPUT)
LOCAL(c_replaces_its_input_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_relu(buffer, in[0].addr, &shape, NULL, NULL);
    okk_bdc_sub(out[0].addr, in[0].addr, buffer, &shape, NULL, NULL, NULL);
    okk_bdc_add_C(out[0].addr, out[0].addr, 0.f, &shape, NULL, NULL);
    return BM_LAYER_OK;
}

/* Pairs of columns, and the last one by itself. */
__BM_PARAM__(TPU_C_PAIRS_OF_COLUMNS)
typedef struct {
} c_pairs_of_columns_t;
__BM_SHAPE__(TPU_C_PAIRS_OF_COLUMNS)
SHAPE(c_pairs_of_columns_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_C_PAIRS_OF_COLUMNS)
GLOBAL(c_pairs_of_columns_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_C_PAIRS_OF_COLUMNS)
LOCAL(c_pairs_of_columns_local) {
    const dim4 shape = tile(&out[0]);
    dim4 part = shape, stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    part.w = shape.w / 2 * 2;
    if (part.w > 0) okk_bdc_mul_C(out[0].addr, in[0].addr, 2.f, &part, &stride, &stride);
    const local_addr_t last = part.w * FLOAT;
    part.w = shape.w % 2;
    if (part.w > 0) okk_bdc_add(out[0].addr + last, in[0].addr + last, in[0].addr + last, &part, &stride, &stride, &stride);
    return BM_LAYER_OK;
}
