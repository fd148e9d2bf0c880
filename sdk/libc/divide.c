/* Division of doubles and floats on the controller. The compiler's run-time library has one too, but it
 * cuts off quotients below 2**-1022 (2**-126) instead of rounding them, as the host's hardware does; the
 * names at the end take its place.
 */
#include "math_internal.h"

double fw_divide(double a, double b);
float fw_divide_float(float a, float b);

/* 2**63 / d, for 2**31 <= d: too small by less than 2**-28 of itself, never too large. Newton's steps for
 * x = 2**32 / d: from 1/17 the error becomes its square, three times, and x stays below. */
static inline uint32_t reciprocal(uint32_t d) {
    /* 48/17 - 32/17 * d / 2**32, in units of 2**-31; 48/17 alone would not fit */
    uint32_t x = (uint32_t)(6063365858ull - ((uint64_t)d * 4042243905u >> 32));
    for (int i = 0; i < 3; i++) {
        uint32_t two_less = 0 - (uint32_t)((uint64_t)d * x >> 32); /* 2 - d x */
        x = (uint32_t)((uint64_t)x * two_less >> 31);
    }
    return x - 4; /* for what the products rounded, and for digits of the divisor that d does not have */
}

/* Brings a quotient that was too small by one or a few up to the right one. */
#define CORRECT(quotient, rest, divisor) \
    for (; (rest) >= (divisor); (quotient)++) (rest) -= (divisor)

/* quotient * 2**(exponent - 1023 - 55) of 56 bits, rounded; there was a rest. */
static double rounded(uint64_t quotient, int exponent, bool rest, uint64_t sign) {
    if (exponent > 2046) return from_bits(sign | INF_BITS);
    quotient |= rest;
    if (exponent <= 0) {
        int drop = exponent < -58 ? 59 : 1 - exponent;
        quotient = quotient >> drop | ((quotient & ((1ull << drop) - 1)) != 0);
        exponent = 1;
    }
    uint64_t m = quotient >> 3;
    uint32_t below = (uint32_t)quotient & 7;
    if (below > 4 || (below == 4 && (m & 1))) m++;
    return from_bits(sign | (((uint64_t)(exponent - 1) << 52) + m)); /* the leading one adds 1 */
}

double fw_divide(double a, double b) {
    uint64_t sign = (bits_of(a) ^ bits_of(b)) & SIGN_BIT;
    if (is_nan(a) || is_nan(b)) return nan_of(a, b);
    if (is_infinite(a)) return is_infinite(b) ? FW_NAN : from_bits(sign | INF_BITS);
    if (b == 0) return a == 0 ? FW_NAN : from_bits(sign | INF_BITS);
    if (a == 0 || is_infinite(b)) return from_bits(sign);
    int ea, eb;
    uint64_t rest = taken_apart(size_of(a), &ea), divisor = taken_apart(size_of(b), &eb);
    int exponent = ea - eb + 1023;
    if (rest < divisor) {
        rest <<= 1;
        exponent--;
    }
    /* 29 bits of the quotient and 27 more. Products may wrap: the rests do not. */
    uint64_t x = reciprocal((uint32_t)(divisor >> 21));
    uint64_t high = (rest >> 22) * x >> 34;
    rest = (rest << 28) - high * divisor;
    CORRECT(high, rest, divisor);
    uint64_t low = (rest >> 21) * x >> 36;
    rest = (rest << 27) - low * divisor;
    CORRECT(low, rest, divisor);
    return rounded((high << 27) + low, exponent, rest != 0, sign);
}

float fw_divide_float(float a, float b) {
    uint32_t a_bits = bits_of_float(a), b_bits = bits_of_float(b), sign = (a_bits ^ b_bits) & 0x80000000u;
    int ea = (int)(a_bits >> 23 & 0xFF), eb = (int)(b_bits >> 23 & 0xFF);
    /* The rest is rare; rounding its double quotient again is exact. */
    if (ea == 0 || eb == 0 || ea == 0xFF || eb == 0xFF) return (float)fw_divide((double)a, (double)b);
    uint32_t rest = (a_bits & 0x7FFFFFu) | 0x800000u, divisor = (b_bits & 0x7FFFFFu) | 0x800000u;
    int exponent = ea - eb + 127;
    if (rest < divisor) {
        rest <<= 1;
        exponent--;
    }
    uint32_t quotient = (uint32_t)((uint64_t)rest * reciprocal(divisor << 8) >> 30); /* 26 bits */
    rest = (rest << 25) - quotient * divisor;
    CORRECT(quotient, rest, divisor);
    quotient |= rest != 0;
    if (exponent > 254) return float_from_bits(sign | 0x7F800000u);
    if (exponent <= 0) {
        int drop = exponent < -26 ? 27 : 1 - exponent;
        quotient = quotient >> drop | ((quotient & ((1u << drop) - 1)) != 0);
        exponent = 1;
    }
    uint32_t m = quotient >> 2, below = quotient & 3;
    if (below > 2 || (below == 2 && (m & 1))) m++;
    return float_from_bits(sign | (((uint32_t)(exponent - 1) << 23) + m));
}

#ifdef __arm__
double __aeabi_ddiv(double a, double b);
float __aeabi_fdiv(float a, float b);
double __aeabi_ddiv(double a, double b) { return fw_divide(a, b); }
float __aeabi_fdiv(float a, float b) { return fw_divide_float(a, b); }
#endif
