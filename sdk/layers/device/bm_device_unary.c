/* TPU_UNARY: a function of each element, for fp32 tensors of any shape.
 *
 * Relative errors are below 1e-6 over all fp32 numbers, but for these: in the negative tails of GELU, GELU_TANH and
 * SWISH (with a other than 1) they grow to 2e-6 at 1e-6 and 2e-5 at the end; HARD_SIGMOID and HARD_SWISH cancel near
 * their zeros; results below 2**-119 in magnitude may be 0 (SWISH, MISH, SOFTPLUS, both GELUs). Denormals count as
 * zero. Special values are those of ONNX: NaN gives NaN; the sign of a zero may be lost. ABS, NEG, RELU, CLIP, FLOOR,
 * CEIL, ROUND, SIGN, THRESHOLDED_RELU and the tests are exact. TANH, ERF and SIGMOID are never beyond 1, nor
 * are SIN and COS, which have absolute errors below 2e-7, and are NaN where |x| is above 3e6.
 *
 * Inputs: x
 * Makes: a function of each element
 */
#include "bm_layer_functions.h"
#include "bm_layer_log.h"
#include "bm_layer_shape.h"
#include "bm_layer_unary_ops.h"

__BM_PARAM__(TPU_UNARY)
typedef struct {
    int unary_op; /* BM_UNARY_... of bm_layer_unary_ops.h */
    float a, b;
} tpu_unary_param_t;

__BM_SHAPE__(TPU_UNARY)
int unary_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_unary_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_unary_param_t *p = param;
    if (bm_unary_work(p->unary_op) < 0) return BM_LAYER_PARAM_INVALID;
    if (p->unary_op == BM_UNARY_CELU && !(p->a > 0.0f)) return BM_LAYER_PARAM_INVALID;
    if (!bm_layer_all_fp32(in_tensors, 1)) return BM_LAYER_NOT_SUPPORTED;
    bm_layer_same_shape(&out_tensors[0], &in_tensors[0]);
    return BM_LAYER_OK;
}

/* ---- the functions; x is read until y is written, so y may be x ---- */

/* The buffers of one tile. */
typedef struct {
    local_addr_t y, x, t[4];
    dim4 shape; /* a batch of 1 */
} buffers;

static void round_to(const buffers *f, int op) {
    const dim4 *s = &f->shape;
    bm_nearest(f->t[0], f->x, f->t[1], s);
    if (op == BM_UNARY_FLOOR) {
        bm_greater(f->t[1], f->t[0], f->x, BM_ONE, s);
        bm_sub(f->t[0], f->t[0], f->t[1], s);
    } else if (op == BM_UNARY_CEIL) {
        bm_greater(f->t[1], f->x, f->t[0], BM_ONE, s);
        bm_add(f->t[0], f->t[0], f->t[1], s);
    }
    bm_and_C(f->t[2], f->x, BM_MAGNITUDE, s); /* from 2**23 on all are integers; NaN also stays itself */
    bm_if_C_greater(f->y, 8388608.0f, f->t[2], bm_words_at(f->t[0]), bm_words_at(f->x), s);
}

static void sign(const buffers *f) {
    const dim4 *s = &f->shape;
    bm_greater_C(f->t[0], f->x, 0.0f, BM_ONE, s);
    bm_C_greater(f->t[1], f->x, 0.0f, BM_SIGN | BM_ONE, s);
    bm_or(f->t[0], f->t[0], f->t[1], s);
    bm_nan_of(f->t[1], f->x, s);
    bm_or(f->y, f->t[0], f->t[1], s);
}

static void infinite(const buffers *f, bool negative, bool positive) {
    const dim4 *s = &f->shape;
    if (negative && positive) {
        bm_and_C(f->y, f->x, BM_MAGNITUDE, s);
        okk_bdc_equal_C_select_value(f->y, f->y, BM_INFINITY, bm_word(BM_ONE), s, NULL, NULL);
    } else {
        const x32 chosen = bm_word(negative || positive ? BM_ONE : 0);
        okk_bdc_equal_C_select_value(f->y, f->x, negative ? -BM_INFINITY : BM_INFINITY, chosen, s, NULL, NULL);
    }
}

/* 1 / m, with a Newton step, times half of 2 / 2**e */
static void reciprocal(const buffers *f) {
    const dim4 *s = &f->shape;
    const bm_local x = {f->x, NULL};
    bm_mantissa(f->t[0], x, f->t[1], s);
    bm_reciprocal(f->t[1], f->t[0], f->t[2], s);
    bm_mul(f->t[0], f->t[0], f->t[1], s);
    bm_C_sub(f->t[0], f->t[0], 2.0f, s);
    bm_mul(f->t[1], f->t[1], f->t[0], s);
    bm_mul_C(f->t[1], f->t[1], 0.5f, s);
    bm_inverse_power(f->t[0], x, s);
    bm_mul(f->y, f->t[1], f->t[0], s);
}

