/* TPU_TURN: tokens with their channels last from a picture or a row of them with channels second, and back, of any
 * words: 8-bit integers in 4N and 16-bit ones in 2N too, which keep type and scale.
 *
 * Inputs: x `[N, C, ...]`, or `[N, T, C]` for a picture of T pixels; of any type of 32 bits, or integers in 4N or 2N
 * Makes: tokens of pictures, pictures of tokens
 */
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "bm_atomic.h"
#include "okk.h"

/* The input is [N, rows, ...], whose last dimensions are columns; the output has these columns second, and the rows
 * last: as one dimension, or as a picture. */
__BM_PARAM__(TPU_TURN)
typedef struct {
    int height, width; /* of a picture, 0: [N, columns, rows]. Else it is [N, columns, height, width] */
} tpu_turn_param_t;

typedef struct {
    int batches, rows, columns;
} matrices;

/* Of words: batches that share them are turned together. */
static matrices matrices_of(const tpu_tensor_t *in) {
    const int batches = bm_layer_as_words(in).shape[0];
    return (matrices){batches, in->shape[1], (int)bm_layer_elements(in->shape, 2, (int)in->dims)};
}

__BM_SHAPE__(TPU_TURN)
int turn_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_turn_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_turn_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    if (in->dims < 3 || bm_element_bytes(bm_layer_as_words(in).dtype) != 4) return BM_LAYER_NOT_SUPPORTED;
    const matrices m = matrices_of(in);
    const bool picture = p->height != 0;
    if (picture && (p->height < 1 || p->width < 1 || (long long)p->height * p->width != m.rows))
        return BM_LAYER_PARAM_INVALID;
    tpu_tensor_t *out = &out_tensors[0];
    bm_output_like(out, in, picture ? 4 : 3);
    out->shape[0] = in->shape[0];
    out->shape[1] = m.columns;
    out->shape[2] = picture ? p->height : m.rows;
    if (picture) out->shape[3] = p->width;
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_TURN)
int turn_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const matrices m = matrices_of(&in_tensors[0]);
    okk_initialize();
    bm_move_turned(out_tensors[0].addr, in_tensors[0].addr, m.batches, m.rows, m.columns);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: by the DMA engine, whole matrices of some batches ---- */

__BM_LOCAL__(TPU_TURN)
int turn_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const matrices m = matrices_of(&in_tensors[0]);
    const int batches = bm_layer_as_words(&in_tensors[0]).slice_shape[0];
    const int from = local_line(m.columns), to = local_line(m.rows);
    for (int n = 0; n < batches; n++) {
        const CWTransParam turned = {.src_addr = in_tensors[0].addr + 4u * (u64)n * (u64)(local_slots(m.rows) * from),
                                     .dst_addr = out_tensors[0].addr + 4u * (u64)n * (u64)(local_slots(m.columns) * to),
                                     .src_c = (unsigned int)m.rows,
                                     .src_w = (unsigned int)m.columns,
                                     .format = BM_GDMA_FORMAT_FLOAT32,
                                     .src_c_stride = (unsigned int)from,
                                     .dst_c_stride = (unsigned int)to};
        bm_atomic_cwtrans(&turned);
    }
    return BM_LAYER_OK;
}
