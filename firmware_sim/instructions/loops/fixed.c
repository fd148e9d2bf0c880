/* Arithmetic on 8-bit and 16-bit elements; see firmware_sim.instructions.arithmetic_fixed.
 *
 * Elements are found by their bytes, so that one loop serves all widths and signs. */
#include "fixed.h"

#include "codes.h"
#include "loops.h"

/* How the elements of an operand lie: bits and sign of each, bytes from one to the next. */
typedef struct {
    int64_t bits, is_signed, step;
} elements;

/* `width` elements of each row into the line, one row after the other. */
static void read_rows(int32_t *line, const uint8_t *memory, const int64_t *rows, int64_t count, int64_t offset,
                      const elements *e, int64_t width) {
    for (int64_t row = 0; row < count; row++, line += width) {
        const uint8_t *at = memory + rows[row] + offset;
        if (e->bits == 8 && e->step == 1 && e->is_signed) /* side by side: compilers make vectors of these */
            for (int64_t i = 0; i < width; i++)
                line[i] = (int8_t)at[i];
        else if (e->bits == 8 && e->step == 1)
            for (int64_t i = 0; i < width; i++)
                line[i] = at[i];
        else if (e->bits == 16 && e->is_signed)
            for (int64_t i = 0; i < width; i++)
                line[i] = (int16_t)(at[i * e->step] | at[i * e->step + 1] << 8);
        else if (e->bits == 16)
            for (int64_t i = 0; i < width; i++)
                line[i] = at[i * e->step] | at[i * e->step + 1] << 8;
        else if (e->is_signed)
            for (int64_t i = 0; i < width; i++)
                line[i] = (int8_t)at[i * e->step];
        else
            for (int64_t i = 0; i < width; i++)
                line[i] = at[i * e->step];
    }
}

static void write_rows(const int32_t *line, uint8_t *memory, const int64_t *rows, int64_t count, int64_t offset,
                       const elements *e, int64_t width) {
    for (int64_t row = 0; row < count; row++, line += width) {
        uint8_t *at = memory + rows[row] + offset;
        if (e->bits == 8 && e->step == 1) {
            for (int64_t i = 0; i < width; i++)
                at[i] = (uint8_t)line[i];
            continue;
        }
        for (int64_t i = 0; i < width; i++)
            at[i * e->step] = (uint8_t)line[i];
        for (int64_t i = 0; e->bits == 16 && i < width; i++)
            at[i * e->step + 1] = (uint8_t)(line[i] >> 8);
    }
}

/* Rounded half up, shifted right, saturated. most: the largest magnitude, as a power of two. */
static void finish(int32_t *a, int64_t shift, int64_t low, int64_t high, int64_t count, int64_t most) {
    if (most < 30 && shift < 30) { /* no sum leaves a word */
        const int32_t half = (int32_t)(((int64_t)1 << shift) >> 1), least = (int32_t)low, largest = (int32_t)high;
        const int places = (int)shift;
        for (int64_t i = 0; i < count; i++) {
            const int32_t value = (a[i] + half) >> places;
            a[i] = TL_MIN(TL_MAX(value, least), largest);
        }
        return;
    }
    const int64_t half = ((int64_t)1 << shift) >> 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t value = (a[i] + half) >> shift;
        a[i] = (int32_t)TL_MIN(TL_MAX(value, low), high);
    }
}

static int32_t shifted(int32_t a, int32_t amount) {
    return amount > 0 ? (int32_t)((uint64_t)(int64_t)a << TL_MIN(amount, 31)) : a >> TL_MIN(-amount, 31);
}

/* a = a operation b, for those whose results are not finished. */
static void combine(int64_t operation, int32_t *a, const int32_t *b, int64_t count) {
    switch (operation) {
    case TL_EU_MAX:
        for (int64_t i = 0; i < count; i++)
            a[i] = TL_MAX(a[i], b[i]);
        break;
    case TL_EU_MIN:
        for (int64_t i = 0; i < count; i++)
            a[i] = TL_MIN(a[i], b[i]);
        break;
    case TL_EU_AND:
        for (int64_t i = 0; i < count; i++)
            a[i] &= b[i];
        break;
    case TL_EU_OR:
        for (int64_t i = 0; i < count; i++)
            a[i] |= b[i];
        break;
    case TL_EU_XOR:
        for (int64_t i = 0; i < count; i++)
            a[i] ^= b[i];
        break;
    case TL_EU_SHIFT:
        for (int64_t i = 0; i < count; i++)
            a[i] = shifted(a[i], (int8_t)b[i]);
        break;
    default: // a copy
        break;
    }
}

/* out, x, y: u8 memories; at: i64[3, rows], bytes where rows begin in out, x, y; width.
 *
 * how: i64[13]: the operation (Eu); bits, sign and step in bytes of x, of y, of the result; right shift, left shift of
 * the old result, its sign. */
int64_t fixed_arithmetic(const tl_arg *arguments) {
    uint8_t *out = arguments[0].data;
    const uint8_t *x = arguments[1].data, *y = arguments[2].data;
    const int64_t *at = arguments[3].data, rows = arguments[3].shape[1], width = arguments[4].value;
    const int64_t *how = arguments[5].data, operation = how[0], shift = how[10], left = how[11];
    const elements of_x = {how[1], how[2], how[3]}, of_y = {how[4], how[5], how[6]}, of_out = {how[7], how[8], how[9]};
    const elements of_old = {how[7], how[12], how[9]};
    const int64_t low = of_out.is_signed ? -((int64_t)1 << (of_out.bits - 1)) : 0;
    const int64_t high = low + ((int64_t)1 << of_out.bits) - 1, half = ((int64_t)1 << shift) >> 1;
    const int64_t part = TL_MAX(TL_MIN(width, FIXED_BLOCK), 1), together = FIXED_BLOCK / part;
    int32_t a[FIXED_BLOCK], b[FIXED_BLOCK], old[FIXED_BLOCK];
    for (int64_t row = 0; row < rows; row += together) {
        const int64_t count = TL_MIN(together, rows - row);
        for (int64_t first = 0; first < width; first += part) {
            const int64_t w = TL_MIN(part, width - first), m = count * w;
            read_rows(a, x, at + rows + row, count, first * of_x.step, &of_x, w);
            read_rows(b, y, at + 2 * rows + row, count, first * of_y.step, &of_y, w);
            if (operation == TL_EU_ADD || operation == TL_EU_SUB || operation == TL_EU_MUL) {
                if (operation == TL_EU_MUL)
                    for (int64_t i = 0; i < m; i++)
                        a[i] = (int32_t)((uint32_t)a[i] * (uint32_t)b[i]);
                else if (operation == TL_EU_ADD)
                    for (int64_t i = 0; i < m; i++)
                        a[i] += b[i];
                else
                    for (int64_t i = 0; i < m; i++)
                        a[i] -= b[i];
                finish(a, shift, low, high, m, of_x.bits + of_y.bits);
            } else if (operation == TL_EU_MAC) {
                read_rows(old, out, at + row, count, first * of_old.step, &of_old, w);
                for (int64_t i = 0; i < m; i++) {
                    const int64_t sum = (int64_t)a[i] * b[i] + old[i] * ((int64_t)1 << left);
                    const int64_t value = (sum + half) >> shift;
                    a[i] = (int32_t)TL_MIN(TL_MAX(value, low), high);
                }
            } else
                combine(operation, a, b, m);
            write_rows(a, out, at + row, count, first * of_out.step, &of_out, w);
        }
    }
    return TL_DONE;
}
