/* Commands that may run side by side and use the same memory. The other command's line says OTHER. */
#include <string.h>

#include "faults.h"

static unsigned long long at(unsigned long long base, const args_t *p, int n) {
    return base + (unsigned long long)n * p->c * p->h * p->w * FLOAT;
}

/* Loads the next batch into the one buffer that is being computed on. */
void one_buffer_for_two(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &one, NULL, NULL);
    for (int n = 0; n < p->n; n++) {
        okk_parallel_start();
        if (n + 1 < p->n) okk_gdma_32bit_cpy_S2L(0, at(p->in, p, n + 1), &one, NULL, NULL); /* FAULT hazard.war|hazard.raw */
        okk_bdc_mul_C(2 * BANK, 0, 2.f, &one, NULL, NULL); /* OTHER */
        okk_parallel_end();
        okk_gdma_32bit_cpy_L2S(at(p->out, p, n), 2 * BANK, &one, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(one_buffer_for_two)

/* The section is never ended between the load and its use. */
void end_of_section_missing(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        okk_parallel_start();
        okk_gdma_32bit_cpy_S2L(n * BANK, at(p->in, p, n), &one, NULL, NULL); /* FAULT hazard.raw|hazard.war|hazard.waw */
        okk_bdc_relu(n * BANK, n * BANK, &one, NULL, NULL); /* OTHER */
        okk_parallel_end();
    }
    for (int n = 0; n < p->n; n++) okk_gdma_32bit_cpy_L2S(at(p->out, p, n), n * BANK, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(end_of_section_missing)

/* The result is stored in the section that computes it. */
void stored_while_computed(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        okk_gdma_32bit_cpy_S2L(0, at(p->in, p, n), &one, NULL, NULL);
        okk_parallel_start();
        okk_bdc_add_C(2 * BANK, 0, 1.f, &one, NULL, NULL); /* OTHER */
        okk_gdma_32bit_cpy_L2S(at(p->out, p, n), 2 * BANK, &one, NULL, NULL); /* FAULT hazard.raw|hazard.war */
        okk_parallel_end();
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(stored_while_computed)

/* Weights of the next convolution come while this one uses its own. */
void weights_replaced_in_use(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, weights = {DIV_UP(p->c, 2), p->c, 1, 2}, pairs = {1, 1, 1, 1};
    dim4 compact;
    okk_compact_stride(&compact, 0, &weights);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(4 * BANK, p->in2, &weights, &compact, NULL);
    okk_parallel_start();
    okk_bdc_conv2d(2 * BANK, 0, 4 * BANK, 0, &shape, p->c, 1, 1, NULL, &pairs, false, false, NULL, NULL, NULL); /* OTHER */
    okk_gdma_32bit_cpy_S2L(4 * BANK, p->in3, &weights, &compact, NULL); /* FAULT hazard.war|hazard.raw */
    okk_parallel_end();
    okk_bdc_conv2d(0, 2 * BANK, 4 * BANK, 0, &shape, p->c, 1, 1, NULL, &pairs, false, false, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(weights_replaced_in_use)

/* Three stages, and the store takes the batch that is being computed instead of the one before. */
void store_a_stage_too_early(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int i = 0; i < p->n + 2; i++) {
        okk_parallel_start();
        if (i < p->n) okk_gdma_32bit_cpy_S2L(i % 2 * BANK, at(p->in, p, i), &one, NULL, NULL);
        if (i >= 1 && i <= p->n) okk_bdc_neg((2 + (i - 1) % 2) * BANK, (i - 1) % 2 * BANK, &one, NULL, NULL); /* OTHER */
        if (i >= 1 && i <= p->n) okk_gdma_32bit_cpy_L2S(at(p->out, p, i - 1), (2 + (i - 1) % 2) * BANK, &one, NULL, NULL); /* FAULT hazard.raw|hazard.war */
        okk_parallel_end();
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(store_a_stage_too_early)

/* Three stages on one buffer each way: the result is overwritten while it is stored. */
void one_buffer_of_results(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int i = 0; i < p->n + 2; i++) {
        okk_parallel_start();
        if (i < p->n) okk_gdma_32bit_cpy_S2L(i % 2 * BANK, at(p->in, p, i), &one, NULL, NULL);
        if (i >= 2) okk_gdma_32bit_cpy_L2S(at(p->out, p, i - 2), 2 * BANK, &one, NULL, NULL); /* OTHER */
        if (i >= 1 && i <= p->n) okk_bdc_add_C(2 * BANK, (i - 1) % 2 * BANK, 1.f, &one, NULL, NULL); /* FAULT hazard.war|hazard.raw */
        okk_parallel_end();
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(one_buffer_of_results)

/* Buffers are a bank apart, and a batch takes more than a bank. */
void batches_larger_than_a_bank(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &one, NULL, NULL);
    for (int n = 0; n < p->n; n++) {
        okk_parallel_start();
        if (n + 1 < p->n) okk_gdma_32bit_cpy_S2L((n + 1) % 2 * BANK, at(p->in, p, n + 1), &one, NULL, NULL); /* FAULT hazard.war|hazard.raw|hazard.waw */
        okk_bdc_mul_C(4 * BANK, n % 2 * BANK, 3.f, &one, NULL, NULL); /* OTHER */
        okk_parallel_end();
        okk_gdma_32bit_cpy_L2S(at(p->out, p, n), 4 * BANK, &one, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(batches_larger_than_a_bank)

/* The controller changes a parameter that a load which was issued may still have to read. */
void parameter_changed_too_early(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, one = {1, p->c, 1, 1}, same = {0, 0, 0, 1}, once = {0, 1, 0, 0};
    float *factor = (float *)okk_global_mem_addr(p->scratch);
    okk_initialize();
    for (int i = 0; i < 2; i++) {
        factor[0] = i + 1.f; /* FAULT hazard.controller */
        okk_gdma_32bit_cpy_S2L(BANK, p->scratch, &one, NULL, &same); /* OTHER */
        okk_gdma_32bit_cpy_S2L(0, i == 0 ? p->in : p->in2, &shape, NULL, NULL);
        okk_bdc_mul(0, 0, BANK, &shape, NULL, NULL, &once);
        okk_gdma_32bit_cpy_L2S(i == 0 ? p->out : p->out2, 0, &shape, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(parameter_changed_too_early)

/* The controller looks at the maximum before it polls. */
void result_read_before_poll(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, 1, 1, p->w}, one = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_max_pool2d(BANK, 0, &shape, 1, p->w, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out2, BANK, &one, NULL, NULL); /* OTHER */
    const float largest = *(const float *)okk_global_mem_addr(p->out2); /* FAULT hazard.controller|init.unwritten */
    okk_bdc_sub_C(0, 0, largest, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(result_read_before_poll)

/* The same in local memory. */
void local_result_before_poll(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, 1, 1, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_max_pool2d(BANK, 0, &shape, 1, p->w, NULL, NULL); /* OTHER */
    const float largest = *(const float *)okk_local_mem_addr(0, BANK); /* FAULT hazard.controller|init.unwritten */
    okk_bdc_sub_C(0, 0, largest, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(local_result_before_poll)

/* The bias comes in the section of the convolution that needs it. */
void bias_beside_the_convolution(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, weights = {DIV_UP(p->c, 2), p->c, 1, 2}, pairs = {1, 1, 1, 1};
    const dim4 vector = {1, p->c, 1, 1};
    dim4 compact;
    okk_compact_stride(&compact, 0, &weights);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(4 * BANK, p->in2, &weights, &compact, NULL);
    okk_parallel_start();
    okk_gdma_32bit_cpy_S2L(6 * BANK, p->in3, &vector, NULL, NULL); /* FAULT hazard.raw|hazard.war */
    okk_bdc_conv2d(2 * BANK, 0, 4 * BANK, 6 * BANK, &shape, p->c, 1, 1, NULL, &pairs, true, false, NULL, NULL, NULL); /* OTHER */
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bias_beside_the_convolution)

/* A border is cleared and the image put inside it, in one section: two writes, in no order. */
void cleared_beside_the_load(const void *args) {
    const args_t *p = args;
    const dim4 inner = {1, p->c, p->h, p->w}, framed = {1, p->c, p->h + 2, p->w + 2};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &framed);
    okk_initialize();
    okk_parallel_start();
    okk_bdc_32bit_set_C(0, (x32){.fp32 = 0}, &framed, NULL); /* OTHER */
    okk_gdma_32bit_cpy_S2L((p->w + 3) * FLOAT, p->in, &inner, &stride, NULL); /* FAULT hazard.waw */
    okk_parallel_end();
    okk_bdc_avg_pool2d(2 * BANK, 0, &framed, 3, 3, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &inner, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(cleared_beside_the_load)

/* GDMA moves a tile within local memory while the other engine computes on it. */
void moved_while_computed(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &one, NULL, NULL);
    okk_parallel_start();
    okk_bdc_relu(0, 0, &one, NULL, NULL); /* OTHER */
    okk_gdma_32bit_cpy_L2L(2 * BANK, 0, &one, NULL, NULL); /* FAULT hazard.raw|hazard.war */
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(moved_while_computed)

/* Two streams on lanes of their own, but the first one has 40 channels and the second begins on lane 32. */
void lanes_of_two_streams(const void *args) {
    const args_t *p = args;
    const dim4 first = {1, p->c, p->h, p->w}, second = {1, p->oc, p->h, p->w};
    const local_addr_t lane32 = 32 * okk_local_mem_size_per_npu();
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &first, NULL, NULL);
    okk_parallel_start();
    okk_bdc_add_C(0, 0, 1.f, &first, NULL, NULL); /* OTHER */
    okk_gdma_32bit_cpy_S2L(lane32, p->in2, &second, NULL, NULL); /* FAULT hazard.waw|hazard.war|hazard.raw */
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, 0, &(dim4){1, 32, p->h, p->w}, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out2, lane32, &second, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(lanes_of_two_streams)

/* A product in slices: the partial sum is stored while the next slice is added to it. */
void sum_stored_too_early(const void *args) {
    const args_t *p = args;
    const int per_channel = 8, slice = p->k / 2;
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(0, p->in, p->n, p->k, per_channel, p->k);
    okk_gdma_32bit_matrix_S2L(2 * BANK, p->in2, p->k, p->w, per_channel, p->w);
    okk_bdc_matmul(4 * BANK, 0, 2 * BANK, 0, p->n, slice, p->w, per_channel, per_channel, false, false);
    const local_addr_t left = slice / per_channel * okk_local_mem_size_per_npu();
    const local_addr_t right = 2 * BANK + slice * 128;
    okk_parallel_start();
    okk_bdc_matmul(4 * BANK, left, right, 0, p->n, slice, p->w, per_channel, per_channel, false, true); /* OTHER */
    okk_gdma_32bit_matrix_L2S(p->out, 4 * BANK, p->n, p->w, per_channel, p->w); /* FAULT hazard.raw|hazard.war */
    okk_parallel_end();
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sum_stored_too_early)

/* The work buffer of exp lies where the next batch is loaded. */
void work_buffer_loaded_over(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    const local_addr_t next = 2 * BANK, work = 2 * BANK;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &one, NULL, NULL);
    for (int n = 0; n < p->n; n++) {
        okk_parallel_start();
        if (n + 1 < p->n) okk_gdma_32bit_cpy_S2L(next, at(p->in, p, n + 1), &one, NULL, NULL); /* FAULT hazard.waw|hazard.raw|hazard.war */
        okk_bdc_exp(4 * BANK, 0, work, &one); /* OTHER */
        okk_parallel_end();
        okk_gdma_32bit_cpy_L2S(at(p->out, p, n), 4 * BANK, &one, NULL, NULL);
        if (n + 1 < p->n) okk_gdma_32bit_cpy_L2L(0, next, &one, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(work_buffer_loaded_over)

/* The section is ended behind the store instead of before it. */
void section_ended_too_late(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &one, NULL, NULL);
    okk_parallel_start();
    okk_gdma_32bit_cpy_S2L(BANK, p->in2, &one, NULL, NULL);
    okk_bdc_mul_C(2 * BANK, 0, 2.f, &one, NULL, NULL); /* OTHER */
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &one, NULL, NULL); /* FAULT hazard.raw|hazard.war */
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out2, BANK, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(section_ended_too_late)

/* A gather on one engine beside the copy of its table on the other. */
void gather_beside_its_table(const void *args) {
    const args_t *p = args;
    const unsigned l2 = okk_l2_sram_start_addr();
    GatherDataParam gather = {l2, l2 + BANK, l2 + 2 * BANK, p->n, BM_GD_32BIT};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(l2 + BANK, p->in2, &(dim4){1, 1, 1, p->n}, NULL, NULL);
    okk_parallel_start();
    okk_gdma_32bit_cpy_S2S(l2, p->in, &(dim4){1, 1, 1, p->w}, NULL, NULL); /* OTHER */
    bm_atomic_gather_data(&gather); /* FAULT hazard.raw|hazard.war */
    okk_parallel_end();
    okk_gdma_32bit_cpy_S2S(p->out, l2 + 2 * BANK, &(dim4){1, 1, 1, p->n}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(gather_beside_its_table)

/* The controller adds to a result that a store has not written yet. */
void controller_writes_under_a_store(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    float *out = (float *)okk_global_mem_addr(p->out);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL); /* OTHER */
    out[0] = 1.f; /* FAULT hazard.controller */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(controller_writes_under_a_store)

/* The controller puts weights into local memory while the batch before still uses the old ones. */
void controller_writes_local(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        for (int c = 0; c < p->c; c++) {
            *(float *)okk_local_mem_addr(c, 2 * BANK) = (float)(n + c); /* FAULT hazard.controller */
        }
        okk_gdma_32bit_cpy_S2L(0, at(p->in, p, n), &one, NULL, NULL);
        okk_bdc_bias(0, 0, 2 * BANK, &one, NULL, NULL); /* OTHER */
        okk_gdma_32bit_cpy_L2S(at(p->out, p, n), 0, &one, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(controller_writes_local)

/* A buffer that rolls: the new rows begin one row too early, in the last row that is being used. */
void rolling_rows_overlap(const void *args) {
    const args_t *p = args;
    const dim4 rows = {1, p->c, p->k, p->w}, local = {0, 4096, p->w, 1};
    const local_addr_t bytes = p->w * FLOAT; /* 128: rows stay lines */
    const dim4 image = {0, p->h * p->w, p->w, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &rows, &local, &image);
    okk_parallel_start();
    okk_gdma_32bit_cpy_S2L((p->k - 1) * bytes, p->in + p->k * bytes, &rows, &local, &image); /* FAULT hazard.war|hazard.raw */
    okk_bdc_mul_C(2 * BANK, 0, 2.f, &rows, NULL, &local); /* OTHER */
    okk_parallel_end();
    okk_bdc_mul_C(3 * BANK, (p->k - 1) * bytes, 2.f, &rows, NULL, &local);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &rows, &image, NULL);
    okk_gdma_32bit_cpy_L2S(p->out + p->k * bytes, 3 * BANK, &rows, &image, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rolling_rows_overlap)

/* GDMA fills the padding while the pool already reads it. */
void padding_filled_beside(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, below = {1, p->c, 1, p->w}, whole = {1, p->c, p->h + 1, p->w};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &whole);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, &stride, NULL);
    okk_parallel_start();
    okk_gdma_32bit_set_C_local(p->h * p->w * FLOAT, (x32){.fp32 = -1e30f}, &below, &stride); /* FAULT hazard.raw|hazard.war */
    okk_bdc_max_pool2d(2 * BANK, 0, &whole, 2, 1, NULL, NULL); /* OTHER */
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(padding_filled_beside)

/* Three buffers take turns in place; the store counts on one too far and takes the one that is computed. */
void one_too_far_of_three(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int i = 0; i < p->n + 2; i++) {
        const int previous = i >= 1 && i <= p->n;
        okk_parallel_start();
        if (i < p->n) okk_gdma_32bit_cpy_S2L(i % 3 * BANK, at(p->in, p, i), &one, NULL, NULL);
        if (previous) okk_bdc_add_C((i - 1) % 3 * BANK, (i - 1) % 3 * BANK, 1.f, &one, NULL, NULL); /* OTHER */
        if (i >= 2) okk_gdma_32bit_cpy_L2S(at(p->out, p, i - 2), (i + 2) % 3 * BANK, &one, NULL, NULL); /* FAULT hazard.raw|hazard.war */
        okk_parallel_end();
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(one_too_far_of_three)

/* L2 takes the next table while the look-ups in the old one may still run. */
void table_in_l2_replaced(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w};
    const unsigned long long l2 = okk_l2_sram_start_addr();
    TableLookupParam lookup = {.table_addr = (unsigned)(l2 - 0x10000000), .index_addr = 0, .output_addr = BANK,
                               .shape = {1, p->c, 1, p->w}, .table_len = p->k, .index_prec = 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2S(l2, p->in2, &(dim4){1, 1, 1, p->k}, NULL, NULL);
    okk_parallel_start();
    bm_atomic_table_lookup(&lookup); /* OTHER */
    okk_gdma_32bit_cpy_S2S(l2, p->in3, &(dim4){1, 1, 1, p->k}, NULL, NULL); /* FAULT hazard.war|hazard.raw */
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(table_in_l2_replaced)

/* A sort of numbers that the other engine is still copying. */
void sort_beside_its_input(const void *args) {
    const args_t *p = args;
    SortParam sort = {.input_data_addr = p->scratch, .output_data_addr = p->out, .input_len = p->n, .output_len = p->n,
                      .order = BM_ASCEND};
    okk_initialize();
    okk_gdma_32bit_set_C_system(p->scratch, (x32){.fp32 = 0}, &(dim4){1, 1, 1, p->n}, NULL);
    okk_parallel_start();
    okk_gdma_32bit_cpy_S2S(p->scratch, p->in, &(dim4){1, 1, 1, p->n}, NULL, NULL); /* OTHER */
    bm_atomic_sort(&sort); /* FAULT hazard.raw|hazard.war */
    okk_parallel_end();
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sort_beside_its_input)

/* Channels go around from lane 63 to the second slot of lane 0, where the other stream's 65th channel is. */
void around_into_another_stream(const void *args) {
    const args_t *p = args;
    const dim4 first = {1, p->c, p->h, p->w}, second = {1, p->oc, p->h, p->w};
    const local_addr_t lane40 = 40 * okk_local_mem_size_per_npu();
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &first, NULL, NULL);
    okk_parallel_start();
    okk_bdc_add_C(0, 0, 1.f, &first, NULL, NULL); /* OTHER */
    okk_gdma_32bit_cpy_S2L(lane40, p->in2, &second, NULL, NULL); /* FAULT hazard.waw|hazard.war|hazard.raw */
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, lane40, &second, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(around_into_another_stream)

/* The controller copies a result with memcpy before it polls. */
void copied_before_poll(const void *args) {
    const args_t *p = args;
    const dim4 row = {1, 1, 1, p->w};
    okk_initialize();
    okk_gdma_32bit_set_C_system(p->scratch, (x32){.fp32 = 0}, &row, NULL);
    okk_poll();
    okk_gdma_32bit_cpy_S2S(p->scratch, p->in, &row, NULL, NULL); /* OTHER */
    memcpy(okk_global_mem_addr(p->out), okk_global_mem_addr(p->scratch), p->w * sizeof(float)); /* FAULT hazard.controller */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(copied_before_poll)

/* Even rows are computed while "odd" ones are loaded, from the wrong first row. */
void even_rows_beside_even_ones(const void *args) {
    const args_t *p = args;
    const int half = p->h / 2;
    const dim4 rows = {1, p->c, half, p->w}, shape = {1, p->c, p->h, p->w}, image = {0, p->h * p->w, 2 * p->w, 1};
    dim4 local;
    okk_128_byte_aligned_stride_for_32bit(&local, 0, &shape);
    local.h = 2 * p->w;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_parallel_start();
    okk_bdc_mul_C(0, 0, 2.f, &rows, &local, &local); /* OTHER */
    okk_gdma_32bit_cpy_S2L(2 * p->w * FLOAT, p->in, &(dim4){1, p->c, 1, p->w}, &local, &image); /* FAULT hazard.waw|hazard.war|hazard.raw */
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(even_rows_beside_even_ones)
