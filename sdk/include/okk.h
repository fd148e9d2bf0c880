/* The kernel API of the BM1684: what device code calls to move data and compute.
 *
 * Names, types and argument order are those of the vendor's okk.h, so kernels written for it compile
 * unchanged. What is declared here is implemented; a function of the vendor's header that is missing
 * here is a compile error, not a surprise at run time.
 *
 * Rules that hold everywhere:
 * - local_addr_t counts through the local memories: NPU * 512 KiB + offset. A tensor whose address lies
 *   in NPU s has channel c on NPU (s + c) % 64. The tensors of one BDC call start on one NPU.
 * - Strides are in elements. A NULL stride means the 128-byte aligned layout in local memory and the
 *   continuous layout in system memory. A stride of 0 repeats one element. GDMA moves w with stride 1.
 * - The comment before a function says what it computes, takes, refuses and costs, in the words of
 *   docs/kernel-api.md: aligned, compact, matrix, 4N, in place; L is the channel slots of an NPU,
 *   ceil((NPU + c) / 64), and P ceil(h * w / 16).
 * - A call that breaks a rule, or a value that does not fit its descriptor field, ends the kernel
 *   with a message that names the function, the value and the limit. Nothing wraps. A rule that nothing
 *   enforces in the vendor's library gives a warning instead (docs/free-kernels.md).
 */
#ifndef OKK_H
#define OKK_H

#include <assert.h> /* kernels written with the vendor's model use these without including them */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kernels that the host launches by name ---- */

typedef void (*okk_kernel_func_t)(const void *);

/* Makes `void func(const void *args)` known under its name (at most 64 characters, unique). args is
 * the host's argument struct; declare it packed, so that host and controller agree on its layout. */
#define OKKERNEL_FUNC_REGISTER(func)                                             \
    __attribute__((constructor)) void okk_kernel_register_##func(void) {         \
        okk_register_kernel_func(#func, func);                                   \
    }

void okk_register_kernel_func(const char *name, okk_kernel_func_t func);
/** Writes the names of the registered kernels to the log. */
void okk_dump_registered_kernel_funcs(void); /* their names, to the log */

/* ---- logging and assertions ---- */

