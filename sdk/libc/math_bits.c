/* Functions that only move a number's bits, or compare. All are exact. */
#include "math_internal.h"

double fabs(double x) { return size_of(x); }
float fabsf(float x) { return float_from_bits(bits_of_float(x) & 0x7FFFFFFFu); }

double copysign(double x, double y) { return with_sign(x, y); }
float copysignf(float x, float y) {
    return float_from_bits((bits_of_float(x) & 0x7FFFFFFFu) | (bits_of_float(y) & 0x80000000u));
}

double nan(const char *tag) {
    (void)tag;
    return FW_NAN;
}
float nanf(const char *tag) {
    (void)tag;
    return NAN;
}

/* -0 is below +0; of a NaN and a number the number counts. */
double fmin(double x, double y) {
    if (is_nan(x)) return is_nan(y) ? x + x : y;
    if (is_nan(y)) return x;
    if (x == y) return is_negative(x) ? x : y;
    return x < y ? x : y;
}
double fmax(double x, double y) {
    if (is_nan(x)) return is_nan(y) ? x + x : y;
    if (is_nan(y)) return x;
    if (x == y) return is_negative(x) ? y : x;
    return x > y ? x : y;
}
double fdim(double x, double y) {
    if (is_nan(x) || is_nan(y)) return nan_of(x, y);
    return x > y ? x - y : 0;
}
float fminf(float x, float y) { return (float)fmin((double)x, (double)y); }
float fmaxf(float x, float y) { return (float)fmax((double)x, (double)y); }
/* The difference of floats in double is exact enough to round once more to the same float. */
float fdimf(float x, float y) { return (float)fdim((double)x, (double)y); }

/* ---- exponents ---- */

double frexp(double x, int *exponent) {
    *exponent = 0;
    if (x == 0 || is_nan(x) || is_infinite(x)) return x + x;
    int shift = 0;
    if (exponent_of(x) == 0) {
        x *= 0x1p54;
        shift = 54;
    }
    *exponent = exponent_of(x) - 1022 - shift;
    return from_bits((bits_of(x) & ~INF_BITS) | 1022ull << 52);
}
float frexpf(float x, int *exponent) { return (float)frexp((double)x, exponent); }

double fw_scale(double x, int n) {
    if (n > 1023) {
        x *= 0x1p1023;
        n = n - 1023 > 2046 ? 2046 : n - 1023;
        if (n > 1023) {
            x *= 0x1p1023;
            n -= 1023;
        }
    } else if (n < -1022) { /* steps that stay normal, so that only the last one rounds */
        x *= 0x1p-969;
        n = n + 969 < -1991 ? -1991 : n + 969;
        if (n < -1022) {
            x *= 0x1p-969;
            n += 969;
        }
    }
    return x * power_of_2(n);
}
double ldexp(double x, int exponent) { return fw_scale(x, exponent); }
double scalbn(double x, int exponent) { return fw_scale(x, exponent); }
double scalbln(double x, long exponent) {
    return fw_scale(x, exponent > 10000 ? 10000 : exponent < -10000 ? -10000 : (int)exponent);
}
/* In double nothing rounds before the conversion. */
float ldexpf(float x, int exponent) {
    return (float)fw_scale((double)x, exponent > 500 ? 500 : exponent < -500 ? -500 : exponent);
}
float scalbnf(float x, int exponent) { return ldexpf(x, exponent); }
float scalblnf(float x, long exponent) {
    return ldexpf(x, exponent > 500 ? 500 : exponent < -500 ? -500 : (int)exponent);
}

int ilogb(double x) {
    if (x == 0) return FP_ILOGB0;
    if (is_nan(x)) return FP_ILOGBNAN;
    if (is_infinite(x)) return 0x7FFFFFFF;
    int exponent;
    frexp(x, &exponent);
    return exponent - 1;
}
int ilogbf(float x) { return ilogb((double)x); }

double logb(double x) {
    if (x == 0) return -FW_INF;
    if (is_nan(x) || is_infinite(x)) return x * x;
    return ilogb(x);
}
float logbf(float x) { return (float)logb((double)x); }

/* ---- neighbours ---- */

double nextafter(double x, double y) {
    if (is_nan(x) || is_nan(y)) return nan_of(x, y);
    if (x == y) return y;
    if (x == 0) return with_sign(0x1p-1074, y);
    bool grows = (x < y) != is_negative(x);
    return from_bits(bits_of(x) + (grows ? 1 : -1ull));
}
float nextafterf(float x, float y) {
    if (is_nan((double)x) || is_nan((double)y)) return (float)nan_of((double)x, (double)y);
    if (x == y) return y;
    if (x == 0) return copysignf(0x1p-149f, y);
    bool grows = (x < y) != is_negative((double)x);
    return float_from_bits(bits_of_float(x) + (grows ? 1 : -1u));
}
