/* TPU_SPLIT: its input cut along one dimension, a piece to each output; any type.
 *
 * Inputs: x of any type
 * Makes: x cut along a dimension, a piece to each output
 */
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_SPLIT)
typedef struct {
    int axis; /* negative counts from the end */
    /* Extents of the pieces, as many as there are outputs; all 0: equal ones, the last may be smaller. */
    int sizes[16];
} tpu_split_param_t;

/* Extents of the pieces; false where they do not make up the dimension. */
static bool piece_sizes(const tpu_split_param_t *p, int extent, int count, int *sizes) {
    bool equal = true;
    for (int i = 0; i < 16; i++) {
        if (p->sizes[i] < 0 || (i >= count && p->sizes[i] != 0)) return false;
        if (p->sizes[i] != 0) equal = false;
    }
    const int each = extent / count + (extent % count != 0);
    long long sum = 0;
    for (int i = 0; i < count; i++) {
        sizes[i] = !equal ? p->sizes[i] : sum + each <= extent ? each : extent - (int)sum;
        if (sizes[i] < 1) return false;
        sum += sizes[i];
    }
    return sum == extent;
}

__BM_SHAPE__(TPU_SPLIT)
int split_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_split_param_t) || in_num != 1 || out_num < 1 || out_num > 16)
        return BM_LAYER_PARAM_INVALID;
    const tpu_split_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    const int axis = bm_layer_axis(p->axis, (int)in->dims);
    int sizes[16];
    if (axis < 0 || !piece_sizes(p, in->shape[axis], out_num, sizes)) return BM_LAYER_PARAM_INVALID;
    for (int i = 0; i < out_num; i++) {
        bm_output_like(&out_tensors[i], in, (int)in->dims);
        for (int d = 0; d < (int)in->dims; d++) out_tensors[i].shape[d] = d == axis ? sizes[i] : in->shape[d];
    }
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_SPLIT)
int split_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                 const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size;
    const tpu_split_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), *in = &x;
    const int axis = bm_layer_axis(p->axis, (int)in->dims), bytes = bm_element_bytes(in->dtype);
    const long long row = bm_stride_of(in, axis); /* elements of one index of the axis */
    u64 source = in->addr;
    okk_initialize();
    for (int i = 0; i < out_num; i++) {
        const int length = out_tensors[i].shape[axis];
        bm_move m = {.dims = 0};
        bm_move_add(&m, in->elem_num / (int)(row * in->shape[axis]), row * length, row * in->shape[axis]);
        bm_move_add(&m, (int)(row * length), 1, 1);
        bm_move_run(out_tensors[i].addr, source, &m, bytes);
        source += (u64)(row * length * bytes);
    }
    okk_poll();
    return BM_LAYER_OK;
}
