/* TPU_CONCAT: its inputs one after the other along one dimension; any type.
 *
 * Inputs: several of one type
 * Makes: one after the other along a dimension; nothing runs where they are made in place
 */
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_CONCAT)
typedef struct {
    int axis; /* the dimension along which they are joined; negative counts from the end */
} tpu_concat_param_t;

__BM_SHAPE__(TPU_CONCAT)
int concat_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_concat_param_t) || in_num < 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_concat_param_t *p = param;
    const tpu_tensor_t *first = &in_tensors[0];
    const int dims = (int)first->dims, axis = bm_layer_axis(p->axis, dims);
    if (axis < 0) return BM_LAYER_PARAM_INVALID;
    tpu_tensor_t *out = &out_tensors[0];
    bm_output_like(out, first, dims);
    long long length = 0;
    for (int i = 0; i < in_num; i++) {
        const tpu_tensor_t *in = &in_tensors[i];
        if (in->dtype != first->dtype || in->store_mode != first->store_mode || in->scale != first->scale)
            return BM_LAYER_NOT_SUPPORTED;
        if (in->dims != first->dims) return BM_LAYER_PARAM_INVALID;
        for (int d = 0; d < dims; d++)
            if (d != axis && in->shape[d] != first->shape[d]) return BM_LAYER_PARAM_INVALID;
        length += in->shape[axis];
    }
    if (length > 0x7fffffff) return BM_LAYER_NOT_SUPPORTED;
    for (int d = 0; d < dims; d++) out->shape[d] = d == axis ? (int)length : first->shape[d];
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_CONCAT)
int concat_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param_size, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_concat_param_t *p = param;
    const tpu_tensor_t y = bm_layer_as_words(&out_tensors[0]), *out = &y;
    const int axis = bm_layer_axis(p->axis, (int)out->dims), bytes = bm_element_bytes(out->dtype);
    const long long row = bm_stride_of(out, axis); /* elements of one index of the axis */
    u64 target = out->addr;
    okk_initialize();
    for (int i = 0; i < in_num; i++) {
        const int length = in_tensors[i].shape[axis];
        bm_move m = {.dims = 0};
        bm_move_add(&m, out->elem_num / (int)(row * out->shape[axis]), row * out->shape[axis], row * length);
        bm_move_add(&m, (int)(row * length), 1, 1);
        bm_move_run(target, in_tensors[i].addr, &m, bytes);
        target += (u64)(row * length * bytes);
    }
    okk_poll();
    return BM_LAYER_OK;
}
