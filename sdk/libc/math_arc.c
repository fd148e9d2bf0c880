/* atan, atan2, asin and acos. */
#include "math_internal.h"

#define PI ((pair){0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53})
#define HALF_PI ((pair){0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54})

/* atan(j/8) for j from 2 on */
static const double eighths[][2] = {
    {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57}, {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
    {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56}, {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
    {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56}, {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
    {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
};

/* (atan(x) - x) / x**3 by x**2, |x| <= 0.2, Chebyshev interpolation */
static const double atan_tail[] = {-0x1.5555555555555p-2, 0x1.999999999957dp-3,  -0x1.249249240b31p-3,
                                   0x1.c71c70f36f75ap-4,  -0x1.745cc5aea0f6dp-4, 0x1.3b028fda0c16ap-4,
                                   -0x1.0f0ff843d6d33p-4, 0x1.a2731d44a5127p-5};

pair fw_pair_atan(double hi, double lo) {
    const double *turn = 0;
    if (hi >= 0.1953125) { /* atan(x) = atan(c) + atan((x - c) / (1 + c x)) */
        int j = (int)(hi * 8 + 0.5);
        double c = j * 0.125;
        turn = eighths[j - 2];
        double h = upper_half(hi); /* c has four bits: its product with each half is exact */
        pair over = {hi - c, lo}, part = fast_sum(c * h, c * (hi - h)), under = fast_sum(1, part.hi);
        under.lo += part.lo + c * lo;
        pair t = pair_quotient(over, under);
        hi = t.hi;
        lo = t.lo;
    }
    double square = hi * hi;
    double rest = lo * (1 - square) + hi * square * POLYNOMIAL(atan_tail, square);
    if (turn == 0) return fast_sum(hi, rest);
    pair sum = fast_sum(turn[0], hi);
    return fast_sum(sum.hi, sum.lo + (rest + turn[1]));
}

/* atan(y / x) for positive y and x, not both so small or large that a quotient's parts are lost. */
static pair first_quadrant(double y, double x) {
    if (y <= x) {
        pair q = pair_quotient((pair){y, 0}, (pair){x, 0});
        return fw_pair_atan(q.hi, q.lo);
    }
    pair q = pair_quotient((pair){x, 0}, (pair){y, 0});
    return pair_sum(HALF_PI, pair_negative(fw_pair_atan(q.hi, q.lo)));
}

double atan(double x) {
    if (is_nan(x)) return x + x;
    double size = size_of(x);
    if (size < 0x1p-27) return x;
    if (size > 0x1p60) return with_sign(HALF_PI.hi, x);
    if (size <= 1) return with_sign(fw_pair_atan(size, 0).hi, x);
    return with_sign(first_quadrant(size, 1).hi, x);
}

double atan2(double y, double x) {
    if (is_nan(x) || is_nan(y)) return nan_of(x, y);
    double a = size_of(y), b = size_of(x);
    bool left = is_negative(x);
    if (a == 0) return with_sign(left ? PI.hi : 0, y);
    if (is_infinite(x) && is_infinite(y)) return with_sign(left ? 0x1.2d97c7f3321d2p+1 : HALF_PI.hi / 2, y);
    if (b == 0 || is_infinite(y)) return with_sign(HALF_PI.hi, y);
    if (is_infinite(x)) return with_sign(left ? PI.hi : 0, y);
    int apart = exponent_of(a) - exponent_of(b);
    if (apart > 64) return with_sign(HALF_PI.hi, y);
    if (apart < -64 && left) return with_sign(PI.hi, y);
    if (apart < -64) { /* the quotient itself; scaled so that it rounds once */
        if (exponent_of(b) < 200) {
            a *= 0x1p200;
            b *= 0x1p200;
        }
        return with_sign(a / b, y);
    }
    int scale = exponent_of(a) > 1023 ? -400 : 400;
    pair angle = first_quadrant(a * power_of_2(scale), b * power_of_2(scale));
    if (left) angle = pair_sum(PI, pair_negative(angle));
    return with_sign(angle.hi, y);
}

/* (asin(x) - x) / x**3 by x**2, |x| <= 1/2, Chebyshev interpolation */
static const double asin_tail[] = {0x1.5555555555556p-3,  0x1.3333333332ec4p-4, 0x1.6db6db6e3292ep-5,
                                   0x1.f1c71c1d4aa0dp-6,  0x1.6e8bb1d89492bp-6, 0x1.1c4d343fa57f6p-6,
                                   0x1.c9cf3759fd8ffp-7,  0x1.78246f32d075cp-7, 0x1.524ea8b3aad31p-7,
                                   0x1.653a8f8cfd43cp-8,  0x1.1d661531b222ep-6, -0x1.e7a24f548c99fp-7,
                                   0x1.d78189767524ep-6};

/* asin(x) for |x| <= 1/2 */
static pair small_asin(double hi, double lo) {
    double square = hi * hi;
    return fast_sum(hi, lo + hi * square * POLYNOMIAL(asin_tail, square) + 0.5 * square * lo);
}

/* 2 asin(sqrt((1 - size) / 2)), which is acos(size), for 1/2 <= size <= 1 */
static pair near_one(double size) {
    pair root = fw_pair_sqrt(0.5 * (1 - size), 0);
    return pair_times(small_asin(root.hi, root.lo), 2);
}

double asin(double x) {
    double size = size_of(x);
    if (!(size <= 1)) return is_nan(x) ? x + x : FW_NAN;
    if (size < 0x1p-27) return x;
    if (size < 0.5) return small_asin(x, 0).hi;
    return with_sign(pair_sum(HALF_PI, pair_negative(near_one(size))).hi, x);
}

double acos(double x) {
    double size = size_of(x);
    if (!(size <= 1)) return is_nan(x) ? x + x : FW_NAN;
    if (size < 0.5) return pair_sum(HALF_PI, pair_negative(small_asin(x, 0))).hi;
    pair angle = near_one(size);
    return is_negative(x) ? pair_sum(PI, pair_negative(angle)).hi : angle.hi;
}
