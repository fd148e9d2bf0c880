/* Device side of a custom TPU layer: what a kernel file in device/ includes.
 *
 * A layer is three functions, each found by the marker in front of it (a fourth marker names the
 * parameter struct):
 *
 *     __BM_PARAM__(TPU_X)  typedef struct { ... } tpu_x_param_t;
 *     __BM_SHAPE__(TPU_X)  int x_shape(...)      required: shapes and types of the outputs
 *     __BM_GLOBAL__(TPU_X) int x_global(...)     required: data in DDR, absolute addresses
 *     __BM_LOCAL__(TPU_X)  int x_local(...)      optional: data in local memory
 *
 * The numeric codes are those of the vendor's bmcompiler_defs.h, the tensor's fields those of the
 * firmware's tpu tensor.
 */
#ifndef BMCOMPILER_TPULAYER_DEVICE_H
#define BMCOMPILER_TPULAYER_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

/* The markers mean nothing to the C compiler; `tpulayer gen_entry` reads them. */
#define __BM_PARAM__(op)
#define __BM_GLOBAL__(op)
#define __BM_LOCAL__(op)
#define __BM_SHAPE__(op)

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned long long bm_addr_t;
typedef unsigned long long bm_size_t;

#define MAX_SHAPE_DIMS 8

/* Return codes of a layer function: negative is an error, anything else success. */
#define BM_LAYER_OK 0
#define BM_LAYER_NOT_SUPPORTED (-1)
#define BM_LAYER_PARAM_INVALID (-2)
#define BM_LAYER_RUNTIME_ERROR (-3)

#ifndef BMCOMPILER_TYPES_DEFINED
#define BMCOMPILER_TYPES_DEFINED
typedef enum {
    DTYPE_FP32 = 0,
    DTYPE_FP16 = 1,
    DTYPE_INT8 = 2,
    DTYPE_UINT8 = 3,
    DTYPE_INT16 = 4,
    DTYPE_UINT16 = 5,
    DTYPE_INT32 = 6,
    DTYPE_UINT32 = 7
} DATA_TYPE_T;

typedef enum {
    BMNET_NEURON = 0,       /* aligned layout */
    BMNET_COEFF = 1,        /* compact layout, address a multiple of 4 */
    BMNET_COEFF_NEURON = 2, /* compact layout, address a multiple of 128 */
    BMNET_COEFF_FC = 3,
    BMNET_COEFF_WINOGRAD = 4,
    BMNET_NEURON_FC = 5,
    BMNET_NEURON_CONST = 6,
    BMNET_NEURON_SHAPE = 7, /* small integers that the controller reads through host_data */
    BMNET_NEURON_CPU = 8,
    BMNET_NEURON_ARRAY = 9,
    BMNET_NEURON_FLOW = 10,
    BMNET_NEURON_3IC = 11
} TENSOR_TYPE_T;

typedef enum { STORE_MODE_1N = 0, STORE_MODE_2N = 1, STORE_MODE_4N = 2 } STORE_MODE_T;
#endif

/* One tensor as a layer function sees it.
 *
 * addr      global: absolute system address. local: offset in local memory (0 .. 512 KiB), on NPU 0.
 * dims      number of dimensions; shape[i] for i >= dims is 1 (so shape[0..3] is always usable).
 * elem_num  product of shape.
 * shape     the whole tensor, never the tile.
 *
 * Only in local calls (in global calls processed and slice_pad are 0 and slice_shape equals shape):
 * processed[d]    index, in the whole tensor, of the tile's first element.
 * slice_shape[d]  extent of the tile in local memory, halo included, nothing outside the tensor.
 * slice_pad[d]    elements by which the window that the tile serves reaches over the tensor's low
 *                 edge (top, left). The kernel supplies them. What the window lacks at the high edge
 *                 follows: window - slice_pad[d] - slice_shape[d], the window being the kernel's own
 *                 backward extent of the output tile.
 *
 * host_data  the tensor's values when its ttype is BMNET_NEURON_SHAPE, otherwise NULL.
 *
 * store_mode  STORE_MODE_1N: the plain array. 4N (8-bit types), 2N (16-bit types): the elements of four, two
 *             batches share a 32-bit word, in DDR [ceil(n / 4)][c][h][w][4], and a tile lies in local memory
 *             as one of ceil(n / 4) batches of words; batches that only fill up the last word are anything.
 *             shape, slice_shape, processed go on counting elements; tiles begin at whole words.
 * scale       of a quantised tensor (zero point 0). A shape function finds in those of its outputs the scale
 *             that the net wants, or 0, and leaves there the one that the layer makes.
 */
typedef struct {
    bm_addr_t addr;
    unsigned int dims;
    int elem_num;
    int shape[MAX_SHAPE_DIMS];
    int slice_pad[MAX_SHAPE_DIMS];
    int slice_shape[MAX_SHAPE_DIMS];
    int processed[MAX_SHAPE_DIMS];
    int *host_data;
    unsigned char ttype;      /* TENSOR_TYPE_T */
    unsigned char dtype;      /* DATA_TYPE_T */
    unsigned char store_mode; /* STORE_MODE_T */
    float scale;              /* value = scale x integer; 0: the elements are the values */
} tpu_tensor_t;

/* One row of bmtpu_layers, the table of layers that the generated bmtpu_device_entry.c defines beside
 * bmtpu_layer_count. The runtime compares it with what a bmodel was compiled with. Behind the last layer
 * stands a row with op_type -1 and no name, which bmtpu_layer_count does not count. */
typedef struct {
    int op_type;
    unsigned int param_size;       /* bytes of the parameter struct */
    unsigned long long param_hash; /* of its field names, types and offsets: same as in plugin and bmodel */
    const char *name;              /* "TPU_CROP", at most 64 bytes */
} tpu_layer_entry_t;

/* The functions behind a row of that table, in the same order (bmtpu_functions); for messages. NULL: it has none. */
typedef struct {
    void (*global)(void), (*local)(void);
} tpu_layer_functions_t;

/* The entries that the generated bmtpu_device_entry.c defines and the runtime looks up. */
int tpu_shape_infer_entry(int op_type, const void *param, int param_size, const tpu_tensor_t *in_tensors,
                          int in_num, tpu_tensor_t *out_tensors, int out_num);
int tpu_global_calculate_entry(int op_type, const void *param, int param_size,
                               const tpu_tensor_t *in_tensors, int in_num, u64 buffer_addr,
                               u64 buffer_size, tpu_tensor_t *out_tensors, int out_num);
int tpu_local_calculate_entry(int op_type, const void *param, int param_size,
                              const tpu_tensor_t *in_tensors, int in_num, u64 buffer_offset,
                              u64 buffer_size, tpu_tensor_t *out_tensors, int out_num);

#ifdef __cplusplus
}
#endif
#endif
