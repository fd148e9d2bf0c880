/* Layers whose global function has a mistake. */
#include "fault_layers.h"

/* Doubles its input where it lies, then copies it to the output. */
__BM_PARAM__(TPU_F_WRITES_INPUT)
typedef struct {
} f_writes_input_t;
__BM_SHAPE__(TPU_F_WRITES_INPUT)
SHAPE(f_writes_input_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_WRITES_INPUT)
GLOBAL(f_writes_input_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_mul_C(0, 0, 2.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(in[0].addr, 0, &shape, NULL, NULL); /* FAULT memory.read_only */
    okk_gdma_32bit_cpy_S2S(out[0].addr, in[0].addr, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* Uses its buffer, and asks for none. */
__BM_PARAM__(TPU_F_NO_BUFFER)
typedef struct {
} f_no_buffer_t;
__BM_SHAPE__(TPU_F_NO_BUFFER)
SHAPE(f_no_buffer_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_NO_BUFFER)
GLOBAL(f_no_buffer_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(buffer, in[0].addr, &shape, NULL, NULL); /* FAULT memory.no_buffer|memory.outside|memory.foreign */
    okk_gdma_32bit_cpy_S2S(out[0].addr, buffer, &shape, NULL, NULL); /* FAULT memory.no_buffer|memory.outside|memory.foreign */
    okk_poll();
    return BM_LAYER_OK;
}

/* Asks for a buffer of one batch and uses it for all. */
__BM_PARAM__(TPU_F_BUFFER_TOO_SMALL)
typedef struct {
} f_buffer_too_small_t;
__BM_SHAPE__(TPU_F_BUFFER_TOO_SMALL)
SHAPE(f_buffer_too_small_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_BUFFER_TOO_SMALL)
GLOBAL(f_buffer_too_small_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(buffer, 0, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign|memory.no_buffer */
    okk_gdma_32bit_cpy_S2S(out[0].addr, buffer, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign|memory.no_buffer */
    okk_poll();
    return BM_LAYER_OK;
}

/* Works on whole groups of 64 channels; what is left over is never written. */
__BM_PARAM__(TPU_F_PARTLY_WRITTEN)
typedef struct {
} f_partly_written_t;
__BM_SHAPE__(TPU_F_PARTLY_WRITTEN)
SHAPE(f_partly_written_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_PARTLY_WRITTEN)
GLOBAL(f_partly_written_global) { /* FAULT memory.not_written */
    const int *s = in[0].shape;
    okk_initialize();
    for (int c = 0; c + NPUS <= s[1]; c += NPUS) {
        const dim4 shape = {1, NPUS, s[2], s[3]};
        const u64 at = 4ull * c * s[2] * s[3];
        okk_gdma_32bit_cpy_S2L(0, in[0].addr + at, &shape, NULL, NULL);
        okk_bdc_relu(0, 0, &shape, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(out[0].addr + at, 0, &shape, NULL, NULL); /* FAULT memory.not_written */
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* Only the first batch. */
__BM_PARAM__(TPU_F_FIRST_BATCH)
typedef struct {
} f_first_batch_t;
__BM_SHAPE__(TPU_F_FIRST_BATCH)
SHAPE(f_first_batch_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_FIRST_BATCH)
GLOBAL(f_first_batch_global) { /* FAULT memory.not_written */
    const dim4 shape = {1, in[0].shape[1], in[0].shape[2], in[0].shape[3]};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_neg(0, 0, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL); /* FAULT memory.not_written */
    okk_poll();
    return BM_LAYER_OK;
}

/* Declares 8-bit results and stores words. */
__BM_PARAM__(TPU_F_WRONG_DTYPE)
typedef struct {
} f_wrong_dtype_t;
__BM_SHAPE__(TPU_F_WRONG_DTYPE)
SHAPE(f_wrong_dtype_shape) {
    same_shape(in, out);
    out[0].dtype = DTYPE_INT8;
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_F_WRONG_DTYPE)
GLOBAL(f_wrong_dtype_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_fp32_to_int32(0, 0, &shape);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL); /* FAULT memory.too_much|memory.beyond */
    okk_poll();
    return BM_LAYER_OK;
}

/* Says that a row of two becomes one, and stores both. */
__BM_PARAM__(TPU_F_SMALLER_SHAPE)
typedef struct {
} f_smaller_shape_t;
__BM_SHAPE__(TPU_F_SMALLER_SHAPE)
SHAPE(f_smaller_shape_shape) {
    same_shape(in, out);
    out[0].shape[2] = in[0].shape[2] / 2;
    return BM_LAYER_OK;
}
__BM_GLOBAL__(TPU_F_SMALLER_SHAPE)
GLOBAL(f_smaller_shape_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL); /* FAULT memory.too_much|memory.beyond */
    okk_poll();
    return BM_LAYER_OK;
}

/* Takes the memory behind its output for free. */
__BM_PARAM__(TPU_F_NEIGHBOUR)
typedef struct {
} f_neighbour_t;
__BM_SHAPE__(TPU_F_NEIGHBOUR)
SHAPE(f_neighbour_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_NEIGHBOUR)
GLOBAL(f_neighbour_global) {
    const dim4 shape = whole(&in[0]);
    const u64 scratch = out[0].addr + ALIGN(4ull * in[0].elem_num, 4096);
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(scratch, in[0].addr, &shape, NULL, NULL); /* FAULT memory.foreign|memory.outside|memory.beyond|memory.freed */
    okk_gdma_32bit_cpy_S2L(0, scratch, &shape, NULL, NULL); /* FAULT memory.foreign|memory.outside|memory.beyond|memory.freed */
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* Adds to its output, which nothing wrote before. */
__BM_PARAM__(TPU_F_READS_OUTPUT)
typedef struct {
} f_reads_output_t;
__BM_SHAPE__(TPU_F_READS_OUTPUT)
SHAPE(f_reads_output_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_READS_OUTPUT)
GLOBAL(f_reads_output_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(HALF, out[0].addr, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_bdc_add(0, 0, HALF, &shape, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* Turns its constant into reciprocals where it lies: the second run divides by reciprocals. */
__BM_PARAM__(TPU_F_WRITES_CONSTANT)
typedef struct {
} f_writes_constant_t;
__BM_SHAPE__(TPU_F_WRITES_CONSTANT)
SHAPE(f_writes_constant_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_WRITES_CONSTANT)
GLOBAL(f_writes_constant_global) {
    const dim4 shape = whole(&in[0]), vector = {1, in[0].shape[1], 1, 1}, once = {0, 1, 0, 0};
    dim4 compact;
    okk_compact_stride(&compact, 0, &vector);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(HALF, in[1].addr, &vector, &compact, NULL);
    okk_bdc_reciprocal(HALF, HALF, &vector, &compact, &compact);
    okk_gdma_32bit_cpy_L2S(in[1].addr, HALF, &vector, NULL, &compact); /* FAULT memory.read_only */
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_mul(0, 0, HALF, &shape, NULL, NULL, &once);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* The second input has one number per channel; it is loaded as a map. */
__BM_PARAM__(TPU_F_VECTOR_AS_MAP)
typedef struct {
} f_vector_as_map_t;
__BM_SHAPE__(TPU_F_VECTOR_AS_MAP)
SHAPE(f_vector_as_map_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_VECTOR_AS_MAP)
GLOBAL(f_vector_as_map_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(HALF, in[1].addr, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign */
    okk_bdc_add(0, 0, HALF, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* Stores a batch in the section that computes it. */
__BM_PARAM__(TPU_F_RACE)
typedef struct {
} f_race_t;
__BM_SHAPE__(TPU_F_RACE)
SHAPE(f_race_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_RACE)
GLOBAL(f_race_global) {
    const int *s = in[0].shape;
    const dim4 one = {1, s[1], s[2], s[3]};
    const u64 bytes = 4ull * s[1] * s[2] * s[3];
    okk_initialize();
    for (int n = 0; n < s[0]; n++) {
        okk_gdma_32bit_cpy_S2L(0, in[0].addr + n * bytes, &one, NULL, NULL);
        okk_parallel_start();
        okk_bdc_mul_C(HALF, 0, 2.f, &one, NULL, NULL); /* OTHER */
        okk_gdma_32bit_cpy_L2S(out[0].addr + n * bytes, HALF, &one, NULL, NULL); /* FAULT hazard.raw|hazard.war */
        okk_parallel_end();
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* Expects its input in local memory, where the layer before happened to leave it. */
__BM_PARAM__(TPU_F_LEFT_IN_LOCAL)
typedef struct {
} f_left_in_local_t;
__BM_SHAPE__(TPU_F_LEFT_IN_LOCAL)
SHAPE(f_left_in_local_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_LEFT_IN_LOCAL)
GLOBAL(f_left_in_local_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_bdc_mul_C(HALF, BANK, 3.f, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(out[0].addr, HALF, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
    return BM_LAYER_OK;
}

/* Works on the rows that it was compiled for, whatever comes. */
__BM_PARAM__(TPU_F_COMPILED_ROWS)
typedef struct {
    int rows;
} f_compiled_rows_t;
__BM_SHAPE__(TPU_F_COMPILED_ROWS)
SHAPE(f_compiled_rows_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_COMPILED_ROWS)
GLOBAL(f_compiled_rows_global) {
    const f_compiled_rows_t *p = param;
    const dim4 shape = {in[0].shape[0], in[0].shape[1], p->rows, in[0].shape[3]};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign */
    okk_bdc_relu(0, 0, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign|memory.too_much */
    okk_poll();
    return BM_LAYER_OK;
}

/* Has two outputs and writes one. */
__BM_PARAM__(TPU_F_SECOND_OUTPUT)
typedef struct {
} f_second_output_t;
__BM_SHAPE__(TPU_F_SECOND_OUTPUT)
SHAPE(f_second_output_shape) {
    same_shape(in, &out[0]);
    return same_shape(in, &out[1]);
}
__BM_GLOBAL__(TPU_F_SECOND_OUTPUT)
GLOBAL(f_second_output_global) { /* FAULT memory.not_written */
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_mul_C(HALF, 0, 2.f, &shape, NULL, NULL);
    okk_bdc_mul_C(0, 0, 3.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, HALF, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* Reads the rows of its second input by the extents of the first. */
__BM_PARAM__(TPU_F_EXTENTS_OF_FIRST)
typedef struct {
} f_extents_of_first_t;
__BM_SHAPE__(TPU_F_EXTENTS_OF_FIRST)
SHAPE(f_extents_of_first_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_EXTENTS_OF_FIRST)
GLOBAL(f_extents_of_first_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(HALF, in[1].addr, &shape, NULL, NULL); /* FAULT memory.beyond|memory.foreign */
    okk_bdc_mul(0, 0, HALF, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

/* The controller sums one number more than its input has. */
__BM_PARAM__(TPU_F_POINTER_BEYOND)
typedef struct {
} f_pointer_beyond_t;
__BM_SHAPE__(TPU_F_POINTER_BEYOND)
SHAPE(f_pointer_beyond_shape) { return same_shape(in, out); }
__BM_GLOBAL__(TPU_F_POINTER_BEYOND)
GLOBAL(f_pointer_beyond_global) {
    const dim4 shape = whole(&in[0]);
    okk_initialize();
    okk_poll();
    const float *x = (const float *)okk_global_mem_addr(in[0].addr);
    float sum = 0;
    for (int i = 0; i <= in[0].elem_num; i++) {
        sum += x[i]; /* FAULT memory.beyond|memory.foreign */
    }
    okk_gdma_32bit_cpy_S2L(0, in[0].addr, &shape, NULL, NULL);
    okk_bdc_sub_C(0, 0, sum / (float)in[0].elem_num, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
