/* TPU_BINARY: a op b, element by element, for fp32 tensors of up to 8 dimensions, broadcast as numpy does.
 *
 * Numbers are the chip's: denormals count as zero. Where the chip's own instructions would lose it, NaN is kept as
 * ONNX wants (MAX, MIN, DIV, PRELU); comparisons with NaN are 0.
 * DIV is not the chip's division, which is wrong near the ends of the range and gives 0.99999988 for 1 / 1, but
 * bm_divide: nearly always the number next to the quotient, and the quotient itself where it is a number.
 * POW is |a|^b = e^(b ln |a|), so its relative error is 6e-7 (1 + |b ln |a||); negative a take integers b, others give
 * NaN; anything^0 and 1^anything are 1. Unlike in C, (-1)^infinity and (-infinity)^fraction are NaN.
 * In local groups, a zero that is broadcast over channels loses its sign.
 * MOD and FMOD are exact for integers below 2**24 in magnitude, and otherwise within 2e-7 (|a| + |b|); an infinite
 * divisor gives NaN.
 *
 * Inputs: a, b
 * Makes: sums, products, quotients, powers, comparisons and more, broadcast as numpy does
 */
#include "bm_layer_arithmetic.h"
#include "bm_layer_binary_ops.h"
#include "bm_layer_functions.h"
#include "bm_layer_log.h"
#include "bm_layer_tiles.h"
#include "bm_layer_words.h"

__BM_PARAM__(TPU_BINARY)
typedef struct {
    int binary_op; /* BM_BINARY_... of bm_layer_binary_ops.h */
} tpu_binary_param_t;

__BM_SHAPE__(TPU_BINARY)
int binary_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_binary_param_t) || in_num != 2 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_binary_param_t *p = param;
    if (bm_binary_work(p->binary_op) < 0) return BM_LAYER_PARAM_INVALID;
    if (in_tensors[0].dtype != DTYPE_FP32 || in_tensors[1].dtype != DTYPE_FP32) return BM_LAYER_NOT_SUPPORTED;
    out_tensors[0].ttype = BMNET_NEURON;
    out_tensors[0].dtype = DTYPE_FP32;
    return bm_broadcast_shape(&out_tensors[0], in_tensors, 2) ? BM_LAYER_OK : BM_LAYER_PARAM_INVALID;
}

/* ---- maximum, minimum, selection: operands with strides, the result in the end ---- */

/* Of a NaN and a number, max(a, b) and max(b, a) each give one of the two; otherwise they are equal. Or-ing the bits
 * of a NaN and a number gives NaN. */
static void extremum(const bm_job *job, bool largest) {
    const bm_local a = job->x[0], b = job->x[1];
    const local_addr_t other = bm_work(job, 0), y = job->y.addr;
    const dim4 *s = &job->shape;
    if (largest) {
        okk_bdc_max(other, a.addr, b.addr, s, NULL, a.stride, b.stride);
        okk_bdc_max(y, b.addr, a.addr, s, NULL, b.stride, a.stride);
    } else {
        okk_bdc_min(other, a.addr, b.addr, s, NULL, a.stride, b.stride);
        okk_bdc_min(y, b.addr, a.addr, s, NULL, b.stride, a.stride);
    }
    bm_or(y, y, other, s);
}

/* a < 0 ? a * slope : a */
static void prelu(const bm_job *job) {
    const bm_local a = job->x[0], slope = job->x[1];
    const local_addr_t mask = bm_work(job, 0), t = bm_work(job, 1), y = job->y.addr;
    const dim4 *s = &job->shape;
    okk_bdc_mul(t, a.addr, slope.addr, s, NULL, a.stride, slope.stride);
    okk_bdc_C_greater_select_value(mask, a.addr, 0.0f, bm_word(BM_ONES), s, NULL, a.stride);
    bm_and(t, t, mask, s);
    bm_not(mask, mask, s);
    okk_bdc_32bit_and(y, a.addr, mask, s, NULL, a.stride, NULL);
    bm_or(y, y, t, s);
}

/* ---- comparisons: 1.0 or 0.0 ---- */

/* Equal bits once -0 and denormals are +0, and no NaN. */
static void equal(const bm_job *job) {
    const local_addr_t a = bm_work(job, 0), b = bm_work(job, 1), is = bm_work(job, 2);
    const dim4 *s = &job->shape;
    okk_bdc_add_C(a, job->x[0].addr, 0.0f, s, NULL, job->x[0].stride);
    okk_bdc_add_C(b, job->x[1].addr, 0.0f, s, NULL, job->x[1].stride);
    bm_number(is, a, BM_ONES, s);
    bm_same(b, a, b, BM_ONE, s);
    bm_and(job->y.addr, b, is, s);
}

