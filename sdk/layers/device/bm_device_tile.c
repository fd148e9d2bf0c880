/* TPU_TILE: its input several times along each dimension; any type.
 *
 * Inputs: x of any type
 * Makes: x several times along each dimension
 */
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_TILE)
typedef struct {
    int repeats[MAX_SHAPE_DIMS]; /* how often, for each dimension of the input; at least 1 */
} tpu_tile_param_t;

__BM_SHAPE__(TPU_TILE)
int tile_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_tile_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_tile_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    bm_output_like(&out_tensors[0], in, (int)in->dims);
    for (int d = 0; d < (int)in->dims; d++) {
        if (p->repeats[d] < 1 || p->repeats[d] > 0x7fffffff / in->shape[d]) return BM_LAYER_PARAM_INVALID;
        out_tensors[0].shape[d] = p->repeats[d] * in->shape[d];
    }
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_TILE)
int tile_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_tile_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const tpu_tensor_t *in = &x, *out = &y;
    bm_move m = {.dims = 0};
    for (int d = 0; d < (int)in->dims; d++) {
        const long long to = bm_stride_of(out, d);
        bm_move_add(&m, p->repeats[d], to * in->shape[d], 0);
        bm_move_add(&m, in->shape[d], to, bm_stride_of(in, d));
    }
    okk_initialize();
    bm_move_run(out->addr, in->addr, &m, bm_element_bytes(in->dtype));
    okk_poll();
    return BM_LAYER_OK;
}