/* printf-like text to the device log. */
#define OKKERNEL_LOG(format, ...) fw_log(0, (char *)(format), ##__VA_ARGS__)
/* Ends the kernel with "file:line: function: assertion failed" unless the condition holds. */
#define OKKERNEL_ASSERT(assertion)                                               \
    do {                                                                         \
        if (!(assertion)) fw_assert_failed(#assertion, __FILE__, __LINE__, __func__); \
    } while (0)

void fw_log(int level, char *format, ...) __attribute__((format(printf, 2, 3)));
void fw_assert_failed(const char *assertion, const char *file, int line, const char *function)
    __attribute__((noreturn));

/* ---- types ---- */

typedef unsigned int local_addr_t;        /* NPU * 512 KiB + offset */
typedef unsigned long long system_addr_t; /* DDR or L2, absolute */
typedef unsigned long long global_addr_t; /* DDR, absolute */

typedef struct {
    int n, c, h, w;
} dim4;

typedef struct {
    int h, w;
} dim2;

typedef struct {
    int top, bottom, left, right;
} Padding;

typedef char s8x4[4];
typedef unsigned char u8x4[4];
typedef short s16x2[2];
typedef unsigned short u16x2[2];

/* The bits of one element; pick the member that fits the meaning. */
typedef union {
    float fp32;
    int s32;
    unsigned int u32;
    s8x4 _4N_s8;
    u8x4 _4N_u8;
    s16x2 _2N_s16;
    u16x2 _2N_u16;
} x32;

typedef union {
    short s16;
    unsigned short u16;
} x16;

typedef union {
    char s8;
    unsigned char u8;
} x8;

/* An operand that is either a tensor in local memory or one constant. */
typedef struct {
    bool is_addr;
    union {
        float val;
        local_addr_t addr;
    } context;
} fp32_or_addr_t;

typedef struct {
    bool is_addr;
    union {
        x32 val;
        local_addr_t addr;
    } context;
} x32_or_addr_t;

/* ---- command ids ----
 *
 * Each engine numbers its commands. Kernels that leave the ids alone never need these. */
/** Sets the newest command ids, a node of {unsigned bd, gdma, in_parallel}.
 * - Refused in layers, inside a parallel section, and for ids that go back while the check is
 *   enabled.
 */
void okk_set_id_node(void *node);
/** Writes the newest command ids to such a node; in a parallel section those of its start. */
void okk_get_id_node(void *node);
/** From here on okk_set_id_node refuses ids that go back (the default). */
void okk_enable_check_id_node(void);
/** From here on it accepts them, after a wait for both engines. */
void okk_disable_check_id_node(void);

/* ---- memories ---- */

/** The first address of DDR.
 * - 0x100000000
 */
unsigned long long okk_global_mem_start_addr(void);
/** Where local memory begins for the controller; local_addr_t counts from 0.
 * - 0x08000000
 */
unsigned int okk_local_mem_start_addr(void);
/** Banks of an NPU's local memory, 64 KiB each.
 * - 8
 */
unsigned int okk_local_mem_bank_per_npu(void);
/** Bytes of an NPU's local memory.
 * - 524288
 */
unsigned int okk_local_mem_size_per_npu(void);
/** The first address in L2 that kernels may use.
 * - 0x100A2000
 */
unsigned int okk_l2_sram_start_addr(void);
/** Bytes in L2 that kernels may use.
 * - 0x25E000
 */
unsigned int okk_l2_sram_size(void);
/** The first address of the controller's own memory that kernels may use.
 * - 0x02020000
 */
unsigned int okk_dtcm_start_addr(void);
/** Bytes of it.
 * - 0x5F400
 */
unsigned int okk_dtcm_size(void);
/** Where kernels may keep tables, as an offset in L2.
 * - 0x323C00
 */
unsigned int okk_lookup_table_start_addr(void);
/** Bytes for tables.
 * - 0xDC400
 */
unsigned int okk_lookup_table_size(void);
/** fp32 execution units of an NPU.
 * - 32
 */
unsigned int okk_eu_num(void);
/** NPUs, which is also the lanes of local memory.
 * - 64
 */
int okk_npu_num(void);

/** The controller's pointer to an absolute address in DDR.
 * - Poll first: commands that were issued run later. What a static compile records has not run, so
 *   a layer that uses it returns true from must_dynamic_run().
 */
unsigned char *okk_global_mem_addr(unsigned long long addr);
/** The controller's pointer to byte addr of NPU idx.
 * - Limits: idx 0..63; addr 0..524287
 * - Poll first: commands that were issued run later. What a static compile records has not run, so
 *   a layer that uses it returns true from must_dynamic_run().
 */
unsigned char *okk_local_mem_addr(unsigned int idx, unsigned int addr);
/** The controller's pointer to an absolute address in L2.
 * - Limits: addr 0x10000000..0x103FFFFF
 * - Poll first: commands that were issued run later. What a static compile records has not run, so
 *   a layer that uses it returns true from must_dynamic_run().
 */
unsigned char *okk_l2_sram_addr(unsigned int addr);
/** The controller's pointer to an address in its own memory.
 * - Limits: addr 0x02020000..0x0207F3FF
 * - Commands do not reach it, so recording may use it.
 */
unsigned char *okk_dtcm_addr(unsigned int addr);

/* ---- order ---- */
/** Begins the numbering of commands again. Call it first in a free kernel.
 * - In a layer the ids go on. Not inside a parallel section. Not in a layer's local function,
 *   where the compiler orders the commands.
 */
void okk_initialize(void);
/** Waits until all commands that were issued are done.
 * - Refused inside a parallel section. Not in a layer's local function, where the compiler orders
 *   the commands.
 * - Issues no command and changes no id.
 */
void okk_poll(void);
/** From here on GDMA and BDC commands only keep the order of their own engine.
 * - Both engines wait for what came before. Sections cannot be nested. Not in a layer's local
 *   function, where the compiler orders the commands.
 */
void okk_parallel_start(void);
/** Ends the section: what comes next waits for both engines.
 * - Refused where none is open. Issues no command. Not in a layer's local function, where the
 *   compiler orders the commands.
 */
void okk_parallel_end(void);
/** Whether a parallel section is open. */
bool okk_is_parallel_state(void);

/* ---- layouts ---- */

/** The NPU that an address lies in.
 * - addr // 524288
 */
int okk_start_npu_index(local_addr_t addr);
/** Channel slots that each NPU needs for a tensor that starts on NPU start_idx (sic).
 * - (start_idx + num_channels + 63) // 64
 */
int okk_channle_num_per_npu(int start_idx, int num_channels);
/** Writes the strides of the aligned layout of 32-bit elements.
 * - [(start_idx + shape.c + 63) // 64 * ceil(shape.h * shape.w / 32) * 32, ceil(shape.h * shape.w
 *   / 32) * 32, shape.w, 1]
 */
void okk_128_byte_aligned_stride_for_32bit(dim4 *stride, int start_idx, const dim4 *shape);
/** Writes the strides of the aligned layout of 16-bit elements.
 * - [(start_idx + shape.c + 63) // 64 * ceil(shape.h * shape.w / 64) * 64, ceil(shape.h * shape.w
 *   / 64) * 64, shape.w, 1]
 */
void okk_128_byte_aligned_stride_for_16bit(dim4 *stride, int start_idx, const dim4 *shape);
/** Writes the strides of the aligned layout of 8-bit elements.
 * - [(start_idx + shape.c + 63) // 64 * ceil(shape.h * shape.w / 128) * 128, ceil(shape.h *
 *   shape.w / 128) * 128, shape.w, 1]
 */
void okk_128_byte_aligned_stride_for_8bit(dim4 *stride, int start_idx, const dim4 *shape);
/** Writes the strides of the compact layout.
 * - [(start_idx + shape.c + 63) // 64 * shape.h * shape.w, shape.h * shape.w, shape.w, 1]
 */
void okk_compact_stride(dim4 *stride, int start_idx, const dim4 *shape);
/** Writes the strides of the continuous layout of system memory.
 * - [shape.c * shape.h * shape.w, shape.h * shape.w, shape.w, 1]
 */
void okk_continuous_stride(dim4 *stride, const dim4 *shape);
/** Bytes of h * w 32-bit elements, rounded up to 64.
 * - ceil(h * w * 4 / 64) * 64
 */
unsigned int okk_64_byte_aligned_feature_size(int h, int w);

/* ---- GDMA: copies and fills; S = system memory (DDR, L2), L = local memory ---- */

/** Copies from DDR or L2 to local memory.
 * - dst = src
 * - dst: result, of the width in its name in local memory, strided (NULL: aligned)
 * - src: input, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - Limits: shape n, c, h, w 1..65535; with strides n, c of any extent (large ones in several
 *   commands); h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - In local memory a tensor starts at any byte; two may start on different NPUs.
 * - Cost: 1 command (gdma.copy.s2l), 138 + max(1.28 * bursts, 2.5 * scattered, 1.84 * pieces) +
 *   8.4 * jumps cycles
 */
void okk_gdma_32bit_cpy_S2L(local_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
/** Copies from local memory to DDR or L2.
 * - dst = src
 * - dst: result, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - src: input, of the width in its name in local memory, strided (NULL: aligned)
 * - Limits: shape n, c, h, w 1..65535; with strides n, c of any extent (large ones in several
 *   commands); h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - In local memory a tensor starts at any byte; two may start on different NPUs.
 * - Cost: 1 command (gdma.copy.l2s), 46 + max(1.44 * bursts, 2.5 * scattered) + 8.4 * jumps cycles
 */
void okk_gdma_32bit_cpy_L2S(system_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
/** Copies from local memory to local memory.
 * - dst = src
 * - dst: result, of the width in its name in local memory, strided (NULL: aligned)
 * - src: input, of the width in its name in local memory, strided (NULL: aligned)
 * - Limits: shape n, h, w of any extent (large ones in several commands); c 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - In local memory a tensor starts at any byte; two may start on different NPUs.
 * - Source and destination that overlap without being the same: undefined.
 * - Cost: 1 command (gdma.copy.l2l), bytes / 32 cycles
 */
void okk_gdma_32bit_cpy_L2L(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
/** Copies from DDR or L2 to DDR or L2.
 * - dst = src
 * - dst: result, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - src: input, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - Limits: shape of any extent (large ones in several commands)
 * - The w-stride of given strides is 1 where there is more than one column.
 * - Source and destination that overlap without being the same: undefined.
 * - Cost: 1 command (gdma.copy.s2s), 184 + max(1.28 * src_bursts, 2.5 * src_scattered) + max(1.44
 *   * dst_bursts, 2.5 * dst_scattered) + 8.4 * (src_jumps + dst_jumps) cycles
 */
void okk_gdma_32bit_cpy_S2S(system_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
/** Copies from DDR or L2 to local memory.
 * - dst = src
 * - dst: result, of the width in its name in local memory, strided (NULL: aligned)
 * - src: input, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - Limits: shape n, c, h, w 1..65535; with strides n, c of any extent (large ones in several
 *   commands); h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - In local memory a tensor starts at any byte; two may start on different NPUs.
 * - Cost: 1 command (gdma.copy.s2l), 138 + max(1.28 * bursts, 2.5 * scattered, 1.84 * pieces) +
 *   8.4 * jumps cycles
 */
void okk_gdma_16bit_cpy_S2L(local_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
/** Copies from local memory to DDR or L2.
 * - dst = src
 * - dst: result, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - src: input, of the width in its name in local memory, strided (NULL: aligned)
 * - Limits: shape n, c, h, w 1..65535; with strides n, c of any extent (large ones in several
 *   commands); h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - In local memory a tensor starts at any byte; two may start on different NPUs.
 * - Cost: 1 command (gdma.copy.l2s), 46 + max(1.44 * bursts, 2.5 * scattered) + 8.4 * jumps cycles
 */
void okk_gdma_16bit_cpy_L2S(system_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
/** Copies from local memory to local memory.
 * - dst = src
 * - dst: result, of the width in its name in local memory, strided (NULL: aligned)
 * - src: input, of the width in its name in local memory, strided (NULL: aligned)
 * - Limits: shape n, h, w of any extent (large ones in several commands); c 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - In local memory a tensor starts at any byte; two may start on different NPUs.
 * - Source and destination that overlap without being the same: undefined.
 * - Cost: 1 command (gdma.copy.l2l), bytes / 32 cycles
 */
void okk_gdma_16bit_cpy_L2L(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
/** Copies from DDR or L2 to DDR or L2.
 * - dst = src
 * - dst: result, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - src: input, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - Limits: shape of any extent (large ones in several commands)
 * - The w-stride of given strides is 1 where there is more than one column.
 * - Source and destination that overlap without being the same: undefined.
 * - Cost: 1 command (gdma.copy.s2s), 184 + max(1.28 * src_bursts, 2.5 * src_scattered) + max(1.44
 *   * dst_bursts, 2.5 * dst_scattered) + 8.4 * (src_jumps + dst_jumps) cycles
 */
void okk_gdma_16bit_cpy_S2S(system_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
/** Copies from DDR or L2 to local memory.
 * - dst = src
 * - dst: result, of the width in its name in local memory, strided (NULL: aligned)
 * - src: input, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - Limits: shape n, c, h, w 1..65535; with strides n, c of any extent (large ones in several
 *   commands); h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - In local memory a tensor starts at any byte; two may start on different NPUs.
 * - Cost: 1 command (gdma.copy.s2l), 138 + max(1.28 * bursts, 2.5 * scattered, 1.84 * pieces) +
 *   8.4 * jumps cycles
 */
void okk_gdma_8bit_cpy_S2L(local_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                           const dim4 *dst_stride, const dim4 *src_stride);
/** Copies from local memory to DDR or L2.
 * - dst = src
 * - dst: result, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - src: input, of the width in its name in local memory, strided (NULL: aligned)
 * - Limits: shape n, c, h, w 1..65535; with strides n, c of any extent (large ones in several
 *   commands); h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - In local memory a tensor starts at any byte; two may start on different NPUs.
 * - Cost: 1 command (gdma.copy.l2s), 46 + max(1.44 * bursts, 2.5 * scattered) + 8.4 * jumps cycles
 */
void okk_gdma_8bit_cpy_L2S(system_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                           const dim4 *dst_stride, const dim4 *src_stride);
/** Copies from local memory to local memory.
 * - dst = src
 * - dst: result, of the width in its name in local memory, strided (NULL: aligned)
 * - src: input, of the width in its name in local memory, strided (NULL: aligned)
 * - Limits: shape n, h, w of any extent (large ones in several commands); c 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - In local memory a tensor starts at any byte; two may start on different NPUs.
 * - Source and destination that overlap without being the same: undefined.
 * - Cost: 1 command (gdma.copy.l2l), bytes / 32 cycles
 */
void okk_gdma_8bit_cpy_L2L(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                           const dim4 *dst_stride, const dim4 *src_stride);
/** Copies from DDR or L2 to DDR or L2.
 * - dst = src
 * - dst: result, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - src: input, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - Limits: shape of any extent (large ones in several commands)
 * - The w-stride of given strides is 1 where there is more than one column.
 * - Source and destination that overlap without being the same: undefined.
 * - Cost: 1 command (gdma.copy.s2s), 184 + max(1.28 * src_bursts, 2.5 * src_scattered) + max(1.44
 *   * dst_bursts, 2.5 * dst_scattered) + 8.4 * (src_jumps + dst_jumps) cycles
 */
void okk_gdma_8bit_cpy_S2S(system_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                           const dim4 *dst_stride, const dim4 *src_stride);

/** Copies a matrix from DDR or L2 into the matrix layout of local memory.
 * - dst = src
 * - dst: result, 32-bit [rows x cols] in local memory, matrix, at multiples of 4; an address that
 *   is not a multiple of 128 is a warning
 * - src: input, 32-bit [rows x cols] in DDR or L2, rows of row_stride elements
 * - Limits: rows 1..65535; cols 1..65535; cols_per_channel 1..65535; cols_per_channel up to cols
 *   (else a warning); row_stride from cols on (else a warning)
 * - Column k lies in channel k // cols_per_channel at k % cols_per_channel; the last channel may
 *   be short. Row r is batch r, as far from the next as if the matrix began on NPU 0: start it
 *   there, or where its channels do not go around.
 * - Cost: 1 command (gdma.copy.s2l), 138 + max(1.28 * bursts, 2.5 * scattered, 1.84 * pieces) +
 *   8.4 * jumps cycles
 */
void okk_gdma_32bit_matrix_S2L(local_addr_t dst_addr, system_addr_t src_addr, int rows, int cols,
                               int cols_per_channel, int row_stride);
/** Copies a matrix from the matrix layout of local memory to DDR or L2.
 * - dst = src
 * - dst: result, 32-bit [rows x cols] in DDR or L2, rows of row_stride elements
 * - src: input, 32-bit [rows x cols] in local memory, matrix, at multiples of 4; an address that
 *   is not a multiple of 128 is a warning
 * - Limits: rows 1..65535; cols 1..65535; cols_per_channel 1..65535; cols_per_channel up to cols
 *   (else a warning); row_stride from cols on
 * - Column k lies in channel k // cols_per_channel at k % cols_per_channel; the last channel may
 *   be short. Row r is batch r, as far from the next as if the matrix began on NPU 0: start it
 *   there, or where its channels do not go around.
 * - Cost: 1 command (gdma.copy.l2s), 46 + max(1.44 * bursts, 2.5 * scattered) + 8.4 * jumps cycles
 */
void okk_gdma_32bit_matrix_L2S(system_addr_t dst_addr, local_addr_t src_addr, int rows, int cols,
                               int cols_per_channel, int row_stride);

/** Fills a tensor in DDR or L2 with C.
 * - dst = C
 * - dst: result, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - Limits: shape n, c, h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - Cost: 1 command (gdma.fill), 46 + max(1.44 * bursts, 2.5 * scattered) + 8.4 * jumps cycles
 */
void okk_gdma_32bit_set_C_system(system_addr_t dst_addr, x32 C, const dim4 *shape,
                                 const dim4 *dst_stride);
/** Fills a tensor in local memory with C.
 * - dst = C
 * - dst: result, of the width in its name in local memory, strided (NULL: aligned)
 * - Limits: shape n, c, h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - A NULL stride is the aligned one of 32-bit elements at every width, so that channels of 16-bit
 *   and 8-bit tensors lie further apart than in their aligned layout: give strides.
 * - Cost: 1 command (gdma.fill), bytes / 32 cycles
 */
void okk_gdma_32bit_set_C_local(local_addr_t dst_addr, x32 C, const dim4 *shape,
                                const dim4 *dst_stride);
/** Fills a tensor in DDR or L2 with C.
 * - dst = C
 * - dst: result, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - Limits: shape n, c, h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - Cost: 1 command (gdma.fill), 46 + max(1.44 * bursts, 2.5 * scattered) + 8.4 * jumps cycles
 */
void okk_gdma_16bit_set_C_system(system_addr_t dst_addr, x16 C, const dim4 *shape,
                                 const dim4 *dst_stride);
/** Fills a tensor in local memory with C.
 * - dst = C
 * - dst: result, of the width in its name in local memory, strided (NULL: aligned)
 * - Limits: shape n, c, h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - A NULL stride is the aligned one of 32-bit elements at every width, so that channels of 16-bit
 *   and 8-bit tensors lie further apart than in their aligned layout: give strides.
 * - Cost: 1 command (gdma.fill), bytes / 32 cycles
 */
void okk_gdma_16bit_set_C_local(local_addr_t dst_addr, x16 C, const dim4 *shape,
                                const dim4 *dst_stride);
/** Fills a tensor in DDR or L2 with C.
 * - dst = C
 * - dst: result, of the width in its name in DDR or L2, strided (NULL: continuous)
 * - Limits: shape n, c, h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - Cost: 1 command (gdma.fill), 46 + max(1.44 * bursts, 2.5 * scattered) + 8.4 * jumps cycles
 */
void okk_gdma_8bit_set_C_system(system_addr_t dst_addr, x8 C, const dim4 *shape,
                                const dim4 *dst_stride);
/** Fills a tensor in local memory with C.
 * - dst = C
 * - dst: result, of the width in its name in local memory, strided (NULL: aligned)
 * - Limits: shape n, c, h, w 1..65535
 * - The w-stride of given strides is 1 where there is more than one column.
 * - A NULL stride is the aligned one of 32-bit elements at every width, so that channels of 16-bit
 *   and 8-bit tensors lie further apart than in their aligned layout: give strides.
 * - Cost: 1 command (gdma.fill), bytes / 32 cycles
 */
void okk_gdma_8bit_set_C_local(local_addr_t dst_addr, x8 C, const dim4 *shape,
                               const dim4 *dst_stride);

/** Copies a tensor from DDR or L2 into the compact layout of local memory, from NPU 0 on.
 * - dst = src
 * - dst: result, 32-bit in local memory, compact; on NPU 0
 * - src: input, 32-bit in DDR or L2, continuous
 * - Limits: shape n, c of any extent (large ones in several commands); h, w 1..65535
 * - Cost: 1 command (gdma.copy.s2l), 138 + max(1.28 * bursts, 2.5 * scattered, 1.84 * pieces) +
 *   8.4 * jumps cycles
 */
void okk_gdma_compact_S2L(local_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape);

/* ---- BDC: 32-bit elements of any meaning ---- */

/** dst = src
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src
 * - All bits are kept, of denormals and nan too.
 * - Cost: 1 command (ar.copy), 2 * n * L * P cycles
 */
void okk_bdc_32bit_cpy(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                       const dim4 *dst_stride, const dim4 *src_stride);
/** dst = C
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - Cost: 1 command (ar.or), 2 * n * L * P cycles
 */
void okk_bdc_32bit_set_C(local_addr_t dst_addr, x32 C, const dim4 *shape, const dim4 *dst_stride);
/** dst = src0 & src1
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - Cost: 1 command (ar.and), 2 * n * L * P cycles
 */
void okk_bdc_32bit_and(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                       const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                       const dim4 *src1_stride);
/** dst = src & C
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src
 * - Cost: 1 command (ar.and), 2 * n * L * P cycles
 */
void okk_bdc_32bit_and_C(local_addr_t dst_addr, local_addr_t src_addr, x32 C, const dim4 *shape,
                         const dim4 *dst_stride, const dim4 *src_stride);
/** dst = src0 | src1
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - Cost: 1 command (ar.or), 2 * n * L * P cycles
 */
void okk_bdc_32bit_or(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                      const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                      const dim4 *src1_stride);
/** dst = src | C
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src
 * - Cost: 1 command (ar.or), 2 * n * L * P cycles
 */
void okk_bdc_32bit_or_C(local_addr_t dst_addr, local_addr_t src_addr, x32 C, const dim4 *shape,
                        const dim4 *dst_stride, const dim4 *src_stride);
/** dst = src0 ^ src1
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - Cost: 1 command (ar.xor), 2 * n * L * P cycles
 */
void okk_bdc_32bit_xor(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                       const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                       const dim4 *src1_stride);
/** dst = src ^ C
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src
 * - Cost: 1 command (ar.xor), 2 * n * L * P cycles
 */
void okk_bdc_32bit_xor_C(local_addr_t dst_addr, local_addr_t src_addr, x32 C, const dim4 *shape,
                         const dim4 *dst_stride, const dim4 *src_stride);

/** dst = arithmetic_shift(src0, src1)
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - A count is positive to the left; right shifts truncate, left shifts drop what leaves the word.
 *   Counts in src1 beyond 31 count modulo 32: 32 and -32 change nothing.
 * - Cost: 1 command (ar.shift), 2 * n * L * P cycles
 */
void okk_bdc_32bit_arithmetic_shift(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride);
/** dst = logical_shift(src0, src1)
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - A count is positive to the left; right shifts truncate, left shifts drop what leaves the word.
 *   Counts in src1 beyond 31 count modulo 32: 32 and -32 change nothing.
 * - Cost: 1 command (ar.shift), 2 * n * L * P cycles
 */
void okk_bdc_32bit_logical_shift(local_addr_t dst_addr, local_addr_t src0_addr,
                                 local_addr_t src1_addr, const dim4 *shape, const dim4 *dst_stride,
                                 const dim4 *src0_stride, const dim4 *src1_stride);
/** dst = arithmetic_shift(src, C)
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands); C -32..32 (else a warning)
 * - In place: dst may be src
 * - A count is positive to the left; right shifts truncate, left shifts drop what leaves the word.
 *   A count of 32 or -32 changes nothing.
 * - Cost: 1 command (ar.shift), 2 * n * L * P cycles
 */
void okk_bdc_32bit_arithmetic_shift_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride);
/** dst = logical_shift(src, C)
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands); C -32..32 (else a warning)
 * - In place: dst may be src
 * - A count is positive to the left; right shifts truncate, left shifts drop what leaves the word.
 *   A count of 32 or -32 changes nothing.
 * - Cost: 1 command (ar.shift), 2 * n * L * P cycles
 */
void okk_bdc_32bit_logical_shift_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                   const dim4 *shape, const dim4 *dst_stride,
                                   const dim4 *src_stride);
/** dst = arithmetic_shift(C, src)
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src
 * - C is what is shifted, src holds the counts. A count is positive to the left; right shifts
 *   truncate, left shifts drop what leaves the word. Counts in src beyond 31 count modulo 32: 32
 *   and -32 change nothing.
 * - Cost: 1 command (ar.shift), 2 * n * L * P cycles
 */
void okk_bdc_32bit_C_arithmetic_shift(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride);
/** dst = logical_shift(C, src)
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src
 * - C is what is shifted, src holds the counts. A count is positive to the left; right shifts
 *   truncate, left shifts drop what leaves the word. Counts in src beyond 31 count modulo 32: 32
 *   and -32 change nothing.
 * - Cost: 1 command (ar.shift), 2 * n * L * P cycles
 */
void okk_bdc_32bit_C_logical_shift(local_addr_t dst_addr, local_addr_t src_addr, unsigned int C,
                                   const dim4 *shape, const dim4 *dst_stride,
                                   const dim4 *src_stride);

/* ---- BDC: fp32, one operand ---- */

/** dst = where(src > 0, src, 0)
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - relu(nan) is 0.
 * - Cost: aligned operands: 1 command (md_cmp.max), n * L * P cycles; else: 1 command (ar.max), 2
 *   * n * L * P cycles
 */
void okk_bdc_relu(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                  const dim4 *dst_stride, const dim4 *src_stride);
/** dst = 1 / src
 * - within 4e-07 of the value
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - A quotient is a * r * r with r the reciprocal square root of |b|: 1 / 1 is 0.99999988. x / 0
 *   is inf, 0 / 0 nan.
 * - Cost: aligned operands: 1 command (md_scalar.div), 30 * n * L * P cycles; else: 1 command
 *   (ar.div), 30 * n * L * P cycles
 */
void okk_bdc_reciprocal(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                        const dim4 *dst_stride, const dim4 *src_stride);
/** dst = 0 - src
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - neg(0) is 0, not -0.
 * - Cost: aligned operands: 1 command (md_scalar.sub), n * L * P cycles; else: 1 command (ar.sub),
 *   2 * n * L * P cycles
 */
void okk_bdc_neg(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                 const dim4 *dst_stride, const dim4 *src_stride);

/* ---- BDC: fp32, two operands; _C: the second is a constant, C_: the first is ---- */
/** dst = src0 + src1
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - Cost: aligned operands: 1 command (md_scalar.add), n * L * P cycles; else: 1 command (ar.add),
 *   2 * n * L * P cycles
 */
void okk_bdc_add(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
/** dst = src + C
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - Cost: aligned operands: 1 command (md_scalar.add), n * L * P cycles; else: 1 command (ar.add),
 *   2 * n * L * P cycles
 */
void okk_bdc_add_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
/** dst = src0 - src1
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - Cost: aligned operands: 1 command (md_scalar.sub), n * L * P cycles; else: 1 command (ar.sub),
 *   2 * n * L * P cycles
 */
void okk_bdc_sub(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
/** dst = src - C
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - Cost: aligned operands: 1 command (md_scalar.sub), n * L * P cycles; else: 1 command (ar.sub),
 *   2 * n * L * P cycles
 */
void okk_bdc_sub_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
/** dst = C - src
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - Cost: aligned operands: 1 command (md_scalar.sub), n * L * P cycles; else: 1 command (ar.sub),
 *   2 * n * L * P cycles
 */
void okk_bdc_C_sub(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
/** dst = src0 * src1
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - Cost: aligned operands: 1 command (md_scalar.mul), n * L * P cycles; else: 1 command (ar.mul),
 *   2 * n * L * P cycles
 */
void okk_bdc_mul(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
/** dst = src * C
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - Cost: aligned operands: 1 command (md_scalar.mul), n * L * P cycles; else: 1 command (ar.mul),
 *   2 * n * L * P cycles
 */
void okk_bdc_mul_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
/** dst = src0 / src1
 * - within 4e-07 of the value
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - A quotient is a * r * r with r the reciprocal square root of |b|: 1 / 1 is 0.99999988. x / 0
 *   is inf, 0 / 0 nan.
 * - Cost: aligned operands: 1 command (md_scalar.div), 30 * n * L * P cycles; else: 1 command
 *   (ar.div), 30 * n * L * P cycles
 */
void okk_bdc_div(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
/** dst = src / C
 * - within 4e-07 of the value
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - A quotient is a * r * r with r the reciprocal square root of |b|: 1 / 1 is 0.99999988. x / 0
 *   is inf, 0 / 0 nan.
 * - Cost: aligned operands: 1 command (md_scalar.div), 30 * n * L * P cycles; else: 1 command
 *   (ar.div), 30 * n * L * P cycles
 */
void okk_bdc_div_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
/** dst = C / src
 * - within 4e-07 of the value
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - A quotient is a * r * r with r the reciprocal square root of |b|: 1 / 1 is 0.99999988. x / 0
 *   is inf, 0 / 0 nan.
 * - Cost: aligned operands: 1 command (md_scalar.div), 30 * n * L * P cycles; else: 1 command
 *   (ar.div), 30 * n * L * P cycles
 */
void okk_bdc_C_div(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
/** dst = src0 * src1 + old
 * - dst: result, its old value is read, fp32 in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src0, src1: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - The product is rounded before it is added.
 * - Cost: aligned operands: 1 command (md_scalar.mul), n * L * P cycles; else: 1 command (ar.mac),
 *   5 * n * L * P cycles
 */
void okk_bdc_mac(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
/** dst = src * C + old
 * - dst: result, its old value is read, fp32 in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - The product is rounded before it is added.
 * - Cost: aligned operands: 1 command (md_scalar.mul), n * L * P cycles; else: 1 command (ar.mac),
 *   5 * n * L * P cycles
 */
void okk_bdc_mac_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
/** dst = where(src0 > src1, src0, src1)
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - max(nan, x) is x and max(x, nan) is nan: where the comparison does not hold, the second
 *   operand is taken.
 * - Cost: aligned operands: 1 command (md_cmp.max), n * L * P cycles; else: 1 command (ar.max), 2
 *   * n * L * P cycles
 */
void okk_bdc_max(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
/** dst = where(src > C, src, C)
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - max(nan, x) is x and max(x, nan) is nan: where the comparison does not hold, the second
 *   operand is taken.
 * - Cost: aligned operands: 1 command (md_cmp.max), n * L * P cycles; else: 1 command (ar.max), 2
 *   * n * L * P cycles
 */
void okk_bdc_max_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
/** dst = where(src0 <= src1, src0, src1)
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - min(nan, x) is x and min(x, nan) is nan: where the comparison does not hold, the second
 *   operand is taken.
 * - Cost: 1 command (ar.min), 2 * n * L * P cycles
 */
void okk_bdc_min(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
/** dst = where(src <= C, src, C)
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src
 * - min(nan, x) is x and min(x, nan) is nan: where the comparison does not hold, the second
 *   operand is taken.
 * - Cost: 1 command (ar.min), 2 * n * L * P cycles
 */
void okk_bdc_min_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);

/* ---- BDC: per-channel bias and scale (one 32-bit word per channel, compact) ---- */

/** dst = src + bias
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - bias: input, fp32 [c elements] in local memory, one element for each channel, compact, at
 *   multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - Cost: aligned dst and src: 1 command (md_linear.mac), 4 * n * L * P cycles; else: 1 command
 *   (ar.add), 2 * n * L * P cycles
 */
void okk_bdc_bias(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t bias_addr,
                  const dim4 *shape, const dim4 *dst_stride, const dim4 *src_stride);
/** dst = src * scale
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - scale: input, fp32 [c elements] in local memory, one element for each channel, compact, at
 *   multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - Cost: aligned dst and src: 1 command (md_linear.mac), 4 * n * L * P cycles; else: 1 command
 *   (ar.mul), 2 * n * L * P cycles
 */
void okk_bdc_scale(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t scale_addr,
                   const dim4 *shape, const dim4 *dst_stride, const dim4 *src_stride);
/** dst = src * scale + bias
 * - dst: result, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - scale, bias: input, fp32 [c elements] in local memory, one element for each channel, compact,
 *   at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; with strides or an address off 128 of any extent
 *   (large ones in several commands)
 * - In place: dst may be src
 * - With strides dst holds the product between the two commands.
 * - Cost: aligned dst and src: 1 command (md_linear.mac), 4 * n * L * P cycles; else: 2 commands
 *   (ar.mul, ar.add), 4 * n * L * P cycles
 */
void okk_bdc_scale_bias(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t scale_addr,
                        local_addr_t bias_addr, const dim4 *shape, const dim4 *dst_stride,
                        const dim4 *src_stride);

/* ---- BDC: selection ---- */
/** dst = where(src0 > src1, select_val, 0)
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - A comparison with nan does not hold, and -0 is not greater or less than 0.
 * - Cost: 1 command (ar.select_gt), 2 * n * L * P cycles
 */
void okk_bdc_greater_select_value(local_addr_t dst_addr, local_addr_t src0_addr,
                                  local_addr_t src1_addr, x32 select_val, const dim4 *shape,
                                  const dim4 *dst_stride, const dim4 *src0_stride,
                                  const dim4 *src1_stride);
/** dst = where(src > C, select_val, 0)
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src
 * - A comparison with nan does not hold, and -0 is not greater or less than 0.
 * - Cost: 1 command (ar.select_gt), 2 * n * L * P cycles
 */
void okk_bdc_greater_C_select_value(local_addr_t dst_addr, local_addr_t src_addr, float C,
                                    x32 select_val, const dim4 *shape, const dim4 *dst_stride,
                                    const dim4 *src_stride);
/** dst = where(C > src, select_val, 0)
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src
 * - A comparison with nan does not hold, and -0 is not greater or less than 0.
 * - Cost: 1 command (ar.select_gt), 2 * n * L * P cycles
 */
void okk_bdc_C_greater_select_value(local_addr_t dst_addr, local_addr_t src_addr, float C,
                                    x32 select_val, const dim4 *shape, const dim4 *dst_stride,
                                    const dim4 *src_stride);
/** dst = where(same_bits(src0, src1), select_val, 0)
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src0 or src1
 * - Bits are compared: -0 is not 0, and a nan equals the same nan. Integers can be compared so
 *   too.
 * - Cost: 1 command (ar.select_eq), 2 * n * L * P cycles
 */
void okk_bdc_equal_select_value(local_addr_t dst_addr, local_addr_t src0_addr,
                                local_addr_t src1_addr, x32 select_val, const dim4 *shape,
                                const dim4 *dst_stride, const dim4 *src0_stride,
                                const dim4 *src1_stride);
/** dst = where(same_bits(src, C), select_val, 0)
 * - dst: result, 32-bit in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: dst may be src
 * - Bits are compared: -0 is not 0, and a nan equals the same nan. Integers can be compared so
 *   too.
 * - Cost: 1 command (ar.select_eq), 2 * n * L * P cycles
 */
void okk_bdc_equal_C_select_value(local_addr_t dst_addr, local_addr_t src_addr, float C,
                                  x32 select_val, const dim4 *shape, const dim4 *dst_stride,
                                  const dim4 *src_stride);
/** dst = where(src0 > src1, select0, select1)
 * - dst: result, 32-bit in local memory, aligned, at multiples of 128
 * - src0, src1: input, fp32 in local memory, aligned, at multiples of 128; or a constant
 * - select0, select1: input, 32-bit in local memory, aligned, at multiples of 128; or a constant
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be src0 or src1 or select0 or select1
 * - A comparison with nan does not hold. Denormals and nan among the selected values keep their
 *   bits.
 * - Cost: 1 command (md_cmp.select), n * L * P cycles
 */
void okk_bdc_greater_select(local_addr_t dst_addr, const fp32_or_addr_t *src0,
                            const fp32_or_addr_t *src1, const x32_or_addr_t *select0,
                            const x32_or_addr_t *select1, const dim4 *shape);
/** dst = where((src0 > src1) | (src1 > src0), select1, select0)
 * - dst: result, 32-bit in local memory, aligned, at multiples of 128
 * - src0, src1: input, fp32 in local memory, aligned, at multiples of 128; or a constant
 * - select0, select1: input, 32-bit in local memory, aligned, at multiples of 128; or a constant
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be select0
 * - Equal means that neither is greater: -0 equals 0, and nan equals everything. Both sources are
 *   tensors or both constants; okk_bdc_equal_C_select_value compares a tensor with a constant.
 * - Cost: 2 commands (md_cmp.select), 2 * n * L * P cycles
 */
void okk_bdc_equal_select(local_addr_t dst_addr, const fp32_or_addr_t *src0,
                          const fp32_or_addr_t *src1, const x32_or_addr_t *select0,
                          const x32_or_addr_t *select1, const dim4 *shape);

/* ---- BDC: special functions ---- */
/** dst = to_int32(src)
 * - dst: result, int32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be src
 * - Truncates: 1.9 becomes 1, -1.9 becomes -1. Saturates at -2147483648 and 2147483647, which nan
 *   becomes.
 * - Cost: 1 command (md_sfu.fp32_to_int), n * L * P cycles
 */
void okk_bdc_fp32_to_int32(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape);
/** dst = src
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, int32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be src
 * - src is in -128..127: its low 8 bits index a table in L2, so 128 becomes -128. Nothing is
 *   refused.
 * - Cost: 1 command (table_lookup), 24 * n * L * P cycles
 */
void okk_bdc_lookup_int32_to_fp32(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape);
/** dst = 1 / sqrt(src)
 * - within 2e-07 of the value
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be src
 * - Three steps of Newton's method, so not always the nearest number. src is above 0.
 * - Cost: 1 command (md_sfu.rsqrt), 27 * n * L * P cycles
 */
void okk_bdc_rsqrt(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape);
/** dst = sqrt(src)
 * - within 5e-07 of the value
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be src
 * - 1 / rsqrt(src) by the division of okk_bdc_div. src is above 0.
 * - Cost: 2 commands (md_sfu.rsqrt, md_scalar.div), 57 * n * L * P cycles
 */
void okk_bdc_sqrt(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape);
/** dst = 1 + sum(src**k / factorial(k) for k in range(1, num_series + 1))
 * - within 1e-06 of the value
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095; num_series up to 64 (else a warning); num_series
 *   1..4095
 * - In place: dst may be src
 * - The series of e^src around 0, for small |src|: in -1..1 ten terms give e^src to 1e-6.
 * - Cost: 2 commands (md_sfu.taylor, md_scalar.add), (3 + 4 * num_series) * n * L * P cycles
 */
void okk_bdc_taylor_exp(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                        int num_series);
/** dst = exp(src)
 * - within 2e-07 of the value
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, int32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be src
 * - src is a 32-bit integer in -103..88: its low 8 bits index a table in L2, which holds 0 for the
 *   others. Nothing is refused. Results below 1.2e-38 are denormals.
 * - Cost: 1 command (table_lookup), 24 * n * L * P cycles
 */
void okk_bdc_lookup_exp(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape);
/** dst = exp(src)
 * - within 5e-07 of the value
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - work: work buffer, as large as dst, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: work is not dst (else a warning); work is not src (else a warning)
 * - src is in -103..88. e^whole by a table, times e^rest by the first terms of its series.
 *   Products below 1.2e-38 are 0: results below 1e-31 may lack as much.
 * - Beyond that range results are wrong (bm_local_act limits src first); nothing is refused.
 * - Cost: 7 commands (md_sfu.fp32_to_int, table_lookup, md_scalar.sub, md_sfu.taylor,
 *   md_scalar.mul), 182 * n * L * P cycles
 */
void okk_bdc_exp(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                 const dim4 *shape);
/** dst = exp(src)
 * - within 5e-07 of the value
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - work: work buffer, as large as dst, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095; num_series up to 64 (else a warning); num_series
 *   1..4095
 * - In place: work is not dst (else a warning); work is not src (else a warning)
 * - src is in -103..88. e^whole by a table, times e^rest by the first terms of its series.
 *   Products below 1.2e-38 are 0: results below 1e-31 may lack as much.
 * - Beyond that range results are wrong (bm_local_act limits src first); nothing is refused.
 * - num_series terms of the series; the function without it takes 32.
 * - Cost: 7 commands (md_sfu.fp32_to_int, table_lookup, md_scalar.sub, md_sfu.taylor,
 *   md_scalar.mul), (54 + 4 * num_series) * n * L * P cycles
 */
void okk_bdc_exp_tunable(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                         const dim4 *shape, int num_series);
/** dst = 1 / (1 + exp(-src))
 * - within 5e-07 of the value
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - work: work buffer, as large as dst, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be src; work is not dst (else a warning); work is not src (else a warning)
 * - src is in -88..103. With e = e^-src: 1 / (1 + e).
 * - Beyond that range results are wrong (bm_local_act limits src first); nothing is refused.
 * - Cost: 10 commands (md_scalar.sub, md_sfu.fp32_to_int, table_lookup, md_sfu.taylor,
 *   md_scalar.mul, md_scalar.add, md_scalar.div), 214 * n * L * P cycles
 */
void okk_bdc_sigmoid(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                     const dim4 *shape);
/** dst = 1 / (1 + exp(-src))
 * - within 5e-07 of the value
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - work: work buffer, as large as dst, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095; num_series up to 64 (else a warning); num_series
 *   1..4095
 * - In place: dst may be src; work is not dst (else a warning); work is not src (else a warning)
 * - src is in -88..103. With e = e^-src: 1 / (1 + e).
 * - Beyond that range results are wrong (bm_local_act limits src first); nothing is refused.
 * - num_series terms of the series; the function without it takes 32.
 * - Cost: 10 commands (md_scalar.sub, md_sfu.fp32_to_int, table_lookup, md_sfu.taylor,
 *   md_scalar.mul, md_scalar.add, md_scalar.div), (86 + 4 * num_series) * n * L * P cycles
 */
void okk_bdc_sigmoid_tunable(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                             const dim4 *shape, int num_series);
/** dst = tanh(src)
 * - within 1e-06 of 1
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - work: work buffer, as large as dst, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: work is not dst (else a warning); work is not src (else a warning)
 * - src is in -86..88. With e = e^src: 1 - 2 / e / (e + 1 / e).
 * - Beyond that range results are wrong (bm_local_act limits src first); nothing is refused.
 * - Cost: 11 commands (md_sfu.fp32_to_int, table_lookup, md_scalar.sub, md_sfu.taylor,
 *   md_scalar.mul, md_scalar.div, md_scalar.add, md_linear.mac), 247 * n * L * P cycles
 */
void okk_bdc_tanh(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                  const dim4 *shape);
/** dst = tanh(src)
 * - within 1e-06 of 1
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - work: work buffer, as large as dst, fp32 in local memory, aligned, at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095; num_series up to 64 (else a warning); num_series
 *   1..4095
 * - In place: work is not dst (else a warning); work is not src (else a warning)
 * - src is in -86..88. With e = e^src: 1 - 2 / e / (e + 1 / e).
 * - Beyond that range results are wrong (bm_local_act limits src first); nothing is refused.
 * - num_series terms of the series; the function without it takes 32.
 * - Cost: 11 commands (md_sfu.fp32_to_int, table_lookup, md_scalar.sub, md_sfu.taylor,
 *   md_scalar.mul, md_scalar.div, md_scalar.add, md_linear.mac), (119 + 4 * num_series) * n * L *
 *   P cycles
 */
void okk_bdc_tanh_tunable(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                          const dim4 *shape, int num_series);

/* ---- BDC: 8-bit integers to fp32 and back ---- */
/** dst = src
 * - dst: result, fp32 in local memory, aligned, at multiples of 4; or compact without
 *   is_aligned_layout
 * - src: input, 8-bit 4N in local memory, aligned, at multiples of 4; or compact without
 *   is_aligned_layout
 * - work: work buffer, as large as src; may be src, 8-bit 4N in local memory, aligned, at
 *   multiples of 4; or compact without is_aligned_layout
 * - Limits: shape of any extent (large ones in several commands)
 * - In place: work is not dst (else a warning)
 * - is_signed: bytes are -128..127, else 0..255. The strides of src are those of dst, in words.
 * - Where work is src, the first copy is left out.
 * - Cost: 4 + is_signed + min(n, 4) + (n > 1) commands (ar.copy, ar.xor, ar.and, ar.shift, ar.or,
 *   ar.sub, ar.mul), 2 * L * P * ((1 + is_signed) * ceil(n / 4) + (4 + (n > 1)) * n) cycles
 */
void okk_bdc_4N_int8_to_fp32(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                             const dim4 *shape, bool is_signed, bool is_aligned_layout);
/** dst = src
 * - dst: result, fp32 in local memory, aligned, at multiples of 4; or compact without
 *   is_aligned_layout
 * - src: input, 8-bit, four pixels to a word in local memory, aligned, at multiples of 4; or
 *   compact without is_aligned_layout
 * - work: work buffer, as large as src; may be src, 8-bit, four pixels to a word in local memory,
 *   aligned, at multiples of 4; or compact without is_aligned_layout
 * - In place: work is not dst (else a warning)
 * - is_signed: bytes are -128..127, else 0..255. A channel of src begins at a word. h * w is at
 *   most 131072.
 * - Where work is src, the first copy is left out.
 * - Cost: h * w a multiple of 4: 9 + is_signed commands (ar.copy, ar.xor, ar.and, ar.shift, ar.or,
 *   ar.sub, ar.mul), 2 * n * L * ((5 + is_signed) * ceil(h * w / 64) + 4 * P) cycles
 */
void okk_bdc_int8_to_fp32(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                          const dim4 *shape, bool is_signed, bool is_aligned_layout);
/** dst = to_int32(clip(src, -128 if is_signed else 0, 127 if is_signed else 255))
 * - dst: result, 8-bit 4N in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, aligned, at multiples of 128
 * - work: work buffer, as large as src; may be src, fp32 in local memory, aligned, at multiples of
 *   128
 * - Limits: shape n 1..32767; c 1..4095; h, w 1..65535
 * - In place: dst may be src
 * - Truncates and saturates.
 * - Cost: 5 commands (md_cmp.max, ar.min, md_sfu.fp32_to_int, ar.fixed.add), L * P * (4 * n + 2 *
 *   ceil(n / 2) + 2 * ceil(n / 4)) cycles
 */
void okk_bdc_fp32_to_4N_int8(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                             const dim4 *shape, bool is_signed);

/* ---- BDC: packed 8-bit (4N) and 16-bit (2N) elements; strides count 32-bit words ---- */
#define OP_TYPE(src_bit, src0_sign, src1_sign, dst_bit, dst_sign) \
    ((src_bit) | ((src0_sign) << 1) | ((src1_sign) << 2) | ((dst_bit) << 3) | ((dst_sign) << 4))
typedef enum {
    S8_OP_S8_TO_S8 = OP_TYPE(1, 1, 1, 1, 1),
    S8_OP_S8_TO_S16 = OP_TYPE(1, 1, 1, 0, 1),
    S8_OP_U8_TO_S8 = OP_TYPE(1, 1, 0, 1, 1),
    S8_OP_U8_TO_S16 = OP_TYPE(1, 1, 0, 0, 1),
    U8_OP_S8_TO_S8 = OP_TYPE(1, 0, 1, 1, 1),
    U8_OP_S8_TO_S16 = OP_TYPE(1, 0, 1, 0, 1),
    U8_OP_U8_TO_S8 = OP_TYPE(1, 0, 0, 1, 1),
    U8_OP_U8_TO_S16 = OP_TYPE(1, 0, 0, 0, 1),
    U8_OP_U8_TO_U8 = OP_TYPE(1, 0, 0, 1, 0),
    U8_OP_U8_TO_U16 = OP_TYPE(1, 0, 0, 0, 0),
    S16_OP_S16_TO_S8 = OP_TYPE(0, 1, 1, 1, 1),
    S16_OP_S16_TO_S16 = OP_TYPE(0, 1, 1, 0, 1),
    S16_OP_U16_TO_S8 = OP_TYPE(0, 1, 0, 1, 1),
    S16_OP_U16_TO_S16 = OP_TYPE(0, 1, 0, 0, 1),
    U16_OP_S16_TO_S8 = OP_TYPE(0, 0, 1, 1, 1),
    U16_OP_S16_TO_S16 = OP_TYPE(0, 0, 1, 0, 1),
    U16_OP_U16_TO_S8 = OP_TYPE(0, 0, 0, 1, 1),
    U16_OP_U16_TO_S16 = OP_TYPE(0, 0, 0, 0, 1),
    U16_OP_U16_TO_U8 = OP_TYPE(0, 0, 0, 1, 0),
    U16_OP_U16_TO_U16 = OP_TYPE(0, 0, 0, 0, 0)
} op_type_t;

#define MUL_TYPE(src0_sign, src1_sign, dst_sign) \
    ((src0_sign) | ((src1_sign) << 1) | ((dst_sign) << 2))
typedef enum {
    S16_MUL_S8_TO_S16 = MUL_TYPE(1, 1, 1),
    U16_MUL_S8_TO_S16 = MUL_TYPE(0, 1, 1),
    U16_MUL_U8_TO_U16 = MUL_TYPE(0, 0, 0),
    S16_MUL_U8_TO_S16 = MUL_TYPE(1, 0, 1)
} mul_type_t;

/** dst = saturated(half_up(src0 + src1, rshift))
 * - dst: result, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src0, src1: input, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned),
 *   at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of the 20 of op_type_t (else a
 *   warning); rshift 0..31
 * - In place: dst may be src0 or src1
 * - The result saturates to the range of its width: unsigned where both sources are, whatever
 *   op_type says of the result, else signed.
 * - Cost: 1 command (ar.fixed.add), 2 * ceil(n / per_word) * L * P cycles
 */
void okk_bdc_fixed_point_packed_add(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, op_type_t op_type, int rshift);
/** dst = saturated(half_up(src + C, rshift))
 * - dst: result, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src: input, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of the 20 of op_type_t (else a
 *   warning); rshift 0..31; C in the range of its source's type (else a warning)
 * - In place: dst may be src
 * - The result saturates to the range of its width: unsigned where both sources are, whatever
 *   op_type says of the result, else signed.
 * - Cost: 1 command (ar.fixed.add), 2 * ceil(n / per_word) * L * P cycles
 */
void okk_bdc_fixed_point_packed_add_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type, int rshift);
/** dst = saturated(half_up(src0 - src1, rshift))
 * - dst: result, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src0, src1: input, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned),
 *   at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of the 20 of op_type_t (else a
 *   warning); rshift 0..31
 * - In place: dst may be src0 or src1
 * - The result saturates to the signed range of its width, whatever op_type says.
 * - Cost: 1 command (ar.fixed.sub), 2 * ceil(n / per_word) * L * P cycles
 */
void okk_bdc_fixed_point_packed_sub(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, op_type_t op_type, int rshift);
/** dst = saturated(half_up(src - C, rshift))
 * - dst: result, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src: input, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of the 20 of op_type_t (else a
 *   warning); rshift 0..31; C in the range of its source's type (else a warning)
 * - In place: dst may be src
 * - The result saturates to the signed range of its width, whatever op_type says.
 * - Cost: 1 command (ar.fixed.sub), 2 * ceil(n / per_word) * L * P cycles
 */
void okk_bdc_fixed_point_packed_sub_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type, int rshift);
/** dst = saturated(half_up(C - src, rshift))
 * - dst: result, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src: input, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of the 20 of op_type_t (else a
 *   warning); rshift 0..31; C in the range of its source's type (else a warning)
 * - In place: dst may be src
 * - The result saturates to the signed range of its width, whatever op_type says.
 * - Cost: 1 command (ar.fixed.sub), 2 * ceil(n / per_word) * L * P cycles
 */
void okk_bdc_fixed_point_packed_C_sub(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type, int rshift);
/** dst = saturated(half_up(src0 * src1, rshift))
 * - dst: result, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src0, src1: input, 8-bit 4N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of those with 8-bit sources; rshift
 *   0..31
 * - In place: dst may be src0 or src1
 * - Both sources are 8-bit. The result saturates to the range of its width: unsigned where both
 *   sources are, whatever op_type says of the result, else signed.
 * - Cost: 1 command (ar.fixed.mul), 2 * ceil(n / per_word) * L * P cycles
 */
void okk_bdc_fixed_point_packed_mul(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, op_type_t op_type, int rshift);
/** dst = saturated(half_up(src * C, rshift))
 * - dst: result, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src: input, 8-bit 4N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of those with 8-bit sources; rshift
 *   0..31; C in the range of its source's type (else a warning)
 * - In place: dst may be src
 * - Both sources are 8-bit. The result saturates to the range of its width: unsigned where both
 *   sources are, whatever op_type says of the result, else signed.
 * - Cost: 1 command (ar.fixed.mul), 2 * ceil(n / per_word) * L * P cycles
 */
void okk_bdc_fixed_point_packed_mul_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type, int rshift);
/** dst = saturated(half_up(src0 * src1 + (old << lshift), rshift))
 * - dst: result, its old value is read, 16-bit 2N in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src0, src1: input, 8-bit 4N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of the 20 of op_type_t (else a
 *   warning); rshift 0..31; lshift up to 14 (else a warning); lshift 0..16
 * - The old dst counts as signed with is_origin_dst_signed. The result is unsigned where both
 *   sources are; sources are 8-bit and the result 16-bit whatever op_type says of widths; 16-bit
 *   sources in it are a warning.
 * - Cost: 1 command (ar.fixed.mac), 5 * ceil(n / 2) * L * P cycles
 */
void okk_bdc_fixed_point_packed_mac(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, bool is_origin_dst_signed,
                                    op_type_t op_type, int lshift, int rshift);
/** dst = saturated(half_up(src * C + (old << lshift), rshift))
 * - dst: result, its old value is read, 16-bit 2N in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src: input, 8-bit 4N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of the 20 of op_type_t (else a
 *   warning); rshift 0..31; lshift up to 14 (else a warning); lshift 0..16; C in the range of its
 *   source's type (else a warning)
 * - The old dst counts as signed with is_origin_dst_signed. The result is unsigned where both
 *   sources are; sources are 8-bit and the result 16-bit whatever op_type says of widths; 16-bit
 *   sources in it are a warning.
 * - Cost: 1 command (ar.fixed.mac), 5 * ceil(n / 2) * L * P cycles
 */
void okk_bdc_fixed_point_packed_mac_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, bool is_origin_dst_signed,
                                      op_type_t op_type, int lshift, int rshift);
/** dst = maximum(src0, src1)
 * - dst: result, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src0, src1: input, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned),
 *   at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of the 20 of op_type_t (else a warning)
 * - In place: dst may be src0 or src1
 * - Both sources are signed or both unsigned, and the result has their width and sign; another
 *   width in op_type is undefined.
 * - Cost: 1 command (ar.fixed.max), 2 * ceil(n / per_word) * L * P cycles
 */
void okk_bdc_fixed_point_packed_max(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, op_type_t op_type);
/** dst = maximum(src, C)
 * - dst: result, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src: input, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of the 20 of op_type_t (else a
 *   warning); C in the range of its source's type (else a warning)
 * - In place: dst may be src
 * - Both sources are signed or both unsigned, and the result has their width and sign; another
 *   width in op_type is undefined.
 * - Cost: 1 command (ar.fixed.max), 2 * ceil(n / per_word) * L * P cycles
 */
void okk_bdc_fixed_point_packed_max_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type);
/** dst = minimum(src0, src1)
 * - dst: result, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src0, src1: input, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned),
 *   at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of the 20 of op_type_t (else a warning)
 * - In place: dst may be src0 or src1
 * - Both sources are signed or both unsigned, and the result has their width and sign; another
 *   width in op_type is undefined.
 * - Cost: 1 command (ar.fixed.min), 2 * ceil(n / per_word) * L * P cycles
 */
void okk_bdc_fixed_point_packed_min(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, op_type_t op_type);
/** dst = minimum(src, C)
 * - dst: result, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - src: input, 8-bit 4N or 16-bit 2N, by op_type in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; op_type one of the 20 of op_type_t (else a
 *   warning); C in the range of its source's type (else a warning)
 * - In place: dst may be src
 * - Both sources are signed or both unsigned, and the result has their width and sign; another
 *   width in op_type is undefined.
 * - Cost: 1 command (ar.fixed.min), 2 * ceil(n / per_word) * L * P cycles
 */
void okk_bdc_fixed_point_packed_min_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type);
/** dst = arithmetic_shift(src0, src1)
 * - dst: result, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be src0 or src1
 * - Counts in src1 are -16..16. A count is positive to the left; right shifts truncate, left
 *   shifts drop what leaves the element.
 * - Cost: 1 command (ar.fixed.shift), 2 * ceil(n / 2) * L * P cycles
 */
void okk_bdc_fixed_point_packed_16bit_arithmetic_shift(
    local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src0_stride, const dim4 *src1_stride);
/** dst = logical_shift(src0, src1)
 * - dst: result, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - src0, src1: input, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be src0 or src1
 * - Counts in src1 are -16..16. A count is positive to the left; right shifts truncate, left
 *   shifts drop what leaves the element.
 * - Cost: 1 command (ar.fixed.shift), 2 * ceil(n / 2) * L * P cycles
 */
void okk_bdc_fixed_point_packed_16bit_logical_shift(
    local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src0_stride, const dim4 *src1_stride);
/** dst = arithmetic_shift(src, C)
 * - dst: result, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; C -16..16 (else a warning)
 * - In place: dst may be src
 * - A count is positive to the left; right shifts truncate, left shifts drop what leaves the
 *   element.
 * - Cost: 1 command (ar.fixed.shift), 2 * ceil(n / 2) * L * P cycles
 */
void okk_bdc_fixed_point_packed_16bit_arithmetic_shift_C(
    local_addr_t dst_addr, local_addr_t src_addr, short C, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src_stride);
/** dst = logical_shift(src, C)
 * - dst: result, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; C -16..16 (else a warning)
 * - In place: dst may be src
 * - A count is positive to the left; right shifts truncate, left shifts drop what leaves the
 *   element.
 * - Cost: 1 command (ar.fixed.shift), 2 * ceil(n / 2) * L * P cycles
 */
void okk_bdc_fixed_point_packed_16bit_logical_shift_C(
    local_addr_t dst_addr, local_addr_t src_addr, short C, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src_stride);
/** dst = arithmetic_shift(C, src)
 * - dst: result, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be src
 * - C is what is shifted, src holds the counts. A count is positive to the left; right shifts
 *   truncate, left shifts drop what leaves the element.
 * - Cost: 1 command (ar.fixed.shift), 2 * ceil(n / 2) * L * P cycles
 */
void okk_bdc_fixed_point_packed_16bit_C_arithmetic_shift(
    local_addr_t dst_addr, local_addr_t src_addr, short C, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src_stride);
/** dst = logical_shift(C, src)
 * - dst: result, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: dst may be src
 * - C is what is shifted, src holds the counts. A count is positive to the left; right shifts
 *   truncate, left shifts drop what leaves the element.
 * - Cost: 1 command (ar.fixed.shift), 2 * ceil(n / 2) * L * P cycles
 */
void okk_bdc_fixed_point_packed_16bit_C_logical_shift(
    local_addr_t dst_addr, local_addr_t src_addr, unsigned short C, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src_stride);
/** dst = src >> 8
 * - dst: result, signed 8-bit 4N in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - The high byte of each element, as it is for a signed one.
 * - Cost: 1 command (ar.fixed.add), 2 * ceil(n / 4) * L * P cycles
 */
void okk_bdc_fixed_point_packed_16bit_split_high_8bit(
    local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape, const dim4 *dst_stride,
    const dim4 *src_stride);
/** dst = src & 255
 * - dst: result, unsigned 8-bit 4N in local memory, strided (NULL: aligned), at multiples of 4
 * - src: input, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - work: work buffer, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - In place: work is not dst (else a warning)
 * - work is as large as src and may be src.
 * - Cost: 2 commands (ar.and, ar.fixed.add), 2 * (ceil(n / 2) + ceil(n / 4)) * L * P cycles
 */
void okk_bdc_fixed_point_packed_16bit_split_low_8bit(
    local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src_stride, const dim4 *work_stride);
/** dst = saturated(half_up((src0_high * 256 + src0_low) * src1, rshift))
 * - dst: result, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - src0_high, src1: input, 8-bit 4N in local memory, strided (NULL: aligned), at multiples of 4
 * - src0_low: input, unsigned 8-bit 4N in local memory, strided (NULL: aligned), at multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; rshift 0..31
 * - high and low are what the two split functions make of the 16-bit source. With
 *   S16_MUL_U8_TO_S16 nothing is issued, which is a warning;
 *   okk_bdc_fixed_point_packed_s16_mul_u8_to_s16 does that product.
 * - Signs are those of mul_type; the low byte is unsigned.
 * - Cost: 2 commands (ar.fixed.mul, ar.fixed.mac), 7 * ceil(n / 2) * L * P cycles
 */
void okk_bdc_fixed_point_packed_16bit_mul_8bit(local_addr_t dst_addr, local_addr_t src0_high_addr,
                                               local_addr_t src0_low_addr, local_addr_t src1_addr,
                                               const dim4 *shape, const dim4 *dst_stride,
                                               const dim4 *src0_high_stride,
                                               const dim4 *src0_low_stride, const dim4 *src1_stride,
                                               mul_type_t mul_type, int rshift);
/** dst = saturated_to_zero(src0 * src1, rshift)
 * - dst: result, signed 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - src0: input, signed 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - src1: input, unsigned 8-bit 4N in local memory, strided (NULL: aligned), at multiples of 4
 * - work: work buffer, 16-bit 2N in local memory, strided (NULL: aligned), at multiples of 4
 * - work_high, work_low: work buffer, 8-bit 4N in local memory, strided (NULL: aligned), at
 *   multiples of 4
 * - Limits: shape n, h, w 1..65535; c 1..4095; rshift 0..31
 * - The magnitude is rounded half up and limited to 32767, then gets the sign of src0 back: -2.5
 *   becomes -3. work is as large as dst, work_high and work_low as large as src1; all are apart
 *   from one another and from the sources.
 * - Cost: 16 commands (ar.fixed.max, ar.fixed.min, ar.fixed.sub, ar.fixed.add, ar.and,
 *   ar.fixed.mul, ar.fixed.mac, ar.fixed.shift, ar.xor), (31 * ceil(n / 2) + 4 * ceil(n / 4)) * L
 *   * P cycles
 */
void okk_bdc_fixed_point_packed_s16_mul_u8_to_s16(local_addr_t dst_addr, local_addr_t src0_addr,
                                                  local_addr_t src1_addr, local_addr_t work_addr,
                                                  local_addr_t work_high_addr,
                                                  local_addr_t work_low_addr, const dim4 *shape,
                                                  const dim4 *dst_stride, const dim4 *src0_stride,
                                                  const dim4 *src1_stride, const dim4 *work_stride,
                                                  const dim4 *work_high_stride,
                                                  const dim4 *work_low_stride, int rshift);

/* ---- BDC: convolution, pools, matrix product on fp32 ---- */
/** output = einsum("nihwab,oiab->nohw", windows(input, 0), weight) + using_bias * bias + result_add
 * * old
 * - within 1e-05 of the largest result
 * - output: result, its old value is read with result_add, fp32 [n, output_c, oh, ow] in local
 *   memory, aligned, at multiples of 128
 * - input: input, fp32 [input_shape] in local memory, strided (NULL: aligned), at multiples of 4
 *   (128 without strides); may start on another NPU than output
 * - weight: input, fp32, pairs of input channels (2IC) [output_c, c, kernel_h, kernel_w] in local
 *   memory, weights, at multiples of 4; of 8 when it runs; by kernel_stride, in pairs: [between
 *   pairs of input channels, between slots of output channels, h, w]; output channel o on NPU (NPU
 *   + o) % 64, a zero beside the last of an odd number of channels
 * - bias: input, fp32 [output_c elements] in local memory, one element for each channel, compact,
 *   at multiples of 4; only read with using_bias
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; output_c 1..4095; each pad 0..15; strides 1..15; dilations 1..16; dilations
 *   up to 15 (else a warning)
 * - oh = (h + top + bottom - dilation.h * (kernel_h - 1) - 1) // stride.h + 1, ow likewise;
 *   padding, stride and dilation NULL: 0, 1 and 1.
 * - h and w with their pads are at most 2047 together (else a warning).
 * - kernel_stride has no default: NULL is refused. [kernel_h * kernel_w, pairs * kernel_h *
 *   kernel_w, kernel_w, 1] is the order [oc][pair][kh][kw].
 * - Products are rounded, then added in four chains by the parity of the input channel and of the
 *   tap ((kh * kernel_w + kw) * pairs + pair); the chains are added pairwise, then bias, then the
 *   old output.
 * - The kernel is not flipped: a correlation, as in ONNX.
 * - Cost: 5 input channels or more: 1 command (conv.fp32), n * L * ceil(oh * ow / 16) * max((7.9 +
 *   1 * stride_w) * kernel_h * kernel_w + 4, 1.12 * (kernel_h * kernel_w * ceil(c / 2) + 3 + 2 *
 *   using_bias)) cycles; 3 or 4: 1 command (conv.fp32), n * L * ceil(oh * ow / 16) * ((7.9 + 1 *
 *   stride_w) * kernel_h * kernel_w + 4) cycles; 1 or 2: 1 command (conv.fp32), n * L * ceil(oh *
 *   ow / 16) * (12.4 * kernel_h * kernel_w + 4) cycles
 */
void okk_bdc_conv2d(local_addr_t output_addr, local_addr_t input_addr, local_addr_t weight_addr,
                    local_addr_t bias_addr, const dim4 *input_shape, int output_c, int kernel_h,
                    int kernel_w, const dim4 *input_stride, const dim4 *kernel_stride,
                    bool using_bias, bool result_add, const Padding *padding, const dim2 *stride,
                    const dim2 *dilation);
/** A convolution whose weights are all kernel_val.
 * - output = kernel_val * windows(input, 0).sum((1, 4, 5))[:, None] + using_bias * bias +
 *   result_add * old
 * - within 1e-05 of the largest result
 * - output: result, its old value is read with result_add, fp32 [n, output_c, oh, ow] in local
 *   memory, aligned, at multiples of 128
 * - input: input, fp32 [input_shape] in local memory, strided (NULL: aligned), at multiples of 4
 *   (128 without strides); may start on another NPU than output
 * - bias: input, fp32 [output_c elements] in local memory, one element for each channel, compact,
 *   at multiples of 4; only read with using_bias
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; output_c 1..4095; each pad 0..15; strides 1..15
 * - oh = (h + top + bottom - dilation.h * (kernel_h - 1) - 1) // stride.h + 1, ow likewise;
 *   padding, stride and dilation NULL: 0, 1 and 1.
 * - h and w with their pads are at most 2047 together (else a warning).
 * - Products are rounded, then added in four chains by the parity of the input channel and of the
 *   tap ((kh * kernel_w + kw) * pairs + pair); the chains are added pairwise, then bias, then the
 *   old output.
 * - Cost: 5 input channels or more: 1 command (conv.fp32), n * L * ceil(oh * ow / 16) * max((7.9 +
 *   1 * stride_w) * kernel_h * kernel_w + 4, 1.12 * (kernel_h * kernel_w * ceil(c / 2) + 3 + 2 *
 *   using_bias)) cycles; 3 or 4: 1 command (conv.fp32), n * L * ceil(oh * ow / 16) * ((7.9 + 1 *
 *   stride_w) * kernel_h * kernel_w + 4) cycles; 1 or 2: 1 command (conv.fp32), n * L * ceil(oh *
 *   ow / 16) * (12.4 * kernel_h * kernel_w + 4) cycles
 */
void okk_bdc_conv2d_kernel_const(local_addr_t output_addr, local_addr_t input_addr,
                                 local_addr_t bias_addr, const dim4 *input_shape, int output_c,
                                 int kernel_h, int kernel_w, const dim4 *input_stride,
                                 bool using_bias, bool result_add, const Padding *padding,
                                 const dim2 *stride, float kernel_val);
/** Gives every channel of dst channel 0 of src.
 * - dst = src[:, :1] + 0 * old
 * - dst: result, fp32 in local memory, aligned, at multiples of 128
 * - src: input, fp32 in local memory, strided (NULL: aligned), at multiples of 4; one channel; may
 *   start on another NPU than dst; without strides at multiples of 128
 * - Limits: shape n, h, w 1..65535; c 1..4095
 * - A 1x1 convolution of one channel with the weight 1: denormals become 0.
 * - Cost: 1 command (conv.fp32), 16.4 * n * L * P cycles
 */
void okk_bdc_npu_bcast(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                       const dim4 *src_stride);
/** output = einsum("nchwab,cab->nchw", windows(input, 0), weight) + using_bias * bias
 * - within 1e-05 of the largest result
 * - output: result, fp32 [n, c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, fp32 [input_shape] in local memory, aligned, at multiples of 128
 * - weight: input, fp32 [c, kernel_h, kernel_w] in local memory, weights, at multiples of 4;
 *   compact: kernel_h * kernel_w words for each channel, channel c on NPU (NPU + c) % 64
 * - bias: input, fp32 [c elements] in local memory, one element for each channel, compact, at
 *   multiples of 4; only read with using_bias
 * - Limits: input_shape n, h, w 1..65535; c 1..4095; kernel_h, kernel_w, with dilation, from 1 to
 *   the padded input; each pad 0..15; strides 1..15; dilations 1..16; dilations up to 15 (else a
 *   warning)
 * - oh = (h + top + bottom - dilation.h * (kernel_h - 1) - 1) // stride.h + 1, ow likewise;
 *   padding, stride and dilation NULL: 0, 1 and 1.
 * - h and w with their pads are at most 2047 together (else a warning).
 * - Taps are added in two chains by their parity, then the chains, then the bias.
 * - Cost: 1 command (depthwise.fp32), n * L * ceil(oh * ow / 16) * (kernel_h * kernel_w + 3 + 2 *
 *   using_bias) * (1 + 2.6 * (stride_w - 1)) cycles
 */
void okk_bdc_depthwise2d(local_addr_t output_addr, local_addr_t input_addr,
                         local_addr_t weight_addr, local_addr_t bias_addr, const dim4 *input_shape,
                         int kernel_h, int kernel_w, bool using_bias, const Padding *padding,
                         const dim2 *stride, const dim2 *dilation);
/** output = windows(input, 0).sum((4, 5)) / (kernel_h * kernel_w)
 * - within 1e-05 of the largest result
 * - output: result, fp32 [n, c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, fp32 [input_shape] in local memory, aligned, at multiples of 128
 * - Limits: input_shape n, h, w 1..65535; c of any extent (large ones in several commands);
 *   kernel_h, kernel_w, with dilation, from 1 to the padded input; each pad 0..15; strides 1..15
 * - Divides by kernel_h * kernel_w everywhere: pads count as elements that are 0
 *   (count_include_pad).
 * - oh = (h + top + bottom - kernel_h) // stride.h + 1, ow likewise; padding and stride NULL: 0
 *   and 1.
 * - h and w with their pads are at most 2047 together (else a warning).
 * - Cost: 1 command (depthwise.fp32), n * L * ceil(oh * ow / 16) * (kernel_h * kernel_w + 3) * (1
 *   + 2.6 * (stride_w - 1)) cycles
 */
void okk_bdc_avg_pool2d(local_addr_t output_addr, local_addr_t input_addr, const dim4 *input_shape,
                        int kernel_h, int kernel_w, const Padding *padding, const dim2 *stride);
/** output = windows(input, 0).sum((4, 5)) * factor
 * - within 1e-05 of the largest result
 * - output: result, fp32 [n, c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, fp32 [input_shape] in local memory, aligned, at multiples of 128
 * - Limits: input_shape n, h, w 1..65535; c of any extent (large ones in several commands);
 *   kernel_h, kernel_w, with dilation, from 1 to the padded input; each pad 0..15; strides 1..15
 * - Not in the vendor's guide. okk_bdc_avg_pool2d is this with 1 / (kernel_h * kernel_w) for
 *   factor.
 * - oh = (h + top + bottom - kernel_h) // stride.h + 1, ow likewise; padding and stride NULL: 0
 *   and 1.
 * - h and w with their pads are at most 2047 together (else a warning).
 * - Cost: 1 command (depthwise.fp32), n * L * ceil(oh * ow / 16) * (kernel_h * kernel_w + 3) * (1
 *   + 2.6 * (stride_w - 1)) cycles
 */
void okk_bdc_avg_pool2d_v2(local_addr_t output_addr, local_addr_t input_addr,
                           const dim4 *input_shape, int kernel_h, int kernel_w,
                           const Padding *padding, const dim2 *stride, float factor);
/** output = windows(input, -3.4028235e38).max((4, 5))
 * - output: result, fp32 [n, c, oh, ow] in local memory, aligned, at multiples of 128
 * - input: input, fp32 [input_shape] in local memory, aligned, at multiples of 128
 * - Limits: input_shape n, h, w 1..65535; c of any extent (large ones in several commands);
 *   kernel_h, kernel_w, with dilation, from 1 to the padded input; each pad 0..15; strides 1..15
 * - Pads are the lowest finite number, -3.4028235e38: a window of pads alone gives it, and it wins
 *   against -inf.
 * - oh = (h + top + bottom - kernel_h) // stride.h + 1, ow likewise; padding and stride NULL: 0
 *   and 1.
 * - h and w with their pads are at most 2047 together (else a warning).
 * - Cost: 1 command (max_pool.fp32), n * L * ceil(oh * ow / 16) * (kernel_h * kernel_w + 3) * (1 +
 *   2.6 * (stride_w - 1)) cycles
 */
void okk_bdc_max_pool2d(local_addr_t output_addr, local_addr_t input_addr, const dim4 *input_shape,
                        int kernel_h, int kernel_w, const Padding *padding, const dim2 *stride);
/** output = left @ right + using_bias * bias + result_add * old
 * - within 1e-05 of the largest result
 * - output: result, its old value is read with result_add, fp32 [left_rows x right_cols] in local
 *   memory, matrix, at multiples of 128
 * - left: input, fp32 [left_rows x left_cols] in local memory, matrix, at multiples of 128; may
 *   start on another NPU than output
 * - right: input, fp32 [left_cols x right_cols] in local memory, matrix, at multiples of 128
 * - bias: input, fp32 [1 x right_cols] in local memory, matrix, at multiples of 128; only read
 *   with using_bias
 * - Limits: left_rows 1..65535; left_cols, right_cols from 1; left_cols_per_channel 1..65535;
 *   left_cols_per_channel and right_cols_per_channel up to 128 and to the columns of their matrix
 *   (else a warning)
 * - Matrix layout: row r is batch r, column k lies in channel k // cols_per_channel at k %
 *   cols_per_channel, the last channel may be short; output has right_cols_per_channel. At most
 *   4095 channels.
 * - Products are added in two chains, of even and of odd k; then the chains, the bias and the old
 *   output.
 * - Cost: 1 command (matmul.fp32), left_rows * slots(ceil(right_cols / right_cols_per_channel)) *
 *   ceil(right_cols_per_channel / 16) * (left_cols + 8.1 + 2 * using_bias) cycles
 */
void okk_bdc_matmul(local_addr_t output_addr, local_addr_t left_addr, local_addr_t right_addr,
                    local_addr_t bias_addr, int left_rows, int left_cols, int right_cols,
                    int left_cols_per_channel, int right_cols_per_channel, bool using_bias,
                    bool result_add);

#ifdef __cplusplus
}
#endif
#endif