/* a <= b: then, and only then, is a the smaller of the two by the chip's rule (a <= b ? a : b). Equal NaNs are not. */
static void less_equal(const bm_job *job, bm_local a, bm_local b) {
    const local_addr_t t = bm_work(job, 0), is = bm_work(job, 1);
    const dim4 *s = &job->shape;
    okk_bdc_min(t, a.addr, b.addr, s, NULL, a.stride, b.stride);
    okk_bdc_equal_select_value(t, t, a.addr, bm_word(BM_ONE), s, NULL, NULL, a.stride);
    okk_bdc_min_C(is, a.addr, BM_INFINITY, s, NULL, a.stride);
    okk_bdc_equal_select_value(is, is, a.addr, bm_word(BM_ONES), s, NULL, NULL, a.stride);
    bm_and(job->y.addr, t, is, s);
}

static void greater(const bm_job *job, bm_local a, bm_local b) {
    okk_bdc_greater_select_value(job->y.addr, a.addr, b.addr, bm_word(BM_ONE), &job->shape, NULL, a.stride, b.stride);
}

/* ---- powers and remainders; `flat`: the shape of buffers that are whole ---- */

/* y = bits where x is not an integer, 0 where it is. From 2**23 on all numbers are integers. t: a work buffer. */
static void fraction_bits(local_addr_t y, local_addr_t x, unsigned int bits, local_addr_t t, const dim4 *flat) {
    bm_nearest(y, x, t, flat);
    bm_same(y, y, x, BM_ONES, flat);
    bm_and_C(t, x, BM_MAGNITUDE, flat);
    bm_greater_C(t, t, 8388607.5f, BM_ONES, flat);
    bm_or(y, y, t, flat);
    bm_not(y, y, flat);
    bm_and_C(y, y, bits, flat);
}

static void power(const bm_job *job) {
    const bm_local a = job->x[0], b = job->x[1];
    const local_addr_t t0 = bm_work(job, 0), t1 = bm_work(job, 1), t2 = bm_work(job, 2), t3 = bm_work(job, 3);
    const dim4 *s = &job->shape, flat = bm_flat(s);
    /* t1: what negative a turn |a|^b into: NaN for fractions b, a minus for odd ones */
    okk_bdc_32bit_cpy(t0, b.addr, s, NULL, b.stride);
    fraction_bits(t1, t0, BM_NAN, t2, &flat);
    bm_mul_C(t0, t0, 0.5f, &flat);
    fraction_bits(t2, t0, BM_SIGN, t3, &flat);
    bm_or(t1, t1, t2, &flat);
    okk_bdc_C_greater_select_value(t2, a.addr, 0.0f, bm_word(BM_ONES), s, NULL, a.stride);
    bm_and(t1, t1, t2, &flat);
    okk_bdc_32bit_and_C(t0, a.addr, bm_word(BM_MAGNITUDE), s, NULL, a.stride);
    bm_log(t2, t0, t3, bm_work(job, 4), &flat);
    okk_bdc_mul(t2, t2, b.addr, s, NULL, NULL, b.stride);
    bm_exp(t0, t2, t3, &flat);
    bm_or(t0, t0, t1, &flat);
    /* 1 where b is 0 or a is 1 */
    okk_bdc_add_C(t1, b.addr, 0.0f, s, NULL, b.stride);
    okk_bdc_equal_C_select_value(t1, t1, 0.0f, bm_word(BM_ONES), &flat, NULL, NULL);
    okk_bdc_equal_C_select_value(t2, a.addr, 1.0f, bm_word(BM_ONES), s, NULL, a.stride);
    bm_or(t1, t1, t2, &flat);
    bm_not(t2, t1, &flat);
    bm_and(t0, t0, t2, &flat);
    bm_and_C(t1, t1, BM_ONE, &flat);
    bm_or(job->y.addr, t0, t1, &flat);
}

/* The rest r of |a| by |b|: a little less than the quotient's integer part times |b| is taken off, twice since large
 * quotients are not exact, and |b| once more where that is left. No product is above |a|, so integers stay exact. */
