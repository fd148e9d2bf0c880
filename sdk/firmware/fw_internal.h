/* What the firmware's files share: the state of the request being served, errors, scratch memory and
 * the emission of descriptors. Kernels and layers never include this; they have okk.h.
 */
#ifndef FW_INTERNAL_H
#define FW_INTERNAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bm1684_chip.h"
#include "bmcompiler_tpulayer_device.h"
#include "fw_message.h"
#include "okk.h"

/* Ids are 16 bits and start at 1. Streams are split a little before they run out, because the runtime
 * of a card may append commands of its own. */
#define FW_ID_LIMIT (CHIP_ID_MAX - 15u)

/* Whose code runs; it decides what the kernel API permits. */
typedef enum {
    FW_SCOPE_KERNEL, /* a free kernel */
    FW_SCOPE_GLOBAL, /* a layer's global function, or the program itself */
    FW_SCOPE_LOCAL,  /* a layer's local function */
    FW_SCOPE_SHAPE   /* a layer's shape function */
} fw_scope;

typedef struct {
    const fw_platform *platform;
    bool recording;
    bool announces; /* the device wants to know of each call of a layer */
    fw_scope scope;
    bool gathers; /* the local function loads its output from inputs in DDR: a load of the program's */
    bool turns;   /* the local function is a built-in one, which may move data within local memory */
    bool scatters; /* the local function stores its output in DDR: a store of the program's */
    bool apart;   /* the next copy is one of these: the program orders it as it does its own */
    /* The layer whose function runs, for messages; NULL outside layers. Commands keep it until the
     * request ends. */
    const char *layer;

    /* Newest id of each engine, and in a parallel section the ids of its start (what the other engine
     * waits for). */
    uint32_t bd_id, gdma_id;
    uint32_t bd_start, gdma_start;
    bool parallel;
    const void *opened; /* the call that opened the section */
    bool check_ids; /* okk_set_id_node may not go back */
    uint32_t restarts; /* how often the ids began again */

    /* Descriptors in the arenas that the device has not got yet. */
    uint32_t bd_pending, gdma_pending;

    /* The kernel API function that runs, and the code address that called it. */
    const char *api;
    const void *site;
    volatile uintptr_t *newest; /* where the device process looks for the newest site */

    int32_t status; /* of the failure being unwound */
    char error[512];
} fw_state;

extern fw_state fw;

/* First line of every public function that issues commands or can refuse. */
#define FW_ENTER() fw_enter(__func__, __builtin_return_address(0))

static inline void fw_enter(const char *api, const void *site) {
    fw.api = api;
    fw.site = site;
    *fw.newest = (uintptr_t)site;
}

/* ---- errors: the text goes into the reply; control returns to the message loop ---- */
void fw_fail(int32_t status, const char *format, ...) __attribute__((noreturn, cold, format(printf, 2, 3)));
/* A rule of the kernel API is broken: the text gets the API function's name in front and the code
 * address of the call behind it. */
void fw_refuse(const char *format, ...) __attribute__((noreturn, cold, format(printf, 1, 2)));
/* A rule of the guide is broken that neither the vendor's encoder nor its model enforces: noted once for each
 * call site and format, with a count, and sent behind the reply. */