/* x > 0 ? high x : low (e^(x * inner) - 1) */
static void elu(const buffers *f, float inner, float low, float high) {
    const dim4 *s = &f->shape;
    bm_at_most(f->t[0], f->x, 0.0f, s);
    bm_mul_C(f->t[0], f->t[0], inner, s);
    bm_at_least(f->t[0], f->t[0], -30.0f, s);
    bm_expm1(f->t[1], f->t[0], f->t[2], s);
    bm_mul_C(f->t[1], f->t[1], low, s);
    bm_mul_C(f->t[0], f->x, high, s);
    bm_if_greater_C(f->y, f->x, 0.0f, bm_words_at(f->t[0]), bm_words_at(f->t[1]), s);
}

static void hard_sigmoid(local_addr_t y, local_addr_t x, float a, float b, const dim4 *s) {
    bm_mul_C(y, x, a, s);
    bm_add_C(y, y, b, s);
    bm_at_least(y, y, 0.0f, s);
    bm_at_most(y, y, 1.0f, s);
}

/* max(x, 0) + ln(1 + e^-|x|) */
static void softplus(const buffers *f) {
    const dim4 *s = &f->shape;
    bm_or_C(f->t[0], f->x, BM_SIGN, s);
    bm_exp(f->t[1], f->t[0], f->t[2], s);
    bm_log1p_unit(f->t[1], f->t[0], s);
    bm_at_least(f->t[0], f->x, 0.0f, s);
    bm_add(f->y, f->t[0], f->t[1], s);
}

/* Beyond 2**30 it is 1 or -1. */
static void softsign(const buffers *f) {
    const dim4 *s = &f->shape;
    bm_at_most(f->t[0], f->x, 0x1p30f, s);
    bm_at_least(f->t[0], f->t[0], -0x1p30f, s);
    bm_and_C(f->t[1], f->t[0], BM_MAGNITUDE, s);
    bm_add_C(f->t[1], f->t[1], 1.0f, s);
    bm_reciprocal(f->t[2], f->t[1], f->t[3], s);
    bm_mul(f->y, f->t[0], f->t[2], s);
}

static void gelu(const buffers *f) {
    const dim4 *s = &f->shape;
    bm_and_C(f->t[0], f->x, BM_MAGNITUDE, s);
    bm_normal_tail(f->t[1], f->t[0], f->t[2], f->t[3], s);
    bm_C_sub(f->t[0], f->t[1], 1.0f, s);
    bm_if_greater_C(f->t[0], f->x, 0.0f, bm_words_at(f->t[0]), bm_words_at(f->t[1]), s);
    bm_mul(f->y, f->x, f->t[0], s);
}

static void gelu_tanh(const buffers *f) {
    const dim4 *s = &f->shape;
    bm_mul(f->t[0], f->x, f->x, s);
    bm_mul_C(f->t[0], f->t[0], -1.59576912f * 0.044715f, s);
    bm_add_C(f->t[0], f->t[0], -1.59576912f, s); /* -2 sqrt(2 / pi) */
    bm_mul(f->t[0], f->t[0], f->x, s);
    bm_logistic(f->t[1], f->t[0], f->t[2], s);
    bm_mul(f->y, f->x, f->t[1], s);
}

static void swish(const buffers *f, float a) {
    bm_mul_C(f->t[0], f->x, -a, &f->shape);
    bm_logistic(f->t[1], f->t[0], f->t[2], &f->shape);
    bm_mul(f->y, f->x, f->t[1], &f->shape);
}

/* With n = e^x (e^x + 2): x n / (n + 2); from x = 20 on the fraction is 1. */
static void mish(const buffers *f) {
    const dim4 *s = &f->shape;
    bm_at_most(f->t[0], f->x, 20.0f, s);
    bm_exp(f->t[1], f->t[0], f->t[2], s);
    bm_add_C(f->t[0], f->t[1], 2.0f, s);
    bm_mul(f->t[0], f->t[0], f->t[1], s);
    bm_add_C(f->t[1], f->t[0], 2.0f, s);
    bm_reciprocal(f->t[2], f->t[1], f->t[3], s);
    bm_mul(f->t[0], f->t[0], f->t[2], s);
    bm_mul(f->y, f->t[0], f->x, s);
}

