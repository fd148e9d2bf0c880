/* TPU_EXPAND_DIMS: inserts a dimension of extent 1; the elements stay as they are. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_EXPAND_DIMS)
typedef struct {
    int axis; /* where the new dimension goes; negative counts from the end: -1 is the last */
} tpu_expand_dims_param_t;

__BM_SHAPE__(TPU_EXPAND_DIMS)
int expand_dims_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_expand_dims_param_t) || in_num != 1 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    if (in->dims == MAX_SHAPE_DIMS) return BM_LAYER_NOT_SUPPORTED;
    const int dims = (int)in->dims + 1;
    int axis = ((const tpu_expand_dims_param_t *)param)->axis;
    if (axis < 0) axis += dims;
    if (axis < 0 || axis >= dims) return BM_LAYER_PARAM_INVALID;
    out->ttype = in->ttype;
    out->dtype = in->dtype;
    out->store_mode = in->store_mode;
    out->dims = (unsigned int)dims;
    for (int d = 0; d < dims; d++) out->shape[d] = d < axis ? in->shape[d] : d == axis ? 1 : in->shape[d - 1];
    return BM_LAYER_OK;
}

/* Nothing to do where the output shares the input's memory; otherwise a copy. */
__BM_GLOBAL__(TPU_EXPAND_DIMS)
int expand_dims_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                       const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                       const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    static const unsigned char bytes[] = {4, 2, 1, 1, 2, 2, 4, 4}; /* of an element, by DATA_TYPE_T */
    const tpu_tensor_t *in = &in_tensors[0];
    unsigned long long source = in->addr, target = out_tensors[0].addr;
    unsigned long long left = (unsigned long long)in->elem_num * bytes[in->dtype];
    if (source == target) return BM_LAYER_OK;
    okk_initialize();
    while (left > 0) {
        /* Rows of at most 32 KiB, at most 65535 of them in one copy; a last, shorter row alone. */
        dim4 shape = {1, 1, 1, 32768};
        if (left < 32768) shape.w = (int)left;
        const unsigned long long rows = left / (unsigned long long)shape.w;
        shape.h = rows < 65535 ? (int)rows : 65535;
        okk_gdma_8bit_cpy_S2S(target, source, &shape, NULL, NULL);
        const unsigned long long copied = (unsigned long long)shape.h * (unsigned long long)shape.w;
        source += copied;
        target += copied;
        left -= copied;
    }
    okk_poll();
    return BM_LAYER_OK;
}
