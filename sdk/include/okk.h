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
 * - BDC sizes: n, h, w 1..65535, c 1..4095; 32-bit operands at multiples of 4 (128 is faster). The vendor's
 *   encoder cuts larger tensors into several commands in a few places, and so does this one: tensor
 *   arithmetic with strides (any extent), okk_bdc_avg_pool2d and okk_bdc_max_pool2d (c), GDMA copies S2S
 *   (any extent), L2L (n, h, w), and S2L and L2S with strides (n, c).
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
 * Each engine numbers its commands; a node is {unsigned bd, gdma, in_parallel}: the newest numbers (in a
 * parallel section those of its start). Kernels that leave the ids alone never need these. While the
 * check is enabled (the default) okk_set_id_node refuses numbers lower than those already given. Layers
 * cannot set ids: the compiler numbers their commands. */
void okk_set_id_node(void *node);
void okk_get_id_node(void *node);
void okk_enable_check_id_node(void);
void okk_disable_check_id_node(void);

/* ---- memories ---- */

unsigned long long okk_global_mem_start_addr(void);
unsigned int okk_local_mem_start_addr(void);
unsigned int okk_local_mem_bank_per_npu(void);
unsigned int okk_local_mem_size_per_npu(void);
unsigned int okk_l2_sram_start_addr(void);
unsigned int okk_l2_sram_size(void);
unsigned int okk_dtcm_start_addr(void);
unsigned int okk_dtcm_size(void);
unsigned int okk_lookup_table_start_addr(void);
unsigned int okk_lookup_table_size(void);
unsigned int okk_eu_num(void);
int okk_npu_num(void);

/* Pointers through which the controller reads and writes device memory; poll first. A kernel that uses
 * them (but for dtcm, the controller's own memory) cannot be recorded by a static compile: its layer's
 * descriptor returns true from must_dynamic_run(). */
unsigned char *okk_global_mem_addr(unsigned long long addr);
unsigned char *okk_local_mem_addr(unsigned int idx, unsigned int addr);
unsigned char *okk_l2_sram_addr(unsigned int addr);
unsigned char *okk_dtcm_addr(unsigned int addr);

/* ---- order ----
 *
 * Commands run one after another, whatever their engine, except between okk_parallel_start and
 * okk_parallel_end: there GDMA and BDC commands only keep the order of their own engine, and both wait
 * for what came before the start. okk_poll waits for everything; not inside a parallel section. In a
 * layer's local function none of these may be called: the compiler owns the order there. */
void okk_initialize(void);
void okk_poll(void);
void okk_parallel_start(void);
void okk_parallel_end(void);
bool okk_is_parallel_state(void);

/* ---- layouts ---- */

int okk_start_npu_index(local_addr_t addr);
int okk_channle_num_per_npu(int start_idx, int num_channels);
void okk_128_byte_aligned_stride_for_32bit(dim4 *stride, int start_idx, const dim4 *shape);
void okk_128_byte_aligned_stride_for_16bit(dim4 *stride, int start_idx, const dim4 *shape);
void okk_128_byte_aligned_stride_for_8bit(dim4 *stride, int start_idx, const dim4 *shape);
void okk_compact_stride(dim4 *stride, int start_idx, const dim4 *shape);
void okk_continuous_stride(dim4 *stride, const dim4 *shape);
/* Bytes of h * w 32-bit elements, rounded up to 64. */
unsigned int okk_64_byte_aligned_feature_size(int h, int w);

/* ---- GDMA: copies and fills; S = system memory (DDR, L2), L = local memory ---- */

