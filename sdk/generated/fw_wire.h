/* Made from firmware_sim/wire.py by `python -m user_layers.codegen.regenerate`; changes are lost.
 *
 * Numbers and structs of messages and programs; fw_message.h says how they are used. */
#ifndef FW_WIRE_H
#define FW_WIRE_H

#include <stdint.h>

#define FW_ABI_VERSION 5 /* 4: without scales of tensors; 3: without fw_platform.watch, FW_FLAG_CALLS */
#define FW_PROGRAM_MAGIC 0x52505446u /* "FTPR" */
#define FW_PROGRAM_VERSION 3
#define FW_DIMS 8
#define FW_NONE 0xFFFFFFFFu
#define FW_NAME_BYTES 64
#define FW_MAX_ARGUMENTS 11534336 /* bytes of a kernel's arguments */
#define FW_MAX_TENSORS 16 /* inputs, and outputs, of one layer or net */
#define FW_BUILTIN_OP_BASE 0x10000 /* op_types of the built-in layers start here */
#define FW_FLAG_RECORD 1u /* descriptors are being recorded: nothing executes, device reads are refused */
#define FW_FLAG_CALLS 2u /* calls of layers are announced: FW_FLUSH_CALL */
#define FW_LARGER 1 /* in the index of a tile: its maker accepts larger tiles of its inputs */
#define FW_SLOT 2 /* times the channels on each NPU that lie before a tile in the one that it is part of, added to it */
#define FW_SHRINKS 1 /* op_type of a GROUP whose tiles may have fewer rows and columns than they are compiled for */
#define FW_OPERANDS 2 /* of a step */

enum {
    FW_OP_QUERY = 1, /* -> fw_info, fw_layer_info[], kernel names: each NUL-terminated, ended by an empty one */
    FW_OP_LAUNCH = 2, /* fw_launch, then the argument bytes */
    /* fw_layer_call, inputs, param bytes, host data, scales in which the net wants the outputs -> outputs,
     * host data */
    FW_OP_SHAPE = 3,
    FW_OP_PROGRAM = 4, /* fw_run, inputs, outputs, [program] -> outputs */
    FW_OP_STREAMS = 5 /* fw_streams, then fw_group[] */
};

enum {
    FW_MODE_FIXED = 0, /* every tensor has its shape and absolute address (static, for recording) */
    FW_MODE_DYNAMIC = 1 /* shapes inferred and neurons allocated here */
};

enum {
    FW_TENSOR_INPUT = 0, /* index: which input of the net */
    FW_TENSOR_OUTPUT = 1, /* index: which output of the net */
    FW_TENSOR_NEURON = 2, /* DDR; dynamic: allocated when produced, released after its last use */
    FW_TENSOR_COEFF = 3, /* DDR; dynamic: tensor.addr counts from coeff_addr */
    /* a tile in local memory, tensor.addr = offset; index: FW_LARGER or 0, dynamic: plus FW_SLOT for each
     * slot before it, of alias_of */
    FW_TENSOR_LOCAL = 4,
    FW_TENSOR_L2 = 5 /* L2, absolute address; dynamic: a copy of alias_of */
};

enum {
    /* layer call on DDR data (dynamic: shape entry and allocation first); buffer: absolute (dynamic: 0,
     * allocated) */
    FW_STEP_GLOBAL = 1,
    FW_STEP_LOCAL = 2, /* layer call on tiles in local memory; buffer: offset */
    FW_STEP_LOAD = 3, /* in[0] (DDR or L2) -> out[0] (tile): region processed, slice_shape */
    FW_STEP_STORE = 4, /* in[0] (tile) -> out[0] (DDR) */
    FW_STEP_COPY = 5, /* in[0] -> out[0], both in system memory, continuous */
    FW_STEP_PARALLEL_START = 6,
    FW_STEP_PARALLEL_END = 7,
    /* inside a parallel section: from here on the tensor unit also waits for the DMA commands up to the
     * end of step bd_after, and the DMA for the tensor unit's up to the end of step gdma_after; both are
     * earlier steps */
    FW_STEP_WAIT = 8,
    FW_STEP_MOVE = 9, /* in[0] (tile) -> the channels from `channel` on of out[0] (tile) */
    /* of dynamic programs: layers run on tiles by the next `local_steps` steps, which are for the compiled
     * shapes and smaller batches, with op_type FW_SHRINKS also for smaller heights and widths, or, where
     * the shapes do not allow it, on DDR data by the `global_steps` steps behind these */
    FW_STEP_GROUP = 10
};

