/* sqrt, cbrt and hypot. */
#include "math_internal.h"

/* Digit by digit: root and rest are integers, so the rounding is exact. */
double sqrt(double x) {
    uint64_t bits = bits_of(x);
    if (x == 0 || bits == INF_BITS || is_nan(x)) return x + x;
    if (bits >> 63) return FW_NAN;
    int exponent = (int)(bits >> 52);
    uint64_t m = bits & FRACTION;
    if (exponent == 0) {
        int shift = __builtin_clzll(m) - 11;
        m <<= shift;
        exponent = 1 - shift;
    }
    m |= FRACTION + 1;
    if ((exponent & 1) == 0) m <<= 1;         /* now m * 2**(an even number) */
    int half = (exponent + 1023 - (exponent & 1 ? 0 : 1)) >> 1; /* exponent of the root */
    /* root gets 54 bits: 53 and one to round by. rest = m * 2**k - root**2 all the time. */
    uint64_t rest = 0, root = 0;
    m <<= 10; /* two digits at a time from the top; beyond the last there are zeros */
    for (int i = 0; i < 54; i++) {
        rest = rest << 2 | m >> 62;
        m <<= 2;
        uint64_t trial = root << 2 | 1;
        root <<= 1;
        if (rest >= trial) {
            rest -= trial;
            root |= 1;
        }
    }
    root = (root >> 1) + (root & 1); /* there are no ties: the rest of one would be 0 */
    return from_bits(((uint64_t)(half - 1) << 52) + root);
}

/* The double's square root has more than twice the float's bits: rounding it again is exact. */
float sqrtf(float x) { return (float)sqrt((double)x); }

pair fw_pair_sqrt(double hi, double lo) {
    double root = sqrt(hi);
    if (root == 0) return (pair){root, 0};
    pair square = product(root, root);
    return fast_sum(root, (((hi - square.hi) - square.lo) + lo) / (2 * root));
}

double cbrt(double x) {
    if (x == 0 || is_nan(x) || is_infinite(x)) return x + x;
    double size = size_of(x);
    int exponent = 0;
    if (exponent_of(size) == 0) {
        size *= 0x1p54;
        exponent = -18;
    }
    int thirds = (exponent_of(size) - 1023 + 1200) / 3; /* rounded down */
    int rest = exponent_of(size) - 1023 + 1200 - 3 * thirds;
    exponent += thirds - 400;
    double m = from_bits((bits_of(size) & FRACTION) | ONE_BITS) * power_of_2(rest); /* 1 <= m < 8 */
    /* A quadratic within 4 % of the root; each of Halley's steps makes three times as many digits right. */
    double t = 0.8137947481966304 + m * (0.23625188849178275 - m * 0.011158746763572319);
    for (int i = 0; i < 3; i++) {
        double cube = t * t * t;
        t *= (cube + 2 * m) / (2 * cube + m);
    }
    pair square = product(t, t), cube = pair_product(square, (pair){t, 0});
    t += ((m - cube.hi) - cube.lo) / (3 * square.hi);
    return with_sign(t * power_of_2(exponent), x);
}

double hypot(double x, double y) {
    if (is_infinite(x) || is_infinite(y)) return FW_INF;
    if (is_nan(x) || is_nan(y)) return nan_of(x, y);
    double a = size_of(x), b = size_of(y);
    if (a < b) {
        double kept = a;
        a = b;
        b = kept;
    }
    if (b == 0 || exponent_of(a) - exponent_of(b) > 60) return a + b;
    double scale = 1, back = 1;
    if (a > 0x1p500) {
        scale = 0x1p-600;
        back = 0x1p600;
    } else if (b < 0x1p-400) {
        scale = 0x1p600;
        back = 0x1p-600;
    }
    a *= scale;
    b *= scale;
    pair aa = product(a, a), bb = product(b, b), sum = fast_sum(aa.hi, bb.hi);
    pair root = fw_pair_sqrt(sum.hi, sum.lo + (aa.lo + bb.lo));
    return root.hi * back;
}