void okk_gdma_32bit_cpy_S2L(local_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
void okk_gdma_32bit_cpy_L2S(system_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
void okk_gdma_32bit_cpy_L2L(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
void okk_gdma_32bit_cpy_S2S(system_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
void okk_gdma_16bit_cpy_S2L(local_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
void okk_gdma_16bit_cpy_L2S(system_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
void okk_gdma_16bit_cpy_L2L(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
void okk_gdma_16bit_cpy_S2S(system_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                            const dim4 *dst_stride, const dim4 *src_stride);
void okk_gdma_8bit_cpy_S2L(local_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                           const dim4 *dst_stride, const dim4 *src_stride);
void okk_gdma_8bit_cpy_L2S(system_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                           const dim4 *dst_stride, const dim4 *src_stride);
void okk_gdma_8bit_cpy_L2L(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                           const dim4 *dst_stride, const dim4 *src_stride);
void okk_gdma_8bit_cpy_S2S(system_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,
                           const dim4 *dst_stride, const dim4 *src_stride);

/* A rows x cols matrix with row_stride elements from row to row in system memory; in local memory rows
 * lie on n, cols_per_channel columns on each channel, aligned. */
void okk_gdma_32bit_matrix_S2L(local_addr_t dst_addr, system_addr_t src_addr, int rows, int cols,
                               int cols_per_channel, int row_stride);
void okk_gdma_32bit_matrix_L2S(system_addr_t dst_addr, local_addr_t src_addr, int rows, int cols,
                               int cols_per_channel, int row_stride);

/* Fill with C. A NULL stride in local memory is the aligned stride for 32-bit elements at every width
 * (as the vendor's encoder has it): give strides to the 16-bit and 8-bit fills. */
void okk_gdma_32bit_set_C_system(system_addr_t dst_addr, x32 C, const dim4 *shape,
                                 const dim4 *dst_stride);
void okk_gdma_32bit_set_C_local(local_addr_t dst_addr, x32 C, const dim4 *shape,
                                const dim4 *dst_stride);
void okk_gdma_16bit_set_C_system(system_addr_t dst_addr, x16 C, const dim4 *shape,
                                 const dim4 *dst_stride);
void okk_gdma_16bit_set_C_local(local_addr_t dst_addr, x16 C, const dim4 *shape,
                                const dim4 *dst_stride);
void okk_gdma_8bit_set_C_system(system_addr_t dst_addr, x8 C, const dim4 *shape,
                                const dim4 *dst_stride);
void okk_gdma_8bit_set_C_local(local_addr_t dst_addr, x8 C, const dim4 *shape,
                               const dim4 *dst_stride);

/* 32-bit tensor, continuous in system memory, compact in local memory from NPU 0 on. */
void okk_gdma_compact_S2L(local_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape);

/* ---- BDC: 32-bit elements of any meaning ---- */

void okk_bdc_32bit_cpy(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                       const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_32bit_set_C(local_addr_t dst_addr, x32 C, const dim4 *shape, const dim4 *dst_stride);
void okk_bdc_32bit_and(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                       const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                       const dim4 *src1_stride);
void okk_bdc_32bit_and_C(local_addr_t dst_addr, local_addr_t src_addr, x32 C, const dim4 *shape,
                         const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_32bit_or(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                      const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                      const dim4 *src1_stride);
void okk_bdc_32bit_or_C(local_addr_t dst_addr, local_addr_t src_addr, x32 C, const dim4 *shape,
                        const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_32bit_xor(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                       const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                       const dim4 *src1_stride);
void okk_bdc_32bit_xor_C(local_addr_t dst_addr, local_addr_t src_addr, x32 C, const dim4 *shape,
                         const dim4 *dst_stride, const dim4 *src_stride);

/* Shift counts are in -32..32: positive to the left, negative to the right. */
void okk_bdc_32bit_arithmetic_shift(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride);
void okk_bdc_32bit_logical_shift(local_addr_t dst_addr, local_addr_t src0_addr,
                                 local_addr_t src1_addr, const dim4 *shape, const dim4 *dst_stride,
                                 const dim4 *src0_stride, const dim4 *src1_stride);
void okk_bdc_32bit_arithmetic_shift_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride);
void okk_bdc_32bit_logical_shift_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                   const dim4 *shape, const dim4 *dst_stride,
                                   const dim4 *src_stride);
void okk_bdc_32bit_C_arithmetic_shift(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride);
void okk_bdc_32bit_C_logical_shift(local_addr_t dst_addr, local_addr_t src_addr, unsigned int C,
                                   const dim4 *shape, const dim4 *dst_stride,
                                   const dim4 *src_stride);

/* ---- BDC: fp32, one operand ---- */

void okk_bdc_relu(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                  const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_reciprocal(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                        const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_neg(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                 const dim4 *dst_stride, const dim4 *src_stride);

/* ---- BDC: fp32, two operands; _C: the second is a constant, C_: the first is ----
 *
 * mac adds the product to dst. Division is the chip's: 1/1 gives 0.99999988. */
void okk_bdc_add(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
void okk_bdc_add_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_sub(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
void okk_bdc_sub_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_C_sub(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_mul(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
void okk_bdc_mul_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_div(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
void okk_bdc_div_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_C_div(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_mac(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
void okk_bdc_mac_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_max(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
void okk_bdc_max_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_min(local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr,
                 const dim4 *shape, const dim4 *dst_stride, const dim4 *src0_stride,
                 const dim4 *src1_stride);
void okk_bdc_min_C(local_addr_t dst_addr, local_addr_t src_addr, float C, const dim4 *shape,
                   const dim4 *dst_stride, const dim4 *src_stride);

/* ---- BDC: per-channel bias and scale (one 32-bit word per channel, compact) ---- */

void okk_bdc_bias(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t bias_addr,
                  const dim4 *shape, const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_scale(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t scale_addr,
                   const dim4 *shape, const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_scale_bias(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t scale_addr,
                        local_addr_t bias_addr, const dim4 *shape, const dim4 *dst_stride,
                        const dim4 *src_stride);

/* ---- BDC: selection ----
 *
 * ..._value: select_val where the comparison holds, 0 elsewhere. greater_select and equal_select take
 * select0 where it holds and select1 elsewhere; tensors aligned, addresses multiples of 128. equal_select
 * does not compare a tensor with a constant; equal_C_select_value does. */
void okk_bdc_greater_select_value(local_addr_t dst_addr, local_addr_t src0_addr,
                                  local_addr_t src1_addr, x32 select_val, const dim4 *shape,
                                  const dim4 *dst_stride, const dim4 *src0_stride,
                                  const dim4 *src1_stride);
void okk_bdc_greater_C_select_value(local_addr_t dst_addr, local_addr_t src_addr, float C,
                                    x32 select_val, const dim4 *shape, const dim4 *dst_stride,
                                    const dim4 *src_stride);
void okk_bdc_C_greater_select_value(local_addr_t dst_addr, local_addr_t src_addr, float C,
                                    x32 select_val, const dim4 *shape, const dim4 *dst_stride,
                                    const dim4 *src_stride);
void okk_bdc_equal_select_value(local_addr_t dst_addr, local_addr_t src0_addr,
                                local_addr_t src1_addr, x32 select_val, const dim4 *shape,
                                const dim4 *dst_stride, const dim4 *src0_stride,
                                const dim4 *src1_stride);
void okk_bdc_equal_C_select_value(local_addr_t dst_addr, local_addr_t src_addr, float C,
                                  x32 select_val, const dim4 *shape, const dim4 *dst_stride,
                                  const dim4 *src_stride);
void okk_bdc_greater_select(local_addr_t dst_addr, const fp32_or_addr_t *src0,
                            const fp32_or_addr_t *src1, const x32_or_addr_t *select0,
                            const x32_or_addr_t *select1, const dim4 *shape);
void okk_bdc_equal_select(local_addr_t dst_addr, const fp32_or_addr_t *src0,
                          const fp32_or_addr_t *src1, const x32_or_addr_t *select0,
                          const x32_or_addr_t *select1, const dim4 *shape);

/* ---- BDC: special functions; aligned layout, addresses multiples of 128 ----
 * exp, sigmoid, tanh and lookup_exp take -103..88; their work buffer is as large as dst and neither dst
 * nor src. num_series is 1..64, 32 where it is not asked for. fp32_to_int32 truncates and saturates;
 * lookup_int32_to_fp32 takes -128..127.
 */
void okk_bdc_fp32_to_int32(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape);
void okk_bdc_lookup_int32_to_fp32(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape);
void okk_bdc_rsqrt(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape);
void okk_bdc_sqrt(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape);
void okk_bdc_taylor_exp(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                        int num_series);
void okk_bdc_lookup_exp(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape);
void okk_bdc_exp(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                 const dim4 *shape);
void okk_bdc_exp_tunable(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                         const dim4 *shape, int num_series);
void okk_bdc_sigmoid(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                     const dim4 *shape);
void okk_bdc_sigmoid_tunable(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                             const dim4 *shape, int num_series);
void okk_bdc_tanh(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                  const dim4 *shape);
void okk_bdc_tanh_tunable(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                          const dim4 *shape, int num_series);

/* ---- BDC: 8-bit integers to fp32 and back ----
 * 4N: four batches share a word; otherwise four neighbouring pixels do. work is as large as src and, on
 * the way to fp32, not dst. fp32_to_4N_int8 truncates and saturates; its tensors are aligned.
 */
void okk_bdc_4N_int8_to_fp32(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                             const dim4 *shape, bool is_signed, bool is_aligned_layout);
void okk_bdc_int8_to_fp32(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                          const dim4 *shape, bool is_signed, bool is_aligned_layout);
void okk_bdc_fp32_to_4N_int8(local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr,
                             const dim4 *shape, bool is_signed);

/* ---- BDC: packed 8-bit (4N) and 16-bit (2N) elements; strides count 32-bit words ----
 * Results are (x + half) >> rshift, saturated. The signs of the sources decide the result's: unsigned
 * only where both are, and never for a difference. A constant is in the range of its operand's type.
 * Products and mac take 8-bit sources, mac adds to a 16-bit dst << lshift (0..14); max and min take
 * sources of one signedness. 16-bit shift counts are -16..16, positive to the left. 16bit_mul_8bit takes the
 * halves that the two split functions make and issues nothing for S16_MUL_U8_TO_S16 (the log says so):
 * s16_mul_u8_to_s16 does that product from the whole element.
 */
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

void okk_bdc_fixed_point_packed_add(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, op_type_t op_type, int rshift);
void okk_bdc_fixed_point_packed_add_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type, int rshift);
void okk_bdc_fixed_point_packed_sub(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, op_type_t op_type, int rshift);
void okk_bdc_fixed_point_packed_sub_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type, int rshift);
void okk_bdc_fixed_point_packed_C_sub(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type, int rshift);
void okk_bdc_fixed_point_packed_mul(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, op_type_t op_type, int rshift);
void okk_bdc_fixed_point_packed_mul_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type, int rshift);
void okk_bdc_fixed_point_packed_mac(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, bool is_origin_dst_signed,
                                    op_type_t op_type, int lshift, int rshift);
void okk_bdc_fixed_point_packed_mac_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, bool is_origin_dst_signed,
                                      op_type_t op_type, int lshift, int rshift);
void okk_bdc_fixed_point_packed_max(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, op_type_t op_type);
void okk_bdc_fixed_point_packed_max_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type);
void okk_bdc_fixed_point_packed_min(local_addr_t dst_addr, local_addr_t src0_addr,
                                    local_addr_t src1_addr, const dim4 *shape,
                                    const dim4 *dst_stride, const dim4 *src0_stride,
                                    const dim4 *src1_stride, op_type_t op_type);
void okk_bdc_fixed_point_packed_min_C(local_addr_t dst_addr, local_addr_t src_addr, int C,
                                      const dim4 *shape, const dim4 *dst_stride,
                                      const dim4 *src_stride, op_type_t op_type);
void okk_bdc_fixed_point_packed_16bit_arithmetic_shift(
    local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src0_stride, const dim4 *src1_stride);
void okk_bdc_fixed_point_packed_16bit_logical_shift(
    local_addr_t dst_addr, local_addr_t src0_addr, local_addr_t src1_addr, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src0_stride, const dim4 *src1_stride);
void okk_bdc_fixed_point_packed_16bit_arithmetic_shift_C(
    local_addr_t dst_addr, local_addr_t src_addr, short C, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_fixed_point_packed_16bit_logical_shift_C(
    local_addr_t dst_addr, local_addr_t src_addr, short C, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_fixed_point_packed_16bit_C_arithmetic_shift(
    local_addr_t dst_addr, local_addr_t src_addr, short C, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_fixed_point_packed_16bit_C_logical_shift(
    local_addr_t dst_addr, local_addr_t src_addr, unsigned short C, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src_stride);
void okk_bdc_fixed_point_packed_16bit_split_high_8bit(
    local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape, const dim4 *dst_stride,
    const dim4 *src_stride);
void okk_bdc_fixed_point_packed_16bit_split_low_8bit(
    local_addr_t dst_addr, local_addr_t src_addr, local_addr_t work_addr, const dim4 *shape,
    const dim4 *dst_stride, const dim4 *src_stride, const dim4 *work_stride);
void okk_bdc_fixed_point_packed_16bit_mul_8bit(local_addr_t dst_addr, local_addr_t src0_high_addr,
                                               local_addr_t src0_low_addr, local_addr_t src1_addr,
                                               const dim4 *shape, const dim4 *dst_stride,
                                               const dim4 *src0_high_stride,
                                               const dim4 *src0_low_stride, const dim4 *src1_stride,
                                               mul_type_t mul_type, int rshift);
void okk_bdc_fixed_point_packed_s16_mul_u8_to_s16(local_addr_t dst_addr, local_addr_t src0_addr,
                                                  local_addr_t src1_addr, local_addr_t work_addr,
                                                  local_addr_t work_high_addr,
                                                  local_addr_t work_low_addr, const dim4 *shape,
                                                  const dim4 *dst_stride, const dim4 *src0_stride,
                                                  const dim4 *src1_stride, const dim4 *work_stride,
                                                  const dim4 *work_high_stride,
                                                  const dim4 *work_low_stride, int rshift);

/* ---- BDC: convolution, pools, matrix product on fp32 ----
 * Output addresses are multiples of 128, in the aligned layout; h and w with pads are at most 2047, pads
 * 0..15, stride and dilation 1..15; NULL means 0, 1 and 1. Convolution weights hold pairs of input
 * channels, and kernel_stride counts pairs: [between pairs, between output-channel slots, h, w]. Bias is
 * one word per channel; depthwise weights are kernel_h * kernel_w words per channel.
 */
void okk_bdc_conv2d(local_addr_t output_addr, local_addr_t input_addr, local_addr_t weight_addr,
                    local_addr_t bias_addr, const dim4 *input_shape, int output_c, int kernel_h,
                    int kernel_w, const dim4 *input_stride, const dim4 *kernel_stride,
                    bool using_bias, bool result_add, const Padding *padding, const dim2 *stride,
                    const dim2 *dilation);
void okk_bdc_conv2d_kernel_const(local_addr_t output_addr, local_addr_t input_addr,
                                 local_addr_t bias_addr, const dim4 *input_shape, int output_c,
                                 int kernel_h, int kernel_w, const dim4 *input_stride,
                                 bool using_bias, bool result_add, const Padding *padding,
                                 const dim2 *stride, float kernel_val);
void okk_bdc_npu_bcast(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,
                       const dim4 *src_stride);
void okk_bdc_depthwise2d(local_addr_t output_addr, local_addr_t input_addr,
                         local_addr_t weight_addr, local_addr_t bias_addr, const dim4 *input_shape,
                         int kernel_h, int kernel_w, bool using_bias, const Padding *padding,
                         const dim2 *stride, const dim2 *dilation);
void okk_bdc_avg_pool2d(local_addr_t output_addr, local_addr_t input_addr, const dim4 *input_shape,
                        int kernel_h, int kernel_w, const Padding *padding, const dim2 *stride);
void okk_bdc_avg_pool2d_v2(local_addr_t output_addr, local_addr_t input_addr,
                           const dim4 *input_shape, int kernel_h, int kernel_w,
                           const Padding *padding, const dim2 *stride, float factor);
void okk_bdc_max_pool2d(local_addr_t output_addr, local_addr_t input_addr, const dim4 *input_shape,
                        int kernel_h, int kernel_w, const Padding *padding, const dim2 *stride);
/* Matrices hold cols_per_channel columns to a channel, rows on n; the bias is one row. */
void okk_bdc_matmul(local_addr_t output_addr, local_addr_t left_addr, local_addr_t right_addr,
                    local_addr_t bias_addr, int left_rows, int left_cols, int right_cols,
                    int left_cols_per_channel, int right_cols_per_channel, bool using_bias,
                    bool result_add);

#ifdef __cplusplus
}
#endif
#endif
