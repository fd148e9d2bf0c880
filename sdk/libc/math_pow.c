/* pow: e**(y log x), the logarithm with more digits than a double has. */
#include "math_internal.h"

/* 0: y is not a whole number; 1: an odd one; 2: an even one. */
static int whole(double y) {
    int exponent = exponent_of(y) - 1023;
    if (exponent < 0) return 0;
    if (exponent > 52) return 2;
    uint64_t one = 1ull << (52 - exponent), m = bits_of(y) | (FRACTION + 1);
    if ((m & (one - 1)) != 0) return 0;
    return m & one ? 1 : 2;
}

double pow(double x, double y) {
    if (y == 0 || x == 1) return 1;
    if (is_nan(x) || is_nan(y)) return nan_of(x, y);
    double size = size_of(x);
    if (is_infinite(y)) return size == 1 ? 1 : (size > 1) == (y > 0) ? FW_INF : 0;
    int kind = whole(y);
    double sign = is_negative(x) && kind == 1 ? -1 : 1;
    if (size == 0) return y > 0 ? with_sign(0, sign) : with_sign(FW_INF, sign);
    if (is_infinite(x)) return y > 0 ? with_sign(FW_INF, sign) : with_sign(0, sign);
    if (x < 0 && kind == 0) return FW_NAN;
    if (size == 1) return sign;
    /* |log x| is at least 2**-53: beyond 2**64 every power overflows or vanishes */
    bool grows = (size > 1) == (y > 0);
    if (size_of(y) > 0x1p64) return with_sign(grows ? FW_INF : 0, sign);
    pair logarithm = fw_pair_log(size, 0);
    if (size_of(y) < 0x1p-70) return sign;
    double about = logarithm.hi * y;
    if (about > 710 || about < -746) return with_sign(grows ? FW_INF : 0, sign);
    pair p = product(logarithm.hi, y);
    int exponent;
    pair e = fw_pair_exp(p.hi, p.lo + logarithm.lo * y, &exponent);
    return with_sign(fw_scale(e.hi + e.lo, exponent), sign);
}
