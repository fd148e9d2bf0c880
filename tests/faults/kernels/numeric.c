/* Numbers that go wrong from inputs that are right. Run with the numeric checks. */
#include "faults.h"

/* 1 / x of a row that holds zeros. */
void divides_by_zero(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_C_div(0, 0, 1.f, &shape, NULL, NULL); /* FAULT numeric.infinite */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(divides_by_zero)

/* x / sum(x) of a row of zeros. */
void zero_by_zero(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, once = {0, 0, 0, 0};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_avg_pool2d_v2(BANK, 0, &shape, 1, p->w, NULL, NULL, 1.f);
    okk_bdc_div(0, 0, BANK, &shape, NULL, NULL, &once); /* FAULT numeric.nan */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(zero_by_zero)

/* A sum of squares that is out of range. */
void overflows(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_mul(BANK, 0, 0, &shape, NULL, NULL, NULL); /* FAULT numeric.infinite */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(overflows)

/* x / sqrt(variance), and a channel is constant. */
void constant_channel(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, one = {1, p->c, 1, 1}, once = {0, 0, 0, 0};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_avg_pool2d_v2(BANK, 0, &shape, 1, p->w, NULL, NULL, 1.f / p->w);
    okk_bdc_sub(0, 0, BANK, &shape, NULL, NULL, &once);
    okk_bdc_mul(2 * BANK, 0, 0, &shape, NULL, NULL, NULL);
    okk_bdc_avg_pool2d_v2(3 * BANK, 2 * BANK, &shape, 1, p->w, NULL, NULL, 1.f / p->w);
    okk_bdc_C_div(4 * BANK, 3 * BANK, 1.f, &one, NULL, NULL); /* FAULT numeric.infinite */
    okk_bdc_mul(0, 0, 4 * BANK, &shape, NULL, NULL, &once); /* FAULT numeric.nan */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(constant_channel)

/* Products below the least normal number become 0. */
void underflows(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_mul_C(BANK, 0, 1e-22f, &shape, NULL, NULL); /* FAULT numeric.denormal */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(underflows)

/* Sums of 8-bit numbers without a shift. */
void saturates(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w}, words = {DIV_UP(p->n, 4), p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &words, NULL, NULL);
    okk_bdc_fixed_point_packed_add(BANK, 0, 0, &shape, NULL, NULL, NULL, S8_OP_S8_TO_S8, 0); /* FAULT numeric.saturated */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &words, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(saturates)

/* fp32 beyond int32. */
void integer_out_of_range(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_mul_C(0, 0, 1e10f, &shape, NULL, NULL);
    okk_bdc_fp32_to_int32(BANK, 0, &shape); /* FAULT numeric.saturated */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(integer_out_of_range)

/* fp32 to fp16 by GDMA, of numbers that fp16 does not have. */
void half_out_of_range(const void *args) {
    const args_t *p = args;
    const unsigned c = p->c, h = p->h, w = p->w;
    MemCpy4DParam copy = {.src_addr = 0, .src_shape = {1, c, h, w}, .src_stride = {c * ALIGN(h * w, 32), ALIGN(h * w, 32), w, 1},
                          .src_format = BM_GDMA_FORMAT_FLOAT32, .dst_addr = p->out, .dst_shape = {1, c, h, w},
                          .dst_stride = {c * h * w, h * w, w, 1}, .dst_format = BM_GDMA_FORMAT_FLOAT16,
                          .direction = BM_GDMA_DIR_L2S};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &(dim4){1, p->c, p->h, p->w}, NULL, NULL);
    bm_atomic_memcpy_4D(&copy); /* FAULT numeric.infinite|numeric.saturated */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(half_out_of_range)

/* The difference of two infinities that a product made. */
void infinity_less_infinity(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_mul_C(0, 0, 1e30f, &shape, NULL, NULL); /* FAULT numeric.infinite */
    okk_bdc_sub(BANK, 0, 0, &shape, NULL, NULL, NULL); /* FAULT numeric.nan */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(infinity_less_infinity)

/* An 8-bit convolution whose shift is too small. */
void convolution_saturates(const void *args) {
    const args_t *p = args;
    const dim4 words = {DIV_UP(p->n, 4), p->c, p->h, p->w};
    const unsigned plane = ALIGN(p->h * p->w, 32);
    ConvQuantParam conv = {.input_addr = 0, .output_addr = BANK, .input_shape = {p->n, p->c, p->h, p->w},
                           .output_c = p->oc, .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1,
                           .input_stride = {plane, plane, p->w, 1}, .dilate_h = 1, .dilate_w = 1,
                           .kernel_is_const = true, .kernel_val = 9, .rshift_bit = 1, .input_sign = true,
                           .weight_sign = true};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &words, NULL, NULL);
    bm_atomic_conv_quantized(&conv); /* FAULT numeric.saturated */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &(dim4){DIV_UP(p->n, 4), p->oc, p->h, p->w}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(convolution_saturates)
