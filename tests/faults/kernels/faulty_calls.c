/* Calls with a mistake in their arguments: ranges, widths, places that overlap. */
#include "faults.h"

static void load_compact(local_addr_t addr, unsigned long long from, dim4 shape) {
    dim4 compact;
    okk_compact_stride(&compact, 0, &shape);
    okk_gdma_32bit_cpy_S2L(addr, from, &shape, &compact, NULL);
}

/* e^x of numbers far below what the function takes. */
void exponent_out_of_range(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_exp(BANK, 0, 2 * BANK, &shape); /* FAULT numeric.nan|numeric.infinite */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(exponent_out_of_range)

/* Where tables begin is an offset in L2, and is taken for an address. */
void offset_as_an_address(const void *args) {
    const args_t *p = args;
    const dim4 row = {1, 1, 1, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(okk_lookup_table_start_addr(), p->in, &row, NULL, NULL); /* FAULT memory.outside|memory.beyond */
    okk_gdma_32bit_cpy_S2S(p->out, okk_lookup_table_start_addr(), &row, NULL, NULL); /* FAULT memory.outside|memory.beyond */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(offset_as_an_address)

/* x takes two lines of each lane, and y begins behind the first. */
void second_operand_over_the_first(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL); /* OTHER */
    okk_gdma_32bit_cpy_S2L(128, p->in2, &shape, NULL, NULL); /* FAULT memory.beyond */
    okk_bdc_add(BANK, 0, 128, &shape, NULL, NULL, NULL); /* OTHER */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(second_operand_over_the_first)

/* Five input channels make three pairs, not two. */
void pairs_rounded_down(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, result = {1, p->oc, p->h, p->w}, pairs = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    load_compact(BANK, p->in2, (dim4){p->c / 2, p->oc, 1, 2});
    okk_bdc_conv2d(2 * BANK, 0, BANK, 0, &shape, p->oc, 1, 1, NULL, &pairs, false, false, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(pairs_rounded_down)

/* Two columns to a channel where the matrix is loaded, one where it is used. */
void columns_of_another_width(const void *args) {
    const args_t *p = args;
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(0, p->in, p->n, p->k, 2, p->k);
    okk_gdma_32bit_matrix_S2L(BANK, p->in2, p->k, p->w, 1, p->w);
    okk_bdc_matmul(4 * BANK, 0, BANK, 0, p->n, p->k, p->w, 1, 1, false, false); /* FAULT init.unwritten */
    okk_gdma_32bit_matrix_L2S(p->out, 4 * BANK, p->n, p->w, 1, p->w);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(columns_of_another_width)

/* How many were kept is asked in the section of the filter. */
void counted_in_a_section(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const MaskMemCpy4DPram keep = {
        .data_local_mem_addr = 0, .mask_local_mem_addr = 0, .dst_global_mem_addr = ALIGN(p->scratch, 512),
        .shape = {1, p->c, p->h, p->w}};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_parallel_start();
    bm_atomic_mask_memcpy_4D(&keep);
    const unsigned kept = bm_get_mask_memcpy_res_num(); /* FAULT sync.never */
    okk_parallel_end();
    okk_gdma_32bit_set_C_system(p->out, (x32){.u32 = kept}, &(dim4){1, 1, 1, 1}, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(counted_in_a_section)

/* Indices are asked for, and have no place. */
void indices_without_a_place(const void *args) {
    const args_t *p = args;
    const SortParam sort = {
        .input_data_addr = p->in, .output_data_addr = p->out, .input_len = p->n, .output_len = p->n,
        .order = BM_ASCEND, .index_enable = true, .index_auto = true};
    okk_initialize();
    bm_atomic_sort(&sort); /* FAULT memory.outside */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(indices_without_a_place)

/* Batches of 16-bit numbers lie as far apart as if they had 32 bits. */
void batches_of_halves_as_words(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        const unsigned long long at = (unsigned long long)n * p->c * p->h * p->w;
        okk_gdma_16bit_cpy_S2L(0, p->in + at * FLOAT, &one, NULL, NULL); /* FAULT memory.beyond|memory.outside */
        okk_gdma_16bit_cpy_L2S(p->out + at * 2, 0, &one, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(batches_of_halves_as_words)

/* Each row less the first one, which becomes 0 before the others have been reached. */
void first_row_taken_from_itself(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, same = {0, ALIGN(p->h * p->w, 32), 0, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_sub(0, 0, 0, &shape, NULL, NULL, &same); /* FAULT hazard.overlap */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(first_row_taken_from_itself)

/* The sums of rows are added up in one element by a stride of 0. */
void sum_by_a_stride_of_zero(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, same = {0, 32, 0, 0}, one = {1, p->c, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_32bit_set_C(BANK, (x32){.fp32 = 0}, &one, NULL);
    okk_bdc_add(BANK, BANK, 0, &shape, &same, &same, NULL); /* FAULT hazard.overlap */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sum_by_a_stride_of_zero)

/* A product into the memory of its left matrix, whose rows are shorter. */
void product_over_its_operand(const void *args) {
    const args_t *p = args;
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(0, p->in, p->n, p->k, 1, p->k);
    okk_gdma_32bit_matrix_S2L(4 * BANK, p->in2, p->k, p->w, 1, p->w);
    okk_bdc_matmul(0, 0, 4 * BANK, 0, p->n, p->k, p->w, 1, 1, false, false); /* FAULT hazard.overlap */
    okk_gdma_32bit_matrix_L2S(p->out, 0, p->n, p->w, 1, p->w);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(product_over_its_operand)

/* The number of kept rows is read before anything has counted them. */
void count_read_from_an_output(const void *args) {
    const args_t *p = args;
    okk_initialize();
    okk_poll();
    const int rows = *(const int *)okk_global_mem_addr(p->scratch); /* FAULT init.unwritten */
    okk_gdma_32bit_set_C_system(p->out, (x32){.s32 = rows}, &(dim4){1, 1, 1, p->w}, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(count_read_from_an_output)
