/* TPU_TOPK: the k largest or smallest numbers along one dimension, sorted, and their int32 indices. Equal numbers keep
 * their order, NaN comes last. Rows are sorted by bm_atomic_sort: on the chip another engine does that, whose commands
 * nobody documents, so a net with this layer runs on the emulator only.
 *
 * Inputs: x
 * Makes: the largest or smallest numbers of a dimension and their int32 indices
 */
#include "bm_atomic.h"
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_TOPK)
typedef struct {
    int axis;     /* negative counts from the end */
    int k;        /* 1 to the extent of that dimension */
    int smallest; /* 1: the smallest numbers, rising; 0: the largest, falling */
} tpu_topk_param_t;

__BM_SHAPE__(TPU_TOPK)
int topk_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_topk_param_t) || in_num != 1 || out_num != 2) return BM_LAYER_PARAM_INVALID;
    const tpu_topk_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    const int axis = bm_layer_axis(p->axis, (int)in->dims);
    if (axis < 0 || p->k < 1 || p->k > in->shape[axis] || (p->smallest & ~1)) return BM_LAYER_PARAM_INVALID;
    if (!bm_layer_all_fp32(in_tensors, 1)) return BM_LAYER_NOT_SUPPORTED;
    for (int i = 0; i < 2; i++) {
        out_tensors[i].ttype = BMNET_NEURON;
        out_tensors[i].dtype = i == 0 ? DTYPE_FP32 : DTYPE_INT32;
        out_tensors[i].dims = in->dims;
        for (unsigned int d = 0; d < in->dims; d++) out_tensors[i].shape[d] = (int)d == axis ? p->k : in->shape[d];
    }
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_TOPK)
int topk_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const tpu_topk_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    const int dims = (int)in->dims, axis = bm_layer_axis(p->axis, dims), length = in->shape[axis];
    const int outer = (int)bm_layer_elements(in->shape, 0, axis);
    const int inner = (int)bm_layer_elements(in->shape, axis + 1, dims);
    const u64 rows = (u64)outer * (u64)inner;
    /* A row has to lie together: if it does not, copies of everything are turned. */
    u64 source = in->addr, values = out_tensors[0].addr, indices = out_tensors[1].addr;
    okk_initialize();
    if (inner > 1) {
        source = buffer_addr;
        values = source + 4 * rows * (u64)length;
        indices = values + 4 * rows * (u64)p->k;
        bm_move_turned(source, in->addr, outer, length, inner);
    }
    for (u64 r = 0; r < rows; r++) {
        const SortParam sort = {.input_data_addr = source + 4 * r * (u64)length,
                                .output_data_addr = values + 4 * r * (u64)p->k,
                                .output_index_addr = indices + 4 * r * (u64)p->k,
                                .input_len = (unsigned int)length,
                                .output_len = (unsigned int)p->k,
                                .order = p->smallest ? BM_ASCEND : BM_DESCEND,
                                .index_enable = true,
                                .index_auto = true};
        bm_atomic_sort(&sort);
    }
    if (inner > 1) {
        bm_move_turned(out_tensors[0].addr, values, outer, inner, p->k);
        bm_move_turned(out_tensors[1].addr, indices, outer, inner, p->k);
    }
    okk_poll();
    return BM_LAYER_OK;
}
