/* math.h of the firmware as a table of functions, and loops over arrays: of these functions and of the
 * machine's own long double ones, whose addresses the test brings along.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

double fw_divide(double a, double b);
float fw_divide_float(float a, float b);

#define EXPORT __attribute__((visibility("default")))

EXPORT void sweep_1(double (*f)(double), const double *x, double *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(x[i]);
}
EXPORT void sweep_2(double (*f)(double, double), const double *a, const double *b, double *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(a[i], b[i]);
}
EXPORT void sweep_3(double (*f)(double, double, double), const double *a, const double *b, const double *c,
                    double *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(a[i], b[i], c[i]);
}
EXPORT void sweep_1f(float (*f)(float), const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(x[i]);
}
EXPORT void sweep_2f(float (*f)(float, float), const float *a, const float *b, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(a[i], b[i]);
}
EXPORT void sweep_3f(float (*f)(float, float, float), const float *a, const float *b, const float *c, float *y,
                     size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(a[i], b[i], c[i]);
}
EXPORT void sweep_scale(double (*f)(double, int), const double *x, const int32_t *e, double *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(x[i], e[i]);
}
EXPORT void sweep_scalef(float (*f)(float, int), const float *x, const int32_t *e, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(x[i], e[i]);
}
EXPORT void sweep_integer(long long (*f)(double), const double *x, int64_t *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(x[i]);
}
EXPORT void sweep_long(long (*f)(double), const double *x, int64_t *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(x[i]);
}
EXPORT void sweep_ilogb(int (*f)(double), const double *x, int64_t *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(x[i]);
}
EXPORT void sweep_frexp(double (*f)(double, int *), const double *x, double *y, int *e, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(x[i], &e[i]);
}
EXPORT void sweep_modf(double (*f)(double, double *), const double *x, double *y, double *whole, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(x[i], &whole[i]);
}

#ifndef __arm__
EXPORT void sweep_1l(long double (*f)(long double), const double *x, long double *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(x[i]);
}
EXPORT void sweep_2l(long double (*f)(long double, long double), const double *a, const double *b,
                     long double *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f(a[i], b[i]);
}
#endif

/* What the classification macros say, one bit or number each. */
static int classified(const double *x) {
    double d = *x;
    return fpclassify(d) | (isnan(d) != 0) << 4 | (isinf(d) != 0) << 5 | (isfinite(d) != 0) << 6 |
           (signbit(d) != 0) << 7 | (isnormal(d) != 0) << 8 | (d == HUGE_VAL) << 9 | (isunordered(d, 0.0) != 0) << 10 |
           (isless(d, 0.0) != 0) << 11;
}
static int classified_float(const float *x) {
    float f = *x;
    return fpclassify(f) | (isnan(f) != 0) << 4 | (isinf(f) != 0) << 5 | (isfinite(f) != 0) << 6 |
           (signbit(f) != 0) << 7 | (isnormal(f) != 0) << 8 | (f == HUGE_VALF) << 9 |
           (isunordered(f, NAN) != 0) << 10 | (f == INFINITY) << 11;
}

/* What the compiler makes of operators and conversions: instructions, or calls of its run-time library. */
#define OPERATOR(name, operator)                                     \
    static double name(double a, double b) { return a operator b; }  \
    static float name##f(float a, float b) { return a operator b; }
OPERATOR(plus, +)
OPERATOR(minus, -)
OPERATOR(times, *)
OPERATOR(over, /)
#define CONVERSION(name, type)                                     \
    static double name(double x) { return (double)(type)x; }       \
    static float name##f(float x) { return (float)(type)(double)x; }
CONVERSION(through_float, float)
CONVERSION(through_i32, int32_t)
CONVERSION(through_u32, uint32_t)
CONVERSION(through_i64, int64_t)
CONVERSION(through_u64, uint64_t)
static double ordered(double x) {
    float f = (float)x;
    return (x < 1.5) | (x <= 1.5) << 1 | (x == 1.5) << 2 | (x >= 1.5) << 3 | (x > 1.5) << 4 | (x != x) << 5 |
           (f < 1.5f) << 6 | (f <= 1.5f) << 7 | (f == 1.5f) << 8 | (f >= 1.5f) << 9 | (f > 1.5f) << 10;
}

/* The constants, in the order of the test. */
static double constant(double number) {
    static const double all[] = {M_E,  M_LOG2E, M_LOG10E, M_LN2,      M_LN10,  M_PI,    M_PI_2,
                                 M_PI_4, M_1_PI,  M_2_PI,   M_2_SQRTPI, M_SQRT2, M_SQRT1_2};
    return all[(int)number];
}

typedef struct {
    const char *name;
    void *function;
} entry;

#define E(name) {#name, (void *)(uintptr_t)name}
#define BOTH(name) E(name), E(name##f)
EXPORT const entry functions[] = {
    BOTH(fabs),  BOTH(sqrt),  BOTH(cbrt),      BOTH(exp),      BOTH(exp2),   BOTH(expm1),     BOTH(log),
    BOTH(log2),  BOTH(log10), BOTH(log1p),     BOTH(sin),      BOTH(cos),    BOTH(tan),       BOTH(asin),
    BOTH(acos),  BOTH(atan),  BOTH(sinh),      BOTH(cosh),     BOTH(tanh),   BOTH(asinh),     BOTH(acosh),
    BOTH(atanh), BOTH(erf),   BOTH(erfc),      BOTH(floor),    BOTH(ceil),   BOTH(trunc),     BOTH(round),
    BOTH(rint),  BOTH(nearbyint), BOTH(logb),  BOTH(pow),      BOTH(atan2),  BOTH(hypot),     BOTH(fmod),
    BOTH(remainder), BOTH(fmin), BOTH(fmax),   BOTH(fdim),     BOTH(copysign), BOTH(nextafter), BOTH(fma),
    BOTH(ldexp), BOTH(scalbn), BOTH(scalbln),  BOTH(frexp),    BOTH(modf),   BOTH(ilogb),     BOTH(lround),
    BOTH(lrint), BOTH(llround), BOTH(llrint),  BOTH(nan),      E(classified), E(classified_float), E(constant),
    BOTH(plus), BOTH(minus), BOTH(times), BOTH(over), BOTH(through_float), BOTH(through_i32),
    BOTH(through_u32), BOTH(through_i64), BOTH(through_u64), E(ordered), E(fw_divide), E(fw_divide_float),
    {NULL, NULL},
};
