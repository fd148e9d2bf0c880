/* An angle of any size, less its whole quarter turns. x * 2/pi is computed modulo 4 on integers: of 2/pi's
 * binary digits only a window matters, because those before it give multiples of 4. No double comes
 * nearer to a multiple of pi/2 than 2**-62 of a quarter turn, so 128 bits behind the point are enough.
 */
#include "math_internal.h"

/* The digits of 2/pi behind the point, 32 in each word. */
static const uint32_t two_over_pi[] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046,
};
enum { WINDOW = 6 }; /* words: 2 bits of the quadrant, 128 of the fraction, 60 for what m * 2**e lifts */

/* The 32 digits from number `first` on; those before the point (first >= -64) are zeros. */
static uint32_t digits(int first) {
    int word = (first + 64) / 32 - 2, bit = first - 32 * word;
    uint32_t high = word >= 0 ? two_over_pi[word] : 0;
    if (bit == 0) return high;
    uint32_t low = word >= -1 ? two_over_pi[word + 1] : 0;
    return high << bit | low >> (32 - bit);
}

/* A fraction of 128 bits as a pair. */
static pair fraction(uint64_t hi, uint64_t lo) {
    int zeros = hi != 0 ? __builtin_clzll(hi) : 64;
    if (zeros == 64) {
        hi = lo;
        lo = 0;
    } else if (zeros != 0) {
        hi = hi << zeros | lo >> (64 - zeros);
        lo <<= zeros;
    }
    double first = (double)(uint32_t)(hi >> 32) * 0x1p-32, second = (double)(uint32_t)hi * 0x1p-64;
    pair sum = fast_sum(first, second); /* the whole of hi; 32 bits of lo follow */
    sum = fast_sum(sum.hi, sum.lo + (double)(uint32_t)(lo >> 32) * 0x1p-96);
    return pair_times(sum, power_of_2(-zeros));
}

pair fw_reduce(double x, unsigned *quadrant) {
    uint64_t m = (bits_of(x) & FRACTION) | (FRACTION + 1);
    uint32_t m0 = (uint32_t)m, m1 = (uint32_t)(m >> 32);
    int e = exponent_of(x) - 1075; /* |x| = m * 2**e */
    /* Digit i weighs 2**-(i + 1). Those before number e - 2 give m * 2**e times multiples of 2**(2 - e). */
    uint32_t window[WINDOW], turns[WINDOW];
    for (int i = 0; i < WINDOW; i++) window[i] = digits(e - 2 + 32 * i);
    uint64_t carry = 0;
    for (int i = WINDOW - 1; i >= 0; i--) {
        carry += (uint64_t)m0 * window[i];
        turns[i] = (uint32_t)carry;
        carry >>= 32;
    }
    carry = 0;
    for (int i = WINDOW - 1; i > 0; i--) {
        carry += (uint64_t)m1 * window[i] + turns[i - 1];
        turns[i - 1] = (uint32_t)carry;
        carry >>= 32;
    }
    uint64_t hi = (uint64_t)turns[0] << 34 | (uint64_t)turns[1] << 2 | turns[2] >> 30;
    uint64_t lo = (uint64_t)turns[2] << 34 | (uint64_t)turns[3] << 2 | turns[4] >> 30;
    unsigned turn = turns[0] >> 30;
    bool above = hi >> 63 != 0; /* more than half a quadrant: less than 0 of the next one */
    if (above) {
        turn++;
        lo = 0 - lo;
        hi = ~hi + (lo == 0);
    }
    pair angle = pair_product(fraction(hi, lo), (pair){0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54});
    bool negative = is_negative(x);
    *quadrant = (negative ? 0 - turn : turn) & 3;
    return above != negative ? pair_negative(angle) : angle;
}
