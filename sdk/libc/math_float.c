/* The float functions whose double ones are not exact: a double's error is far below a float's last
 * place, so only results that lie almost between two floats may become the farther one.
 */
#include "math_internal.h"

#define FLOAT_1(name) \
    float name##f(float x) { return (float)name((double)x); }
#define FLOAT_2(name) \
    float name##f(float x, float y) { return (float)name((double)x, (double)y); }

FLOAT_1(cbrt)
FLOAT_1(exp)
FLOAT_1(exp2)
FLOAT_1(expm1)
FLOAT_1(log)
FLOAT_1(log2)
FLOAT_1(log10)
FLOAT_1(log1p)
FLOAT_1(sin)
FLOAT_1(cos)
FLOAT_1(tan)
FLOAT_1(asin)
FLOAT_1(acos)
FLOAT_1(atan)
FLOAT_1(sinh)
FLOAT_1(cosh)
FLOAT_1(tanh)
FLOAT_1(asinh)
FLOAT_1(acosh)
FLOAT_1(atanh)
FLOAT_1(erf)
FLOAT_1(erfc)
FLOAT_2(pow)
FLOAT_2(atan2)
FLOAT_2(hypot)
