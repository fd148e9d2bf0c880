/* TPU_BINARY: the operations' codes and the memory that they need; for its kernel and its descriptor. */
#ifndef BM_LAYER_BINARY_OPS_H
#define BM_LAYER_BINARY_OPS_H

/* The first six are the vendor's BmBinaryType. Those from EQUAL on give 1.0 or 0.0; AND, OR and XOR also take these. */
enum {
    BM_BINARY_ADD = 0,
    BM_BINARY_SUB = 1,
    BM_BINARY_MUL = 2,
    BM_BINARY_DIV = 3,
    BM_BINARY_MAX = 4,
    BM_BINARY_MIN = 10000,
    BM_BINARY_POW = 20000,
    BM_BINARY_MOD,   /* the result has the divisor's sign, as in Python */
    BM_BINARY_FMOD,  /* the dividend's sign, as in C */
    BM_BINARY_PRELU, /* a > 0 ? a : b * a */
    BM_BINARY_EQUAL,
    BM_BINARY_GREATER,
    BM_BINARY_GREATER_OR_EQUAL,
    BM_BINARY_LESS,
    BM_BINARY_LESS_OR_EQUAL,
    BM_BINARY_AND,
    BM_BINARY_OR,
    BM_BINARY_XOR
};

/* Work buffers of the result's size; -1: no such operation. */
static inline int bm_binary_work(int op) {
    switch (op) {
    case BM_BINARY_ADD:
    case BM_BINARY_SUB:
    case BM_BINARY_MUL:
    case BM_BINARY_GREATER:
    case BM_BINARY_LESS:
    case BM_BINARY_AND:
    case BM_BINARY_OR:
    case BM_BINARY_XOR:
        return 0;
    case BM_BINARY_MAX:
    case BM_BINARY_MIN:
        return 1;
    case BM_BINARY_PRELU:
    case BM_BINARY_GREATER_OR_EQUAL:
    case BM_BINARY_LESS_OR_EQUAL:
        return 2;
    case BM_BINARY_EQUAL:
        return 3;
    case BM_BINARY_POW:
        return 5;
    case BM_BINARY_DIV:
        return 6;
    case BM_BINARY_MOD:
    case BM_BINARY_FMOD:
        return 8;
    default:
        return -1;
    }
}

#endif
