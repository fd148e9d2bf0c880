/* TPU_LOOKUP: any function of one 8-bit element, by a table: y = table[x].
 *
 * The table has the results of the bytes 0 to 255: for int8 those of 0..127, then of -128..-1. It lies in L2 four times, each
 * copy's entries shifted into another byte of a word, so that the results of a word's batches are joined as they are. A
 * batch takes 24 cycles for 16 elements of a lane, each further one of the same word 28.
 *
 * Inputs: x as int8 or uint8 in 4N, a constant of 256 elements of int8 or uint8
 * Makes: what the table says of each element
 */
#include "bm_atomic.h"
#include "bm_layer_packed.h"
#include "bm_layer_shape.h"
#include "okk.h"

#define ENTRIES 256

__BM_PARAM__(TPU_LOOKUP)
typedef struct {
    int dtype;   /* of the result: DTYPE_INT8 or DTYPE_UINT8 */
    float scale; /* of the result */
} tpu_lookup_param_t;

__BM_SHAPE__(TPU_LOOKUP)
int lookup_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_lookup_param_t) || in_num != 2 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_lookup_param_t *p = param;
    const tpu_tensor_t *table = &in_tensors[1];
    if (!bm_packed_result(p->dtype, p->scale)) return BM_LAYER_PARAM_INVALID;
    if (!bm_is_packed(&in_tensors[0]) || !bm_is_packed_words(table)) return BM_LAYER_NOT_SUPPORTED;
    if (table->elem_num != BM_PACKED * ENTRIES) return BM_LAYER_PARAM_INVALID;
    bm_layer_same_shape(&out_tensors[0], &in_tensors[0]);
    bm_packed_output(&out_tensors[0], p->dtype, p->scale);
    return BM_LAYER_OK;
}

/* One batch of each word. table: its address in L2. */
static void look_up(local_addr_t y, local_addr_t x, const dim4 *words, u64 table) {
    const TableLookupParam p = {.table_addr = (unsigned int)(table - CHIP_L2_BASE),
                                .index_addr = x,
                                .output_addr = y,
                                .shape = {(unsigned int)words->n, (unsigned int)words->c, (unsigned int)words->h,
                                          (unsigned int)words->w},
                                .table_len = ENTRIES,
                                .index_prec = 1};
    bm_atomic_table_lookup(&p);
}

/* The first batches of each word, at most four; the others are nobody's. */
static void look_up_words(local_addr_t y, local_addr_t x, local_addr_t work, const dim4 *words, int batches, u64 tables) {
    look_up(y, x, words, tables);
    for (int k = 1; k < batches; k++) {
        okk_bdc_32bit_logical_shift_C(work, x, -8 * k, words, NULL, NULL);
        look_up(work, work, words, tables + 4u * ENTRIES * (unsigned int)k);
        okk_bdc_32bit_or(y, y, work, words, NULL, NULL, NULL);
    }
}

/* param: where the tables lie. The last word of a tile may have fewer batches. */
static void compute(const void *run, const bm_job *job) {
    const bm_packed *r = run;
    const u64 tables = *(const u64 *)r->param;
    const local_addr_t y = job->y.addr, x = job->x[0].addr, work = bm_work(job, 0);
    const int rest = r->batches % BM_PACKED;
    dim4 words = job->shape, aligned;
    if (rest > 0) {
        okk_128_byte_aligned_stride_for_32bit(&aligned, 0, &words);
        const local_addr_t last = 4u * (local_addr_t)((words.n - 1) * aligned.n);
        const dim4 one = {1, words.c, words.h, words.w};
        look_up_words(y + last, x + last, work, &one, rest, tables);
        words.n--;
    }
    if (words.n > 0) look_up_words(y, x, work, &words, smaller(r->in[0].shape[0], BM_PACKED), tables);
}

/* Batches `from`, which begins a word, and on of a tensor in DDR. */
static tpu_tensor_t part_of(const tpu_tensor_t *t, int from, int batches) {
    tpu_tensor_t part = *t;
    const int elements = t->elem_num / t->shape[0];
    part.addr += (u64)from * (u64)elements; /* bytes */
    part.shape[0] = batches;
    part.elem_num = elements * batches;
    return part;
}

/* Words that are full, then those that are not, whose other batches are nobody's. */
__BM_GLOBAL__(TPU_LOOKUP)
int lookup_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const u64 tables = CHIP_L2_BASE + CHIP_L2_USER_OFFSET;
    const dim4 all = {1, 1, 1, BM_PACKED * ENTRIES};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(tables, in_tensors[1].addr, &all, NULL, NULL);
    const int batches = in_tensors[0].shape[0], rest = batches % BM_PACKED;
    for (int from = 0, count; from < batches; from += count) {
        count = from < batches - rest ? batches - rest : rest;
        const tpu_tensor_t in = part_of(&in_tensors[0], from, count), out = part_of(&out_tensors[0], from, count);
        bm_packed_whole((bm_packed){&tables, &out, &in, 0}, 1, 1, compute);
    }
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_LOOKUP)
int lookup_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const u64 tables = in_tensors[1].addr;
    bm_packed_tile((bm_packed){&tables, out_tensors, in_tensors, 0}, 1, buffer_offset, compute);
    return BM_LAYER_OK;
}
