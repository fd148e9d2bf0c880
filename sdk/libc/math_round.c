/* Rounding to whole numbers, by the bits. All are exact. */
#include "math_internal.h"

#include <limits.h>

typedef enum { DOWN, UP, ZERO, HALF_AWAY, HALF_EVEN } direction;

static double rounded(double x, direction to) {
    uint64_t bits = bits_of(x), sign = bits & SIGN_BIT, size = bits ^ sign;
    int exponent = exponent_of(x) - 1023;
    if (exponent >= 52) return is_nan(x) ? x + x : x;
    if (size == 0) return x;
    /* From here on size is a fixed-point number; below 1 its whole part is 0. */
    uint64_t below = exponent < 0 ? 0 : FRACTION >> exponent; /* the bits behind the point */
    uint64_t one = below + 1, whole = exponent < 0 ? 0 : size & ~below;
    if (whole == size) return x;
    bool up;
    switch (to) {
    case DOWN: up = sign != 0; break;
    case UP: up = sign == 0; break;
    case ZERO: up = false; break;
    default:
        if (exponent < 0) { /* against 1/2 */
            up = to == HALF_AWAY ? exponent == -1 : exponent == -1 && (size & FRACTION) != 0;
        } else {
            uint64_t half = one >> 1, rest = size & below;
            bool odd = (whole & one) != 0; /* of 1 that is the exponent's last bit, which is 1 */
            up = rest > half || (rest == half && (to == HALF_AWAY || odd));
        }
    }
    if (exponent < 0) return from_bits(sign | (up ? ONE_BITS : 0));
    return from_bits(sign | (up ? whole + one : whole)); /* a carry goes on into the exponent */
}

double floor(double x) { return rounded(x, DOWN); }
double ceil(double x) { return rounded(x, UP); }
double trunc(double x) { return rounded(x, ZERO); }
double round(double x) { return rounded(x, HALF_AWAY); }
double rint(double x) { return rounded(x, HALF_EVEN); }
double nearbyint(double x) { return rounded(x, HALF_EVEN); }
float floorf(float x) { return (float)rounded((double)x, DOWN); }
float ceilf(float x) { return (float)rounded((double)x, UP); }
float truncf(float x) { return (float)rounded((double)x, ZERO); }
float roundf(float x) { return (float)rounded((double)x, HALF_AWAY); }
float rintf(float x) { return (float)rounded((double)x, HALF_EVEN); }
float nearbyintf(float x) { return (float)rounded((double)x, HALF_EVEN); }

/* A whole number as an integer within [-most - 1, most]. */
static long long integer(double x, long long most) {
    if (is_nan(x)) return 0;
    int exponent = exponent_of(x) - 1023;
    if (exponent < 0) return 0;
    uint64_t size = exponent > 62 ? ULLONG_MAX : (bits_of(x) & FRACTION) | (FRACTION + 1);
    if (exponent <= 62) size = exponent > 52 ? size << (exponent - 52) : size >> (52 - exponent);
    if (is_negative(x)) return size > (uint64_t)most ? -most - 1 : -(long long)size;
    return size > (uint64_t)most ? most : (long long)size;
}

long lround(double x) { return (long)integer(round(x), LONG_MAX); }
long lrint(double x) { return (long)integer(rint(x), LONG_MAX); }
long long llround(double x) { return integer(round(x), LLONG_MAX); }
long long llrint(double x) { return integer(rint(x), LLONG_MAX); }
long lroundf(float x) { return lround((double)x); }
long lrintf(float x) { return lrint((double)x); }
long long llroundf(float x) { return llround((double)x); }
long long llrintf(float x) { return llrint((double)x); }

double modf(double x, double *whole) {
    *whole = trunc(x);
    if (is_infinite(x)) return with_sign(0, x);
    return is_nan(x) ? x + x : with_sign(x - *whole, x);
}
float modff(float x, float *whole) {
    double double_whole;
    double rest = modf((double)x, &double_whole);
    *whole = (float)double_whole;
    return (float)rest;
}
