/* TPU_RESHAPE: the same elements under another shape; any type.
 *
 * Inputs: x of any type
 * Makes: another shape; nothing runs in a static net
 */
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_RESHAPE)
typedef struct {
    int dims; /* of the output, 1 to 8 */
    /* Extents of the output. 0: that of the input's dimension at the same place. -1, once: what the others
     * leave. -2 - k: that of the input's dimension k, so -2 is the first one's. */
    int shape[MAX_SHAPE_DIMS];
} tpu_reshape_param_t;

__BM_SHAPE__(TPU_RESHAPE)
int reshape_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_reshape_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_reshape_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    if (p->dims < 1 || p->dims > MAX_SHAPE_DIMS) return BM_LAYER_PARAM_INVALID;
    int open = -1; /* the dimension that takes what the others leave */
    long long known = 1;
    int *shape = out_tensors[0].shape;
    for (int d = 0; d < p->dims; d++) {
        const int wanted = p->shape[d], source = wanted == 0 ? d : -2 - wanted;
        if (wanted == -1) {
            if (open >= 0) return BM_LAYER_PARAM_INVALID;
            open = d;
            continue;
        }
        if (wanted <= 0 && (source < 0 || source >= (int)in->dims)) return BM_LAYER_PARAM_INVALID;
        shape[d] = wanted > 0 ? wanted : in->shape[source];
        known *= shape[d];
        if (known > in->elem_num) return BM_LAYER_PARAM_INVALID;
    }
    if (open >= 0) shape[open] = (int)(in->elem_num / known);
    if ((open >= 0 ? known * shape[open] : known) != in->elem_num) return BM_LAYER_PARAM_INVALID;
    bm_output_like(&out_tensors[0], in, p->dims);
    if (!bm_layer_keeps_batches(&out_tensors[0], in)) return BM_LAYER_NOT_SUPPORTED;
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_RESHAPE)
int reshape_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                   const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                   const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    bm_move_whole(&out_tensors[0], &in_tensors[0]);
    return BM_LAYER_OK;
}

/* ---- local: rows and columns under other names; nothing runs in place ---- */

__BM_LOCAL__(TPU_RESHAPE)
int reshape_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]);
    const dim4 shape = local_extents(&x);
    if (x.addr != out_tensors[0].addr)
        okk_bdc_32bit_cpy((local_addr_t)out_tensors[0].addr, (local_addr_t)x.addr, &shape, NULL, NULL);
    return BM_LAYER_OK;
}
