/* A double's exact decimal digits. The number is m * 2**e; with e < 0 that is m * 5**-e / 10**-e, so its
 * digits are those of an integer in either case, held in limbs of nine digits. */
#include <string.h>

#include "libc_internal.h"

enum {
    LIMB = 1000000000,
    LIMBS = 88 /* m * 5**1074 has 767 digits */
};

static int multiply(uint32_t *limb, int count, uint32_t by) {
    uint32_t carry = 0;
    for (int i = 0; i < count; i++) {
        uint64_t product = (uint64_t)limb[i] * by + carry;
        carry = (uint32_t)(product / LIMB);
        limb[i] = (uint32_t)(product - (uint64_t)carry * LIMB);
    }
    for (; carry != 0; carry /= LIMB) limb[count++] = carry % LIMB;
    return count;
}

static int multiply_power(uint32_t *limb, int count, uint32_t base, int power, uint32_t step, int step_power) {
    for (; power >= step_power; power -= step_power) count = multiply(limb, count, step);
    uint32_t rest = 1;
    for (; power > 0; power--) rest *= base;
    return multiply(limb, count, rest);
}

/* Keeps `keep` of the digits (0 or more; none may be kept of a number that rounds to 0 or to 1). */
static void round_to(fw_decimal *d, int keep) {
    if (keep >= d->count) return;
    _Bool up = 0;
    if (keep >= 0) {
        char first = d->digit[keep];
        _Bool more = 0;
        for (int i = keep + 1; i < d->count; i++) more |= d->digit[i] != '0';
        _Bool odd = keep > 0 && (d->digit[keep - 1] & 1);
        up = first > '5' || (first == '5' && (more || odd));
    }
    d->count = keep > 0 ? keep : 0;
    if (!up) return;
    while (d->count > 0 && d->digit[d->count - 1] == '9') d->count--;
    if (d->count > 0) {
        d->digit[d->count - 1]++;
        return;
    }
    d->digit[0] = '1'; /* 9.99 became 10.0 */
    d->count = 1;
    d->point++;
}

void fw_decimal_digits(fw_decimal *d, double value, int wanted, _Bool behind_point) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7FF);
    uint64_t m = bits & 0xFFFFFFFFFFFFFull;
    if (exponent != 0)
        m |= 1ull << 52;
    else
        exponent = 1;
    int e = exponent - 1075;
    d->count = 0;
    d->point = 0;
    if (m == 0) {
        d->point = 1;
        return;
    }
    for (; e < 0 && (m & 1) == 0; e++) m >>= 1;
    uint32_t limb[LIMBS];
    int count = 0;
    for (; m != 0; m /= LIMB) limb[count++] = (uint32_t)(m % LIMB);
    int behind = e < 0 ? -e : 0; /* digits behind the point */
    count = e < 0 ? multiply_power(limb, count, 5, -e, 1220703125, 13)
                  : multiply_power(limb, count, 2, e, 1u << 31, 31);
    for (int i = count - 1; i >= 0; i--) {
        char nine[9];
        uint32_t rest = limb[i];
        for (int j = 8; j >= 0; j--, rest /= 10) nine[j] = (char)('0' + rest % 10);
        int skip = 0;
        if (i == count - 1)
            while (nine[skip] == '0') skip++;
        memcpy(d->digit + d->count, nine + skip, (size_t)(9 - skip));
        d->count += 9 - skip;
    }
    d->point = d->count - behind;
    int keep = wanted;
    if (behind_point) keep = wanted > d->count - d->point ? d->count : d->point + wanted;
    round_to(d, keep);
}
