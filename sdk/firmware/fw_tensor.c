/* Tensors as they come in messages and programs, and as layer functions see them. */
#include "fw_internal.h"

#include <float.h>
#include <limits.h>
#include <string.h>

int fw_dtype_bytes(int dtype) {
    static const unsigned char bytes[] = {4, 2, 1, 1, 2, 2, 4, 4}; /* by DATA_TYPE_T */
    return dtype >= 0 && dtype < (int)sizeof bytes ? bytes[dtype] : 0;
}

int fw_together(int store_mode) {
    switch (store_mode) {
    case STORE_MODE_1N: return 1;
    case STORE_MODE_2N: return 2;
    case STORE_MODE_4N: return 4;
    default: return 0;
    }
}

int fw_batch_words(const tpu_tensor_t *t, int batches) {
    const int together = fw_together(t->store_mode);
    return batches / together + (batches % together != 0);
}

uint64_t fw_tensor_bytes(const tpu_tensor_t *t) {
    const int together = fw_together(t->store_mode);
    const uint64_t batch = (uint64_t)(t->elem_num / t->shape[0]) * (uint64_t)fw_dtype_bytes(t->dtype);
    return batch * (uint64_t)fw_batch_words(t, t->shape[0]) * (uint64_t)together;
}

/* NULL, or what is wrong with store mode and scale of a tensor whose data type is known. */
static const char *format_mistake(const tpu_tensor_t *t) {
    const int together = fw_together(t->store_mode), bytes = fw_dtype_bytes(t->dtype);
    if (together == 0 || (together > 1 && together * bytes != 4)) return "a store mode that its data type does not have";
    const bool integers = bytes < 4 && t->dtype != DTYPE_FP16;
    if (t->scale != 0.0f && !(integers && t->scale > 0.0f && t->scale <= FLT_MAX))
        return integers ? "a scale that is not a positive number" : "a scale, which only integers of 8 and 16 bits have";
    return NULL;
}

void fw_shape_text(char *text, size_t capacity, const int *shape, uint32_t dims) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t d = 0; d < dims && used + 16 < capacity; d++) {
        fw_text(text + used, capacity - used, "%s%d", d == 0 ? "[" : ", ", shape[d]);
        used += strlen(text + used);
    }
    if (used + 2 < capacity) fw_text(text + used, capacity - used, dims == 0 ? "[]" : "]");
}

/* Product of the extents, or -1 when an extent is below 1 or the product does not fit an int. */
static int64_t count_elements(const int *shape, uint32_t dims) {
    int64_t count = 1;
    for (uint32_t d = 0; d < dims; d++) {
        if (shape[d] < 1) return -1;
        count *= shape[d];
        if (count > INT_MAX) return -1;
    }
    return count;
}

static void pad_dims(tpu_tensor_t *t) {
    for (uint32_t d = t->dims; d < MAX_SHAPE_DIMS; d++) {
        t->shape[d] = 1;
        t->slice_shape[d] = 1;
        t->slice_pad[d] = 0;
        t->processed[d] = 0;
    }
}

