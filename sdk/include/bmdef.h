/* Types of bmruntime: element types, shapes, tensors in device memory, and what is known of a net. */
#ifndef BMDEF_H_
#define BMDEF_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bmlib_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bm_data_type_e {
    BM_FLOAT32 = 0,
    BM_FLOAT16 = 1,
    BM_INT8 = 2,
    BM_UINT8 = 3,
    BM_INT16 = 4,
    BM_UINT16 = 5,
    BM_INT32 = 6,
    BM_UINT32 = 7,
    BM_BFLOAT16 = 8, /* from here on: not on a BM1684 */
    BM_INT4 = 9,
    BM_UINT4 = 10
} bm_data_type_t;

/* How elements of 8 and 16 bits lie in memory: 1N as in C; 2N (16 bits) and 4N (8 bits) have elements of two or four
 * batches, one behind the other, in each word, and whole words for the last batches. */
typedef enum bm_store_mode_e { BM_STORE_1N = 0, BM_STORE_2N = 1, BM_STORE_4N = 2 } bm_store_mode_t;

/* Kept by bmrt_set_flags, and without effect on the emulated device. */
typedef enum bm_runtime_flag_e {
    BM_RUNTIME_AUTO = 0,
    BM_RUNTIME_SHARE_MEM = 1 << 0,
    BM_RUNTIME_CHECK_MEM = 1 << 1
} bm_runtime_flag_t;

#define BM_MAX_DIMS_NUM 8

typedef struct bm_shape_s {
    int num_dims; /* 0 to BM_MAX_DIMS_NUM */
    int dims[BM_MAX_DIMS_NUM];
} bm_shape_t;

typedef struct bm_shape_ex_s {
    bm_shape_t shape;
    int elem_num;
} bm_shape_ex_t;

/* A tensor in device memory, which may have more bytes than the tensor. */
typedef struct bm_tensor_s {
    bm_data_type_t dtype;
    bm_shape_t shape;
    bm_device_mem_t device_mem;
    bm_store_mode_t st_mode;
} bm_tensor_t;

/* One set of shapes that a net was compiled for. Arrays: one entry for each input or output. The memories are the
 * net's own, for programs that allocate none; all stages use the same. */
typedef struct bm_stage_info_s {
    bm_shape_t *input_shapes;
    bm_shape_t *output_shapes; /* the largest possible when the net is dynamic */
    bm_device_mem_t *input_mems;
    bm_device_mem_t *output_mems;
} bm_stage_info_t;

/* A net. Arrays: one entry for each input, output or stage. A quantised tensor's value is scale * (stored -
 * zero_point). max_*_bytes: enough for every stage. */
typedef struct bm_net_info_s {
    const char *name;
    bool is_dynamic;
    int input_num;
    char const **input_names;
    bm_data_type_t *input_dtypes;
    float *input_scales;
    int output_num;
    char const **output_names;
    bm_data_type_t *output_dtypes;
    float *output_scales;
    int stage_num;
    bm_stage_info_t *stages;
    size_t *max_input_bytes;
    size_t *max_output_bytes;
    int *input_zero_point;
    int *output_zero_point;
    int *input_loc_devices; /* 0: one device runs a net */
    int *output_loc_devices;
    int core_num; /* 1 */
    int32_t addr_mode;
} bm_net_info_t;

/* Memory that a program wants to give to nets; see bmrt_get_bmodel_info. */
typedef struct {
    uint64_t addr; /* all bits set: not given */
    uint32_t size;
    int32_t type;
    int32_t number;
} memory_t;

typedef struct mem_info_s {
    memory_t instruction_mem;
    memory_t variable_instruction_mem;
    memory_t neuron_mem;
    memory_t coeff_mem;
    memory_t io_mem;
} mem_info_t;

/* Makes a bmodel of `size` bytes of a file, in memory for free(); *made gets its size. */
typedef uint8_t *(*decrypt_func)(const uint8_t *data, uint64_t size, uint64_t *made);

#ifdef __cplusplus
}
#endif
#endif
