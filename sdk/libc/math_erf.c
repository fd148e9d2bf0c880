/* erf and erfc. erfc(x) = e**(-x**2) * g(x), where g falls slowly. */
#include "math_internal.h"

/* erf(x)/x - 1 by x**2, x <= 0.9, Chebyshev interpolation */
static const double near[] = {0x1.06eba8214db69p-3,  -0x1.812746b0379e3p-2, 0x1.ce2f21a042821p-4,
                              -0x1.b82ce312730b5p-6, 0x1.565bcd0a5fd34p-8,  -0x1.c02db31c42986p-11,
                              0x1.f9a30711b620ep-14, -0x1.f4cf69ee40a54p-17, 0x1.b9b82306388adp-20,
                              -0x1.5d88fcb6208d8p-23, 0x1.e2ccb623bdc73p-27, -0x1.d2f0ffc695cc5p-31};

/* Where g's pieces end; each piece: its middle m, and the polynomial by x - m, Chebyshev interpolation.
 * Before the first coefficient stands what it lacks of the exact one. */
static const double ends[] = {0.8125, 1.25, 1.6875, 2.1875, 2.8125, 3.5, 4.3125, 5.25, 6.375};
static const double pieces[][15] = {
    {0x1.4p-1, 0x1.043e5f49b4044p-55, 0x1.1d16b5809eaf6p-1, -0x1.babd0e4f1a24ap-2,
     0x1.2577420fcd07cp-2, -0x1.59c35c06f90f2p-3, 0x1.72d46a9b3fc2ap-4, -0x1.6fce5decf6048p-5,
     0x1.552fe6fd8a76p-6, -0x1.2a7f5573ccb4ep-7, 0x1.efd043beaf057p-9, -0x1.88e71cf20617bp-10,
     0x1.2a651698e7e53p-11, -0x1.b9eb5badc598cp-13, 0x1.370cbd18603eep-14},
    {0x1.08p+0, -0x1.39b88b99a8a9fp-57, 0x1.ad4135f27b3a3p-2, -0x1.0e1f54cc88b32p-2,
     0x1.2d61ccff1c828p-3, -0x1.31ed12ed51a01p-4, 0x1.1f471e797f841p-5, -0x1.f8f47d733e1a3p-7,
     0x1.a2eae5a463467p-8, -0x1.4a3abf4980ebep-9, 0x1.f1494b7baed29p-11, -0x1.671c79794bb87p-12,
     0x1.f34ef3432db3cp-14, -0x1.5485d8511dbf9p-15, 0x1.b9fc08d93bf27p-17},
    {0x1.78p+0, -0x1.41773f1d0007dp-57, 0x1.4e9dd90ccbffcp-2, -0x1.590c4cf61f38p-3,
     0x1.44e34220344a4p-4, -0x1.1be3c11142b7cp-5, 0x1.d1a0015e1f5adp-7, -0x1.69566832a3dbep-8,
     0x1.0b06111cec8e3p-9, -0x1.79b233241481cp-11, 0x1.00ad4ccfd3de7p-12, -0x1.5053b819c6703p-14,
     0x1.aa1edda278c26p-16, -0x1.092f026ff3cb8p-17, 0x1.3c053151b6151p-19},
    {0x1.fp+0, 0x1.6bfe19c0859ddp-56, 0x1.0c8803dfa92b2p-2, -0x1.cb9b1437dd503p-4,
     0x1.6f4730a4cfc2p-5, -0x1.14d04d95e0d0dp-6, 0x1.8c7595ee7b405p-8, -0x1.0f4ab644cf5ebp-9,
     0x1.646338eae3828p-11, -0x1.c30c28122494fp-13, 0x1.13d2b90ff3a62p-14, -0x1.46cd7e503e5c9p-16,
     0x1.7802a1dbc7162p-18, -0x1.ab2a85675c202p-20, 0x1.d19b9f00271d8p-22},
    {0x1.4p+1, -0x1.9f40bca142466p-58, 0x1.afbb3f3b7343bp-3, -0x1.3086d7f01ac82p-4,
     0x1.98958a7a8e4ap-6, -0x1.063207680bb38p-7, 0x1.435c04e209837p-9, -0x1.809ce8a1f94c5p-11,
     0x1.ba8a67c6ebea4p-13, -0x1.edd438196410cp-15, 0x1.0bcbaccc4cc89p-16, -0x1.1ac6232aba7ddp-18,
     0x1.2345a19bfde7bp-20, -0x1.2aa67a36d98acp-22, 0x1.259f1521ba0ddp-24},
    {0x1.94p+1, -0x1.56dd5297153cap-59, 0x1.5df4b54523d3dp-3, -0x1.974bbf736e35dp-5,
     0x1.c92f0340edd3p-7, -0x1.f086f41772fcep-9, 0x1.05921a99bd0fbp-10, -0x1.0bf46d23e9a59p-12,
     0x1.0b6697cd7dcf4p-14, -0x1.0462341db989dp-16, 0x1.ef892012171eap-19, -0x1.cd4cb7577255dp-21,
     0x1.a4b7446706d07p-23, -0x1.7f326095c82c6p-25, 0x1.5020c3f65039ep-27},
    {0x1.f4p+1, -0x1.b37e2142e871dp-57, 0x1.1eee072cc349ep-3, -0x1.1520404e60164p-5,
     0x1.04c88603973fep-7, -0x1.df091e928b544p-10, 0x1.ae112160aea54p-12, -0x1.79e8e637331adp-14,
     0x1.456902c030dbp-16, -0x1.12dd137cd5679p-18, 0x1.c7e9620a1fcecp-21, -0x1.737f4ac949356p-23,
     0x1.29bff0d8c0914p-25, -0x1.df3e3e965e678p-28, 0x1.7405eb792cb1cp-30},
    {0x1.32p+2, 0x1.d39178b8f684ep-58, 0x1.d962cf9228f66p-4, -0x1.7c59bd73cee32p-6,
     0x1.2bf8b1dbbaaa7p-8, -0x1.d0df6798d3527p-11, 0x1.6232cf1664e9fp-13, -0x1.099119f9741c3p-15,
     0x1.8823eab6764cfp-18, -0x1.1d45dd01b04b8p-20, 0x1.9933d7053d1c1p-23, -0x1.21725ae28e7a4p-25,
     0x1.942e4824269b3p-28, -0x1.1c6ed80736c57p-30, 0x1.8327f61d5be2p-33},
    {0x1.74p+2, 0x1.2e8275eb1ee67p-58, 0x1.87efff770a69ap-4, -0x1.064559eb0983bp-6,
     0x1.5a6719b012c12p-9, -0x1.c3bd8ad9ff3b2p-12, 0x1.22f62cdb25d43p-14, -0x1.72641553f36f6p-17,
     0x1.d21f1c309e57ep-20, -0x1.220d98e59d82dp-22, 0x1.651bab0c7df91p-25, -0x1.b2fea61537135p-28,
     0x1.064e32702dc47p-30, -0x1.405a4e0bbaf77p-33, 0x1.7ab6552c54fb2p-36},
};
/* x * g(x) by 1/x**2, for 6.375 <= x, in the same way */
static const double far[] = {-0x1.4a3074cb4b503p-55, 0x1.20dd750429b6dp-1, -0x1.20dd75042957fp-2, 0x1.b14c2f8520bc1p-2,
     -0x1.0ecf9d417beb8p+0, 0x1.d9eb1cfe37e46p+1, -0x1.0a9022cd2ddcep+4, 0x1.6e1ccee890b38p+6,
     -0x1.25f49d2dc07cdp+9, 0x1.ffb39c6ac84e1p+11, -0x1.9366d31991d76p+14, 0x1.82c311fef7c8cp+16};

