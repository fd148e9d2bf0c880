/* Generated with the toolkit from user_layers/bmcompiler; changes here are lost. */
#ifndef BMCOMPILER_OP_CODE_H
#define BMCOMPILER_OP_CODE_H

typedef enum {
    REDUCE_MEAN = 0,
    REDUCE_SUM = 1,
    REDUCE_MAX = 2,
    REDUCE_MIN = 3,
    REDUCE_PROD = 4,
    REDUCE_ALL = 5,
    REDUCE_ANY = 6
} BmReduceType;

typedef enum {
    BINARY_ADD = 0,
    BINARY_DIV = 3,
    BINARY_MAX = 4,
    BINARY_MIN = 10000,
    BINARY_MUL = 2,
    BINARY_SUB = 1,
    BINARY_GT = 10001,
    BINARY_GE = 10002,
    BINARY_LT = 10003,
    BINARY_LE = 10004,
    BINARY_EQ = 10005,
    BINARY_NE = 10006,
    BINARY_SQUARED_DIFF = 10007,
    BINARY_FLOOR_MOD = 10008,
    BINARY_FLOOR_DIV = 10009
} BmBinaryType;

typedef enum {
    ACTIVE_TANH = 0,
    ACTIVE_SIGMOID = 1,
    ACTIVE_RELU = 2,
    ACTIVE_EXP = 3,
    ACTIVE_ELU = 4,
    ACTIVE_SQRT = 5,
    ACTIVE_SQUARE = 6,
    ACTIVE_RSQRT = 7,
    ACTIVE_ABSVAL = 8,
    ACTIVE_LN = 9,
    ACTIVE_ROUND = 10,
    ACTIVE_CEIL = 11,
    ACTIVE_FLOOR = 12,
    ACTIVE_SIN = 13,
    ACTIVE_COS = 14,
    ACTIVE_IS_FINITE = 15,
    ACTIVE_MISH = 16,
    ACTIVE_SWISH = 17,
    ACTIVE_HSWISH = 18,
    ACTIVE_SILU = 19
} BmActiveType;

#ifdef __cplusplus
namespace bmcompiler {
using ::BmReduceType;
using ::REDUCE_MEAN;
using ::REDUCE_SUM;
using ::REDUCE_MAX;
using ::REDUCE_MIN;
using ::REDUCE_PROD;
using ::REDUCE_ALL;
using ::REDUCE_ANY;
using ::BmBinaryType;
using ::BINARY_ADD;
using ::BINARY_DIV;
using ::BINARY_MAX;
using ::BINARY_MIN;
using ::BINARY_MUL;
using ::BINARY_SUB;
using ::BINARY_GT;
using ::BINARY_GE;
using ::BINARY_LT;
using ::BINARY_LE;
using ::BINARY_EQ;
using ::BINARY_NE;
using ::BINARY_SQUARED_DIFF;
using ::BINARY_FLOOR_MOD;
using ::BINARY_FLOOR_DIV;
using ::BmActiveType;
using ::ACTIVE_TANH;
using ::ACTIVE_SIGMOID;
using ::ACTIVE_RELU;
using ::ACTIVE_EXP;
using ::ACTIVE_ELU;
using ::ACTIVE_SQRT;
using ::ACTIVE_SQUARE;
using ::ACTIVE_RSQRT;
using ::ACTIVE_ABSVAL;
using ::ACTIVE_LN;
using ::ACTIVE_ROUND;
using ::ACTIVE_CEIL;
using ::ACTIVE_FLOOR;
using ::ACTIVE_SIN;
using ::ACTIVE_COS;
using ::ACTIVE_IS_FINITE;
using ::ACTIVE_MISH;
using ::ACTIVE_SWISH;
using ::ACTIVE_HSWISH;
using ::ACTIVE_SILU;
}
#endif
#endif
