/* Streams of commands with a mistake: sections, sorts and filters, the controller's pointers. */
#include "faults.h"

static unsigned long long at(unsigned long long base, const args_t *p, int n) {
    return base + (unsigned long long)n * p->c * p->h * p->w * FLOAT;
}

/* Load, compute in place and store in one section need three buffers; there are two. */
void two_buffers_for_three_stages(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int i = 0; i < p->n + 2; i++) {
        okk_parallel_start();
        if (i < p->n) okk_gdma_32bit_cpy_S2L(i % 3 * BANK, at(p->in, p, i), &one, NULL, NULL); /* OTHER */
        if (i > 0 && i <= p->n) okk_bdc_mul_C((i - 1) % 3 * BANK, (i - 1) % 3 * BANK, 3.f, &one, NULL, NULL); /* FAULT hazard.raw|hazard.war|hazard.waw */
        if (i > 1) okk_gdma_32bit_cpy_L2S(at(p->out, p, i - 2), (i - 1) % 3 * BANK, &one, NULL, NULL); /* FAULT hazard.raw|hazard.war|hazard.waw */
        okk_parallel_end();
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(two_buffers_for_three_stages)

/* The sorted numbers are loaded beside the sort. */
void sorted_beside_its_use(const void *args) {
    const args_t *p = args;
    const dim4 row = {1, 1, 1, p->k};
    const SortParam sort = {
        .input_data_addr = p->in, .output_data_addr = p->scratch, .input_len = p->n, .output_len = p->k,
        .order = BM_DESCEND};
    okk_initialize();
    okk_parallel_start();
    bm_atomic_sort(&sort); /* OTHER */
    okk_gdma_32bit_cpy_S2L(0, p->scratch, &row, NULL, NULL); /* FAULT hazard.raw|hazard.war */
    okk_parallel_end();
    okk_bdc_mul_C(0, 0, 2.f, &row, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &row, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sorted_beside_its_use)

/* The mask of a filter is made beside it. */
void mask_made_beside_the_filter(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const MaskMemCpy4DPram keep = {
        .data_local_mem_addr = 0, .mask_local_mem_addr = BANK, .dst_global_mem_addr = ALIGN(p->scratch, 512),
        .shape = {1, p->c, p->h, p->w}};
    okk_initialize();
    okk_gdma_32bit_set_C_system(p->out, (x32){.u32 = 0}, &shape, NULL);
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_parallel_start();
    okk_bdc_greater_C_select_value(BANK, 0, 0.5f, (x32){.u32 = 1}, &shape, NULL, NULL); /* OTHER */
    bm_atomic_mask_memcpy_4D(&keep); /* FAULT hazard.raw|hazard.war */
    okk_parallel_end();
    const unsigned kept = bm_get_mask_memcpy_res_num();
    if (kept > 0) okk_gdma_32bit_cpy_S2S(p->out, ALIGN(p->scratch, 512), &(dim4){1, 1, 1, (int)kept}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(mask_made_beside_the_filter)

/* A product is turned round in the section that makes it. */
void turned_beside_the_product(const void *args) {
    const args_t *p = args;
    const CWTransParam turn = {
        .src_addr = 4 * BANK, .dst_addr = 5 * BANK, .src_c = p->w, .src_w = 1, .format = BM_GDMA_FORMAT_FLOAT32,
        .src_c_stride = 32, .dst_c_stride = ALIGN(p->w, 32)};
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(0, p->in, 1, p->k, 1, p->k);
    okk_gdma_32bit_matrix_S2L(2 * BANK, p->in2, p->k, p->w, 1, p->w);
    okk_parallel_start();
    okk_bdc_matmul(4 * BANK, 0, 2 * BANK, 0, 1, p->k, p->w, 1, 1, false, false); /* OTHER */
    bm_atomic_cwtrans(&turn); /* FAULT hazard.raw|hazard.war */
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, 5 * BANK, &(dim4){1, 1, 1, p->w}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(turned_beside_the_product)

/* Sums are cleared by the copy engine beside the tensor engine that adds to them. */
void filled_beside_the_sum(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &one, NULL, NULL);
    okk_parallel_start();
    okk_gdma_32bit_set_C_local(BANK, (x32){.fp32 = 0}, &one, NULL); /* OTHER */
    okk_bdc_mac_C(BANK, 0, 2.f, &one, NULL, NULL); /* FAULT hazard.raw|hazard.war|hazard.waw|init.unwritten */
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(filled_beside_the_sum)

/* The carry of a running sum is stored while the next one is made of it. */
void carry_stored_too_late(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_bdc_32bit_set_C(4 * BANK, (x32){.fp32 = 0}, &one, NULL);
    okk_gdma_32bit_cpy_S2L(0, p->in, &one, NULL, NULL);
    for (int n = 0; n < p->n; n++) {
        okk_parallel_start();
        if (n > 0) okk_gdma_32bit_cpy_L2S(at(p->out, p, n - 1), 4 * BANK, &one, NULL, NULL); /* OTHER */
        if (n + 1 < p->n) okk_gdma_32bit_cpy_S2L((n + 1) % 2 * BANK, at(p->in, p, n + 1), &one, NULL, NULL);
        okk_bdc_add(4 * BANK, 4 * BANK, n % 2 * BANK, &one, NULL, NULL, NULL); /* FAULT hazard.war|hazard.raw */
        okk_parallel_end();
    }
    okk_gdma_32bit_cpy_L2S(at(p->out, p, p->n - 1), 4 * BANK, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(carry_stored_too_late)

/* One box after the other suppresses those that are near; scores are read before they have been lowered. */
void scores_read_too_early(const void *args) {
    const args_t *p = args;
    const dim4 row = {1, 1, 1, p->n};
    float *kept = (float *)okk_global_mem_addr(p->out);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &row, NULL, NULL);
    okk_poll();
    const float *scores = (const float *)okk_local_mem_addr(0, 0);
    for (int i = 0; i < p->n; i++) {
        kept[i] = scores[i] > 0.5f ? 1.f : 0.f; /* FAULT hazard.controller */
        okk_bdc_mul_C(0, 0, 0.9f, &row, NULL, NULL); /* OTHER */
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(scores_read_too_early)

/* What a copy to L2 brings is read by the controller at once. */
void words_of_l2_too_early(const void *args) {
    const args_t *p = args;
    const unsigned long long l2 = okk_l2_sram_start_addr();
    float sum = 0;
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(l2, p->in, &(dim4){1, 1, 1, p->n}, NULL, NULL); /* OTHER */
    const float *words = (const float *)okk_l2_sram_addr(l2);
    for (int i = 0; i < p->n; i++) sum += words[i]; /* FAULT hazard.controller */
    okk_gdma_32bit_set_C_system(p->out, (x32){.fp32 = sum}, &(dim4){1, 1, 1, 1}, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(words_of_l2_too_early)

/* Empty rows are skipped behind the start of the section. */
void next_round_in_a_section(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        okk_parallel_start(); /* FAULT */
        if (n % 2 == 0) continue;
        okk_gdma_32bit_cpy_S2L(0, at(p->in, p, n), &one, NULL, NULL);
        okk_parallel_end();
        okk_gdma_32bit_cpy_L2S(at(p->out, p, n), 0, &one, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(next_round_in_a_section)

/* Only what is kept of a list is written; the host reads all of it. */
void rest_of_the_list(const void *args) { /* FAULT memory.not_written */
    const args_t *p = args;
    okk_initialize();
    okk_poll();
    const float *scores = (const float *)okk_global_mem_addr(p->in);
    float *kept = (float *)okk_global_mem_addr(p->out);
    int count = 0;
    for (int i = 0; i < p->n; i++)
        if (scores[i] > 0) kept[count++] = scores[i]; /* FAULT memory.not_written */
}
OKKERNEL_FUNC_REGISTER(rest_of_the_list)

/* Each result is written where the one before it lies, but for its last row. */
void steps_of_one_row(const void *args) { /* FAULT memory.not_written */
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        okk_gdma_32bit_cpy_S2L(n % 2 * BANK, at(p->in, p, n), &one, NULL, NULL);
        okk_bdc_relu(n % 2 * BANK, n % 2 * BANK, &one, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->out + n * p->h * p->w * FLOAT, n % 2 * BANK, &one, NULL, NULL); /* FAULT memory.not_written */
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(steps_of_one_row)

/* Rows of a matrix are so many bytes apart as they have columns, times 4. */
void rows_apart_by_bytes(const void *args) {
    const args_t *p = args;
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(0, p->in, p->n, p->k, 1, p->k * FLOAT); /* FAULT memory.beyond */
    okk_bdc_add_C(0, 0, 1.f, &(dim4){p->n, p->k, 1, 1}, NULL, NULL);
    okk_gdma_32bit_matrix_L2S(p->out, 0, p->n, p->k, 1, p->k);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rows_apart_by_bytes)

/* Scratch for one batch serves all of them. */
void scratch_of_one_batch(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->scratch, 0, &shape, NULL, NULL); /* FAULT memory.beyond */
    okk_gdma_32bit_cpy_S2S(p->out, p->scratch, &shape, NULL, NULL); /* FAULT memory.beyond */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(scratch_of_one_batch)