#define FW_STATUS_BAD_MESSAGE (-100)
#define FW_STATUS_NO_KERNEL (-101)
#define FW_STATUS_ASSERT (-102) /* OKKERNEL_ASSERT or a kernel API rule; text names file and line */
#define FW_STATUS_NOT_RECORDABLE (-103)
#define FW_STATUS_NO_MEMORY (-104)
#define FW_STATUS_LAYER (-105) /* a layer function returned an error; text names layer and code */
#define FW_STATUS_SHAPE (-106) /* over the compiled maximum, or slices that do not fit together */

typedef struct {
    uint32_t op;
    uint32_t bytes; /* of the payload that follows this header */
    uint32_t flags; /* FW_FLAG_* */
    uint32_t reserved;
} fw_request; /* 16 bytes */

typedef struct {
    int32_t status; /* >= 0 ok; negative: BM_LAYER_* or FW_STATUS_*, and the payload is a message text */
    uint32_t bytes; /* of the payload that follows */
} fw_reply; /* 8 bytes */

typedef struct {
    uint64_t addr;
    uint32_t dims;
    int32_t elem_num;
    int32_t shape[FW_DIMS];
    int32_t slice_pad[FW_DIMS];
    int32_t slice_shape[FW_DIMS];
    int32_t processed[FW_DIMS];
    uint32_t host_offset; /* of host_data in the bytes it comes with, or FW_NONE */
    uint8_t ttype;
    uint8_t dtype;
    uint8_t store_mode;
    uint8_t reserved;
    float scale; /* value = scale x integer; 0: the elements are the values */
    uint32_t reserved2;
} fw_tensor; /* 160 bytes */

typedef struct {
    uint32_t abi_version;
    uint32_t layer_count; /* user layers in this image, one fw_layer_info each */
    uint32_t kernel_count;
    uint32_t reserved;
} fw_info; /* 16 bytes */

typedef struct {
    int32_t op_type;
    uint32_t param_bytes; /* of the parameter struct */
    uint64_t param_hash; /* of its field names, types and offsets */
    char name[FW_NAME_BYTES + 8]; /* "TPU_CROP", NUL-terminated; 8 keeps the next one aligned */
} fw_layer_info; /* 88 bytes */

typedef struct {
    char name[FW_NAME_BYTES + 1];
    uint8_t reserved[3];
    uint32_t arg_bytes;
} fw_launch; /* 72 bytes */

typedef struct {
    int32_t op_type;
    uint32_t param_bytes;
    uint32_t in_num;
    uint32_t out_num;
    uint32_t host_bytes;
    uint32_t scale_num; /* 0, or out_num: floats behind the host data, see FW_OP_SHAPE */
} fw_layer_call; /* 24 bytes */

typedef struct {
    uint32_t mode; /* FW_MODE_* */
    uint32_t in_num;
    uint32_t out_num;
    uint32_t program_bytes;
    uint64_t program_addr; /* in DDR; 0: the program follows the tensors in this message */
    uint64_t neuron_addr; /* DDR that the firmware may allocate from */
    uint64_t neuron_bytes;
    uint64_t coeff_addr; /* where the constants were loaded */
} fw_run; /* 48 bytes */

