/* TPU_CROP: cuts elements off at both ends of every dimension; any data type, up to 8 dimensions. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_CROP)
typedef struct {
    int before[MAX_SHAPE_DIMS]; /* elements cut off at the start of each dimension */
    int after[MAX_SHAPE_DIMS];  /* and at its end */
} tpu_crop_param_t;

/* Bytes of an element by DATA_TYPE_T. */
static int element_bytes(int dtype) {
    switch (dtype) {
    case DTYPE_FP32:
    case DTYPE_INT32:
    case DTYPE_UINT32:
        return 4;
    case DTYPE_FP16:
    case DTYPE_INT16:
    case DTYPE_UINT16:
        return 2;
    default:
        return 1;
    }
}

/* ---- shape ---- */

/* Of the elements [first, first + extent) of the input, those that the crop keeps, as output indices. */
static void keep(int *first, int *extent, int before, int out_shape) {
    int begin = *first - before, end = begin + *extent;
    if (begin < 0) begin = 0;
    if (end > out_shape) end = out_shape;
    *first = begin;
    *extent = end - begin;
}

__BM_SHAPE__(TPU_CROP)
int crop_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_crop_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_crop_param_t *crop = param;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    out->ttype = BMNET_NEURON;
    out->dtype = in->dtype;
    out->dims = in->dims;
    for (unsigned int d = 0; d < in->dims; d++) {
        if (crop->before[d] < 0 || crop->after[d] < 0) return BM_LAYER_PARAM_INVALID;
        out->shape[d] = in->shape[d] - crop->before[d] - crop->after[d];
        if (out->shape[d] < 1) return BM_LAYER_PARAM_INVALID;
        out->processed[d] = in->processed[d];
        out->slice_shape[d] = in->slice_shape[d];
        out->slice_pad[d] = 0;
        keep(&out->processed[d], &out->slice_shape[d], crop->before[d], out->shape[d]);
    }
    for (unsigned int d = in->dims; d < MAX_SHAPE_DIMS; d++)
        if (crop->before[d] != 0 || crop->after[d] != 0) return BM_LAYER_PARAM_INVALID;
    return BM_LAYER_OK;
}

/* ---- global: strided copies within DDR ---- */

#define GDMA_MAX 65535 /* largest extent of a copy in each dimension */

typedef unsigned long long u64_t;

/* A box of elements to copy, strides in elements. */
typedef struct {
    int dims;
    int shape[MAX_SHAPE_DIMS];
    u64_t out_stride[MAX_SHAPE_DIMS], in_stride[MAX_SHAPE_DIMS];
    int element; /* bytes */
} box;

/* Joins neighbouring dimensions where the inner one is not cropped: [64, 40, 40] cropped in the first
 * dimension only is a box of [64, 1600]. A joined dimension may not outgrow one copy. */
static box make_box(const tpu_tensor_t *in, const tpu_tensor_t *out) {
    box b = {.dims = 0, .element = element_bytes(in->dtype)};
    u64_t in_stride = 1, out_stride = 1;
    bool whole = false; /* the dimension inside this one is kept completely */
    for (int d = (int)in->dims - 1; d >= 0; d--) {
        int outer = b.dims - 1; /* dimensions are collected from the inside to the outside */
        if (whole && (u64_t)b.shape[outer] * (u64_t)out->shape[d] <= GDMA_MAX) {
            b.shape[outer] *= out->shape[d];
        } else {
            b.shape[b.dims] = out->shape[d];
            b.in_stride[b.dims] = in_stride;
            b.out_stride[b.dims] = out_stride;
            b.dims++;
        }
        whole = out->shape[d] == in->shape[d];
        in_stride *= (u64_t)in->shape[d];
        out_stride *= (u64_t)out->shape[d];
    }
    for (; b.dims < 4; b.dims++) {
        b.shape[b.dims] = 1;
        b.in_stride[b.dims] = in_stride;
        b.out_stride[b.dims] = out_stride;
    }
    return b;
}

/* Copies the box, cut so that every copy has four dimensions of at most GDMA_MAX elements. */
static void copy_box(const box *b, u64_t target, u64_t source) {
    for (int d = b->dims - 1; d >= 0; d--) {
        int most = d < 4 ? GDMA_MAX : 1;
        if (b->shape[d] <= most) continue;
        box part = *b;
        for (int first = 0; first < b->shape[d]; first += most) {
            int left = b->shape[d] - first;
            part.shape[d] = left < most ? left : most;
            copy_box(&part, target + (u64_t)first * b->out_stride[d] * (u64_t)b->element,
                     source + (u64_t)first * b->in_stride[d] * (u64_t)b->element);
        }
        return;
    }
    const dim4 shape = {b->shape[3], b->shape[2], b->shape[1], b->shape[0]};
    const dim4 out = {(int)b->out_stride[3], (int)b->out_stride[2], (int)b->out_stride[1], 1};
    const dim4 in = {(int)b->in_stride[3], (int)b->in_stride[2], (int)b->in_stride[1], 1};
    if (b->element == 4)
        okk_gdma_32bit_cpy_S2S(target, source, &shape, &out, &in);
    else if (b->element == 2)
        okk_gdma_16bit_cpy_S2S(target, source, &shape, &out, &in);
    else
        okk_gdma_8bit_cpy_S2S(target, source, &shape, &out, &in);
}

__BM_GLOBAL__(TPU_CROP)
int crop_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_crop_param_t *crop = param;
    const tpu_tensor_t *in = &in_tensors[0], *out = &out_tensors[0];
    u64_t first = 0; /* index of the first element that is kept */
    for (unsigned int d = 0; d < in->dims; d++) first = first * (u64_t)in->shape[d] + (u64_t)crop->before[d];
    const box b = make_box(in, out);
    okk_initialize();
    copy_box(&b, out->addr, in->addr + first * (u64_t)b.element);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: one strided copy within local memory, heights and widths only ---- */

__BM_LOCAL__(TPU_CROP)
int crop_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_crop_param_t *crop = param;
    const tpu_tensor_t *in = &in_tensors[0], *out = &out_tensors[0];
    if (element_bytes(in->dtype) != 4 || in->dims != 4) return BM_LAYER_NOT_SUPPORTED;
    /* Row and column of the input tile at which the output tile begins. */
    const int row = out->processed[2] + crop->before[2] - in->processed[2];
    const int column = out->processed[3] + crop->before[3] - in->processed[3];
    if (row < 0 || row + out->slice_shape[2] > in->slice_shape[2]) return BM_LAYER_RUNTIME_ERROR;
    if (column < 0 || column + out->slice_shape[3] > in->slice_shape[3]) return BM_LAYER_RUNTIME_ERROR;

    const dim4 shape = {out->slice_shape[0], out->slice_shape[1], out->slice_shape[2], out->slice_shape[3]};
    const dim4 in_shape = {in->slice_shape[0], in->slice_shape[1], in->slice_shape[2], in->slice_shape[3]};
    dim4 in_stride;
    okk_128_byte_aligned_stride_for_32bit(&in_stride, 0, &in_shape);
    const local_addr_t source = (local_addr_t)in->addr + 4u * (unsigned)(row * in_stride.h + column);
    okk_bdc_32bit_cpy((local_addr_t)out->addr, source, &shape, NULL, &in_stride);
    return BM_LAYER_OK;
}