/* c[1] + c[2] x + ... with the first sum exact, and what c[1] lacks */
static pair exact_polynomial(const double *c, int count, double x) {
    pair sum = fast_sum(c[1], x * polynomial(c + 2, count - 2, x));
    return fast_sum(sum.hi, sum.lo + c[0]);
}

/* erfc(x) for 0.4375 <= x <= 28 */
static double upper(double x) {
    pair g;
    if (x < 6.375) {
        int i = 0;
        while (x >= ends[i]) i++;
        g = exact_polynomial(pieces[i] + 1, 14, x - pieces[i][0]);
    } else {
        g = exact_polynomial(far, sizeof far / sizeof *far, 1 / (x * x));
        g = pair_quotient(g, (pair){x, 0});
    }
    pair square = product(x, x);
    int exponent;
    pair e = fw_pair_exp(-square.hi, -square.lo, &exponent);
    return fw_scale(pair_product(fast_sum(e.hi, e.lo), g).hi, exponent);
}

double erf(double x) {
    if (is_nan(x)) return x + x;
    double size = size_of(x);
    if (size < 0x1p-1000) return fw_scale(x * 0x1p54 + x * 0x1p54 * near[0], -54); /* rounds once */
    if (size < 0.9) return x + x * POLYNOMIAL(near, x * x);
    return with_sign(size > 6 ? 1 : 1 - upper(size), x);
}

double erfc(double x) {
    if (is_nan(x)) return x + x;
    if (x > 28) return 0;
    if (x >= 0.4375) return upper(x);
    return 1 - erf(x);
}
