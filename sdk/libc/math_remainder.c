/* fmod, remainder and fma: exact, on integers. */
#include "math_internal.h"

/* m * 2**e, where that is a double. */
static double put_together(uint64_t m, int e) {
    if (m == 0) return 0;
    int shift = __builtin_clzll(m) - 11;
    if (e - shift < -1074) return from_bits(e >= -1074 ? m << (e + 1074) : m >> (-1074 - e));
    return from_bits(((uint64_t)(e - shift + 1074) << 52) + (m << shift));
}

/* What is left of |x| after whole multiples of |y|; *odd is the last bit of their number. */
static double rest_of(double x, double y, bool *odd) {
    int ex, ey;
    *odd = false;
    if (x < y) return x;
    uint64_t mx = taken_apart(x, &ex), my = taken_apart(y, &ey);
    for (;; ex--, mx <<= 1) {
        *odd = mx >= my;
        if (*odd) mx -= my;
        if (ex == ey) return put_together(mx, ey);
        if (mx == 0) {
            *odd = false;
            return 0;
        }
    }
}

static bool has_no_rest(double x, double y) { return is_nan(x) || is_nan(y) || is_infinite(x) || y == 0; }
static double no_rest(double x, double y) { return is_nan(x) || is_nan(y) ? nan_of(x, y) : FW_NAN; }

double fmod(double x, double y) {
    if (has_no_rest(x, y)) return no_rest(x, y);
    if (x == 0 || is_infinite(y)) return x;
    bool odd;
    return with_sign(rest_of(size_of(x), size_of(y), &odd), x);
}

double remainder(double x, double y) {
    if (has_no_rest(x, y)) return no_rest(x, y);
    if (x == 0 || is_infinite(y)) return x;
    bool odd;
    double size = size_of(y), rest = rest_of(size_of(x), size, &odd);
    /* rest > size / 2, where neither doubling nor halving may round */
    double other = size - rest;
    bool up = rest > other || (rest == other && odd);
    return from_bits(bits_of(up ? -other : rest) ^ (bits_of(x) & SIGN_BIT));
}

float fmodf(float x, float y) { return (float)fmod((double)x, (double)y); }
float remainderf(float x, float y) { return (float)remainder((double)x, (double)y); }

/* ---- fma ---- */

typedef struct {
    uint64_t hi, lo;
} wide;

static wide wide_product(uint64_t a, uint64_t b) {
    uint64_t a1 = a >> 32, a0 = (uint32_t)a, b1 = b >> 32, b0 = (uint32_t)b;
    uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + (uint32_t)middle;
    return (wide){a1 * b1 + (middle >> 32) + (other >> 32), other << 32 | (uint32_t)low};
}

static wide wide_left(wide a, int n) {
    if (n == 0) return a;
    if (n >= 64) return (wide){a.lo << (n - 64), 0};
    return (wide){a.hi << n | a.lo >> (64 - n), a.lo << n};
}

/* Bits that fall off make the last bit 1. */
static wide wide_right(wide a, int n) {
    if (n == 0) return a;
    if (n > 127) return (wide){0, (a.hi | a.lo) != 0};
    bool lost = n >= 64 ? a.lo != 0 || (a.hi & ((1ull << (n - 64)) - 1)) != 0 : (a.lo & ((1ull << n) - 1)) != 0;
    wide r = n >= 64 ? (wide){0, a.hi >> (n - 64)} : (wide){a.hi >> n, a.lo >> n | a.hi << (64 - n)};
    r.lo |= lost;
    return r;
}

static int wide_zeros(wide a) { return a.hi != 0 ? __builtin_clzll(a.hi) : 64 + __builtin_clzll(a.lo); }

/* a * 2**e, rounded to nearest even. */
static double wide_rounded(wide a, int e, bool negative) {
    int zeros = wide_zeros(a);
    a = wide_left(a, zeros);
    e -= zeros; /* a's first bit is 2**(e + 127) */
    int exponent = e + 127 + 1023, drop = 75; /* bits behind the 53 that stay */
    if (exponent <= 0) {
        drop += 1 - exponent;
        exponent = 1;
    }
    if (exponent > 2046) return negative ? -FW_INF : FW_INF;
    a = wide_right(a, drop - 2 > 128 ? 128 : drop - 2); /* two bits more, the last one sticky */
    uint64_t m = a.lo >> 2, rest = a.lo & 3;
    if (rest > 2 || (rest == 2 && (m & 1))) m++;
    uint64_t bits = ((uint64_t)(exponent - 1) << 52) + m; /* the leading one adds 1 to the exponent */
    return from_bits(bits | (negative ? SIGN_BIT : 0));
}

double fma(double x, double y, double z) {
    if (exponent_of(x) == 0x7FF || exponent_of(y) == 0x7FF) {
        bool product_is_nan = (is_infinite(x) && y == 0) || (x == 0 && is_infinite(y));
        bool opposite = is_infinite(z) && (is_negative(x) ^ is_negative(y) ^ is_negative(z));
        if (is_nan(x) || is_nan(y) || is_nan(z)) return nan_of(nan_of(x, y), z);
        return product_is_nan || opposite ? FW_NAN : x * y;
    }
    if (exponent_of(z) == 0x7FF) return z + z;
    bool negative = is_negative(x) != is_negative(y);
    if (x == 0 || y == 0) return x * y + z;
    int ex, ey, ez;
    uint64_t mx = taken_apart(size_of(x), &ex), my = taken_apart(size_of(y), &ey);
    wide p = wide_left(wide_product(mx, my), 20); /* the first bit is the first or second of 126 */
    int e = ex + ey - 20;
    if (z == 0) return wide_rounded(p, e, negative);
    wide q = {taken_apart(size_of(z), &ez) << 9, 0}; /* 62 bits, and 64 below them */
    ez -= 9 + 64;
    bool z_negative = is_negative(z);
    /* To the larger exponent: what falls off is far below a half, but for the last bit. */
    int apart = e - ez;
    if (apart >= 0) {
        q = wide_right(q, apart);
    } else {
        p = wide_right(p, -apart);
        e = ez;
    }
    if (negative == z_negative) {
        wide sum = {p.hi + q.hi, p.lo + q.lo};
        sum.hi += sum.lo < p.lo;
        return wide_rounded(sum, e, negative);
    }
    bool q_larger = q.hi > p.hi || (q.hi == p.hi && q.lo > p.lo);
    wide large = q_larger ? q : p, small = q_larger ? p : q;
    wide difference = {large.hi - small.hi - (large.lo < small.lo), large.lo - small.lo};
    if ((difference.hi | difference.lo) == 0) return 0;
    return wide_rounded(difference, e, q_larger ? z_negative : negative);
}

/* The product of floats is exact in double. The sum rounds to double with its last bit odd where it is
 * not exact; the float then rounds as if from the exact value. */
float fmaf(float x, float y, float z) {
    double p = (double)x * (double)y;
    pair sum = exact_sum(p, (double)z);
    if (is_nan(sum.hi)) return (float)fma((double)x, (double)y, (double)z);
    if (exponent_of(sum.hi) == 0x7FF || sum.lo == 0) return (float)sum.hi;
    if ((bits_of(sum.hi) & 1) == 0) sum.hi = nextafter(sum.hi, sum.lo > 0 ? FW_INF : -FW_INF);
    return (float)sum.hi;
}
