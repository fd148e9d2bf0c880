/* TPU_UNARY: the functions' codes and the memory that they need; for its kernel and its descriptor. */
#ifndef BM_LAYER_UNARY_OPS_H
#define BM_LAYER_UNARY_OPS_H

/* a and b are the parameters; those that are not named are not read. */
enum {
    BM_UNARY_RELU = 0,
    BM_UNARY_LEAKY_RELU,       /* x < 0 ? a x : x */
    BM_UNARY_CLIP,             /* at least a, then at most b */
    BM_UNARY_SIGMOID,          /* 1 / (1 + e^-x) */
    BM_UNARY_TANH,
    BM_UNARY_EXP,
    BM_UNARY_LOG,
    BM_UNARY_SQRT,
    BM_UNARY_ABS,
    BM_UNARY_NEG,
    BM_UNARY_RECIPROCAL,
    BM_UNARY_ELU,              /* x > 0 ? x : a (e^x - 1) */
    BM_UNARY_SELU,             /* b (x > 0 ? x : a (e^x - 1)) */
    BM_UNARY_CELU,             /* x > 0 ? x : a (e^(x / a) - 1), a > 0 */
    BM_UNARY_HARD_SIGMOID,     /* a x + b, at least 0 and at most 1 */
    BM_UNARY_HARD_SWISH,       /* x times the hard sigmoid of x with a = 1/6, b = 1/2 */
    BM_UNARY_SOFTPLUS,         /* ln(1 + e^x) */
    BM_UNARY_SOFTSIGN,         /* x / (1 + |x|) */
    BM_UNARY_GELU,             /* x (1 + erf(x / sqrt 2)) / 2 */
    BM_UNARY_GELU_TANH,        /* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
    BM_UNARY_ERF,
    BM_UNARY_SQUARE,
    BM_UNARY_SIGN,             /* 1, 0, -1 */
    BM_UNARY_FLOOR,
    BM_UNARY_CEIL,
    BM_UNARY_ROUND,            /* ties to even */
    BM_UNARY_THRESHOLDED_RELU, /* x > a ? x : 0 */
    BM_UNARY_NOT,              /* of 1.0 and 0.0 */
    BM_UNARY_IS_NAN,           /* 1.0 or 0.0 */
    BM_UNARY_IS_INF,           /* 1.0 or 0.0; a, b: whether -infinity, +infinity count (not 0) */
    BM_UNARY_SWISH,            /* x / (1 + e^(-a x)) */
    BM_UNARY_MISH,             /* x tanh(ln(1 + e^x)) */
    BM_UNARY_SIN,              /* of radians; NaN where |x| > 3e6 */
    BM_UNARY_COS,              /* the same */
    BM_UNARY_OR_ZERO,          /* 0 for NaN, all others as they are */
    BM_UNARY_COUNT
};

/* Work buffers of the result's size; -1: no such function. */
static inline int bm_unary_work(int op) {
    switch (op) {
    case BM_UNARY_RELU:
    case BM_UNARY_CLIP:
    case BM_UNARY_ABS:
    case BM_UNARY_NEG:
    case BM_UNARY_SQUARE:
    case BM_UNARY_HARD_SIGMOID:
    case BM_UNARY_THRESHOLDED_RELU:
    case BM_UNARY_NOT:
    case BM_UNARY_IS_INF:
        return 0;
    case BM_UNARY_LEAKY_RELU:
    case BM_UNARY_HARD_SWISH:
    case BM_UNARY_IS_NAN:
    case BM_UNARY_OR_ZERO:
        return 1;
    case BM_UNARY_SIGMOID:
    case BM_UNARY_EXP:
    case BM_UNARY_SIGN:
        return 2;
    case BM_UNARY_LOG:
    case BM_UNARY_RECIPROCAL:
    case BM_UNARY_GELU_TANH:
    case BM_UNARY_FLOOR:
    case BM_UNARY_CEIL:
    case BM_UNARY_ROUND:
    case BM_UNARY_SWISH:
    case BM_UNARY_TANH:
    case BM_UNARY_ELU:
    case BM_UNARY_SELU:
    case BM_UNARY_CELU:
    case BM_UNARY_SOFTPLUS:
    case BM_UNARY_ERF:
        return 3;
    case BM_UNARY_MISH:
    case BM_UNARY_SQRT:
    case BM_UNARY_SOFTSIGN:
    case BM_UNARY_GELU:
    case BM_UNARY_SIN:
    case BM_UNARY_COS:
        return 4;
    default:
        return -1;
    }
}

#endif
