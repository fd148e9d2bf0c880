/* TPU_ARG: where along one dimension the largest or smallest number is, as int32. Among equal numbers the first one or
 * the last. Where a NaN is compared the index is one of the dimension, but which is not said.
 *
 * Inputs: x
 * Makes: where the largest or smallest number along a dimension is, int32
 */
#include "bm_layer_reduce.h"
#include "bm_layer_shape.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define WORDS 11904           /* 32-bit words of a lane that one of eleven buffers takes */
#define BYTES (4 * WORDS)
#define ROWS_MAX (1 << 24)    /* indices are fp32 numbers until the end */
#define FAR (2.0f * ROWS_MAX) /* farther than any index */

__BM_PARAM__(TPU_ARG)
typedef struct {
    int axis;        /* negative counts from the end */
    int keep_dims;   /* 1: the dimension stays, with extent 1 */
    int select_last; /* 1: the last of equal numbers */
    int smallest;    /* 1: of the smallest number, ArgMin */
} tpu_arg_param_t;

__BM_SHAPE__(TPU_ARG)
int arg_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
              tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_arg_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_arg_param_t *p = param;
    const int dims = (int)in_tensors[0].dims, axis = bm_layer_axis(p->axis, dims);
    if (axis < 0 || ((p->keep_dims | p->select_last | p->smallest) & ~1)) return BM_LAYER_PARAM_INVALID;
    if (!bm_layer_all_fp32(in_tensors, 1) || in_tensors[0].shape[axis] > ROWS_MAX) return BM_LAYER_NOT_SUPPORTED;
    tpu_tensor_t *out = &out_tensors[0];
    int made = 0;
    for (int d = 0; d < dims; d++)
        if (d != axis || p->keep_dims) out->shape[made++] = d == axis ? 1 : in_tensors[0].shape[d];
    if (made == 0) out->shape[made++] = 1; /* one number */
    out->ttype = BMNET_NEURON;
    out->dtype = DTYPE_INT32;
    out->dims = (unsigned int)made;
    return BM_LAYER_OK;
}

/* The lanes' buffers; `best` and `index` stay while a tile's rows are gone through. */
enum { INPUT = 0, WORK = 2 * BYTES, NUMBERS = 3 * BYTES, BEST = 4 * BYTES, INDEX = 5 * BYTES, NEW_BEST = 6 * BYTES,
       NEW_INDEX = 7 * BYTES, RESULT = 8 * BYTES, WORK_BESIDE = 10 * BYTES };

/* 0, 1, 2 ... in every lane. */
static void count_up(int rows) {
    const dim4 all = {1, CHIP_NPU_NUM, 1, rows}, first = {1, CHIP_NPU_NUM, 1, 1};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &all);
    okk_bdc_32bit_set_C(NUMBERS, (x32){.fp32 = 0}, &first, &stride);
    for (int made = 1; made < rows; made *= 2) {
        const dim4 more = {1, CHIP_NPU_NUM, 1, smaller(made, rows - made)};
        okk_bdc_add_C(NUMBERS + 4u * (local_addr_t)made, NUMBERS, (float)made, &more, &stride, &stride);
    }
}

