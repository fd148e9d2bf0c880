/* The C boundary of a layer plugin (libbmplugin_*.so). Generated bmtpu_host_entry.cpp defines these
 * functions; nothing else of the plugin is called from outside. C++ exceptions stop here.
 *
 * Functions that can fail return 0 or a negative number; bmplugin_error() then gives the text.
 */
#ifndef BMPLUGIN_ABI_H
#define BMPLUGIN_ABI_H

#include <stdint.h>

#define BMPLUGIN_ABI_VERSION 8 /* 1: without bmplugin_prepared and bmplugin_prepare; 2 to 4: without the last methods;
                                  * 5: the methods from BACKWARD_KH to BACKWARD_DOWN_PAD_H take no argument;
                                  * 6: without formats and the last methods; 7: without the last one */
#define BMPLUGIN_MAX_DIMS 8
#define BMPLUGIN_MAX_TENSORS 16
#define BMPLUGIN_HAS_LOCAL 1u /* the device side has a local function */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t op_type;
    uint32_t param_size;     /* sizeof the parameter struct */
    uint64_t param_hash;     /* of its field names, types and offsets: same as in firmware and bmodel */
    const char *op_name;     /* "TPU_CROP" */
    const char *descriptor;  /* "CropDescriptor" */
    uint32_t flags;          /* BMPLUGIN_HAS_* */
    uint32_t reserved;
} bmplugin_layer;

typedef struct {
    const char *name;
    uint32_t dims;
    int32_t shape[BMPLUGIN_MAX_DIMS];
    int32_t dtype;
    int32_t ttype;
} bmplugin_tensor;

typedef struct {
    int32_t store_mode; /* STORE_MODE_T */
    float scale;        /* of a quantised tensor, else 0 */
} bmplugin_format;

typedef struct {
    const char *name;
    int32_t op_type;
    uint32_t param_size;
    const void *param;
    uint32_t input_num;
    uint32_t output_num;
    bmplugin_tensor inputs[BMPLUGIN_MAX_TENSORS];
    bmplugin_tensor outputs[BMPLUGIN_MAX_TENSORS];
    bmplugin_format input_formats[BMPLUGIN_MAX_TENSORS]; /* since version 7 */
    bmplugin_format output_formats[BMPLUGIN_MAX_TENSORS];
} bmplugin_node;

/* Virtual methods by number, in the order of class LayerDescriptor; get_name and the three that prepare
 * constants have functions of their own. Integer arguments and result; get_local_buffer_size takes the
 * four extents of split_shape as its arguments. */
enum {
    BMPLUGIN_MUST_DYNAMIC_RUN = 1,
    BMPLUGIN_OUTPUT_SHAPE_IS_DYNAMIC,
    BMPLUGIN_FORCE_USE_GLOBAL_LAYER,
    BMPLUGIN_CAN_SPLIT_LOCAL_H_W,
    BMPLUGIN_CAN_INPLACE,
    BMPLUGIN_CAN_H_W_DYNAMIC,
    BMPLUGIN_JUST_RESHAPE,
    BMPLUGIN_IS_SHARE_MEM_LAYER,
    BMPLUGIN_GET_GLOBAL_BUFFER_SIZE,
    BMPLUGIN_INPUT_TYPE,
    BMPLUGIN_GET_LOCAL_BUFFER_SIZE,
    BMPLUGIN_SHOULD_INPUT_ON_L2MEM,
    BMPLUGIN_IS_BACKSLICE_OPTIMIZE_SUPPORT_LAYER,
    BMPLUGIN_BACKWARD_HSLICE,
    BMPLUGIN_BACKWARD_WSLICE,
    BMPLUGIN_BACKWARD_HIDX,
    BMPLUGIN_BACKWARD_WIDX,
    BMPLUGIN_BACKWARD_KH,
    BMPLUGIN_BACKWARD_STRIDE_H,
    BMPLUGIN_BACKWARD_UP_PAD_H,
    BMPLUGIN_BACKWARD_DOWN_PAD_H,
    BMPLUGIN_FORWARD_HEIGHT,
    BMPLUGIN_IS_CONCAT_LAYER,
    BMPLUGIN_ACCEPTS_LARGER_TILES,
    BMPLUGIN_PREPARED_WITH,
    BMPLUGIN_INPUT_DTYPE,
    BMPLUGIN_INPUT_STORE_MODE,
    BMPLUGIN_EACH_ROW_ALONE
};

int32_t bmplugin_abi_version(void);
int32_t bmplugin_layer_count(void);
int32_t bmplugin_layer_at(int32_t index, bmplugin_layer *layer);

/* A descriptor bound to a copy of node (strings and parameters included); NULL: see bmplugin_error. */
void *bmplugin_create(const bmplugin_node *node);
void bmplugin_destroy(void *handle);
int32_t bmplugin_name(void *handle, char *text, uint32_t capacity);
int32_t bmplugin_call(void *handle, int32_t method, const int64_t *args, uint32_t arg_num, int64_t *result);

/* How constant input in_idx is laid out for the kernel: dims, shape[dims] and dtype; dims 0: as in the graph. */
int32_t bmplugin_prepared(void *handle, int32_t in_idx, uint32_t *dims, int32_t *shape, int32_t *dtype);
/* Where the elements of another constant input lie that the next bmplugin_prepare takes in (prepared_with). */
int32_t bmplugin_constant(void *handle, int32_t in_idx, const void *constant, uint64_t constant_bytes);
/* Lays it out: `prepared` is zeroed before. Both sizes in bytes; they must be those that the shapes and types say. */
int32_t bmplugin_prepare(void *handle, int32_t in_idx, const void *constant, uint64_t constant_bytes, void *prepared,
                         uint64_t prepared_bytes);
const char *bmplugin_error(void);

#ifdef __cplusplus
}
#endif
#endif
