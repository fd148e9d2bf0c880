/* What passes between the runtime and the firmware: requests, replies, and the program format.
 *
 * Everything is little endian with fixed widths and explicit padding, so the 64-bit host and the
 * 32-bit controller see the same bytes. firmware_sim/wire.py is the other side; a test compares
 * sizes and offsets.
 *
 * A program is a list of steps over a table of tensors. A static compile lets the firmware run one
 * with fixed addresses while the descriptors are recorded; a dynamic net stores one whose tensors
 * get their shapes and addresses in the firmware when it runs.
 */
#ifndef FW_MESSAGE_H
#define FW_MESSAGE_H

#include <stdint.h>

#include "bm1684_chip.h"

#define FW_ABI_VERSION 2 /* 1: without FW_FLUSH_STEP */
#define FW_PROGRAM_MAGIC 0x52505446u /* "FTPR" */
#define FW_PROGRAM_VERSION 1
#define FW_DIMS 8
#define FW_NONE 0xFFFFFFFFu
#define FW_NAME_BYTES 64
#define FW_MAX_TENSORS 16 /* inputs, and outputs, of one layer or net */
#define FW_BUILTIN_OP_BASE 0x10000 /* op_types of the built-in layers start here */

enum {
    FW_OP_QUERY = 1,   /* -> fw_info, fw_layer_info[], kernel names: each NUL-terminated, ended by an empty one */
    FW_OP_LAUNCH = 2,  /* fw_launch, then the argument bytes */
    FW_OP_SHAPE = 3,   /* fw_layer_call, inputs, param bytes, host data -> outputs, host data */
    FW_OP_PROGRAM = 4, /* fw_run, inputs, outputs, [program] -> outputs */
    FW_OP_STREAMS = 5  /* fw_streams, then fw_group[] */
};

/* The parts of a payload follow one another in the order listed above, each at the next multiple of 8
 * from the payload's start (zero bytes between), so that tensors and host data are aligned. */
typedef struct {
    uint32_t op;
    uint32_t bytes; /* of the payload that follows this header */
    uint32_t flags; /* FW_FLAG_* */
    uint32_t reserved;
} fw_request;

#define FW_FLAG_RECORD 1u /* descriptors are being recorded: nothing executes, device reads are refused */

typedef struct {
    int32_t status; /* >= 0 ok; negative: BM_LAYER_* or FW_STATUS_*, and the payload is a message text */
    uint32_t bytes; /* of the payload that follows */
} fw_reply;

#define FW_STATUS_BAD_MESSAGE (-100)
#define FW_STATUS_NO_KERNEL (-101)
#define FW_STATUS_ASSERT (-102)        /* OKKERNEL_ASSERT or a kernel API rule; text names file and line */
#define FW_STATUS_NOT_RECORDABLE (-103)
#define FW_STATUS_NO_MEMORY (-104)
#define FW_STATUS_LAYER (-105)         /* a layer function returned an error; text names layer and code */
#define FW_STATUS_SHAPE (-106)         /* over the compiled maximum, or slices that do not fit together */

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
} fw_tensor; /* 152 bytes */

typedef struct {
    uint32_t abi_version;
    uint32_t layer_count;   /* user layers in this image, one fw_layer_info each */
    uint32_t kernel_count;
    uint32_t reserved;
} fw_info;

typedef struct {
    int32_t op_type;
    uint32_t param_bytes;   /* of the parameter struct */
    uint64_t param_hash;    /* of its field names, types and offsets */
    char name[FW_NAME_BYTES + 8]; /* "TPU_CROP", NUL-terminated; 8 keeps the next one aligned */
} fw_layer_info; /* 88 bytes */

typedef struct {
    char name[FW_NAME_BYTES + 1];
    uint8_t reserved[3];
    uint32_t arg_bytes;
} fw_launch;

typedef struct {
    int32_t op_type;
    uint32_t param_bytes;
    uint32_t in_num;
    uint32_t out_num;
    uint32_t host_bytes;
    uint32_t reserved;
} fw_layer_call;

enum {
    FW_MODE_FIXED = 0,  /* every tensor has its shape and absolute address (static, for recording) */
    FW_MODE_DYNAMIC = 1 /* shapes inferred and neurons allocated here */
};

typedef struct {
    uint32_t mode;
    uint32_t in_num;
    uint32_t out_num;
    uint32_t program_bytes;
    uint64_t program_addr; /* in DDR; 0: the program follows the tensors in this message */
    uint64_t neuron_addr;  /* DDR that the firmware may allocate from */
    uint64_t neuron_bytes;
    uint64_t coeff_addr;   /* where the constants were loaded */
} fw_run;

typedef struct {
    uint32_t group_count;
    uint32_t reserved;
} fw_streams;

typedef struct {
    uint64_t bd_addr;
    uint64_t gdma_addr;
    uint32_t bd_num;
    uint32_t gdma_num;
} fw_group;

enum {
    FW_TENSOR_INPUT = 0,  /* index: which input of the net */
    FW_TENSOR_OUTPUT = 1, /* index: which output of the net */
    FW_TENSOR_NEURON = 2, /* DDR; dynamic: allocated when produced, released after its last use */
    FW_TENSOR_COEFF = 3,  /* DDR; dynamic: tensor.addr counts from coeff_addr */
    FW_TENSOR_LOCAL = 4,  /* a piece in local memory, tensor.addr = offset */
    FW_TENSOR_L2 = 5      /* L2, absolute address */
};