void fw_tensor_import(const fw_tensor *from, tpu_tensor_t *to, const uint8_t *host, uint32_t host_bytes,
                      const char *what, uint32_t index) {
    if (from->dims > FW_DIMS)
        fw_fail(FW_STATUS_BAD_MESSAGE, "%s %u has %u dimensions; at most %d", what, (unsigned)index,
                (unsigned)from->dims, FW_DIMS);
    if (fw_dtype_bytes(from->dtype) == 0)
        fw_fail(FW_STATUS_BAD_MESSAGE, "%s %u has the unknown data type %u", what, (unsigned)index,
                (unsigned)from->dtype);
    memset(to, 0, sizeof *to);
    to->addr = from->addr;
    to->dims = from->dims;
    to->ttype = from->ttype;
    to->dtype = from->dtype;
    to->store_mode = from->store_mode;
    to->scale = from->scale;
    const char *mistake = format_mistake(to);
    if (mistake != NULL) fw_fail(FW_STATUS_BAD_MESSAGE, "%s %u has %s", what, (unsigned)index, mistake);
    for (uint32_t d = 0; d < from->dims; d++) {
        to->shape[d] = from->shape[d];
        to->slice_pad[d] = from->slice_pad[d];
        to->slice_shape[d] = from->slice_shape[d];
        to->processed[d] = from->processed[d];
    }
    pad_dims(to);
    int64_t count = count_elements(to->shape, to->dims);
    if (count < 0) {
        char text[128];
        fw_shape_text(text, sizeof text, to->shape, to->dims);
        fw_fail(FW_STATUS_BAD_MESSAGE, "%s %u has the shape %s; extents are at least 1, elements at most %d", what,
                (unsigned)index, text, INT_MAX);
    }
    to->elem_num = (int)count;
    if (from->host_offset == FW_NONE) return;
    if (from->host_offset % 4 != 0 || from->host_offset > host_bytes ||
        (uint64_t)count * 4 > host_bytes - from->host_offset)
        fw_fail(FW_STATUS_BAD_MESSAGE, "host data of %s %u is not inside the %u bytes that came", what,
                (unsigned)index, (unsigned)host_bytes);
    to->host_data = fw_scratch((size_t)count * 4);
    memcpy(to->host_data, host + from->host_offset, (size_t)count * 4);
}

void fw_tensor_export(const tpu_tensor_t *from, fw_tensor *to) {
    memset(to, 0, sizeof *to);
    to->addr = from->addr;
    to->dims = from->dims;
    to->elem_num = from->elem_num;
    memcpy(to->shape, from->shape, sizeof to->shape);
    memcpy(to->slice_pad, from->slice_pad, sizeof to->slice_pad);
    memcpy(to->slice_shape, from->slice_shape, sizeof to->slice_shape);
    memcpy(to->processed, from->processed, sizeof to->processed);
    to->host_offset = FW_NONE;
    to->ttype = from->ttype;
    to->dtype = from->dtype;
    to->store_mode = from->store_mode;
    to->scale = from->scale;
}

void fw_tensor_whole(tpu_tensor_t *t) {
    memcpy(t->slice_shape, t->shape, sizeof t->slice_shape);
    memset(t->slice_pad, 0, sizeof t->slice_pad);
    memset(t->processed, 0, sizeof t->processed);
}

void fw_tensor_prepare(tpu_tensor_t *outputs, uint32_t count) {
    memset(outputs, 0, count * sizeof *outputs);
    for (uint32_t i = 0; i < count; i++) outputs[i].host_data = fw_scratch(FW_SHAPE_VALUES * sizeof(int));
}

void fw_tensor_complete(tpu_tensor_t *t, const char *layer, uint32_t index) {
    if (t->dims > MAX_SHAPE_DIMS)
        fw_fail(FW_STATUS_SHAPE, "layer %s gave output %u %u dimensions; at most %d", layer,
                (unsigned)index, t->dims, MAX_SHAPE_DIMS);
    if (fw_dtype_bytes(t->dtype) == 0)
        fw_fail(FW_STATUS_SHAPE, "layer %s gave output %u the unknown data type %u", layer,
                (unsigned)index, (unsigned)t->dtype);
    if (fw_dtype_bytes(t->dtype) == 4 || t->dtype == DTYPE_FP16) t->scale = 0.0f; /* one that the net wanted */
    const char *mistake = format_mistake(t);
    if (mistake != NULL) fw_fail(FW_STATUS_SHAPE, "layer %s gave output %u %s", layer, (unsigned)index, mistake);
    int64_t count = count_elements(t->shape, t->dims);
    if (count < 0) {
        char text[128];
        fw_shape_text(text, sizeof text, t->shape, t->dims);
        fw_fail(FW_STATUS_SHAPE, "layer %s gave output %u the shape %s; extents are at least 1", layer,
                (unsigned)index, text);
    }
    pad_dims(t);
    t->elem_num = (int)count;
    if (t->ttype != BMNET_NEURON_SHAPE) t->host_data = NULL;
    if (t->host_data != NULL && t->elem_num > FW_SHAPE_VALUES)
        fw_fail(FW_STATUS_SHAPE, "layer %s: output %u holds %d shape values; at most %d", layer, (unsigned)index,
                t->elem_num, FW_SHAPE_VALUES);
}
