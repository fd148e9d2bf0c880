/* What the files of math.h share: bits of numbers, and pairs of doubles.
 *
 * Everything is made of +, -, *, / of doubles and of integers, which give the same bits everywhere, in
 * hardware and in software; no operation may be fused with another (-ffp-contract=off). An invalid
 * operation gives the one NaN below: the sign and payload of a processor's own differ.
 */
#ifndef FW_MATH_INTERNAL_H
#define FW_MATH_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#include "include/math.h"

#define FW_NAN __builtin_nan("")
#define FW_INF __builtin_inf()

static inline uint64_t bits_of(double x) {
    union {
        double x;
        uint64_t bits;
    } both = {.x = x};
    return both.bits;
}

static inline double from_bits(uint64_t bits) {
    union {
        uint64_t bits;
        double x;
    } both = {.bits = bits};
    return both.x;
}

static inline uint32_t bits_of_float(float x) {
    union {
        float x;
        uint32_t bits;
    } both = {.x = x};
    return both.bits;
}

static inline float float_from_bits(uint32_t bits) {
    union {
        uint32_t bits;
        float x;
    } both = {.bits = bits};
    return both.x;
}

#define SIGN_BIT 0x8000000000000000ull
#define INF_BITS 0x7FF0000000000000ull
#define ONE_BITS 0x3FF0000000000000ull
#define FRACTION 0x000FFFFFFFFFFFFFull

static inline bool is_negative(double x) { return bits_of(x) >> 63 != 0; }
static inline double size_of(double x) { return from_bits(bits_of(x) & ~SIGN_BIT); }
static inline double with_sign(double size, double sign) {
    return from_bits((bits_of(size) & ~SIGN_BIT) | (bits_of(sign) & SIGN_BIT));
}
static inline bool is_nan(double x) { return (bits_of(x) & ~SIGN_BIT) > INF_BITS; }
static inline bool is_infinite(double x) { return (bits_of(x) & ~SIGN_BIT) == INF_BITS; }
/* The first that is one, quiet: of x + y, which a compiler may turn round, a processor takes either. */
static inline double nan_of(double x, double y) { return is_nan(x) ? x + x : y + y; }
static inline int exponent_of(double x) { return (int)(bits_of(x) >> 52 & 0x7FF); }
/* 2**exponent, of a normal number. */
static inline double power_of_2(int exponent) { return from_bits((uint64_t)(exponent + 1023) << 52); }

/* size = m * 2**e with 53 bits of m, for size > 0 and finite. */
static inline uint64_t taken_apart(double size, int *e) {
    uint64_t m = bits_of(size) & FRACTION;
    int exponent = exponent_of(size);
    if (exponent != 0) {
        *e = exponent - 1075;
        return m | (FRACTION + 1);
    }
    int shift = __builtin_clzll(m) - 11;
    *e = -1074 - shift;
    return m << shift;
}

/* x * 2**n, rounded once. */
double fw_scale(double x, int n);

/* ---- pairs: hi + lo, with |lo| at most half of hi's last place unless said otherwise ---- */

typedef struct {
    double hi, lo;
} pair;

/* a + b exactly, where |a| >= |b| or a is 0. */
static inline pair fast_sum(double a, double b) {
    double hi = a + b;
    return (pair){hi, b - (hi - a)};
}

/* a + b exactly. */
static inline pair exact_sum(double a, double b) {
    double hi = a + b, part = hi - a;
    return (pair){hi, (a - (hi - part)) + (b - part)};
}

/* The upper 26 bits. */
static inline double upper_half(double x) { return from_bits(bits_of(x) & ~0x7FFFFFFull); }

/* a * b, to about 2**-105; nothing may overflow, and 2**-969 is the least product. */
static inline pair product(double a, double b) {
    double a1 = upper_half(a), a2 = a - a1, b1 = upper_half(b), b2 = b - b1;
    double hi = a * b;
    return (pair){hi, ((a1 * b1 - hi) + a1 * b2 + a2 * b1) + a2 * b2};
}

static inline pair pair_sum(pair a, pair b) {
    pair sum = exact_sum(a.hi, b.hi);
    return fast_sum(sum.hi, sum.lo + (a.lo + b.lo));
}

static inline pair pair_product(pair a, pair b) {
    pair p = product(a.hi, b.hi);
    return fast_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static inline pair pair_quotient(pair a, pair b) {
    double q = a.hi / b.hi;
    pair p = product(q, b.hi);
    double rest = ((a.hi - p.hi) - p.lo) + (a.lo - q * b.lo);
    return fast_sum(q, rest / b.hi);
}

static inline pair pair_times(pair a, double power) { return (pair){a.hi * power, a.lo * power}; }
static inline pair pair_negative(pair a) { return (pair){-a.hi, -a.lo}; }

/* ---- between the files ---- */

/* e**(hi + lo) = pair * 2**exponent, to 2**-59 of itself; |hi| < 800. The pair is between 0.98 and 2,
 * its lo up to 2**-5. */
pair fw_pair_exp(double hi, double lo, int *exponent);
/* log(hi + lo) to 2**-65 of itself, for hi positive and finite, lo far smaller. */
pair fw_pair_log(double hi, double lo);
/* log(1 + x) to about 2**-60 of itself, for -1 < x finite, |x| >= 2**-1000. */
pair fw_pair_log1p(double x);
/* The square root of hi + lo to 2**-100 of itself. */
pair fw_pair_sqrt(double hi, double lo);
/* x - quadrant * pi/2 for finite |x| > pi/4; the pair is within pi/4 (and a little). */
pair fw_reduce(double x, unsigned *quadrant);
/* atan(hi + lo) for 0 <= hi <= 1, to about 2**-56 of itself; its lo may be large. */
pair fw_pair_atan(double hi, double lo);

/* c[0] + c[1] x + ... + c[count - 1] x**(count - 1) */
static inline double polynomial(const double *c, int count, double x) {
    double sum = c[count - 1];
    for (int i = count - 2; i >= 0; i--) sum = sum * x + c[i];
    return sum;
}
#define POLYNOMIAL(c, x) polynomial(c, (int)(sizeof(c) / sizeof *(c)), x)

#endif