typedef struct {
    uint32_t kind;
    uint32_t index;
    uint32_t last_step; /* dynamic: the last step that reads it, FW_NONE for outputs */
    uint32_t alias_of;  /* dynamic: tensor whose memory this one shares (reshape layers), or FW_NONE */
    uint64_t max_bytes; /* capacity: the compiled maximum */
    fw_tensor tensor;   /* dynamic: shape holds the compiled maximum */
} fw_program_tensor; /* 176 bytes */

enum {
    FW_STEP_GLOBAL = 1,     /* layer call on DDR data (dynamic: shape entry and allocation first) */
    FW_STEP_LOCAL = 2,      /* layer call on pieces in local memory */
    FW_STEP_LOAD = 3,       /* in[0] (DDR or L2) -> out[0] (piece): region processed, slice_shape */
    FW_STEP_STORE = 4,      /* in[0] (piece) -> out[0] (DDR) */
    FW_STEP_COPY = 5,       /* in[0] -> out[0], both in system memory, continuous */
    FW_STEP_PARALLEL_START = 6,
    FW_STEP_PARALLEL_END = 7,
    FW_STEP_WAIT = 8,       /* inside a parallel section: from here on the tensor unit also waits for the DMA
                             * commands up to the end of step buffer_addr, and the DMA for the tensor unit's up
                             * to the end of step buffer_bytes; both are earlier steps */
    FW_STEP_MOVE = 9        /* in[0] (piece) -> channels buffer_addr and following of out[0] (piece) */
};

typedef struct {
    uint32_t opcode;
    int32_t op_type;       /* of the layer */
    uint32_t name_offset;  /* NUL-terminated name in the data section, for messages */
    uint32_t param_offset; /* in the data section */
    uint32_t param_bytes;
    uint32_t in_offset;    /* u32 tensor indices in the data section */
    uint32_t in_num;
    uint32_t out_offset;
    uint32_t out_num;
    uint32_t param_check;  /* of user layers: low half of the param_hash that param was made for */
    uint64_t buffer_addr;  /* global: absolute (dynamic: 0, allocated); local: offset */
    uint64_t buffer_bytes;
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

/* ---- native build only: how the device process and firmware.so call each other ---- */

#define FW_FRAMES 16

enum { FW_FLUSH_POLL = 0, FW_FLUSH_FULL = 1, FW_FLUSH_SPLIT = 2, FW_FLUSH_END = 3, FW_FLUSH_STEP = 4 };

typedef struct {
    uint32_t abi_version;
    uint32_t capacity;   /* descriptors that each arena holds */
    uint8_t *bd;         /* arenas in shared memory, CHIP_DESCRIPTOR_BYTES per descriptor */
    uint8_t *gdma;
    uint64_t *bd_site;   /* code address that issued each descriptor */
    uint64_t *gdma_site;
    uint8_t *ddr;        /* memories as the native firmware's pointers see them */
    uint64_t ddr_bytes;
    uint8_t *local;
    uint8_t *l2;
    uint8_t *dtcm;
    /* Hands over what the arenas hold and returns when it is done (executed, or recorded). POLL: the
     * kernel waits; FULL: arenas full or ids about to run out in a free kernel; SPLIT: the same while
     * recording, where a new command group begins; END: the request is finished. After FULL and SPLIT ids
     * restart at 0. STEP: while recording, after each step of a program (also one that
     * issued nothing), so that the device knows which step a command belongs to. Returns 0, or negative when
     * the device refuses (the text is the device's own). */
    int32_t (*flush)(uint32_t bd_num, uint32_t gdma_num, uint32_t reason);
    int32_t (*run_group)(const fw_group *group); /* starts both engines on streams in DDR and waits */
    void (*log)(const char *text, uint32_t bytes);
    /* What runs now, for the report when it never comes back: the device process reads this text after a
     * crash. The firmware writes it, NUL-terminated and cut to activity_bytes, before it calls any code
     * that is not its own: a phrase that begins an English sentence, such as "kernel plus_one" or
     * "layer crop_1 (TPU_CROP), global function". Restoring the previous phrase after the call is not
     * needed: the device process sets one for the whole request before fw_handle. Plain stores, no flush.
     * activity may be NULL (then activity_bytes is 0). */
    char *activity;
    uint32_t activity_bytes;
    uint32_t filtered; /* words that the newest masked copy kept; the device sets it in flush */
    /* Which layer of a net issued each descriptor: address of its NUL-terminated label, which lives until
     * the request ends, or 0 outside layers. */
    uint64_t *bd_layer;
    uint64_t *gdma_layer;
    /* FW_FRAMES numbers, all 0 until the image crashes: the return addresses on the stack then, innermost
     * first, counted from where the image was loaded (those of other images are senseless). The first is
     * that of the crash itself, plus 1. frames may be NULL. */
    uint64_t *frames;
    /* Counted up with every descriptor: a sign of progress for a watchdog that cannot see the arenas. NULL
     * where nobody looks. */
    volatile uint32_t *progress;
} fw_platform;

/* Exported by firmware.so. fw_handle runs one request and returns the bytes of the reply. */
int32_t fw_boot(const fw_platform *platform);
uint32_t fw_handle(const uint8_t *request, uint32_t bytes, uint8_t *reply, uint32_t capacity);

#endif