static void compute(const void *param, const bm_job *job) {
    const tpu_unary_param_t *p = param;
    const buffers f = {job->y.addr,
                       job->x[0].addr,
                       {bm_work(job, 0), bm_work(job, 1), bm_work(job, 2), bm_work(job, 3)},
                       bm_flat(&job->shape)};
    const dim4 *s = &f.shape;
    const x32_or_addr_t x = bm_words_at(f.x);
    switch (p->unary_op) {
    case BM_UNARY_RELU:
        bm_at_least(f.y, f.x, 0.0f, s);
        break;
    case BM_UNARY_LEAKY_RELU:
        bm_mul_C(f.t[0], f.x, p->a, s);
        bm_if_C_greater(f.y, 0.0f, f.x, bm_words_at(f.t[0]), x, s);
        break;
    case BM_UNARY_CLIP:
        bm_at_least(f.y, f.x, p->a, s);
        bm_at_most(f.y, f.y, p->b, s);
        break;
    case BM_UNARY_SIGMOID:
        bm_mul_C(f.t[0], f.x, -1.0f, s);
        bm_logistic(f.y, f.t[0], f.t[1], s);
        break;
    case BM_UNARY_TANH:
        bm_tanh(f.y, f.x, f.t[0], f.t[1], f.t[2], s);
        break;
    case BM_UNARY_EXP:
        bm_mul_C(f.t[0], f.x, 0.5f, s);
        bm_exp_twice(f.y, f.t[0], f.t[1], s);
        break;
    case BM_UNARY_LOG:
        okk_bdc_32bit_cpy(f.t[0], f.x, s, NULL, NULL);
        bm_log(f.y, f.t[0], f.t[1], f.t[2], s);
        break;
    case BM_UNARY_SQRT:
        bm_sqrt(f.y, f.x, f.t[0], f.t[1], f.t[2], f.t[3], s);
        break;
    case BM_UNARY_ABS:
        bm_and_C(f.y, f.x, BM_MAGNITUDE, s);
        break;
    case BM_UNARY_NEG:
        bm_xor_C(f.y, f.x, BM_SIGN, s);
        break;
    case BM_UNARY_RECIPROCAL:
        reciprocal(&f);
        break;
    case BM_UNARY_ELU:
        elu(&f, 1.0f, p->a, 1.0f);
        break;
    case BM_UNARY_SELU:
        elu(&f, 1.0f, p->a * p->b, p->b);
        break;
    case BM_UNARY_CELU:
        elu(&f, 1.0f / p->a, p->a, 1.0f);
        break;
    case BM_UNARY_HARD_SIGMOID:
        hard_sigmoid(f.y, f.x, p->a, p->b, s);
        break;
    case BM_UNARY_HARD_SWISH:
        hard_sigmoid(f.t[0], f.x, 1.0f / 6.0f, 0.5f, s);
        bm_mul(f.y, f.x, f.t[0], s);
        break;
    case BM_UNARY_SOFTPLUS:
        softplus(&f);
        break;
    case BM_UNARY_SOFTSIGN:
        softsign(&f);
        break;
    case BM_UNARY_GELU:
        gelu(&f);
        break;
    case BM_UNARY_GELU_TANH:
        gelu_tanh(&f);
        break;
    case BM_UNARY_ERF:
        bm_erf(f.y, f.x, f.t[0], f.t[1], f.t[2], s);
        break;
    case BM_UNARY_SQUARE:
        bm_mul(f.y, f.x, f.x, s);
        break;
    case BM_UNARY_SIGN:
        sign(&f);
        break;
    case BM_UNARY_THRESHOLDED_RELU:
        bm_if_greater_C(f.y, f.x, p->a, x, bm_float(0.0f), s);
        break;
    case BM_UNARY_NOT:
        bm_C_sub(f.y, f.x, 1.0f, s);
        break;
    case BM_UNARY_IS_NAN:
        bm_number(f.t[0], f.x, BM_ONE, s);
        bm_xor_C(f.y, f.t[0], BM_ONE, s);
        break;
    case BM_UNARY_OR_ZERO:
        bm_number(f.t[0], f.x, BM_ONES, s);
        bm_and(f.y, f.t[0], f.x, s);
        break;
    case BM_UNARY_IS_INF:
        infinite(&f, p->a != 0.0f, p->b != 0.0f);
        break;
    case BM_UNARY_SWISH:
        swish(&f, p->a);
        break;
    case BM_UNARY_MISH:
        mish(&f);
        break;
    case BM_UNARY_SIN:
    case BM_UNARY_COS:
        bm_sine(f.y, f.x, f.t[0], f.t[1], f.t[2], f.t[3], p->unary_op == BM_UNARY_COS, s);
        break;
    default: /* FLOOR, CEIL, ROUND; the shape function lets nothing else pass */
        round_to(&f, p->unary_op);
        break;
    }
}

/* ---- global and local ---- */

__BM_GLOBAL__(TPU_UNARY)
int unary_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                 const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    bm_tiling t = bm_tiling_of(&out_tensors[0], in_tensors, 1);
    t.work_buffers = bm_unary_work(((const tpu_unary_param_t *)param)->unary_op);
    okk_initialize();
    bm_run_tiles(t, compute, param);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_UNARY)
int unary_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    dim4 stride;
    const bm_job job = bm_local_job(&out_tensors[0], in_tensors, 1, buffer_offset, &stride);
    compute(param, &job);
    return BM_LAYER_OK;
}
