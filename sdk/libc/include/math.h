/* math.h of the firmware: the same bits from every build, on the controller and on the host.
 *
 * Errors, against the exact value, in units of the result's last place: double functions below 1, most
 * below 0.6; float functions 0.50001, which is the correctly rounded value but for rare near-ties. fabs,
 * sqrt, fma, fmod, remainder, the roundings and all that only moves bits are exact. Special values are
 * those of C99's annex F; there is no errno, exceptions are not recorded, and rounding is to nearest.
 */
#ifndef FW_LIBC_MATH_H
#define FW_LIBC_MATH_H

typedef float float_t;
typedef double double_t;

#define HUGE_VAL (__builtin_huge_val())
#define HUGE_VALF (__builtin_huge_valf())
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))

#define FP_NAN 0
#define FP_INFINITE 1
#define FP_ZERO 2
#define FP_SUBNORMAL 3
#define FP_NORMAL 4
#define FP_ILOGB0 (-0x7fffffff - 1)
#define FP_ILOGBNAN (-0x7fffffff - 1)

#define fpclassify(x) __builtin_fpclassify(FP_NAN, FP_INFINITE, FP_NORMAL, FP_SUBNORMAL, FP_ZERO, (x))
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf_sign(x)
#define isfinite(x) __builtin_isfinite(x)
#define isnormal(x) __builtin_isnormal(x)
#define signbit(x) FW_SIGNBIT(x)
#define isgreater(x, y) __builtin_isgreater((x), (y))
#define isgreaterequal(x, y) __builtin_isgreaterequal((x), (y))
#define isless(x, y) __builtin_isless((x), (y))
#define islessequal(x, y) __builtin_islessequal((x), (y))
#define islessgreater(x, y) __builtin_islessgreater((x), (y))
#define isunordered(x, y) __builtin_isunordered((x), (y))
#define FW_SIGNBIT(x) (sizeof(x) == sizeof(float) ? __builtin_signbitf((float)(x)) : __builtin_signbit((double)(x)))

#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

/* One line declares the double function and the float one. */
#define FW_MATH_1(name) \
    double name(double x); \
    float name##f(float x);
#define FW_MATH_2(name) \
    double name(double x, double y); \
    float name##f(float x, float y);

FW_MATH_1(fabs)
FW_MATH_1(sqrt)
FW_MATH_1(cbrt)
FW_MATH_1(exp)
FW_MATH_1(exp2)
FW_MATH_1(expm1)
FW_MATH_1(log)
FW_MATH_1(log2)
FW_MATH_1(log10)
FW_MATH_1(log1p)
FW_MATH_1(sin)
FW_MATH_1(cos)
FW_MATH_1(tan)
FW_MATH_1(asin)
FW_MATH_1(acos)
FW_MATH_1(atan)
FW_MATH_1(sinh)
FW_MATH_1(cosh)
FW_MATH_1(tanh)
FW_MATH_1(asinh)
FW_MATH_1(acosh)
FW_MATH_1(atanh)
FW_MATH_1(erf)
FW_MATH_1(erfc)
FW_MATH_1(floor)
FW_MATH_1(ceil)
FW_MATH_1(trunc)
FW_MATH_1(round)
FW_MATH_1(rint)
FW_MATH_1(nearbyint)
FW_MATH_1(logb)
FW_MATH_2(pow)
FW_MATH_2(atan2)
FW_MATH_2(hypot)
FW_MATH_2(fmod)
FW_MATH_2(remainder)
FW_MATH_2(fmin)
FW_MATH_2(fmax)
FW_MATH_2(fdim)
FW_MATH_2(copysign)
FW_MATH_2(nextafter)

#undef FW_MATH_1
#undef FW_MATH_2

double fma(double x, double y, double z);
float fmaf(float x, float y, float z);
double ldexp(double x, int exponent);
float ldexpf(float x, int exponent);
double scalbn(double x, int exponent);
float scalbnf(float x, int exponent);
double scalbln(double x, long exponent);
float scalblnf(float x, long exponent);
double frexp(double x, int *exponent);
float frexpf(float x, int *exponent);
double modf(double x, double *whole);
float modff(float x, float *whole);
int ilogb(double x);
int ilogbf(float x);
double nan(const char *tag);
float nanf(const char *tag);

/* Out of range: the nearest number in range; of a NaN 0. */
long lround(double x);
long lroundf(float x);
long lrint(double x);
long lrintf(float x);
long long llround(double x);
long long llroundf(float x);
long long llrint(double x);
long long llrintf(float x);

#endif
