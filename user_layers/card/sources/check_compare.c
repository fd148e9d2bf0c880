/* How two arrays differ: counts, sizes, and where, so that whoever reads the result can tell rounding from lanes,
 * and lanes from memory that nobody wrote. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define SHOWN 16   /* elements that are listed */
#define INDICES 64 /* indices of an axis that are listed */

static float half_value(uint32_t bits) {
    float size = (float)(bits & 0x3ff), sign = bits & 0x8000 ? -1.0f : 1.0f;
    int exponent = (int)(bits >> 10 & 31);
    if (exponent == 31) return size == 0 ? sign * INFINITY : NAN;
    return sign * (exponent ? ldexpf(1024.0f + size, exponent - 25) : ldexpf(size, -24));
}

static size_t element_bytes(bm_data_type_t dtype) {
    if (dtype == BM_INT8 || dtype == BM_UINT8) return 1;
    return dtype == BM_FLOAT32 || dtype == BM_INT32 || dtype == BM_UINT32 ? 4 : 2;
}

static uint32_t bits_at(const void *data, size_t index, size_t bytes) {
    uint32_t bits = 0; /* little-endian hosts, as x86_64 and aarch64 are */
    memcpy(&bits, (const char *)data + index * bytes, bytes);
    return bits;
}

static double value_of(uint32_t bits, bm_data_type_t dtype) {
    float real;
    switch (dtype) {
    case BM_FLOAT32: memcpy(&real, &bits, 4); return (double)real;
    case BM_FLOAT16: return (double)half_value(bits);
    case BM_INT8: return (int8_t)bits;
    case BM_INT16: return (int16_t)bits;
    case BM_INT32: return (int32_t)bits;
    default: return bits;
    }
}

/* Numbers in the order of the values, one apart where values are neighbours. */
static int64_t rank_of(uint32_t bits, bm_data_type_t dtype) {
    int64_t sign = dtype == BM_FLOAT16 ? 0x8000 : INT64_C(0x80000000);
    return (int64_t)bits & sign ? -((int64_t)bits - sign) : (int64_t)bits;
}

typedef struct {
    int64_t different, nan_missing, nan_appeared, nan_bits, infinite, zero_signs, untouched, max_ulp;
    double max_abs, max_value;
} difference;

static void add_difference(difference *sum, uint32_t want, uint32_t have, const check_tensor *tensor, uint32_t poison) {
    bool real = tensor->dtype == BM_FLOAT32 || tensor->dtype == BM_FLOAT16;
    double a = value_of(want, tensor->dtype), b = value_of(have, tensor->dtype);
    sum->different++;
    if (have == poison) sum->untouched++;
    if (isnan(a) || isnan(b)) {
        if (isnan(a) && isnan(b))
            sum->nan_bits++;
        else if (isnan(a))
            sum->nan_missing++;
        else
            sum->nan_appeared++;
    } else if (isinf(a) || isinf(b)) {
        sum->infinite++;
    } else {
        if (a == b) sum->zero_signs++;
        if (fabs(a - b) > sum->max_abs) sum->max_abs = fabs(a - b);
        int64_t apart = real ? rank_of(want, tensor->dtype) - rank_of(have, tensor->dtype) : 0;
        if (llabs(apart) > sum->max_ulp) sum->max_ulp = llabs(apart);
    }
}

/* Which indices of each axis have differences. */
static void record_axes(const check_tensor *tensor, unsigned char **seen) {
    for (int axis = 0; axis < tensor->shape.num_dims; axis++) {
        int64_t listed[INDICES], count = 0;
        char key[32];
        for (int i = 0; i < tensor->shape.dims[axis]; i++)
            if (seen[axis] && seen[axis][i]) {
                if (count < INDICES) listed[count] = i;
                count++;
            }
        snprintf(key, sizeof key, "axis%d_count", axis);
        record_int(key, count);
        snprintf(key, sizeof key, "axis%d", axis);
        record_list(key, listed, (size_t)(count < INDICES ? count : INDICES));
    }
}

static void mark(const check_tensor *tensor, unsigned char **seen, size_t index) {
    for (int axis = tensor->shape.num_dims; axis-- > 0;) {
        size_t extent = (size_t)tensor->shape.dims[axis];
        if (seen[axis]) seen[axis][index % extent] = 1;
        index /= extent;
    }
}

bool compare_outputs(const check_tensor *tensor, const void *expected, const void *got, unsigned char poison) {
    size_t bytes = element_bytes(tensor->dtype), count = tensor->bytes / bytes, shown = 0;
    int64_t where[SHOWN], want[SHOWN], have[SHOWN];
    difference sum = {0};
    uint32_t filled = 0;
    memset(&filled, poison, bytes);
    unsigned char *seen[BM_MAX_DIMS_NUM];
    for (int axis = 0; axis < tensor->shape.num_dims; axis++)
        seen[axis] = calloc((size_t)tensor->shape.dims[axis], 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t a = bits_at(expected, i, bytes), b = bits_at(got, i, bytes);
        double size = fabs(value_of(a, tensor->dtype));
        if (isfinite(size) && size > sum.max_value) sum.max_value = size;
        if (a == b) continue;
        if (shown < SHOWN) {
            where[shown] = (int64_t)i;
            want[shown] = a;
            have[shown++] = b;
        }
        add_difference(&sum, a, b, tensor, filled);
        mark(tensor, seen, i);
    }
    record_int("elements", (int64_t)count);
    record_int("different", sum.different);
    if (sum.different) {
        record_real("max_abs", sum.max_abs);
        record_real("max_value", sum.max_value);
        record_int("max_ulp", sum.max_ulp);
        record_int("nan_missing", sum.nan_missing);
        record_int("nan_appeared", sum.nan_appeared);
        record_int("nan_bits", sum.nan_bits);
        record_int("infinite", sum.infinite);
        record_int("zero_signs", sum.zero_signs);
        record_int("untouched", sum.untouched);
        record_list("first_index", where, shown);
        record_list("first_expected_bits", want, shown);
        record_list("first_got_bits", have, shown);
        record_axes(tensor, seen);
    }
    for (int axis = 0; axis < tensor->shape.num_dims; axis++) free(seen[axis]);
    return sum.different == 0;
}
