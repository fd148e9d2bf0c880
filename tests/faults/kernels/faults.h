/* What the kernels here share: one argument struct, and the words that kernel authors use. */
#ifndef FAULTS_H
#define FAULTS_H

#include "bm_atomic.h"
#include "okk.h"

typedef struct {
    unsigned long long out, out2, in, in2, in3, scratch; /* addresses in DDR; 0: there is none */
    int n, c, h, w, oc, k;
} __attribute__((packed)) args_t;

#define DIV_UP(a, b) (((a) - 1) / (b) + 1)
#define ALIGN(a, b) (DIV_UP(a, b) * (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

enum { NPUS = 64, BANK = 0x10000, FLOAT = 4 };

#endif
