/* sinh, cosh, tanh and their inverses, from the pairs of exp and log. */
#include "math_internal.h"

/* (sinh(x) - x) / x**3 by x**2, |x| <= 1/2, and (tanh(x) - x) / x**3, |x| <= 0.3: Chebyshev interpolation */
static const double sinh_tail[] = {0x1.5555555555555p-3,  0x1.111111111112p-7,   0x1.a01a01a00ef0fp-13,
                                   0x1.71de3a84a10c3p-19, 0x1.ae63a07779c78p-26, 0x1.6267cf434f12cp-33};
static const double tanh_tail[] = {-0x1.5555555555555p-2, 0x1.1111111110b9fp-3,  -0x1.ba1ba1b8dd76fp-5,
                                   0x1.664f47a52e33ep-6,  -0x1.226de973098b5p-7, 0x1.d6b77a084310dp-9,
                                   -0x1.7ab0c8b40a0eep-10, 0x1.0bdf304f99aafp-11};

/* e**x / 2 and e**-x / 2, for 0 <= x < 40 */
static pair half_exp(double x, pair *inverse) {
    int exponent;
    pair e = fw_pair_exp(x, 0, &exponent);
    e = pair_times(fast_sum(e.hi, e.lo), power_of_2(exponent - 1));
    *inverse = pair_quotient((pair){0.25, 0}, e);
    return e;
}

/* e**x / 2 where e**-x is nothing beside it */
static double large(double x) {
    if (x > 711) return FW_INF;
    int exponent;
    pair e = fw_pair_exp(x, 0, &exponent);
    return fw_scale(e.hi + e.lo, exponent - 1);
}

double sinh(double x) {
    double size = size_of(x);
    if (is_nan(x)) return x + x;
    if (size < 0x1p-27) return x;
    if (size < 0.5) {
        double square = x * x;
        return x + x * square * POLYNOMIAL(sinh_tail, square);
    }
    if (size >= 40) return with_sign(large(size), x);
    pair inverse, e = half_exp(size, &inverse);
    return with_sign(pair_sum(e, pair_negative(inverse)).hi, x);
}

double cosh(double x) {
    if (is_nan(x)) return x + x;
    double size = size_of(x);
    if (size < 0x1p-27) return 1;
    if (size >= 40) return large(size);
    pair inverse, e = half_exp(size, &inverse);
    return pair_sum(e, inverse).hi;
}

double tanh(double x) {
    if (is_nan(x)) return x + x;
    double size = size_of(x);
    if (size < 0x1p-27) return x;
    if (size < 0.3) {
        double square = x * x;
        return x + x * square * POLYNOMIAL(tanh_tail, square);
    }
    if (size >= 20) return with_sign(1, x);
    pair inverse, e = half_exp(size, &inverse);
    return with_sign(pair_quotient(pair_sum(e, pair_negative(inverse)), pair_sum(e, inverse)).hi, x);
}

/* log of a number of which hi and lo are known */
static double log_of(pair x, double sign) { return with_sign(fw_pair_log(x.hi, x.lo).hi, sign); }
#define LN2 ((pair){0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56})

/* log(x + sqrt(x**2 + d)), d 1 or -1, for x >= 1 */
static pair log_with_root(double x, double d) {
    if (x > 0x1p40) return pair_sum(fw_pair_log(x, 0), LN2);
    pair square = product(x, x), below = exact_sum(square.hi, d);
    pair root = fw_pair_sqrt(below.hi, below.lo + square.lo);
    pair sum = exact_sum(x, root.hi);
    return fw_pair_log(sum.hi, sum.lo + root.lo);
}

double asinh(double x) {
    if (is_nan(x) || is_infinite(x)) return x + x;
    double size = size_of(x);
    if (size < 0x1p-27) return x;
    if (size >= 1) return with_sign(log_with_root(size, 1).hi, x);
    /* log(1 + x + x**2 / (1 + sqrt(1 + x**2))) */
    double square = size * size, more = square / (1 + sqrt(1 + square));
    pair u = exact_sum(size, more), sum = exact_sum(1, u.hi);
    return log_of((pair){sum.hi, sum.lo + u.lo}, x);
}

double acosh(double x) {
    if (!(x >= 1)) return is_nan(x) ? x + x : FW_NAN;
    if (is_infinite(x)) return x;
    if (x >= 2) return log_with_root(x, -1).hi;
    /* t = x - 1, exactly: log(1 + t + sqrt(2 t + t**2)) */
    double t = x - 1;
    if (t == 0) return 0;
    pair square = product(t, t), below = exact_sum(2 * t, square.hi);
    pair root = fw_pair_sqrt(below.hi, below.lo + square.lo), u = exact_sum(root.hi, t);
    pair sum = exact_sum(1, u.hi);
    return log_of((pair){sum.hi, sum.lo + (u.lo + root.lo)}, 1);
}

double atanh(double x) {
    double size = size_of(x);
    if (!(size <= 1)) return is_nan(x) ? x + x : FW_NAN;
    if (size == 1) return with_sign(FW_INF, x);
    if (size < 0x1p-27) return x;
    pair twice = pair_sum(fw_pair_log1p(size), pair_negative(fw_pair_log1p(-size)));
    return with_sign(0.5 * twice.hi, x);
}