static void modulo(const bm_job *job, bool sign_of_a) {
    const bm_local a = job->x[0], b = job->x[1];
    const local_addr_t t = bm_work(job, 0), u = bm_work(job, 1), q = bm_work(job, BM_DIVIDE_WORK),
                       r = bm_work(job, BM_DIVIDE_WORK + 1);
    const dim4 *s = &job->shape, flat = bm_flat(s);
    okk_bdc_32bit_and_C(r, a.addr, bm_word(BM_MAGNITUDE), s, NULL, a.stride);
    for (int i = 0; i < 2; i++) {
        bm_divide(q, (bm_local){r, NULL}, b, bm_work(job, 0), job->work_step, s);
        bm_and_C(q, q, BM_MAGNITUDE, &flat);
        bm_mul_C(q, q, 0.9999997f, &flat);
        bm_nearest(t, q, u, &flat);
        bm_greater(u, t, q, BM_ONE, &flat);
        bm_sub(t, t, u, &flat);
        bm_if_C_greater(q, 8388608.0f, q, bm_words_at(t), bm_words_at(q), &flat);
        okk_bdc_32bit_and_C(t, b.addr, bm_word(BM_MAGNITUDE), s, NULL, b.stride);
        bm_mul(q, q, t, &flat);
        bm_sub(r, r, q, &flat);
    }
    bm_greater(u, t, r, BM_ONES, &flat);
    bm_not(u, u, &flat);
    bm_and(u, u, t, &flat);
    bm_sub(r, r, u, &flat);
    okk_bdc_32bit_and_C(u, a.addr, bm_word(BM_SIGN), s, NULL, a.stride);
    bm_xor(r, r, u, &flat); /* as in C */
    if (!sign_of_a) { /* b is added where the signs differ and something is left */
        okk_bdc_32bit_cpy(t, b.addr, s, NULL, b.stride);
        bm_xor(u, u, t, &flat);
        okk_bdc_32bit_arithmetic_shift_C(u, u, -31, &flat, NULL, NULL);
        bm_and(t, t, u, &flat);
        bm_and_C(q, r, BM_MAGNITUDE, &flat);
        bm_greater_C(q, q, 0.0f, BM_ONES, &flat);
        bm_and(t, t, q, &flat);
        bm_add(r, r, t, &flat);
    }
    okk_bdc_32bit_cpy(job->y.addr, r, &flat, NULL, NULL);
}

/* ---- all of them ---- */

static void compute(const void *param, const bm_job *job) {
    const tpu_binary_param_t *p = param;
    const bm_local a = job->x[0], b = job->x[1];
    const local_addr_t y = job->y.addr;
    const dim4 *s = &job->shape;
    switch (p->binary_op) {
    case BM_BINARY_ADD:
        okk_bdc_add(y, a.addr, b.addr, s, NULL, a.stride, b.stride);
        break;
    case BM_BINARY_SUB:
        okk_bdc_sub(y, a.addr, b.addr, s, NULL, a.stride, b.stride);
        break;
    case BM_BINARY_MUL:
        okk_bdc_mul(y, a.addr, b.addr, s, NULL, a.stride, b.stride);
        break;
    case BM_BINARY_DIV:
        bm_divide(y, a, b, bm_work(job, 0), job->work_step, s);
        break;
    case BM_BINARY_MAX:
        extremum(job, true);
        break;
    case BM_BINARY_MIN:
        extremum(job, false);
        break;
    case BM_BINARY_POW:
        power(job);
        break;
    case BM_BINARY_MOD:
    case BM_BINARY_FMOD:
        modulo(job, p->binary_op == BM_BINARY_FMOD);
        break;
    case BM_BINARY_PRELU:
        prelu(job);
        break;
    case BM_BINARY_EQUAL:
        equal(job);
        break;
    case BM_BINARY_GREATER:
        greater(job, a, b);
        break;
    case BM_BINARY_LESS:
        greater(job, b, a);
        break;
    case BM_BINARY_LESS_OR_EQUAL:
        less_equal(job, a, b);
        break;
    case BM_BINARY_GREATER_OR_EQUAL:
        less_equal(job, b, a);
        break;
    case BM_BINARY_AND:
        okk_bdc_32bit_and(y, a.addr, b.addr, s, NULL, a.stride, b.stride);
        break;
    case BM_BINARY_OR:
        okk_bdc_32bit_or(y, a.addr, b.addr, s, NULL, a.stride, b.stride);
        break;
    default: /* BM_BINARY_XOR; the shape function lets nothing else pass */
        okk_bdc_32bit_xor(y, a.addr, b.addr, s, NULL, a.stride, b.stride);
        break;
    }
}

/* ---- global and local ---- */

__BM_GLOBAL__(TPU_BINARY)
int binary_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    bm_tiling t = bm_tiling_of(&out_tensors[0], in_tensors, 2);
    t.work_buffers = bm_binary_work(((const tpu_binary_param_t *)param)->binary_op);
    okk_initialize();
    bm_run_tiles(t, compute, param);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_BINARY)
int binary_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    dim4 strides[2];
    bm_job job = bm_local_job(&out_tensors[0], in_tensors, 2, buffer_offset, strides);
    local_addr_t room = bm_work(&job, bm_binary_work(((const tpu_binary_param_t *)param)->binary_op));
    for (int k = 0; k < 2; k++) bm_spread(&job, k, &in_tensors[k], &room, &strides[k]);
    compute(param, &job);
    return BM_LAYER_OK;
}
