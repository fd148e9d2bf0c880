/* More layers with a mistake: several outputs, constants, buffers, shapes that depend on data. */
#include "fault_layers.h"

/* Two outputs; the second has half as many rows and is written with the extents of the first. */
__BM_PARAM__(TPU_F_ROWS_OF_THE_FIRST)
typedef struct {
} f_rows_of_the_first_t;
__BM_SHAPE__(TPU_F_ROWS_OF_THE_FIRST)
SHAPE(f_rows_of_the_first_shape) {
    same_shape(in, &out[0]);
    same_shape(in, &out[1]);
    out[1].shape[2] = out[1].slice_shape[2] = in[0].shape[2] / 2;
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_F_ROWS_OF_THE_FIRST)
GLOBAL(f_rows_of_the_first_global) {
    const dim4 shape = whole(&in[0]), half = whole(&out[1]);
    const dim2 two = {2, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_bdc_max_pool2d(BANK, 0, &shape, 2, 1, NULL, &two);
    (void)half;
    okk_gdma_32bit_cpy_L2S(out[1].addr, BANK, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign|memory.outside|memory.too_much */
    okk_poll();
    return BM_LAYER_OK;
}

/* Asks for a buffer of as many bytes as it needs elements. */
__BM_PARAM__(TPU_F_BUFFER_OF_ELEMENTS)
typedef struct {
} f_buffer_of_elements_t;
__BM_SHAPE__(TPU_F_BUFFER_OF_ELEMENTS)
SHAPE(f_buffer_of_elements_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_BUFFER_OF_ELEMENTS)
GLOBAL(f_buffer_of_elements_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_set_C_system(buffer, (x32){.fp32 = 1}, &shape, NULL); /* FAULT memory.beyond|memory.foreign|memory.outside */
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, buffer, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign|memory.outside */
    okk_bdc_add(0, 0, BANK, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* Adds up in its buffer, which nothing has cleared. */
__BM_PARAM__(TPU_F_SUMS_IN_ITS_BUFFER)
typedef struct {
} f_sums_in_its_buffer_t;
__BM_SHAPE__(TPU_F_SUMS_IN_ITS_BUFFER)
SHAPE(f_sums_in_its_buffer_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_SUMS_IN_ITS_BUFFER)
GLOBAL(f_sums_in_its_buffer_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        okk_gdma_32bit_cpy_S2L(BANK, buffer, &shape, NULL, NULL); /* FAULT init.unwritten */
        okk_bdc_add(BANK, BANK, 0, &shape, NULL, NULL, NULL); /* FAULT init.unwritten */
        okk_gdma_32bit_cpy_L2S(buffer, BANK, &shape, NULL, NULL); /* FAULT init.unwritten */
    }
    okk_gdma_32bit_cpy_S2S(out[0].addr, buffer, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
    return BM_LAYER_OK;
}

/* Batches by pairs: the last of an odd number is left out. */
__BM_PARAM__(TPU_F_PAIRS_OF_BATCHES)
typedef struct {
} f_pairs_of_batches_t;
__BM_SHAPE__(TPU_F_PAIRS_OF_BATCHES)
SHAPE(f_pairs_of_batches_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_PAIRS_OF_BATCHES)
GLOBAL(f_pairs_of_batches_global) { /* FAULT memory.not_written */
    const int *s = in[0].shape;
    const dim4 pair = {2, s[1], s[2], s[3]};
    okk_initialize();
    for (int n = 0; n + 1 < s[0]; n += 2) {
        const u64 at = 4ull * n * s[1] * s[2] * s[3];
        okk_gdma_32bit_cpy_S2L(0, in[0].addr + at, &pair, NULL, NULL);
        okk_bdc_relu(0, 0, &pair, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(out[0].addr + at, 0, &pair, NULL, NULL); /* FAULT memory.not_written */
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* Says that it has rounded up rows, and pools as many as there are whole windows. */
__BM_PARAM__(TPU_F_ROWS_ROUNDED_UP)
typedef struct {
} f_rows_rounded_up_t;
__BM_SHAPE__(TPU_F_ROWS_ROUNDED_UP)
SHAPE(f_rows_rounded_up_shape) {
    same_shape(in, out);
    out->shape[2] = out->slice_shape[2] = (in->shape[2] + 1) / 2;
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_F_ROWS_ROUNDED_UP)
GLOBAL(f_rows_rounded_up_global) { /* FAULT memory.not_written */
    const dim4 shape = whole(&in[0]), pooled = {shape.n, shape.c, shape.h / 2, shape.w};
    const dim4 rows = {shape.c * out[0].shape[2] * shape.w, out[0].shape[2] * shape.w, shape.w, 1};
    const dim2 two = {2, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_max_pool2d(HALF, 0, &shape, 2, 1, NULL, &two);
    okk_gdma_32bit_cpy_L2S(out[0].addr, HALF, &pooled, &rows, NULL); /* FAULT memory.not_written */
    okk_poll();
    return BM_LAYER_OK;
}

/* Three inputs behind each other by channels; the third one's place counts the first one's channels twice. */
__BM_PARAM__(TPU_F_PLACE_OF_THE_THIRD)
typedef struct {
} f_place_of_the_third_t;
__BM_SHAPE__(TPU_F_PLACE_OF_THE_THIRD)
SHAPE(f_place_of_the_third_shape) {
    same_shape(in, out);
    out->shape[1] = out->slice_shape[1] = in[0].shape[1] + in[1].shape[1] + in[2].shape[1];
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_F_PLACE_OF_THE_THIRD)
GLOBAL(f_place_of_the_third_global) { /* FAULT memory.not_written */
    okk_initialize();
    for (int i = 0; i < 3; i++) {
        const dim4 shape = whole(&in[i]), to = {out[0].shape[1] * shape.h * shape.w, shape.h * shape.w, shape.w, 1};
        okk_gdma_32bit_cpy_S2S(out[0].addr + 4ull * i * in[0].shape[1] * shape.h * shape.w, in[i].addr, &shape, &to, NULL); /* FAULT memory.not_written|memory.beyond */
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* Declares fp32 and writes 16-bit numbers. */
__BM_PARAM__(TPU_F_HALVES_FOR_WORDS)
typedef struct {
} f_halves_for_words_t;
__BM_SHAPE__(TPU_F_HALVES_FOR_WORDS)
SHAPE(f_halves_for_words_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_HALVES_FOR_WORDS)
GLOBAL(f_halves_for_words_global) { /* FAULT memory.not_written */
    const dim4 shape = whole(&in[0]);
    dim4 halves;
    okk_128_byte_aligned_stride_for_16bit(&halves, 0, &shape);
    okk_initialize();
    okk_gdma_16bit_cpy_S2L(0, in[0].addr, &shape, &halves, NULL);
    okk_gdma_16bit_cpy_L2S(out[0].addr, 0, &shape, NULL, &halves); /* FAULT memory.not_written */
    okk_poll();
    return BM_LAYER_OK;
}

/* Pairs of constants for each channel, of which the last channel's second is not there. */
__BM_PARAM__(TPU_F_PAIRS_OF_CONSTANTS)
typedef struct {
} f_pairs_of_constants_t;
__BM_SHAPE__(TPU_F_PAIRS_OF_CONSTANTS)
SHAPE(f_pairs_of_constants_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_PAIRS_OF_CONSTANTS)
GLOBAL(f_pairs_of_constants_global) {
    const dim4 shape = whole(&in[0]), one = {1, shape.c, 1, 1}, stride = {0, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        okk_gdma_32bit_cpy_S2L(HALF + i * 128, in[1].addr + i * FLOAT, &one, &stride, &stride); /* FAULT memory.beyond|memory.foreign|memory.outside */
        okk_bdc_bias(0, 0, HALF + i * 128, &shape, NULL, NULL);
    }
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* Keeps the rows that begin with a number above 0, and says that there is one more. */
__BM_PARAM__(TPU_F_ONE_ROW_MORE)
typedef struct {
} f_one_row_more_t;
__BM_SHAPE__(TPU_F_ONE_ROW_MORE)
SHAPE(f_one_row_more_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_ONE_ROW_MORE)
GLOBAL(f_one_row_more_global) { /* FAULT memory.not_written */
    const int rows = in[0].shape[0], width = in[0].shape[1];
    okk_initialize();
    okk_poll();
    const float *from = (const float *)okk_global_mem_addr(in[0].addr);
    float *to = (float *)okk_global_mem_addr(out[0].addr);
    int kept = 0;
    for (int row = 0; row < rows; row++) {
        if (from[row * width] <= 0) continue;
        for (int i = 0; i < width; i++) to[kept * width + i] = from[row * width + i]; /* FAULT memory.not_written */
        kept++;
    }
    same_shape(in, out);
    out[0].shape[0] = kept + 1;
    return BM_LAYER_OK;
}

/* The controller reads what a copy brings into the buffer, and does not wait for it. */
__BM_PARAM__(TPU_F_BUFFER_TOO_EARLY)
typedef struct {
} f_buffer_too_early_t;
__BM_SHAPE__(TPU_F_BUFFER_TOO_EARLY)
SHAPE(f_buffer_too_early_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_BUFFER_TOO_EARLY)
GLOBAL(f_buffer_too_early_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_max_pool2d(HALF, 0, &shape, shape.h, shape.w, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(buffer, HALF, &(dim4){1, shape.c, 1, 1}, NULL, NULL); /* OTHER */
    const float *largest = (const float *)okk_global_mem_addr(buffer);
    float most = 0;
    for (int c = 0; c < shape.c; c++) most = MAX(most, largest[c]); /* FAULT hazard.controller */
    okk_bdc_add_C(0, 0, most, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* Reads its input by a pointer, and may be recorded: there is nothing there then. */
__BM_PARAM__(TPU_F_POINTER_WHILE_RECORDED)
typedef struct {
} f_pointer_while_recorded_t;
__BM_SHAPE__(TPU_F_POINTER_WHILE_RECORDED)
SHAPE(f_pointer_while_recorded_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_POINTER_WHILE_RECORDED)
GLOBAL(f_pointer_while_recorded_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_poll();
    const float first = *(const float *)okk_global_mem_addr(in[0].addr); /* FAULT memory.foreign */
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_sub_C(0, 0, first, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* Scratch of a tile as if there were one slot of channels. */
__BM_PARAM__(TPU_F_SCRATCH_OF_A_SLOT)
typedef struct {
} f_scratch_of_a_slot_t;
__BM_SHAPE__(TPU_F_SCRATCH_OF_A_SLOT)
SHAPE(f_scratch_of_a_slot_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_SCRATCH_OF_A_SLOT)
GLOBAL(f_scratch_of_a_slot_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_SCRATCH_OF_A_SLOT)
LOCAL(f_scratch_of_a_slot_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_32bit_cpy(buffer, in[0].addr, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign|memory.read_only */
    okk_bdc_add(out[0].addr, in[0].addr, buffer, &shape, NULL, NULL, NULL); /* FAULT memory.beyond|memory.foreign */
    return BM_LAYER_OK;
}

/* Adds its tile to scratch which is thought to begin at 0. */
__BM_PARAM__(TPU_F_ADDS_TO_SCRATCH)
typedef struct {
} f_adds_to_scratch_t;
__BM_SHAPE__(TPU_F_ADDS_TO_SCRATCH)
SHAPE(f_adds_to_scratch_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_ADDS_TO_SCRATCH)
GLOBAL(f_adds_to_scratch_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_ADDS_TO_SCRATCH)
LOCAL(f_adds_to_scratch_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_mac_C(buffer, in[0].addr, 2.f, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_bdc_32bit_cpy(out[0].addr, buffer, &shape, NULL, NULL); /* FAULT init.unwritten */
    return BM_LAYER_OK;
}

/* Pairs of columns: the last one of an odd width is left out. */
__BM_PARAM__(TPU_F_PAIRS_OF_COLUMNS)
typedef struct {
} f_pairs_of_columns_t;
__BM_SHAPE__(TPU_F_PAIRS_OF_COLUMNS)
SHAPE(f_pairs_of_columns_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_PAIRS_OF_COLUMNS)
GLOBAL(f_pairs_of_columns_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_PAIRS_OF_COLUMNS)
LOCAL(f_pairs_of_columns_local) { /* FAULT memory.not_written */
    const dim4 shape = tile(&out[0]), pairs = {shape.n, shape.c, shape.h, shape.w / 2 * 2};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    okk_bdc_mul_C(out[0].addr, in[0].addr, 2.f, &pairs, &stride, &stride); /* FAULT memory.not_written */
    return BM_LAYER_OK;
}

/* The tile may lie where the input's lies, which is read again when it has been written. */
__BM_PARAM__(TPU_F_READS_WHAT_IT_REPLACED)
typedef struct {
} f_reads_what_it_replaced_t;
__BM_SHAPE__(TPU_F_READS_WHAT_IT_REPLACED)
SHAPE(f_reads_what_it_replaced_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_READS_WHAT_IT_REPLACED)
GLOBAL(f_reads_what_it_replaced_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_READS_WHAT_IT_REPLACED)
LOCAL(f_reads_what_it_replaced_local) {
    const dim4 shape = tile(&out[0]);
    okk_bdc_relu(out[0].addr, in[0].addr, &shape, NULL, NULL); /* OTHER */
    okk_bdc_sub(out[0].addr, in[0].addr, out[0].addr, &shape, NULL, NULL, NULL); /* FAULT memory.read_only */
    return BM_LAYER_OK;
}

/* Five rows make one, and the descriptor says three. */
__BM_PARAM__(TPU_F_TWO_ROWS_FEWER)
typedef struct {
} f_two_rows_fewer_t;
__BM_SHAPE__(TPU_F_TWO_ROWS_FEWER)
SHAPE(f_two_rows_fewer_shape) {
    same_shape(in, out);
    const int first = in->processed[2] - in->slice_pad[2] + 1;
    const int ends = in->processed[2] + in->slice_shape[2] == in->shape[2];
    out->processed[2] = first;
    out->slice_shape[2] = ends ? in->shape[2] - first : in->slice_pad[2] + in->slice_shape[2] - 2;
    out->slice_pad[2] = 0;
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_F_TWO_ROWS_FEWER)
GLOBAL(f_two_rows_fewer_global) { return double_all(in, out); }
__BM_LOCAL__(TPU_F_TWO_ROWS_FEWER)
LOCAL(f_two_rows_fewer_local) {
    const dim4 x = tile(&in[0]), y = tile(&out[0]);
    const int row = y.w * FLOAT, height = out[0].shape[2], y_first = out[0].processed[2], x_first = in[0].processed[2];
    dim4 xs, ys;
    okk_128_byte_aligned_stride_for_32bit(&xs, 0, &x);
    okk_128_byte_aligned_stride_for_32bit(&ys, 0, &y);
    okk_bdc_32bit_cpy(out[0].addr, in[0].addr + (y_first - x_first) * row, &y, &ys, &xs);
    for (int side = -2; side <= 2; side++) {
        const int begin = MAX(y_first, -side), end = MIN(y_first + y.h, height - side);
        const dim4 part = {y.n, y.c, end - begin, y.w};
        if (part.h < 1 || side == 0) continue;
        const local_addr_t to = out[0].addr + (begin - y_first) * row;
        okk_bdc_add(to, to, in[0].addr + (begin + side - x_first) * row, &part, &ys, &ys, &xs); /* FAULT memory.beyond|memory.foreign|memory.outside|init.unwritten */
    }
    return BM_LAYER_OK;
}
