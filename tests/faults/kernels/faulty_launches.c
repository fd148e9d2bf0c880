/* Kernels that share memory over several launches, with a mistake; and numbers that go wrong. `oc` says which
 * launch it is. */
#include "faults.h"

/* The first launch fills scratch for fewer rows than the second one reads. */
void scratch_of_fewer_rows(const void *args) {
    const args_t *p = args;
    const dim4 rows = {1, p->h, 1, p->w};
    okk_initialize();
    if (p->oc == 0) {
        okk_gdma_32bit_cpy_S2S(p->scratch, p->in, &rows, NULL, NULL);
        okk_gdma_32bit_set_C_system(p->out, (x32){.fp32 = 0}, &(dim4){1, p->k, 1, p->w}, NULL);
    } else {
        okk_gdma_32bit_cpy_S2L(0, p->scratch, &rows, NULL, NULL); /* FAULT init.unwritten */
        okk_bdc_mul_C(0, 0, 2.f, &rows, NULL, NULL); /* FAULT init.unwritten */
        okk_gdma_32bit_cpy_L2S(p->out, 0, &rows, NULL, NULL); /* FAULT init.unwritten */
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(scratch_of_fewer_rows)

/* A table is put into L2 by one launch and used by the next. */
void table_of_another_launch(const void *args) {
    const args_t *p = args;
    const dim4 row = {1, 1, 1, p->w};
    const unsigned long long l2 = okk_l2_sram_start_addr();
    okk_initialize();
    if (p->oc == 0) {
        okk_gdma_32bit_cpy_S2S(l2, p->in, &row, NULL, NULL);
        okk_gdma_32bit_cpy_S2S(p->out, p->in, &row, NULL, NULL);
    } else {
        okk_gdma_32bit_cpy_S2L(0, l2, &row, NULL, NULL); /* FAULT init.unwritten */
        okk_bdc_mul_C(0, 0, 2.f, &row, NULL, NULL); /* FAULT init.unwritten */
        okk_gdma_32bit_cpy_L2S(p->out, 0, &row, NULL, NULL); /* FAULT init.unwritten */
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(table_of_another_launch)

/* Scratch is freed and allocated again between the launches, and thought to hold what it held. */
void scratch_renewed(const void *args) {
    const args_t *p = args;
    const dim4 row = {1, 1, 1, p->w};
    okk_initialize();
    if (p->oc == 0) okk_gdma_32bit_cpy_S2S(p->scratch, p->in, &row, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(0, p->scratch, &row, NULL, NULL); /* FAULT init.unwritten */
    okk_bdc_neg(0, 0, &row, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &row, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(scratch_renewed)

/* The kernel remembers an address in a variable; the host has freed that buffer. */
static unsigned long long remembered;
void address_remembered(const void *args) {
    const args_t *p = args;
    const dim4 row = {1, 1, 1, p->w};
    okk_initialize();
    if (p->oc == 0) remembered = p->scratch;
    if (p->oc == 0) okk_gdma_32bit_cpy_S2S(remembered, p->in, &row, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(0, remembered, &row, NULL, NULL); /* FAULT memory.freed|memory.outside */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &row, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(address_remembered)

/* The first launch writes the result's even rows, the second one as many odd rows, of which one is missing. */
void odd_rows_of_another_height(const void *args) {
    const args_t *p = args;
    const dim4 rows = {1, p->c, (p->h - p->oc) / 2, p->w}, apart = {0, p->h * p->w, 2 * p->w, 1};
    const unsigned long long first = p->oc * p->w * FLOAT;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in + first, &rows, NULL, &apart);
    okk_bdc_relu(0, 0, &rows, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out + first, 0, &rows, &apart, NULL); /* FAULT memory.not_written */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(odd_rows_of_another_height)

/* e^x / sum(e^x) of numbers for which e^x is out of range. */
void softmax_without_the_maximum(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w};
    dim4 same = {0, 32, 0, 0};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_exp(BANK, 0, 2 * BANK, &shape); /* FAULT numeric.infinite|numeric.nan */
    okk_bdc_avg_pool2d(3 * BANK, BANK, &shape, 1, p->w, NULL, NULL);
    okk_bdc_mul_C(3 * BANK, 3 * BANK, (float)p->w, &(dim4){1, p->c, 1, 1}, NULL, NULL);
    okk_bdc_div(4 * BANK, BANK, 3 * BANK, &shape, NULL, NULL, &same); /* FAULT numeric.infinite|numeric.nan */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(softmax_without_the_maximum)

/* The variance as mean of squares less square of mean, which rounds to less than 0. */
void variance_below_zero(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, one = {1, p->c, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_mul(BANK, 0, 0, &shape, NULL, NULL, NULL);
    okk_bdc_avg_pool2d(2 * BANK, 0, &shape, p->h, p->w, NULL, NULL);
    okk_bdc_avg_pool2d(3 * BANK, BANK, &shape, p->h, p->w, NULL, NULL);
    okk_bdc_mul(2 * BANK, 2 * BANK, 2 * BANK, &one, NULL, NULL, NULL);
    okk_bdc_sub(3 * BANK, 3 * BANK, 2 * BANK, &one, NULL, NULL, NULL);
    okk_bdc_rsqrt(4 * BANK, 3 * BANK, &one); /* FAULT numeric.nan|numeric.infinite */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(variance_below_zero)

/* Means of what a mask keeps, where it may keep nothing. */
void mean_of_nothing(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, one = {1, p->c, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_greater_C_select_value(BANK, 0, 0.f, (x32){.fp32 = 1}, &shape, NULL, NULL);
    okk_bdc_mul(2 * BANK, 0, BANK, &shape, NULL, NULL, NULL);
    okk_bdc_avg_pool2d(3 * BANK, BANK, &shape, 1, p->w, NULL, NULL);
    okk_bdc_avg_pool2d(4 * BANK, 2 * BANK, &shape, 1, p->w, NULL, NULL);
    okk_bdc_div(5 * BANK, 4 * BANK, 3 * BANK, &one, NULL, NULL, NULL); /* FAULT numeric.nan|numeric.infinite */
    okk_gdma_32bit_cpy_L2S(p->out, 5 * BANK, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(mean_of_nothing)
