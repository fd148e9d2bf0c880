/* Copies on several devices: the first tensor_num[0] tensors are on the first handle, and so on. */
#include "bmrt_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    bm_tensor_t *tensors, *sources; /* sources: of copies inside a device */
    void **datas;
    size_t *offsets, *source_offsets, *sizes;
    bm_shape_t *strides, *source_strides, *shapes; /* of copies of parts of tensors */
    bool to_device;
} copies;

enum { MOST_DIMS = 4 };

/* Bytes from the first element to behind the last one; 0 for strides or extents that make no sense. */
static size_t reach(const bm_shape_t *shape, const bm_shape_t *stride, size_t width) {
    size_t last = 0;
    for (int d = 0; d < shape->num_dims; d++) {
        if (shape->dims[d] < 1 || stride->dims[d] < 0) return 0;
        last += (size_t)(shape->dims[d] - 1) * (size_t)stride->dims[d];
    }
    return (last + 1) * width;
}

/* With strides: both parts come to the host, where the elements move. */
static bool copy_part(bm_handle_t handle, const copies *c, int i, const char *function) {
    const bm_shape_t *shape = &c->shapes[i], *to_stride = &c->strides[i], *from_stride = &c->source_strides[i];
    size_t width = bmrt_data_type_size(c->sources[i].dtype);
    if (shape->num_dims < 1 || shape->num_dims > MOST_DIMS)
        return bmrt_say(function, "shapes[%d] has %d dimensions; 1 to %d are possible", i, shape->num_dims, MOST_DIMS);
    if (width == 0 || width != bmrt_data_type_size(c->tensors[i].dtype))
        return bmrt_say(function, "the elements of src_tensors[%d] and dst_tensors[%d] have other widths", i, i);
    size_t to_bytes = reach(shape, to_stride, width), from_bytes = reach(shape, from_stride, width);
    if (to_bytes == 0 || from_bytes == 0)
        return bmrt_say(function, "shapes[%d] has an extent below 1, or a stride below 0", i);
    char *to = malloc(to_bytes), *from = malloc(from_bytes);
    bool good = to != NULL && from != NULL;
    if (!good) bmrt_say(function, "out of memory");
    bm_device_mem_t target = c->tensors[i].device_mem, source = c->sources[i].device_mem;
    unsigned int to_at = (unsigned int)c->offsets[i], from_at = (unsigned int)c->source_offsets[i];
    good = good && bm_memcpy_d2s_partial_offset(handle, from, source, (unsigned int)from_bytes, from_at) == BM_SUCCESS &&
           bm_memcpy_d2s_partial_offset(handle, to, target, (unsigned int)to_bytes, to_at) == BM_SUCCESS;
    size_t count = 1;
    for (int d = 0; d < shape->num_dims; d++) count *= (size_t)shape->dims[d];
    for (size_t n = 0; good && n < count; n++) {
        size_t left = n, to_index = 0, from_index = 0;
        for (int d = shape->num_dims - 1; d >= 0; d--) {
            size_t at = left % (size_t)shape->dims[d];
            left /= (size_t)shape->dims[d];
            to_index += at * (size_t)to_stride->dims[d];
            from_index += at * (size_t)from_stride->dims[d];
        }
        memcpy(to + to_index * width, from + from_index * width, width);
    }
    good = good && bm_memcpy_s2d_partial_offset(handle, target, to, (unsigned int)to_bytes, to_at) == BM_SUCCESS;
    free(to);
    free(from);
    return good;
}

static bool copy_one(bm_handle_t handle, const copies *c, int i, const char *function) {
    bm_device_mem_t mem = c->tensors[i].device_mem;
    if (c->shapes != NULL) return copy_part(handle, c, i, function);
    if (c->sources != NULL)
        return bm_memcpy_d2d_byte(handle, mem, c->offsets[i], c->sources[i].device_mem, c->source_offsets[i],
                                  c->sizes[i]) == BM_SUCCESS;
    size_t bytes = bmrt_tensor_bytesize(&c->tensors[i]);
    if (bytes > bm_mem_get_device_size(mem))
        return bmrt_say(function, "tensors[%d] has %zu bytes, its device memory has %u", i, bytes,
                        bm_mem_get_device_size(mem));
    bm_status_t status = c->to_device ? bm_memcpy_s2d_partial(handle, mem, c->datas[i], (unsigned int)bytes)
                                      : bm_memcpy_d2s_partial(handle, c->datas[i], mem, (unsigned int)bytes);
    return status == BM_SUCCESS;
}

static bool copy_all(void *p_bmrt, const copies *c, const int tensor_num[], int device_num, const char *function) {
    if (tensor_num == NULL) return bmrt_say(function, "tensor_num is NULL");
    int i = 0;
    for (int device = 0; device < device_num; device++) {
        bm_handle_t handle = bmrt_handle(p_bmrt, device, NULL, function);
        if (handle == NULL) return false;
        for (int k = 0; k < tensor_num[device]; k++, i++)
            if (!copy_one(handle, c, i, function)) return false;
    }
    return true;
}

bool bmrt_memcpy_s2d_parallel(void *p_bmrt, bm_tensor_t tensors[], void *datas[], int tensor_num[],
                              int device_num) {
    if (tensors == NULL || datas == NULL) return bmrt_say(__func__, "tensors or datas is NULL");
    copies c = {.tensors = tensors, .datas = datas, .to_device = true};
    return copy_all(p_bmrt, &c, tensor_num, device_num, __func__);
}

bool bmrt_memcpy_d2s_parallel(void *p_bmrt, void *datas[], bm_tensor_t tensors[], int tensor_num[],
                              int device_num) {
    if (tensors == NULL || datas == NULL) return bmrt_say(__func__, "tensors or datas is NULL");
    copies c = {.tensors = tensors, .datas = datas};
    return copy_all(p_bmrt, &c, tensor_num, device_num, __func__);
}

bool bmrt_memcpy_d2d_byte_parallel(void *p_bmrt, bm_tensor_t dst_tensors[], size_t dst_offsets[],
                                   bm_tensor_t src_tensors[], size_t src_offsets[], size_t sizes[],
                                   int tensor_num[], int device_num) {
    if (dst_tensors == NULL || dst_offsets == NULL || src_tensors == NULL || src_offsets == NULL || sizes == NULL)
        return bmrt_say(__func__, "an array is NULL");
    copies c = {.tensors = dst_tensors,
                .sources = src_tensors,
                .offsets = dst_offsets,
                .source_offsets = src_offsets,
                .sizes = sizes};
    return copy_all(p_bmrt, &c, tensor_num, device_num, __func__);
}

bool bmrt_memcpy_d2d_stride_ex_parallel(void *p_bmrt, bm_tensor_t dst_tensors[], size_t dst_offsets[],
                                        bm_shape_t dst_strides[], bm_tensor_t src_tensors[], size_t src_offsets[],
                                        bm_shape_t src_strides[], bm_shape_t shapes[], int tensor_num[],
                                        int device_num) {
    if (dst_tensors == NULL || dst_offsets == NULL || dst_strides == NULL || src_tensors == NULL ||
        src_offsets == NULL || src_strides == NULL || shapes == NULL)
        return bmrt_say(__func__, "an array is NULL");
    copies c = {.tensors = dst_tensors,
                .sources = src_tensors,
                .offsets = dst_offsets,
                .source_offsets = src_offsets,
                .strides = dst_strides,
                .source_strides = src_strides,
                .shapes = shapes};
    return copy_all(p_bmrt, &c, tensor_num, device_num, __func__);
}
