/* log, log2, log10, log1p and the pair behind them. x = 2**k * z with z in [11/16, 11/8); z times a short
 * number near 1/z is 1 + r, exactly, and log(1 + r) is a polynomial.
 */
#include "math_internal.h"

/* For each 64th of the interval: c near 1/z, and -log(c) as two parts, the first a multiple of 2**-42.
 * Beside 1 c is 1, so that the logarithms of numbers near 1 are the polynomial alone. */
static const double near[64][3] = {
    {0x1.72p+0, -0x1.792a55fdd4p-2, -0x1.e89f057691feap-44},
    {0x1.6ep+0, -0x1.6e08eaa2bap-2, -0x1.e38c139318d71p-46},
    {0x1.6ap+0, -0x1.62c82f2b9cp-2, -0x1.e54bdbd7c8a98p-44},
    {0x1.66p+0, -0x1.5767717456p-2, 0x1.64ead9524d7cap-44},
    {0x1.62p+0, -0x1.4be5f95778p-2, 0x1.d7c92cd9ad824p-44},
    {0x1.5ep+0, -0x1.404308686ap-2, -0x1.f8ef43049f7d3p-44},
    {0x1.5bp+0, -0x1.3772662bfep-2, 0x1.e9436ac53b023p-44},
    {0x1.57p+0, -0x1.2b9303ab8ap-2, 0x1.6db12d6bfb0a5p-45},
    {0x1.54p+0, -0x1.22941fbcf8p-2, 0x1.a6976f5eb0963p-44},
    {0x1.5p+0, -0x1.1675cababap-2, -0x1.8380e731f55c4p-44},
    {0x1.4dp+0, -0x1.0d46b579abp-2, -0x1.d2c81f640e1e6p-44},
    {0x1.49p+0, -0x1.00e6c45ad5p-2, -0x1.cc68d52e01203p-50},
    {0x1.46p+0, -0x1.ef0adcbdc6p-3, 0x1.b26b79c86af24p-45},
    {0x1.43p+0, -0x1.dc1bca0abep-3, -0x1.8fac1a628ccc6p-44},
    {0x1.4p+0, -0x1.c8ff7c79aap-3, 0x1.7794f689f8434p-45},
    {0x1.3dp+0, -0x1.b5b519e8fcp-3, 0x1.4b722ec011f31p-44},
    {0x1.3ap+0, -0x1.a23bc1fe2cp-3, 0x1.539cd91dc9f0bp-44},
    {0x1.37p+0, -0x1.8e928de886p-3, -0x1.a8154b13d72d5p-44},
    {0x1.34p+0, -0x1.7ab890210ep-3, 0x1.bdb9072534a58p-45},
    {0x1.31p+0, -0x1.66acd4272ap-3, -0x1.aa1bdbfc6c785p-44},
    {0x1.2ep+0, -0x1.526e5e3a1cp-3, 0x1.790ba37fc5238p-44},
    {0x1.2bp+0, -0x1.3dfc2b0eccp-3, -0x1.8a72a62b8c13fp-45},
    {0x1.29p+0, -0x1.303d718e48p-3, 0x1.680b5ce3ecb05p-50},
    {0x1.26p+0, -0x1.1b72ad52f6p-3, -0x1.e80a41811a396p-45},
    {0x1.23p+0, -0x1.0671512ca6p-3, 0x1.a47579cdc0a3dp-45},
    {0x1.21p+0, -0x1.f0a30c0118p-4, 0x1.d599e83368e91p-44},
    {0x1.1ep+0, -0x1.c5e548f5bcp-4, -0x1.d0c57585fbe06p-46},
    {0x1.1cp+0, -0x1.a926d3a4acp-4, -0x1.563650bd22a9cp-44},
    {0x1.19p+0, -0x1.7da766d7bp-4, -0x1.2cc844480c89bp-44},
    {0x1.17p+0, -0x1.60658a9374p-4, -0x1.0c3b1dee9c4f8p-44},
    {0x1.15p+0, -0x1.42edcbea64p-4, -0x1.bc0eeea7c9acdp-46},
    {0x1.12p+0, -0x1.16536eea38p-4, 0x1.47c5e768fa309p-46},
    {0x1.1p+0, -0x1.f0a30c0118p-5, 0x1.d599e83368e91p-45},
    {0x1.0ep+0, -0x1.b42dd71198p-5, 0x1.c827ae5d6704cp-46},
    {0x1.0bp+0, -0x1.58a5bafc9p-5, 0x1.b2b739570ad39p-45},
    {0x1.09p+0, -0x1.1b0d98924p-5, 0x1.3401e9ae889bbp-44},
    {0x1.07p+0, -0x1.b9fc027bp-6, 0x1.b9a010ae6922ap-44},
    {0x1.05p+0, -0x1.3cea44347p-6, 0x1.6a2c432d6a40bp-44},
    {0x1.03p+0, -0x1.7dc475f82p-7, 0x1.eb1245b5da1f5p-44},
    {0x1p+0, 0x0.0p+0, 0x0.0p+0},
    {0x1p+0, 0x0.0p+0, 0x0.0p+0},
    {0x1.f4p-1, 0x1.8492528c9p-6, -0x1.aa0ba325a0c34p-45},
    {0x1.edp-1, 0x1.35c8bfaa1p-5, 0x1.8357d5ef9eb35p-44},
    {0x1.e5p-1, 0x1.bbcebfc69p-5, -0x1.7bf868c317c2ap-46},
    {0x1.dep-1, 0x1.1973bd1464p-4, 0x1.566d154f930b3p-44},
    {0x1.d7p-1, 0x1.55e10050ep-4, 0x1.c1d740c53c72ep-47},
    {0x1.d1p-1, 0x1.8a6477a91cp-4, 0x1.c28c0af9bd6dfp-44},
    {0x1.cap-1, 0x1.c885801bc4p-4, 0x1.646d1c65aacd3p-45},
    {0x1.c4p-1, 0x1.fe89139dbcp-4, 0x1.56594d82f7a82p-44},
    {0x1.bep-1, 0x1.1aa2b7e24p-3, -0x1.1ac38dde3b366p-44},
    {0x1.b8p-1, 0x1.365fcb015ap-3, -0x1.fd3a0afb9691bp-44},
    {0x1.b2p-1, 0x1.527e5e4a1cp-3, -0x1.4e60b8d4b411dp-44},
    {0x1.acp-1, 0x1.6f0128b756p-3, 0x1.577390d31ef0fp-44},
    {0x1.a7p-1, 0x1.871213750ep-3, 0x1.328eb42f9af75p-44},
    {0x1.a1p-1, 0x1.a454082e6ap-3, 0x1.60a77c81f7171p-44},
    {0x1.9cp-1, 0x1.bd087383bep-3, -0x1.d4bc4595412b6p-45},
    {0x1.97p-1, 0x1.d60a17f904p-3, -0x1.5d6e06fc20d39p-44},
    {0x1.92p-1, 0x1.ef5ade4ddp-3, -0x1.a211565bb8e11p-51},
    {0x1.8dp-1, 0x1.047e60cde8p-2, 0x1.dbdf10d397f3cp-45},
    {0x1.88p-1, 0x1.1178e8227ep-2, 0x1.1ef78ce2d07f2p-44},
    {0x1.84p-1, 0x1.1bf99635a7p-2, -0x1.1ac89575c2125p-44},
    {0x1.7fp-1, 0x1.2941afb187p-2, -0x1.210c2b730e28bp-44},
    {0x1.7bp-1, 0x1.3401e12aedp-2, -0x1.17c73556e291dp-44},
    {0x1.76p-1, 0x1.419b423d5fp-2, -0x1.ce379226de3ecp-44},};