typedef struct {
    uint32_t group_count;
    uint32_t reserved;
} fw_streams; /* 8 bytes */

typedef struct {
    uint64_t bd_addr;
    uint64_t gdma_addr;
    uint32_t bd_num;
    uint32_t gdma_num;
} fw_group; /* 24 bytes */

typedef struct {
    uint32_t kind; /* FW_TENSOR_* */
    uint32_t index;
    uint32_t last_step; /* dynamic: the last step that reads it, FW_NONE for outputs */
    uint32_t alias_of; /* dynamic: tensor whose memory this shares, or that it is a tile or copy of; or FW_NONE */
    uint64_t max_bytes; /* capacity: the compiled maximum */
    fw_tensor tensor; /* dynamic: shape holds the compiled maximum */
} fw_program_tensor; /* 184 bytes */

typedef struct {
    uint32_t opcode; /* FW_STEP_* */
    int32_t op_type; /* of the layer */
    uint32_t name_offset; /* NUL-terminated name in the data section, for messages */
    uint32_t param_offset; /* in the data section */
    uint32_t param_bytes;
    uint32_t in_offset; /* u32 tensor indices in the data section */
    uint32_t in_num;
    uint32_t out_offset;
    uint32_t out_num;
    uint32_t param_check; /* of user layers: low half of the param_hash that param was made for */
    uint64_t operands[FW_OPERANDS]; /* what they are depends on the opcode: FW_*(step) */
} fw_step; /* 56 bytes */

typedef struct {
    uint32_t magic;
    uint32_t version;
    uint32_t tensor_count;
    uint32_t step_count;
    uint32_t tensor_offset; /* offsets count from this header, multiples of 8 */
    uint32_t step_offset;
    uint32_t data_offset;
    uint32_t data_bytes;
    uint32_t in_num;
    uint32_t out_num;
    uint64_t reserved64;
} fw_program; /* 48 bytes */

/* What each kind of step takes, by its opcode: calls a layer; moves one tensor to one; its
 * inputs, and its outputs, are tiles in local memory; stands in dynamic programs; in
 * their groups. */
typedef struct {
    const char *name;
    uint8_t layer, moves, local_in, local_out, dynamic, grouped;
} fw_step_kind;
#define FW_STEP_KINDS { \
    [FW_STEP_GLOBAL] = {"GLOBAL", 1, 0, 0, 0, 1, 0}, \
    [FW_STEP_LOCAL] = {"LOCAL", 1, 0, 1, 1, 0, 1}, \
    [FW_STEP_LOAD] = {"LOAD", 0, 1, 0, 1, 0, 1}, \
    [FW_STEP_STORE] = {"STORE", 0, 1, 1, 0, 0, 1}, \
    [FW_STEP_COPY] = {"COPY", 0, 1, 0, 0, 1, 1}, \
    [FW_STEP_PARALLEL_START] = {"PARALLEL_START", 0, 0, 0, 0, 0, 1}, \
    [FW_STEP_PARALLEL_END] = {"PARALLEL_END", 0, 0, 0, 0, 0, 1}, \
    [FW_STEP_WAIT] = {"WAIT", 0, 0, 0, 0, 0, 1}, \
    [FW_STEP_MOVE] = {"MOVE", 0, 1, 1, 1, 0, 1}, \
    [FW_STEP_GROUP] = {"GROUP", 0, 0, 0, 0, 1, 0}, \
}
#define FW_STEP_COUNT 11

#define FW_BUFFER_ADDR(step) ((step)->operands[0])
#define FW_BUFFER_BYTES(step) ((step)->operands[1])
#define FW_BD_AFTER(step) ((step)->operands[0])
#define FW_GDMA_AFTER(step) ((step)->operands[1])
#define FW_CHANNEL(step) ((step)->operands[0])
#define FW_LOCAL_STEPS(step) ((step)->operands[0])
#define FW_GLOBAL_STEPS(step) ((step)->operands[1])

#endif