static void compute(const tpu_arg_param_t *p, const bm_reduce_block *s, local_addr_t x, local_addr_t out, int reduced) {
    const bm_fold_shape folded = {bm_reduce_lanes(s), s->each, s->rows, s->width};
    const int plane = s->rows * s->width;
    const dim4 all = {s->each, folded.lanes, s->rows, s->width}, flat = {1, folded.lanes, 1, s->each * plane};
    const dim4 row = {1, folded.lanes, 1, s->each * s->width};
    const int fold = p->smallest ? BM_FOLD_MIN : BM_FOLD_MAX;
    const local_addr_t best = s->row == 0 ? BEST : NEW_BEST, index = s->row == 0 ? INDEX : NEW_INDEX;
    dim4 stride, once;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &flat);
    okk_128_byte_aligned_stride_for_32bit(&once, 0, &row);
    stride.n = plane;
    stride.h = once.n = s->width;
    once.h = 0;
    bm_fold_rows(fold, best, x, WORK, &folded);
    /* The index for numbers as good as the best one, something far away for the others. */
    const x32 far = {.fp32 = p->select_last ? -FAR : FAR};
    const dim4 counted = {0, 0, 1, 0};
    if (p->smallest)
        okk_bdc_greater_select_value(WORK, x, best, far, &all, &stride, &stride, &once);
    else
        okk_bdc_greater_select_value(WORK, best, x, far, &all, &stride, &once, &stride);
    okk_bdc_add(WORK, WORK, NUMBERS, &all, &stride, &stride, &counted);
    bm_fold_rows(p->select_last ? BM_FOLD_MAX : BM_FOLD_MIN, index, WORK, WORK_BESIDE, &folded);
    okk_bdc_add_C(index, index, (float)s->row, &row, NULL, NULL);
    if (s->row != 0) {
        /* Is one of these rows better than those before, or, for the last one, as good? */
        const fp32_or_addr_t before = {.is_addr = true, .context.addr = BEST};
        const fp32_or_addr_t now = {.is_addr = true, .context.addr = best};
        const x32_or_addr_t old = {.is_addr = true, .context.addr = INDEX};
        const x32_or_addr_t made = {.is_addr = true, .context.addr = index};
        const fp32_or_addr_t *high = p->smallest ? &before : &now, *low = p->smallest ? &now : &before;
        if (p->select_last)
            okk_bdc_greater_select(INDEX, low, high, &old, &made, &row);
        else
            okk_bdc_greater_select(INDEX, high, low, &made, &old, &row);
        bm_fold_two(fold, BEST, BEST, best, &row, NULL, NULL, NULL);
    }
    if (s->row + s->rows < reduced) return;
    okk_bdc_min_C(INDEX, INDEX, (float)(reduced - 1), &row, NULL, NULL); /* what only NaN leads to */
    okk_bdc_max_C(INDEX, INDEX, 0, &row, NULL, NULL);
    okk_bdc_fp32_to_int32(out, INDEX, &row);
}

__BM_GLOBAL__(TPU_ARG)
int arg_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_arg_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    const int dims = (int)in->dims, axis = bm_layer_axis(p->axis, dims), reduced = in->shape[axis];
    const int outer = (int)bm_layer_elements(in->shape, 0, axis);
    const int inner = (int)bm_layer_elements(in->shape, axis + 1, dims);
    const bm_reduce_use use = {outer, reduced, inner, .words = WORDS, .most_each = WORDS, .cycles = 9, .commands = 12};
    const bm_reduce_cut cut = bm_reduce_cut_of(&use);
    bm_reduce_block now = {0}, next, stored = {0};

    okk_initialize();
    count_up(cut.rows);
    bm_reduce_measure(&cut, &use, &now);
    bm_reduce_load(&cut, &use, &now, in->addr, INPUT);
    local_addr_t at = 0, out_at = 0;
    for (bool more = true, storing = false; more || storing;) {
        const bool computing = more;
        const local_addr_t stored_at = out_at;
        okk_parallel_start();
        if (computing) {
            next = now;
            more = bm_reduce_next(&cut, &use, &next);
            if (more) bm_reduce_load(&cut, &use, &next, in->addr, INPUT + BYTES - at);
            if (now.row == 0) out_at = BYTES - out_at;
            compute(p, &now, INPUT + at, RESULT + out_at, reduced);
            at = BYTES - at;
        }
        if (storing) bm_reduce_store(&cut, &use, &stored, out_tensors[0].addr, RESULT + stored_at, true);
        okk_parallel_end();
        storing = computing && now.row + now.rows == reduced;
        stored = now;
        now = next;
    }
    okk_poll();
    return BM_LAYER_OK;
}