/* (log(1 + r) - r + r**2/2) / r**3 on |r| <= 1/64, Chebyshev interpolation */
static const double tail[] = {0x1.5555555555555p-2,  -0x1p-2,
                              0x1.999999999c872p-3,  -0x1.5555555558046p-3,
                              0x1.2492483ad323ep-3,  -0x1.fffffe53765e7p-4,
                              0x1.c74b18a806eb8p-4,  -0x1.99c45d477796bp-4};

#define LN2_HI 0x1.62e42fefa38p-1 /* a multiple of 2**-42 */
#define LN2_LO 0x1.ef35793c7673p-45
#define FIRST 0x3FE6000000000000ull /* the bits of 11/16 */

pair fw_pair_log(double hi, double lo) {
    int k = 0;
    if (exponent_of(hi) == 0) {
        hi *= 0x1p54;
        lo *= 0x1p54;
        k = -54;
    }
    uint64_t offset = bits_of(hi) - FIRST;
    int more = (int)((int64_t)offset >> 52);
    double z = from_bits(bits_of(hi) - ((uint64_t)more << 52));
    const double *c = near[offset >> 46 & 63];
    k += more;
    /* c has nine bits, so its products with the halves of z are exact */
    double upper = from_bits(bits_of(z) & ~0xFFFFFFFFull);
    pair r = exact_sum(upper * c[0] - 1, (z - upper) * c[0]);
    if (lo != 0) r.lo += fw_scale(lo, -more) * c[0];
    pair sum = fast_sum(k * LN2_HI + c[1], r.hi);
    /* r**2/2: the square of r's upper half is exact */
    double r1 = upper_half(r.hi), square = 0.5 * r1 * r1, square_lo = 0.5 * (r.hi - r1) * (r.hi + r1);
    pair less = fast_sum(sum.hi, -square);
    double cube = r.hi * r.hi * r.hi * POLYNOMIAL(tail, r.hi);
    double rest = (less.lo + sum.lo) + ((cube - square_lo) + (r.lo - r.lo * r.hi) + (k * LN2_LO + c[2]));
    return fast_sum(less.hi, rest);
}

/* log(x) for numbers that have one. */
static bool has_log(double x, double *instead) {
    if (x > 0 && !is_infinite(x)) return true;
    *instead = x == 0 ? -FW_INF : is_nan(x) || x > 0 ? x + x : FW_NAN;
    return false;
}

double log(double x) {
    double instead;
    if (!has_log(x, &instead)) return instead;
    return fw_pair_log(x, 0).hi;
}

double log10(double x) {
    double instead;
    if (!has_log(x, &instead)) return instead;
    return pair_product(fw_pair_log(x, 0), (pair){0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57}).hi;
}

double log2(double x) {
    double instead;
    if (!has_log(x, &instead)) return instead;
    return pair_product(fw_pair_log(x, 0), (pair){0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56}).hi;
}

pair fw_pair_log1p(double x) {
    if (size_of(x) < 0x1p-60) return (pair){x, -0.5 * x * x};
    pair sum = exact_sum(1, x);
    return fw_pair_log(sum.hi, sum.lo);
}

double log1p(double x) {
    if (is_nan(x) || is_infinite(x) || x <= -1) return x == -1 ? -FW_INF : x > 0 || is_nan(x) ? x + x : FW_NAN;
    if (size_of(x) < 0x1p-54) return x;
    return fw_pair_log1p(x).hi;
}
