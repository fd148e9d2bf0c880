/* Element types, shapes and tensors. */
#include "bmrt_internal.h"

#include <string.h>

size_t bmrt_data_type_size(bm_data_type_t dtype) {
    switch (dtype) {
        case BM_FLOAT32:
        case BM_INT32:
        case BM_UINT32:
            return 4;
        case BM_FLOAT16:
        case BM_BFLOAT16:
        case BM_INT16:
        case BM_UINT16:
            return 2;
        case BM_INT8:
        case BM_UINT8:
        case BM_INT4:
        case BM_UINT4:
            return 1;
    }
    bmrt_say(__func__, "%d is not a data type", (int)dtype);
    return 0;
}

void bmrt_shape(bm_shape_t *shape, const int *dims, int num_dims) {
    if (shape == NULL) {
        bmrt_say(__func__, "shape is NULL");
        return;
    }
    memset(shape, 0, sizeof *shape);
    if (num_dims < 0 || num_dims > BM_MAX_DIMS_NUM) {
        bmrt_say(__func__, "num_dims is %d; 0 to %d are possible", num_dims, BM_MAX_DIMS_NUM);
        return;
    }
    if (dims == NULL && num_dims > 0) {
        bmrt_say(__func__, "dims is NULL");
        return;
    }
    for (int i = 0; i < num_dims; i++) {
        if (dims[i] < 1) {
            bmrt_say(__func__, "dims[%d] is %d; sizes are 1 or more", i, dims[i]);
            return;
        }
    }
    for (int i = 0; i < num_dims; i++) shape->dims[i] = dims[i];
    shape->num_dims = num_dims;
}

static bool count_of(const bm_shape_t *shape, uint64_t *out, const char *function) {
    *out = 0;
    if (shape == NULL) return bmrt_say(function, "shape is NULL");
    if (shape->num_dims < 0 || shape->num_dims > BM_MAX_DIMS_NUM)
        return bmrt_say(function, "num_dims is %d; 0 to %d are possible", shape->num_dims, BM_MAX_DIMS_NUM);
    uint64_t count = 1;
    for (int i = 0; i < shape->num_dims; i++) {
        if (shape->dims[i] < 0) return bmrt_say(function, "dims[%d] is %d", i, shape->dims[i]);
        if (__builtin_mul_overflow(count, (uint64_t)shape->dims[i], &count))
            return bmrt_say(function, "the shape has more than 2^64 elements");
    }
    *out = count;
    return true;
}

uint64_t bmrt_shape_count(const bm_shape_t *shape) {
    uint64_t count;
    count_of(shape, &count, __func__);
    return count;
}

bool bmrt_shape_is_same(const bm_shape_t *left, const bm_shape_t *right) {
    if (left == NULL || right == NULL) return bmrt_say(__func__, "a shape is NULL");
    if (left->num_dims != right->num_dims) return false;
    if (left->num_dims < 0 || left->num_dims > BM_MAX_DIMS_NUM)
        return bmrt_say(__func__, "num_dims is %d; 0 to %d are possible", left->num_dims, BM_MAX_DIMS_NUM);
    for (int i = 0; i < left->num_dims; i++)
        if (left->dims[i] != right->dims[i]) return false;
    return true;
}

/* Bytes of the elements; false with a message, and 0. */
static bool bytes_of(bm_data_type_t dtype, const bm_shape_t *shape, uint64_t *out, const char *function) {
    if (!count_of(shape, out, function)) return false;
    size_t width = bmrt_data_type_size(dtype);
    if (__builtin_mul_overflow(*out, (uint64_t)width, out)) {
        *out = 0;
        return bmrt_say(function, "the tensor has more than 2^64 bytes");
    }
    return width != 0;
}

size_t bmrt_tensor_bytesize(const bm_tensor_t *tensor) {
    uint64_t bytes = 0;
    if (tensor == NULL)
        bmrt_say(__func__, "tensor is NULL");
    else
        bytes_of(tensor->dtype, &tensor->shape, &bytes, __func__);
    return (size_t)bytes;
}

size_t bmrt_tensor_device_size(const bm_tensor_t *tensor) {
    if (tensor == NULL) {
        bmrt_say(__func__, "tensor is NULL");
        return 0;
    }
    return bm_mem_get_device_size(tensor->device_mem);
}

static void fill_in(bm_tensor_t *tensor, bm_device_mem_t mem, bm_data_type_t dtype, bm_shape_t shape) {
    tensor->dtype = dtype;
    tensor->shape = shape;
    tensor->st_mode = BM_STORE_1N;
    tensor->device_mem = mem;
}

static bool new_tensor(bm_tensor_t *tensor, void *p_bmrt, int devid, bm_data_type_t dtype, bm_shape_t shape,
                       const char *function) {
    if (tensor == NULL) return bmrt_say(function, "tensor is NULL");
    memset(tensor, 0, sizeof *tensor);
    bm_handle_t handle = bmrt_handle(p_bmrt, devid, NULL, function);
    uint64_t bytes;
    if (handle == NULL || !bytes_of(dtype, &shape, &bytes, function)) return false;
    if (bytes == 0) return bmrt_say(function, "the shape has no elements");
    if (bytes > UINT32_MAX)
        return bmrt_say(function, "the tensor has %llu bytes; bm_device_mem_t holds 4 GiB at most",
                        (unsigned long long)bytes);
    bm_device_mem_t mem;
    if (bm_malloc_device_byte(handle, &mem, (unsigned int)bytes) != BM_SUCCESS) return false;
    fill_in(tensor, mem, dtype, shape);
    return true;
}

bool bmrt_tensor(bm_tensor_t *tensor, void *p_bmrt, bm_data_type_t dtype, bm_shape_t shape) {
    return new_tensor(tensor, p_bmrt, 0, dtype, shape, __func__);
}

bool bmrt_tensor_ex(bm_tensor_t *tensor, void *p_bmrt, int devid, bm_data_type_t dtype, bm_shape_t shape) {
    return new_tensor(tensor, p_bmrt, devid, dtype, shape, __func__);
}

void bmrt_tensor_with_device(bm_tensor_t *tensor, bm_device_mem_t device_mem, bm_data_type_t dtype,
                             bm_shape_t shape) {
    if (tensor == NULL) {
        bmrt_say(__func__, "tensor is NULL");
        return;
    }
    memset(tensor, 0, sizeof *tensor);
    uint64_t bytes;
    if (!bytes_of(dtype, &shape, &bytes, __func__)) return;
    if (bytes > device_mem.size)
        bmrt_say(__func__, "the tensor has %llu bytes, its device memory has %u", (unsigned long long)bytes,
                 device_mem.size);
    else
        fill_in(tensor, device_mem, dtype, shape);
}
