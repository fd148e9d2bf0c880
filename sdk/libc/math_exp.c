/* exp, exp2, expm1 and the pair behind them. x = k * ln2/32 + r, and e**r is a short polynomial. */
#include "math_internal.h"

/* 2**(j/32) as pairs. */
static const double power[32][2] = {
    {0x1p+0, 0x0.0p+0},
    {0x1.059b0d3158574p+0, 0x1.d73e2a475b465p-55},
    {0x1.0b5586cf9890fp+0, 0x1.8a62e4adc610bp-54},
    {0x1.11301d0125b51p+0, -0x1.6c51039449b3ap-54},
    {0x1.172b83c7d517bp+0, -0x1.19041b9d78a76p-55},
    {0x1.1d4873168b9aap+0, 0x1.e016e00a2643cp-54},
    {0x1.2387a6e756238p+0, 0x1.9b07eb6c70573p-54},
    {0x1.29e9df51fdee1p+0, 0x1.612e8afad1255p-55},
    {0x1.306fe0a31b715p+0, 0x1.6f46ad23182e4p-55},
    {0x1.371a7373aa9cbp+0, -0x1.63aeabf42eae2p-54},
    {0x1.3dea64c123422p+0, 0x1.ada0911f09ebcp-55},
    {0x1.44e086061892dp+0, 0x1.89b7a04ef80dp-59},
    {0x1.4bfdad5362a27p+0, 0x1.d4397afec42e2p-56},
    {0x1.5342b569d4f82p+0, -0x1.07abe1db13cadp-55},
    {0x1.5ab07dd485429p+0, 0x1.6324c054647adp-54},
    {0x1.6247eb03a5585p+0, -0x1.383c17e40b497p-54},
    {0x1.6a09e667f3bcdp+0, -0x1.bdd3413b26456p-54},
    {0x1.71f75e8ec5f74p+0, -0x1.16e4786887a99p-55},
    {0x1.7a11473eb0187p+0, -0x1.41577ee04992fp-55},
    {0x1.82589994cce13p+0, -0x1.d4c1dd41532d8p-54},
    {0x1.8ace5422aa0dbp+0, 0x1.6e9f156864b27p-54},
    {0x1.93737b0cdc5e5p+0, -0x1.75fc781b57ebcp-57},
    {0x1.9c49182a3f09p+0, 0x1.c7c46b071f2bep-56},
    {0x1.a5503b23e255dp+0, -0x1.d2f6edb8d41e1p-54},
    {0x1.ae89f995ad3adp+0, 0x1.7a1cd345dcc81p-54},
    {0x1.b7f76f2fb5e47p+0, -0x1.5584f7e54ac3bp-56},
    {0x1.c199bdd85529cp+0, 0x1.11065895048ddp-55},
    {0x1.cb720dcef9069p+0, 0x1.503cbd1e949dbp-56},
    {0x1.d5818dcfba487p+0, 0x1.2ed02d75b3707p-55},
    {0x1.dfc97337b9b5fp+0, -0x1.1a5cd4f184b5cp-54},
    {0x1.ea4afa2a490dap+0, -0x1.e9c23179c2893p-54},
    {0x1.f50765b6e454p+0, 0x1.9d3e12dd8a18bp-54},};

/* (e**r - 1 - r) / r**2 on |r| <= ln2/64, Chebyshev interpolation; wrong by 2**-62 of e**r. */
static const double tail[] = {0x1p-1, 0x1.555555554d865p-3, 0x1.55555555516ddp-5, 0x1.111150cbf1119p-7,
                              0x1.6c170126f55e9p-10};

#define ROUNDER 0x1.8p52 /* adding it leaves a whole number in the last bits */

/* e**(r + lo) * 2**(k/32) */
static pair from_table(double r, double lo, int k, int *exponent) {
    double p = r + (r * r * POLYNOMIAL(tail, r) + (lo + lo * r));
    const double *t = power[k & 31];
    *exponent = (k - (k & 31)) / 32;
    return (pair){t[0], t[1] + t[0] * p};
}

pair fw_pair_exp(double hi, double lo, int *exponent) {
    double rounded = hi * 0x1.71547652b82fep+5 + ROUNDER;
    double k = rounded - ROUNDER;
    /* ln2/32 in two parts: k times the first is exact */
    double r = hi - k * 0x1.62e42ffp-6, rest = k * 0x1.718432a1b0e26p-40;
    double sum = r + rest;
    lo += rest - (sum - r);
    return from_table(sum, lo, (int)k, exponent);
}

double exp(double x) {
    if (is_nan(x)) return x + x;
    if (x > 710) return FW_INF;
    if (x < -746) return 0;
    int exponent;
    pair e = fw_pair_exp(x, 0, &exponent);
    return fw_scale(e.hi + e.lo, exponent);
}

double exp2(double x) {
    if (is_nan(x)) return x + x;
    if (x >= 1024) return FW_INF;
    if (x < -1076) return 0;
    double k = x * 32 + ROUNDER - ROUNDER, rest = x - k * 0x1p-5; /* exact */
    pair r = product(rest, 0x1.62e42fefa39efp-1);
    if (size_of(rest) < 0x1p-900) r = (pair){0, 0};
    int exponent;
    pair e = from_table(r.hi, r.lo + rest * 0x1.abc9e3b39803fp-56, (int)k, &exponent);
    return fw_scale(e.hi + e.lo, exponent);
}

/* (e**x - 1 - x - x**2/2) / x**3 on |x| <= 0.3, Chebyshev interpolation */
static const double small[] = {0x1.5555555555555p-3,  0x1.5555555555555p-5,  0x1.1111111110ebfp-7,
                               0x1.6c16c16c16ac4p-10, 0x1.a01a01a352a7cp-13, 0x1.a01a01a1f12cap-16,
                               0x1.71de2148203d6p-19, 0x1.27e4ed2737d2p-22,  0x1.af035cd020cb2p-26,
                               0x1.1f486c02ab58ap-29};

double expm1(double x) {
    if (is_nan(x)) return x + x;
    if (x > 710) return FW_INF;
    if (x < -40) return -1;
    double size = size_of(x);
    if (size < 0x1p-54) return x;
    if (size < 0.3) {
        double square = x * x;
        return x + (0.5 * square + square * x * POLYNOMIAL(small, x));
    }
    int exponent;
    pair e = fw_pair_exp(x, 0, &exponent);
    if (exponent > 60) return fw_scale(e.hi + e.lo, exponent);
    pair scaled = pair_times(e, power_of_2(exponent)), less = exact_sum(scaled.hi, -1);
    return less.hi + (less.lo + scaled.lo);
}
