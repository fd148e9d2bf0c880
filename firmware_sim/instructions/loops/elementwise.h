/* What the expressions of element-wise operations are made of (firmware_sim.instructions.function).
 *
 * Choices are made with masks, and results are collected before they are written: branches, and rows that the
 * compiler thinks may overlap, would keep it from using vector instructions. */
#ifndef TPULAYER_ELEMENTWISE_H
#define TPULAYER_ELEMENTWISE_H

#include "loops.h"

#define SIGN 0x80000000u
#define MAGNITUDE 0x7FFFFFFFu
#define EXPONENT 0x7F800000u
#define ZERO 0u
#define SMALLEST 0x00800000u /* the least magnitude that is not denormal */
enum { BLOCK = 512 };        /* elements of a row that are worked on at once */

/* A word's bits as an fp32 number, and back. */
#define number tl_number
#define bits tl_bits

/* condition ? a : b, of words. */
TL_INLINE uint32_t chosen(bool condition, uint32_t a, uint32_t b) {
    const uint32_t mask = 0u - (uint32_t)condition;
    return (a & mask) | (b & ~mask);
}

/* The bits of a number, those of a denormal as zero of its sign. */
TL_INLINE uint32_t flushed(uint32_t a) { return a & ((0u - (uint32_t)((a & MAGNITUDE) >= SMALLEST)) | SIGN); }

TL_INLINE float square(float value) { return value * value; }

/* 1 / sqrt(x) of a number's bits by the bit trick and three Newton steps, a number. See fp32.rsqrt. */
TL_INLINE float reciprocal_root(uint32_t a) {
    float r = number(0x5F3759DFu - (uint32_t)((int32_t)a >> 1));
    const float h = number(a) * 0.5f;
    r = r * (1.5f - (h * r) * r);
    r = r * (1.5f - (h * r) * r);
    return r * (1.5f - (h * r) * r);
}

/* x / y in fp32 as (1 / sqrt(|y|))**2 * x, not correctly rounded. See fp32.div. */
TL_INLINE float quotient(float x, float y) {
    const uint32_t a = bits(x), b = bits(y);
    const float r = reciprocal_root(b & MAGNITUDE);
    return (r * r) * number((a & MAGNITUDE) | ((a ^ b) & SIGN));
}

/* a by the signed low 6 bits of count, left when positive; arithmetic: to the right with a's sign. */
TL_INLINE uint32_t shifted(uint32_t a, uint32_t count, bool arithmetic) {
    const int32_t way = (int32_t)(count << 26) >> 26;
    const uint32_t amount = (uint32_t)(way < 0 ? -way : way) & 31;
    const uint32_t right = arithmetic ? (uint32_t)((int32_t)a >> amount) : a >> amount;
    return way > 0 ? a << amount : right;
}

/* A number's bits as an int32, cut towards zero and saturated; NaN as an infinity of its sign. */
TL_INLINE uint32_t truncated(uint32_t a) {
    const float v = number(a);
    const bool inside = (v < 2147483648.0f) & (v > -2147483648.0f);
    return chosen(inside, (uint32_t)(int32_t)(inside ? v : 0.0f), a & SIGN ? SIGN : MAGNITUDE);
}

#endif
