/* What the compiled loops share; firmware_sim.instructions.loops.native calls them.
 *
 * Every loop is the twin of a reference in numpy and gives the same bits. They run in threads that flush denormals
 * (firmware_sim.flush) and are compiled without fast-math and without fused operations. */
#ifndef TPULAYER_LOOPS_H
#define TPULAYER_LOOPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One argument: a C-contiguous array with its shape and the bytes of an element, or a number. */
typedef struct {
    union {
        void *data;
        int64_t value;
    };
    int64_t shape[4];
    int64_t item;
} tl_arg;

/* What every loop returns that has nothing to tell; counts are positive, too. */
enum { TL_DONE = 0, TL_NO_MEMORY = -1 };

typedef int64_t tl_loop(const tl_arg *a);

#define TL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TL_MAX(a, b) ((a) > (b) ? (a) : (b))
#define TL_INLINE static inline __attribute__((always_inline))

/* Room for `count` elements, also for none; NULL when there is no memory. */
#define TL_NEW(type, count) ((type *)malloc(sizeof(type) * (size_t)(count) + 1))

TL_INLINE float tl_number(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TL_INLINE uint32_t tl_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The elements of an argument, 0 dimensions being 1 element. */
TL_INLINE int64_t tl_size(const tl_arg *a, int dimensions) {
    int64_t size = 1;
    for (int i = 0; i < dimensions; i++)
        size *= a->shape[i];
    return size;
}

/* values[i] = memory[at[i]], 0 where at[i] is negative. */
TL_INLINE void tl_gather(float *values, const float *memory, const int64_t *at, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        values[i] = at[i] >= 0 ? memory[at[i]] : 0;
}

#endif
