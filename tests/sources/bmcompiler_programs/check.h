/* What the programs of this folder share. */
#include "bmcompiler_defs.h"
#include "bmcompiler_if.h"
#include "bmcompiler_op_code.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x) do { if (!(x)) { printf("line %d: %s\n", __LINE__, #x); exit(1); } } while (0)

static int shape[4] = {1, 3, 4, 5};
static float x[60], y[60];

/* A layer that doubles. */
static inline void add_double(void *p, const char *from, const char *to) {
    add_const_binary_layer(p, from, shape, 4, 2.0f, to, BINARY_MUL, 0);
}

/* y: what doubling x gives. */
static inline void fill(void) {
    for (int i = 0; i < 60; i++) {
        x[i] = (float)i;
        y[i] = 2.0f * (float)i;
    }
}
