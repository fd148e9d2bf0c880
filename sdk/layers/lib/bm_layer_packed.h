/* Element-wise layers on 8-bit integers in 4N: tiles of words, each of four batches. */
#ifndef BM_LAYER_PACKED_H
#define BM_LAYER_PACKED_H

#include <stdbool.h>

#include "bm_layer_tiles.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define BM_PACKED 4        /* batches in a word */
#define BM_PACKED_MAX 127  /* the greatest int8 */
#define BM_SHIFT_MAX 31    /* places that a command shifts its result */

/* Whether a command multiplies with such a number, and whether it shifts so far. */
static inline bool bm_is_multiplier(int m) { return m >= 1 && m <= BM_PACKED_MAX; }
static inline bool bm_is_rshift(int rshift) { return rshift >= 0 && rshift <= BM_SHIFT_MAX; }

/* What a layer is asked to do. A tile's function gets it as its param. */
typedef struct {
    const void *param;
    const tpu_tensor_t *out, *in;
    int batches; /* of a tile that the compiler made; 0: four for each word */
} bm_packed;

/* Whether a tensor is one of 8 bits in 4N, with a scale. */
static inline bool bm_is_packed(const tpu_tensor_t *t) {
    return (t->dtype == DTYPE_INT8 || t->dtype == DTYPE_UINT8) && t->store_mode == STORE_MODE_4N && t->scale > 0.0f;
}

/* Whether it is a constant of bytes as descriptors lay them out in words, DTYPE_INT32 for those with signs. */
static inline bool bm_is_packed_words(const tpu_tensor_t *t) {
    return t->dtype == DTYPE_INT32 || t->dtype == DTYPE_UINT32;
}

/* Whether a layer can be asked for results of this type and scale. */
static inline bool bm_packed_result(int dtype, float scale) {
    return (dtype == DTYPE_INT8 || dtype == DTYPE_UINT8) && scale > 0.0f;
}

static inline bool bm_is_signed(const tpu_tensor_t *t) { return t->dtype == DTYPE_INT8 || t->dtype == DTYPE_INT32; }

/* Format of an output; its shape is left to the caller. */
void bm_packed_output(tpu_tensor_t *out, int dtype, float scale);

/* The tile's elements: those of job->shape, but batches instead of words. */
dim4 bm_packed_shape(const bm_packed *p, const bm_job *job);

/* The sources' types and that of the result; wide: 16 bits. */
static inline op_type_t bm_packed_type(bool sign0, bool sign1, bool wide, bool sign) {
    return (op_type_t)OP_TYPE(1, sign0, sign1, !wide, sign);
}

/* y = 16-bit x, packed in two batches to a word, in 8 bits, saturated; what is below 0 becomes 0 for a result that has
 * no signs. x is changed. */
void bm_packed_narrow(local_addr_t y, local_addr_t x, const dim4 *shape, bool is_signed, bool relu);

/* The global and the local function of such a layer, with so many operands (inputs from the first on) and work buffers.
 * Operands are broadcast as numpy does, but for batches. */
void bm_packed_whole(bm_packed p, int operands, int work_buffers, bm_job_function function);
void bm_packed_tile(bm_packed p, int operands, u64 buffer_offset, bm_job_function function);

#endif
