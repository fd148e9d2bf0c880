/* Moving and converting elements; see firmware_sim.instructions.dma_move and formats.
 *
 * Rows of `width` neighbouring elements; `at`, i64[2, rows], holds the index of each row's first element in the
 * destination and in the source, and rows follow in the order in which elements are written. */
#include <math.h>

#include "codes.h"
#include "loops.h"

#define REBASE ((127u - 15u) << 23)
#define HALF_SMALLEST (113u << 23) /* 2**-14 */
#define HALF_LIMIT (143u << 23)    /* 2**16 */

TL_INLINE float to_float(uint32_t bits, const int source) {
    switch (source) {
    case TL_FORMAT_FP32:
        return tl_number(bits);
    case TL_FORMAT_FP16:
        return tl_number((bits & 0x8000u) << 16 | (((bits & 0x7FFFu) << 13) + REBASE));
    case TL_FORMAT_INT8:
        return (float)(int8_t)bits;
    default:
        return (float)(uint8_t)bits;
    }
}

TL_INLINE uint32_t from_float(float value, const int target) {
    const uint32_t bits = tl_bits(value);
    if (target == TL_FORMAT_FP32)
        return bits;
    if (target == TL_FORMAT_FP16) {
        const uint32_t magnitude = bits & 0x7FFFFFFFu;
        const uint32_t half = magnitude < HALF_SMALLEST ? 0 : magnitude >= HALF_LIMIT ? 0x7C00u : (magnitude - REBASE) >> 13;
        return (bits >> 16 & 0x8000u) | half;
    }
    const float low = target == TL_FORMAT_INT8 ? -128 : 0, high = low + 255;
    if (isnan(value))
        value = bits >> 31 ? low : high;
    const float rounded = __builtin_rintf(value);
    const float least = rounded < low ? low : rounded;
    return (uint32_t)(int32_t)(least > high ? high : least);
}

#define CONVERT_ROWS(to_type, from_type, target, source)                                       \
    for (int64_t row = 0; row < rows; row++) {                                                 \
        to_type *r = (to_type *)a[0].data + at[row];                                           \
        const from_type *x = (const from_type *)a[1].data + at[rows + row];                    \
        for (int64_t i = 0; i < width; i++)                                                    \
            r[i] = (to_type)from_float(to_float(x[i], source), target);                        \
    }
#define CONVERT_FROM(from_type, source)                                                        \
    switch (a[5].value) {                                                                      \
    case TL_FORMAT_FP32:                                                                       \
        CONVERT_ROWS(uint32_t, from_type, TL_FORMAT_FP32, source) break;                       \
    case TL_FORMAT_FP16:                                                                       \
        CONVERT_ROWS(uint16_t, from_type, TL_FORMAT_FP16, source) break;                       \
    case TL_FORMAT_INT8:                                                                       \
        CONVERT_ROWS(uint8_t, from_type, TL_FORMAT_INT8, source) break;                        \
    default:                                                                                   \
        CONVERT_ROWS(uint8_t, from_type, TL_FORMAT_UINT8, source)                              \
    }                                                                                          \
    break;

/* From one format to another, by way of fp32. out, x, at, width, source, target: codes of formats. */
int64_t moves_convert(const tl_arg *a) {
    const int64_t *at = a[2].data, rows = a[2].shape[1], width = a[3].value;
    switch (a[4].value) {
    case TL_FORMAT_FP32:
        CONVERT_FROM(uint32_t, TL_FORMAT_FP32)
    case TL_FORMAT_FP16:
        CONVERT_FROM(uint16_t, TL_FORMAT_FP16)
    case TL_FORMAT_INT8:
        CONVERT_FROM(uint8_t, TL_FORMAT_INT8)
    default:
        CONVERT_FROM(uint8_t, TL_FORMAT_UINT8)
    }
    return TL_DONE;
}

/* fp32 sums; both memories as words. out, x, at, width. */
int64_t moves_accumulate(const tl_arg *a) {
    const int64_t *at = a[2].data, rows = a[2].shape[1], width = a[3].value;
    for (int64_t row = 0; row < rows; row++) {
        float *r = (float *)a[0].data + at[row];
        const float *x = (const float *)a[1].data + at[rows + row];
        for (int64_t i = 0; i < width; i++)
            r[i] = r[i] + x[i];
    }
    return TL_DONE;
}

/* The source's words (rows at[0]) whose mask (rows at[1]) is not zero, one after the other; how many. out, words, at,
 * width. */
int64_t moves_keep(const tl_arg *a) {
    const int64_t *at = a[2].data, rows = a[2].shape[1], width = a[3].value;
    uint32_t *out = a[0].data;
    const uint32_t *words = a[1].data;
    int64_t kept = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < width; i++)
            if (words[at[rows + row] + i])
                out[kept++] = words[at[row] + i];
    return kept;
}

#define COPY_ROWS(type)                                                                        \
    for (int64_t row = 0; row < rows; row++) {                                                 \
        type *r = (type *)a[0].data + at[row];                                                 \
        const type *x = (const type *)a[1].data + at[rows + row];                              \
        for (int64_t i = 0; i < width; i++)                                                    \
            r[i] = x[i];                                                                       \
    }                                                                                          \
    break;

/* Each element sees what was written before it. out, x, at, width. */
int64_t moves_copy(const tl_arg *a) {
    const int64_t *at = a[2].data, rows = a[2].shape[1], width = a[3].value;
    switch (a[0].item) {
    case 1:
        COPY_ROWS(uint8_t)
    case 2:
        COPY_ROWS(uint16_t)
    default:
        COPY_ROWS(uint32_t)
    }
    return TL_DONE;
}

enum { BOX_DIMS = 5 };

/* n, and the steps in the destination and in the source, of each dimension; where the first element is in both. */
typedef struct {
    struct {
        int64_t n, to, from;
    } dim[BOX_DIMS];
    int64_t to, from;
} box;

#define COPY_LINE(type)                                                                        \
    for (int64_t i = 0; i < n; i++)                                                            \
        ((type *)to)[i * step_to] = ((const type *)from)[i * step_from];                       \
    break;

TL_INLINE void copy_line(char *to, const char *from, int64_t n, int64_t step_to, int64_t step_from, int64_t item) {
    if (step_to == 1 && step_from == 1) {
        memcpy(to, from, (size_t)(n * item));
        return;
    }
    switch (item) {
    case 1:
        COPY_LINE(uint8_t)
    case 2:
        COPY_LINE(uint16_t)
    default:
        COPY_LINE(uint32_t)
    }
}

/* Boxes of elements, which share no byte with what they become. out, x, boxes. */
int64_t moves_boxes(const tl_arg *a) {
    const int64_t item = a[0].item;
    for (int64_t k = 0; k < a[2].shape[0]; k++) {
        const box *b = (const box *)a[2].data + k;
        char *to = (char *)a[0].data + b->to * item;
        const char *from = (const char *)a[1].data + b->from * item;
        for (int64_t i = 0; i < b->dim[0].n; i++)
            for (int64_t j = 0; j < b->dim[1].n; j++)
                for (int64_t l = 0; l < b->dim[2].n; l++)
                    for (int64_t m = 0; m < b->dim[3].n; m++) {
                        const int64_t r = i * b->dim[0].to + j * b->dim[1].to + l * b->dim[2].to + m * b->dim[3].to;
                        const int64_t x =
                            i * b->dim[0].from + j * b->dim[1].from + l * b->dim[2].from + m * b->dim[3].from;
                        copy_line(to + r * item, from + x * item, b->dim[4].n, b->dim[4].to, b->dim[4].from, item);
                    }
    }
    return TL_DONE;
}
