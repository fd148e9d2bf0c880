/* sin, cos, tan: polynomials within pi/4, the quadrant decides which. */
#include "math_internal.h"

/* (sin(x) - x) / x**3 and (cos(x) - 1 + x**2/2) / x**4 by x**2, |x| <= pi/4, Chebyshev interpolation */
static const double sine_tail[] = {-0x1.5555555555555p-3,  0x1.111111111111p-7,   -0x1.a01a01a019936p-13,
                                   0x1.71de3a54605eep-19,  -0x1.ae64541266378p-26, 0x1.61217ec01749dp-33,
                                   -0x1.ab17a79237a19p-41};
static const double cosine_tail[] = {0x1.5555555555555p-5,   -0x1.6c16c16c16966p-10, 0x1.a01a019f4e867p-16,
                                     -0x1.27e4fa17a41b4p-22, 0x1.1eeb68b109173p-29,  -0x1.907d7aebd5e3dp-37};

static pair sine(pair x) {
    double square = x.hi * x.hi;
    double rest = x.hi * square * POLYNOMIAL(sine_tail, square) + x.lo * (1 - 0.5 * square);
    return fast_sum(x.hi, rest);
}

static pair cosine(pair x) {
    double x1 = upper_half(x.hi), half = 0.5 * x1 * x1, half_lo = 0.5 * (x.hi - x1) * (x.hi + x1);
    double square = x.hi * x.hi;
    pair first = fast_sum(1, -half);
    double rest = square * square * POLYNOMIAL(cosine_tail, square) - (half_lo + x.hi * x.lo);
    return fast_sum(first.hi, first.lo + rest);
}

#define QUARTER 0x1.921fb54442d18p-1 /* pi/4 */
#define TINY 0x1p-27                 /* x**2/2 is below half a last place of 1 */

/* Within pi/4, and the quadrant. */
static pair reduced(double x, unsigned *quadrant) {
    *quadrant = 0;
    if (size_of(x) <= QUARTER) return (pair){x, 0};
    return fw_reduce(x, quadrant);
}

/* sin(x + turn * pi/2) */
static double turned(double x, unsigned turn) {
    unsigned quadrant;
    pair r = reduced(x, &quadrant);
    quadrant += turn;
    pair result = quadrant & 1 ? cosine(r) : sine(r);
    return quadrant & 2 ? -result.hi : result.hi;
}

double sin(double x) {
    if (is_nan(x) || is_infinite(x)) return is_nan(x) ? x + x : FW_NAN;
    if (size_of(x) < TINY) return x;
    return turned(x, 0);
}

double cos(double x) {
    if (is_nan(x) || is_infinite(x)) return is_nan(x) ? x + x : FW_NAN;
    if (size_of(x) < TINY) return 1;
    return turned(x, 1);
}

double tan(double x) {
    if (is_nan(x) || is_infinite(x)) return is_nan(x) ? x + x : FW_NAN;
    if (size_of(x) < TINY) return x;
    unsigned quadrant;
    pair r = reduced(x, &quadrant), s = sine(r), c = cosine(r);
    return quadrant & 1 ? -pair_quotient(c, s).hi : pair_quotient(s, c).hi;
}
