/* Descriptors of the BD engine: operands and the arithmetic instructions, for the files that implement
 * okk.h and bm_atomic.h. Addresses are those of the kernel API (without the memory's base).
 */
#ifndef FW_BD_H
#define FW_BD_H

#include <string.h>

#include "bm1684_fields.h"
#include "fw_internal.h"

/* A tensor in local memory, or a constant. */
typedef struct {
    bool constant;
    uint32_t value; /* address without the memory's base, or the constant's bits */
    const dim4 *stride;
} operand;

static inline operand tensor(local_addr_t addr, const dim4 *stride) { return (operand){false, addr, stride}; }
static inline operand bits(uint32_t value) { return (operand){true, value, NULL}; }

static inline uint32_t float_bits(float value) {
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    return u;
}

static inline operand number(float value) { return bits(float_bits(value)); }

static inline bool aligned(operand t) {
    return t.constant || (t.stride == NULL && t.value % CHIP_ALIGN_BYTES == 0);
}

/* What goes into an address field. */
static inline uint32_t field_value(operand t) { return t.constant ? t.value : CHIP_LOCAL_BASE + t.value; }

static inline void set_result_size(uint32_t *d, const dim4 *shape) {
    bd_set_res0_n(d, (uint32_t)shape->n);
    bd_set_res0_c(d, (uint32_t)shape->c);
    bd_set_res0_h(d, (uint32_t)shape->h);
    bd_set_res0_w(d, (uint32_t)shape->w);
}

/* ---- AR: tensor arithmetic, explicit strides ---- */

/* How the vendor's encoder fills the strides of a constant operand, which the chip does not read. */
typedef enum {
    CONSTANTS_IMPLICIT, /* opd0: 0 and short 0; opd1: 1 and short 0 */
    CONSTANTS_EXPLICIT  /* 0 and short 3, as for a tensor */
} constant_form;

typedef struct {
    int eu;
    int precision;
    int operands;
    bool shift_typ;
    constant_form constants;
    const operand *selected; /* opd2, a constant */
} arithmetic;

#define FP32 ((arithmetic){.precision = BD_PRECISION_FP32, .operands = 2})
#define INT32 ((arithmetic){.precision = BD_PRECISION_INT32, .operands = 2})

static inline arithmetic with_eu(arithmetic op, int eu) {
    op.eu = eu;
    return op;
}

/* Refuses what lies outside local memory or off a word. */
void fw_bd_check_address(local_addr_t addr, const char *which);
/* The same of an operand, and warns of one that starts on another NPU than dst. */
void fw_bd_check_tensor(operand t, operand dst, const char *which);
/* Refuses negative strides of n and c, warns of those of h and w; NULL has none. */
void fw_bd_check_stride(const dim4 *stride, const char *which);
/* Warns of a work buffer that is the destination. */
void fw_bd_check_work(operand work, operand dst);
dim4 fw_bd_stride(operand t, const dim4 *shape);
void fw_bd_ar(arithmetic op, operand dst, operand src0, const operand *src1, const dim4 *shape);
void fw_bd_check(operand dst, operand src0, operand src1, const dim4 *shape);
void fw_bd_md_scalar(int eu, bool result_add, operand dst, operand src0, operand src1, const dim4 *shape);
void fw_bd_md_linear(operand dst, operand src, operand scale, operand bias, const dim4 *shape);
/* Sizes and the first two operands. */
void fw_bd_md_cmp_begin(uint32_t *d, int eu, operand src0, operand src1, const dim4 *shape);
void fw_bd_md_max(operand dst, operand src0, operand src1, const dim4 *shape);
void fw_bd_md_select(operand dst, operand src0, operand src1, operand select0, operand select1, const dim4 *shape);

/* ---- AR on packed 8-bit (4N) and 16-bit (2N) elements; strides count words ---- */

typedef struct {
    int eu;
    int src0_bits, src1_bits, dst_bits;
    bool src0_signed, src1_signed;
    bool old_signed; /* mac */
    int rshift, lshift;
    bool shift_typ; /* arithmetic shift */
    bool src1_one_batch;
} fixed_point;

void fw_bd_fixed(fixed_point op, operand dst, operand src0, operand src1, const dim4 *shape);

/* ---- md_sfu ---- */

/* All fields but the table of a Taylor series. */
void fw_bd_sfu_begin(uint32_t *d, int eu, local_addr_t dst, local_addr_t src, const dim4 *shape);

#endif
