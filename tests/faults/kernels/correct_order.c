/* Right, and near to what is wrong: sections, pipelines, reuse of memory, the controller, launches. */
#include "faults.h"

static unsigned long long at(unsigned long long base, const args_t *p, int n) {
    return base + (unsigned long long)n * p->c * p->h * p->w * FLOAT;
}

/* Two buffers each way. */
void ping_pong(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int i = 0; i < p->n + 2; i++) {
        okk_parallel_start();
        if (i < p->n) okk_gdma_32bit_cpy_S2L(i % 2 * BANK, at(p->in, p, i), &one, NULL, NULL);
        if (i >= 1 && i <= p->n) okk_bdc_neg((2 + (i - 1) % 2) * BANK, (i - 1) % 2 * BANK, &one, NULL, NULL);
        if (i >= 2) okk_gdma_32bit_cpy_L2S(at(p->out, p, i - 2), (2 + i % 2) * BANK, &one, NULL, NULL);
        okk_parallel_end();
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(ping_pong)

/* Three buffers in place. */
void three_in_place(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int i = 0; i < p->n + 2; i++) {
        okk_parallel_start();
        if (i < p->n) okk_gdma_32bit_cpy_S2L(i % 3 * BANK, at(p->in, p, i), &one, NULL, NULL);
        if (i >= 1 && i <= p->n) okk_bdc_add_C((i - 1) % 3 * BANK, (i - 1) % 3 * BANK, 1.f, &one, NULL, NULL);
        if (i >= 2) okk_gdma_32bit_cpy_L2S(at(p->out, p, i - 2), (i - 2) % 3 * BANK, &one, NULL, NULL);
        okk_parallel_end();
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(three_in_place)

/* Two buffers in place: GDMA works in order, so the store empties what the load behind it fills. */
void store_before_the_load(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int i = 0; i < p->n + 2; i++) {
        okk_parallel_start();
        if (i >= 2) okk_gdma_32bit_cpy_L2S(at(p->out, p, i - 2), i % 2 * BANK, &one, NULL, NULL);
        if (i < p->n) okk_gdma_32bit_cpy_S2L(i % 2 * BANK, at(p->in, p, i), &one, NULL, NULL);
        if (i >= 1 && i <= p->n) okk_bdc_mul_C((i + 1) % 2 * BANK, (i + 1) % 2 * BANK, 2.f, &one, NULL, NULL);
        okk_parallel_end();
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(store_before_the_load)

/* One engine alone in a section may do what it wants, in its order. */
void one_engine_in_a_section(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_parallel_start();
    okk_bdc_add_C(BANK, 0, 1.f, &shape, NULL, NULL);
    okk_bdc_mul(BANK, BANK, BANK, &shape, NULL, NULL, NULL);
    okk_bdc_sub(0, BANK, 0, &shape, NULL, NULL, NULL);
    okk_parallel_end();
    okk_parallel_start();
    okk_gdma_32bit_cpy_L2S(p->scratch, 0, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->scratch, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_parallel_end();
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(one_engine_in_a_section)

/* Both engines read the same operand. */
void both_engines_read(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_parallel_start();
    okk_bdc_add_C(BANK, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out2, 0, &shape, NULL, NULL);
    okk_bdc_mul(2 * BANK, BANK, 0, &shape, NULL, NULL, NULL);
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(both_engines_read)

/* At the same offset, on other lanes. */
void lanes_apart_in_a_section(const void *args) {
    const args_t *p = args;
    const dim4 half = {1, 32, p->h, p->w};
    const local_addr_t lane32 = 32 * okk_local_mem_size_per_npu();
    const unsigned long long bytes = 32ull * p->h * p->w * FLOAT;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &half, NULL, NULL);
    okk_parallel_start();
    okk_bdc_add_C(0, 0, 1.f, &half, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(lane32, p->in + bytes, &half, NULL, NULL);
    okk_parallel_end();
    okk_parallel_start();
    okk_bdc_add_C(lane32, lane32, 1.f, &half, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &half, NULL, NULL);
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out + bytes, lane32, &half, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(lanes_apart_in_a_section)

/* Even rows are computed while odd ones are loaded: hulls overlap, rows do not. */
void even_rows_beside_odd_ones(const void *args) {
    const args_t *p = args;
    const int half = p->h / 2;
    const dim4 rows = {1, p->c, half, p->w}, shape = {1, p->c, p->h, p->w}, image = {0, p->h * p->w, 2 * p->w, 1};
    dim4 local;
    okk_128_byte_aligned_stride_for_32bit(&local, 0, &shape);
    local.h = 2 * p->w;
    const unsigned row = p->w * FLOAT;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &rows, &local, &image);
    okk_parallel_start();
    okk_bdc_mul_C(0, 0, 2.f, &rows, &local, &local);
    okk_gdma_32bit_cpy_S2L(row, p->in + row, &rows, &local, &image);
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(even_rows_beside_odd_ones)

/* The buffer of the input is used again for the result of something else. */
void memory_used_again(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_mul_C(BANK, 0, 2.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(0, p->in2, &shape, NULL, NULL);
    okk_bdc_add(BANK, BANK, 0, &shape, NULL, NULL, NULL);
    okk_bdc_32bit_set_C(0, (x32){.fp32 = 5}, &shape, NULL);
    okk_bdc_sub(0, BANK, 0, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(memory_used_again)

/* The controller makes a table before it issues anything. */
void table_made_first(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, same = {0, 0, 0, 1};
    float *table = (float *)okk_global_mem_addr(p->scratch);
    for (int i = 0; i < p->w; i++) table[i] = (float)(i * i);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->scratch, &shape, NULL, &same);
    okk_bdc_add(0, 0, BANK, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(table_made_first)

/* Polls, changes the parameter, goes on. */
void parameter_changed_after_poll(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, one = {1, p->c, 1, 1}, same = {0, 0, 0, 1}, once = {0, 1, 0, 0};
    float *factor = (float *)okk_global_mem_addr(p->scratch);
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        okk_poll();
        factor[0] = n + 1.f;
        okk_gdma_32bit_cpy_S2L(BANK, p->scratch, &one, NULL, &same);
        okk_gdma_32bit_cpy_S2L(0, at(p->in, p, n), &shape, NULL, NULL);
        okk_bdc_mul(0, 0, BANK, &shape, NULL, NULL, &once);
        okk_gdma_32bit_cpy_L2S(at(p->out, p, n), 0, &shape, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(parameter_changed_after_poll)

/* Writes parameters for the next step while commands run that use others. */
void other_words_while_commands_run(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, one = {1, p->c, 1, 1}, same = {0, 0, 0, 1}, once = {0, 1, 0, 0};
    float *factors = (float *)okk_global_mem_addr(p->scratch);
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        factors[n] = n + 1.f; /* a word of its own for each batch */
        okk_gdma_32bit_cpy_S2L(BANK, p->scratch + n * FLOAT, &one, NULL, &same);
        okk_gdma_32bit_cpy_S2L(0, at(p->in, p, n), &shape, NULL, NULL);
        okk_bdc_mul(0, 0, BANK, &shape, NULL, NULL, &once);
        okk_gdma_32bit_cpy_L2S(at(p->out, p, n), 0, &shape, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(other_words_while_commands_run)

/* The controller reads a result after the poll, and computes with it. */
void result_read_after_poll(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, 1, 1, p->w}, one = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_max_pool2d(BANK, 0, &shape, 1, p->w, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->scratch, BANK, &one, NULL, NULL);
    okk_poll();
    const float largest = *(const float *)okk_global_mem_addr(p->scratch);
    const float same = *(const float *)okk_local_mem_addr(0, BANK);
    okk_bdc_sub_C(0, 0, (largest + same) / 2, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(result_read_after_poll)

/* The controller reads an input while the engines read it too. */
void both_read_the_input(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, 1, 1, p->w};
    const float *in = (const float *)okk_global_mem_addr(p->in);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    const float first = in[0];
    okk_bdc_sub_C(0, 0, first, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(both_read_the_input)

/* A kernel without commands: all by pointers, and no poll needed. */
void pointers_only(const void *args) {
    const args_t *p = args;
    const float *in = (const float *)okk_global_mem_addr(p->in);
    float *out = (float *)okk_global_mem_addr(p->out);
    for (int i = 0; i < p->n; i++) out[i] = in[p->n - 1 - i] + 1.f;
}
OKKERNEL_FUNC_REGISTER(pointers_only)

/* Local memory by pointer: the controller writes one word to every lane. */
void local_words_by_pointer(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int c = 0; c < p->c; c++) *(float *)okk_local_mem_addr(c, 2 * BANK) = (float)c;
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_bias(0, 0, 2 * BANK, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(local_words_by_pointer)

/* A section that holds nothing, and one that holds one command. */
void sections_with_little(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_parallel_start();
    okk_parallel_end();
    okk_parallel_start();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_parallel_end();
    okk_parallel_start();
    okk_bdc_relu(0, 0, &shape, NULL, NULL);
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_parallel_start();
    okk_parallel_end();
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sections_with_little)

/* Weights for later come while the first step runs, and are used behind the section. */
void weights_ahead(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, weights = {DIV_UP(p->c, 2), p->c, 1, 2}, pairs = {1, 1, 1, 1};
    dim4 compact;
    okk_compact_stride(&compact, 0, &weights);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(4 * BANK, p->in2, &weights, &compact, NULL);
    okk_parallel_start();
    okk_bdc_conv2d(2 * BANK, 0, 4 * BANK, 0, &shape, p->c, 1, 1, NULL, &pairs, false, false, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(5 * BANK, p->in3, &weights, &compact, NULL);
    okk_parallel_end();
    okk_bdc_conv2d(0, 2 * BANK, 5 * BANK, 0, &shape, p->c, 1, 1, NULL, &pairs, false, false, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(weights_ahead)

/* Numbers the commands from 1 again in the middle, behind a poll. */
void initialized_twice(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(BANK, p->out, &shape, NULL, NULL);
    okk_bdc_mul_C(BANK, BANK, 2.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(initialized_twice)

/* Gets the ids and sets the same ones again: nothing changes. */
void ids_set_as_they_are(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    unsigned node[3];
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_get_id_node(node);
    okk_set_id_node(node);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(ids_set_as_they_are)

/* Adds to out, which the launch before wrote: launched twice, the first time with k = 0. */
void second_launch_adds(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    if (p->k) {
        okk_gdma_32bit_cpy_S2L(BANK, p->out, &shape, NULL, NULL);
        okk_bdc_add(0, 0, BANK, &shape, NULL, NULL, NULL);
    }
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(second_launch_adds)

/* One result is stored while the other is computed. */
void two_results_overlapped(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_mul_C(BANK, 0, 2.f, &shape, NULL, NULL);
    okk_parallel_start();
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_bdc_mul_C(2 * BANK, 0, 3.f, &shape, NULL, NULL);
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out2, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(two_results_overlapped)

/* More commands than one batch holds, each on what the one before made. */
void many_small_commands(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &one, NULL, NULL);
    for (int i = 0; i < p->n; i++) okk_bdc_add_C(0, 0, 1.f, &one, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(many_small_commands)

/* Rows roll through a buffer; new ones come exactly behind those in use. */
void rolling_rows(const void *args) {
    const args_t *p = args;
    const dim4 rows = {1, p->c, p->k, p->w}, local = {0, 4096, p->w, 1}, image = {0, p->h * p->w, p->w, 1};
    const local_addr_t bytes = p->w * FLOAT; /* 128: rows stay lines */
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &rows, &local, &image);
    okk_parallel_start();
    okk_gdma_32bit_cpy_S2L(p->k * bytes, p->in + p->k * bytes, &rows, &local, &image);
    okk_bdc_mul_C(2 * BANK, 0, 2.f, &rows, NULL, &local);
    okk_parallel_end();
    okk_bdc_mul_C(3 * BANK, p->k * bytes, 2.f, &rows, NULL, &local);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &rows, &image, NULL);
    okk_gdma_32bit_cpy_L2S(p->out + p->k * bytes, 3 * BANK, &rows, &image, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rolling_rows)

/* Nothing to do: no command, and a poll. */
void no_batches(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    float *out = (float *)okk_global_mem_addr(p->out);
    okk_initialize();
    for (int n = 0; n < p->n; n++) okk_gdma_32bit_cpy_S2L(0, at(p->in, p, n), &one, NULL, NULL);
    okk_poll();
    out[0] = 1.f;
}
OKKERNEL_FUNC_REGISTER(no_batches)

/* L2 takes the next table while local memory computes with the one before. */
void next_table_to_l2(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    const unsigned long long l2 = okk_l2_sram_start_addr();
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(l2, p->in, &one, NULL, NULL);
    for (int n = 0; n < p->n; n++) {
        okk_gdma_32bit_cpy_S2L(0, l2 + n % 2 * BANK, &one, NULL, NULL);
        okk_parallel_start();
        if (n + 1 < p->n) okk_gdma_32bit_cpy_S2S(l2 + (n + 1) % 2 * BANK, at(p->in, p, n + 1), &one, NULL, NULL);
        okk_bdc_add_C(BANK, 0, 1.f, &one, NULL, NULL);
        okk_parallel_end();
        okk_gdma_32bit_cpy_L2S(at(p->out, p, n), BANK, &one, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(next_table_to_l2)

/* One array as both operands, in DDR: two loads of it, and one result. */
void same_array_twice(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->in, &shape, NULL, NULL);
    okk_bdc_mul(0, 0, BANK, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(same_array_twice)

/* The controller's own memory holds what it has to remember between two polls. */
void remembers_in_dtcm(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, 1, 1, p->w};
    float *seen = (float *)okk_dtcm_addr(okk_dtcm_start_addr());
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_poll();
    for (int i = 0; i < 4; i++) seen[i] = *(const float *)okk_local_mem_addr(0, i * FLOAT);
    okk_bdc_mul_C(0, 0, seen[0] + seen[1] + seen[2] + seen[3], &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(remembers_in_dtcm)

/* Columns in halves: GDMA fills the right half of rows whose left half is computed, and the other way around. */
void halves_of_rows_in_turn(const void *args) {
    const args_t *p = args;
    const int half = p->w / 2;
    const dim4 part = {1, p->c, p->h, half}, shape = {1, p->c, p->h, p->w}, image = {0, p->h * p->w, p->w, 1};
    dim4 local;
    okk_128_byte_aligned_stride_for_32bit(&local, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &part, &local, &image);
    okk_parallel_start();
    okk_bdc_mul_C(0, 0, 2.f, &part, &local, &local);
    okk_gdma_32bit_cpy_S2L(half * FLOAT, p->in + half * FLOAT, &part, &local, &image);
    okk_parallel_end();
    okk_parallel_start();
    okk_gdma_32bit_cpy_L2S(p->out, 0, &part, &image, &local);
    okk_bdc_mul_C(half * FLOAT, half * FLOAT, 2.f, &part, &local, &local);
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out + half * FLOAT, half * FLOAT, &part, &image, &local);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(halves_of_rows_in_turn)

/* Polls after every batch: nothing left, and nothing wrong. */
void polls_often(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_poll();
    for (int n = 0; n < p->n; n++) {
        okk_gdma_32bit_cpy_S2L(0, at(p->in, p, n), &one, NULL, NULL);
        okk_poll();
        okk_bdc_neg(0, 0, &one, NULL, NULL);
        okk_poll();
        okk_gdma_32bit_cpy_L2S(at(p->out, p, n), 0, &one, NULL, NULL);
        okk_poll();
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(polls_often)

/* Channels go around from lane 63 to the second slot of lane 0; the other stream has the first one. */
void around_beside_another_stream(const void *args) {
    const args_t *p = args;
    const dim4 first = {1, p->c, p->h, p->w}, second = {1, p->oc, p->h, p->w};
    const local_addr_t lane40 = 40 * okk_local_mem_size_per_npu();
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &first, NULL, NULL);
    okk_parallel_start();
    okk_bdc_add_C(0, 0, 1.f, &first, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(lane40, p->in2, &second, NULL, NULL);
    okk_parallel_end();
    okk_gdma_32bit_cpy_L2S(p->out, 0, &first, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out2, lane40, &second, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(around_beside_another_stream)