void fw_warn(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));
void fw_warnings_reset(void);
/* What was noted, a line "COUNT TEXT" each, as many as fit; returns the bytes written. */
uint32_t fw_warnings_put(uint8_t *to, uint32_t capacity);
/* Formats into text, cut to capacity. */
void fw_text(char *text, size_t capacity, const char *format, ...) __attribute__((format(printf, 3, 4)));
void fw_set_activity(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- streams ---- */
void fw_streams_reset(void);
void fw_flush(uint32_t reason);
void fw_emit_bd(uint32_t *descriptor);
void fw_emit_gdma(uint32_t *descriptor);
/* "; it was opened [called at ...]" of the parallel section that is open, "" where nobody knows; until the next call. */
const char *fw_opened(void);
void fw_poll(void); /* okk_poll, for functions that wait themselves */
void fw_parallel_start(void);
void fw_parallel_end(void);

/* ---- copies issued by the firmware itself; element is 4, 2 or 1 bytes ---- */
void fw_gdma_load(local_addr_t dst, system_addr_t src, const dim4 *shape, const dim4 *dst_stride,
                  const dim4 *src_stride, int element);
void fw_gdma_store(system_addr_t dst, local_addr_t src, const dim4 *shape, const dim4 *dst_stride,
                   const dim4 *src_stride, int element);
void fw_gdma_move(local_addr_t dst, local_addr_t src, const dim4 *shape, const dim4 *dst_stride,
                  const dim4 *src_stride, int element);
void fw_gdma_copy(system_addr_t dst, system_addr_t src, uint64_t elements, int element);

/* ---- layouts ---- */
void fw_check_shape(const dim4 *shape); /* refuses NULL and extents below 1 */
void fw_check_aligned(uint64_t addr, const char *which); /* for functions on the aligned layout */
void fw_aligned_stride(dim4 *stride, int start_npu, const dim4 *shape, int element);
void fw_compact_stride(dim4 *stride, int start_npu, const dim4 *shape);
void fw_continuous_stride(dim4 *stride, const dim4 *shape);

/* ---- tensors that are too large for one command ----
 *     fw_pieces p = fw_pieces_of(shape, most);
 *     while (fw_pieces_next(&p)) ... p.at is the piece's first element, p.size its extents
 * Pieces come in the order of n, c, h, w, each at most `most`. */
typedef struct {
    dim4 whole, most, at, size;
} fw_pieces;
fw_pieces fw_pieces_of(const dim4 *shape, const dim4 *most);
bool fw_pieces_next(fw_pieces *p);
/* Elements from a tensor's first to element `at`; in local memory at.c counts whole rounds of all NPUs. */
int64_t fw_pieces_offset(const dim4 *at, const dim4 *stride, bool local);
/* The address of element `at` of a tensor of 32-bit words; refuses what lies outside local memory. */
local_addr_t fw_pieces_local(local_addr_t addr, const dim4 *at, const dim4 *stride, const char *which);

/* ---- kernels ---- */
uint32_t fw_kernel_count(void);
const char *fw_kernel_name(uint32_t index);
okk_kernel_func_t fw_kernel_find(const char *name);
const void *fw_kernel_code(void); /* an address in the image with the kernels; NULL without any */
const char *fw_kernel_registration_error(void); /* NULL: none */

/* ---- layers ---- */
typedef enum { FW_CALL_SHAPE, FW_CALL_GLOBAL, FW_CALL_LOCAL } fw_call_kind;
typedef struct {
    const char *label; /* from fw_layer_label */
    int op_type;
    const void *param;
    int param_bytes;
    const tpu_tensor_t *in;
    int in_num;
    tpu_tensor_t *out;
    int out_num;
    uint64_t buffer_addr, buffer_bytes;
} fw_layer_args;
/* Runs one function of a layer; fails with FW_STATUS_LAYER when it is missing or returns an error. */
void fw_layer_run(fw_call_kind kind, const fw_layer_args *args);
/* The user's layers in this image, and one layer of either side by op_type (NULL: none). */
uint32_t fw_layer_count(void);
const tpu_layer_entry_t *fw_layer_at(uint32_t index);
const tpu_layer_entry_t *fw_layer_find(int op_type);
/* How messages call a layer: "crop_0 (TPU_CROP)". name is the one in its graph, or NULL; without it the
 * text is "TPU_CROP", and "with op_type 5" when this image has no such layer. */
#define FW_LABEL_BYTES 160
void fw_layer_label(char text[FW_LABEL_BYTES], const char *name, int op_type);
/* Fails with FW_STATUS_LAYER unless this image has the user layer, with the parameter struct that the
 * program was compiled with. */
void fw_layer_check(const char *label, int op_type, uint32_t param_bytes, uint32_t param_check);

/* ---- tensors of messages ---- */
int fw_dtype_bytes(int dtype);
/* How many batches share a word; 0 for an unknown store mode. */
int fw_together(int store_mode);
/* Bytes of a whole tensor as it lies in DDR, with what fills up the last words in 2N and 4N. */
uint64_t fw_tensor_bytes(const tpu_tensor_t *t);
/* Batches (extents or indices) in words. */
int fw_batch_words(const tpu_tensor_t *t, int batches);
/* Checks a tensor of a message and makes the layer's view of it. host is what host_offset counts in.
 * what names the tensor in the message ("input 0 of the request"). */
void fw_tensor_import(const fw_tensor *from, tpu_tensor_t *to, const uint8_t *host, uint32_t host_bytes,
                      const char *what, uint32_t index);
void fw_tensor_export(const tpu_tensor_t *from, fw_tensor *to);
/* A tensor as global functions see it: whole, not a tile. */
void fw_tensor_whole(tpu_tensor_t *t);
/* Values that a shape function may give an output of type NEURON_SHAPE through host_data. */
#define FW_SHAPE_VALUES 64
/* Empty outputs for a shape function. */
void fw_tensor_prepare(tpu_tensor_t *outputs, uint32_t count);
/* Completes a tensor that a layer's shape function filled: checks dims and extents, sets the rest.
 * layer is its label. */
void fw_tensor_complete(tpu_tensor_t *t, const char *layer, uint32_t index);
void fw_shape_text(char *text, size_t capacity, const int *shape, uint32_t dims);

/* ---- programs ---- */
/* Runs a program of `size` bytes (checked here; 8-byte aligned). in and out are the net's tensors; on
 * return out holds the shapes that came out. */
void fw_program_run(const uint8_t *bytes, uint32_t size, const fw_run *run, const tpu_tensor_t *in,
                    tpu_tensor_t *out);

/* ---- the platform: fw_native.c on the host, sdk/arm/fw_arm_platform.c on the controller ---- */
/* Once fw.platform is there. kernel: an address in the image with the kernels, or NULL for this one. */
void fw_platform_boot(const void *kernel);
/* Runs body(argument); true when it came to its end, false when fw_platform_unwind ended it. */
bool fw_platform_try(void (*body)(void *), void *argument);
/* What the body, ended or not, left changed around it and is put back, behind "left"; NULL for nothing. */
const char *fw_platform_left(void);
void fw_platform_unwind(void) __attribute__((noreturn));
/* Ends the process, or waits for the reset. where: a return address to blame, where the stack cannot be walked. */
void fw_platform_abort(const char *why, const void *where) __attribute__((noreturn));
/* Around work for messages, which no kernel does on a chip: where instructions are counted, it is not. */
void fw_platform_aside(bool aside);
/* Lets bytes of the FW_ARM_SCRATCH_BYTES of scratch memory be used; NULL when there are none. */
uint8_t *fw_platform_scratch(size_t start, size_t bytes);
/* And none of them any more. */
void fw_platform_scratch_release(void);
/* Before the newest command of an engine is counted: notes the code that issued it, where anybody watches. What
 * emulates the controller looks for itself: on a chip nobody does. */
#if defined __arm__
#define fw_platform_issued(to_bd) ((void)0)
#else
void fw_platform_issued(bool to_bd);
#endif
/* Memory for a kernel's arguments until the next request; NULL where scratch memory is as good. */
void *fw_platform_arguments(size_t bytes);
/* Zeroed memory until the request ends, aligned to 16; fails with FW_STATUS_NO_MEMORY. */
void *fw_scratch(size_t bytes);
void fw_scratch_release(void);
/* DDR as the controller's pointers see it; NULL when [addr, +bytes) is not inside. */
uint8_t *fw_ddr_pointer(uint64_t addr, uint64_t bytes);

#endif
