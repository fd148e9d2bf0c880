/* TPU_RESIZE: each element along one dimension of the output is a weighted sum of elements of the input along
 * it: linear and cubic interpolation are two or four taps. fp32. What several dimensions need is done one
 * dimension after the other.
 *
 * The indices [taps, length] and the weights [taps, length] give
 *     y[.., i, ..] = sum over t of weights[t][i] * x[.., indices[t][i], ..]
 * user_layers/onnx/resize.py makes both. The products are rounded one by one, the sum from tap 0 on.
 *
 * Inputs: x, int32 indices and weights `[taps, length]`, both constants
 * Makes: weighted sums of elements along a dimension
 */
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_rows.h"
#include "bm_layer_shape.h"
#include "okk.h"

#define MOST_TAPS 64
#define AT_ONCE 16 /* elements of a lane that an instruction computes at a time */
#define LONGEST (CHIP_EXTENT_MAX / 2 + 1) /* elements of a tile along a dimension */

__BM_PARAM__(TPU_RESIZE)
typedef struct {
    int axis; /* negative counts from the end */
    int numerator, denominator; /* For tiles in local memory: element i of y reads elements of x from */
    int low, reach;             /* floor(i * numerator / denominator) + low on, fewer than reach behind; */
                                /* denominator 0: this is not said */
} tpu_resize_param_t;

/* The last two dimensions; the compiler may put others of extent 1 before them. */
static void extents_of(const tpu_tensor_t *list, int *taps, int *length) {
    *taps = list->shape[list->dims - 2];
    *length = list->shape[list->dims - 1];
}

static bool is_list(const tpu_tensor_t *list) {
    return list->dims >= 2 && list->elem_num == list->shape[list->dims - 2] * list->shape[list->dims - 1];
}

/* Whether the indices are where the parameters say. */
static bool in_reach(const tpu_resize_param_t *p, const int *indices, int taps, int length) {
    if (p->denominator == 0) return true;
    if (p->denominator < 0 || p->numerator < 0 || p->reach < 1) return false;
    for (int i = 0; i < length; i++) {
        const long long first = (long long)i * p->numerator / p->denominator + p->low;
        for (int t = 0; t < taps; t++)
            if (indices[t * length + i] < first || indices[t * length + i] >= first + p->reach) return false;
    }
    return true;
}

__BM_SHAPE__(TPU_RESIZE)
int resize_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_resize_param_t) || in_num != 3 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_resize_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0], *indices = &in_tensors[1], *weights = &in_tensors[2];
    const int axis = bm_layer_axis(p->axis, (int)in->dims);
    if (axis < 0 || indices->dims != 2 || !is_list(weights)) return BM_LAYER_PARAM_INVALID;
    if (in->dtype != DTYPE_FP32 || weights->dtype != DTYPE_FP32 || indices->dtype != DTYPE_INT32)
        return BM_LAYER_NOT_SUPPORTED;
    if (indices->shape[0] > MOST_TAPS || indices->host_data == NULL) return BM_LAYER_NOT_SUPPORTED;
    int taps, length;
    extents_of(weights, &taps, &length);
    if (indices->shape[0] != taps || indices->shape[1] != length) return BM_LAYER_PARAM_INVALID;
    for (int i = 0; i < indices->elem_num; i++)
        if (indices->host_data[i] < 0 || indices->host_data[i] >= in->shape[axis]) return BM_LAYER_PARAM_INVALID;
    if (!in_reach(p, indices->host_data, taps, length)) return BM_LAYER_PARAM_INVALID;
    bm_output_like(&out_tensors[0], in, (int)in->dims);
    for (int d = 0; d < (int)in->dims; d++) out_tensors[0].shape[d] = d == axis ? indices->shape[1] : in->shape[d];
    return BM_LAYER_OK;
}

/* x as [outer, extent, inner]; y as [outer, length, inner]. */
typedef struct {
    int outer, extent, length, inner, taps;
    const int *indices;
    u64 x, y, weights;
} job;

/* A tile of y: elements [first, first + length) of the axis, the columns [column, column + columns) of inner, and
 * of x elements [low, low + extent) of the axis. Lanes hold consecutive numbers of outer. Only where inner is 1
 * does a lane hold several, rows. */
typedef struct {
    int first, length, low, extent, column, columns, lanes, rows;
    local_addr_t in, part, out, weights;
} tile;

/* What of the axis the elements [first, first + length) of y need. */
static void window(const job *j, tile *p) {
    int high = p->low = j->indices[p->first];
    for (int t = 0; t < j->taps; t++)
        for (int i = p->first; i < p->first + p->length; i++) {
            const int index = j->indices[t * j->length + i];
            if (index < p->low) p->low = index;
            if (index > high) high = index;
        }
    p->extent = high - p->low + 1;
}

/* Places a tile in local memory; false where it does not fit. */
static bool place(const job *j, tile *p) {
    if (p->length > LONGEST || p->columns > LONGEST || p->extent > CHIP_EXTENT_MAX) return false;
    const long long in = (long long)p->rows * p->extent * p->columns, out = (long long)p->rows * p->length * p->columns;
    if (in > CHIP_LOCAL_WORDS || out > CHIP_LOCAL_WORDS) return false;
    p->in = 0;
    p->part = p->in + 4 * (local_addr_t)local_line((int)in);
    p->out = p->part + 4 * (local_addr_t)local_line((int)out);
    p->weights = p->out + 4 * (local_addr_t)local_line((int)out);
    return (long long)p->weights + 4ll * j->taps * local_line(p->length) <= 4ll * CHIP_LOCAL_WORDS;
}

/* ---- one tile ---- */

/* Elements [first, first + length) along the axis of a tile of y in local memory, with `rows` before and `columns`
 * behind them; one of both is 1. Of x it has the elements from `low` on. part: room like that of out; weights: of each
 * tap a line, in every lane. Strides are in words. */
typedef struct {
    local_addr_t out, part, in, weights;
    const int *indices;
    int all; /* of the indices of a tap */
    int taps, first, length, low;
    int lanes, rows, columns;
    int to_lane, to_row, from_lane, from_row, from_step; /* along the axis, y lies dense */
} line_work;

/* Products of the repeats of a run, which one command has as batches or as the dimension that the others leave. */
static void multiply_run(const line_work *f, local_addr_t to, const bm_runs *r, int t, int i) {
    const int at = f->indices[t * f->all + f->first + i];
    const local_addr_t y = to + 4u * (local_addr_t)(i * f->columns);
    const local_addr_t x = f->in + 4u * (local_addr_t)((at - f->low) * f->from_step);
    const local_addr_t w = f->weights + 4u * (local_addr_t)(t * local_line(f->length) + i);
    const int others = f->rows * f->columns;
    const bool along = r->repeats * divide_up(r->length * others, AT_ONCE) <=
                       r->length * divide_up(r->repeats * others, AT_ONCE); /* the run within a batch */
    const int batches = along ? r->repeats : r->length, count = along ? r->length : r->repeats;
    const int far = along ? r->length : 1, near = along ? 1 : r->length;
    const int jump = (along ? r->again : r->step) * f->from_step, step = (along ? r->step : r->again) * f->from_step;
    if (f->rows > 1) {
        const dim4 shape = {batches, f->lanes, f->rows, count}, dst = {far, f->to_lane, f->to_row, near};
        const dim4 src = {jump, f->from_lane, f->from_row, step}, weight = {far, 0, 0, near};
        okk_bdc_mul(y, x, w, &shape, &dst, &src, &weight);
    } else {
        const dim4 shape = {batches, f->lanes, count, f->columns};
        const dim4 dst = {far * f->columns, f->to_lane, near * f->columns, 1};
        const dim4 src = {jump, f->from_lane, step, 1}, weight = {far, 0, near, 0};
        okk_bdc_mul(y, x, w, &shape, &dst, &src, &weight);
    }
}

static void compute(const line_work *f) {
    const dim4 whole = {1, f->lanes, f->rows, f->length * f->columns};
    for (int t = 0; t < f->taps; t++) {
        const local_addr_t to = t == 0 ? f->out : f->part;
        const int *index = f->indices + t * f->all + f->first;
        for (int i = 0; i < f->length;) {
            const bm_runs r = bm_runs_of(bm_order_at, index, i, f->length, false);
            multiply_run(f, to, &r, t, i);
            i += r.length * r.repeats;
        }
        if (t > 0) okk_bdc_add(f->out, f->out, f->part, &whole, NULL, NULL, NULL);
    }
}

/* The work on a tile of the global function, whose lanes lie dense; a lane's elements are rows or columns. */
static line_work work_of(const job *j, const tile *p) {
    return (line_work){.out = p->out, .part = p->part, .in = p->in, .weights = p->weights, .indices = j->indices,
                       .all = j->length, .taps = j->taps, .first = p->first, .length = p->length, .low = p->low,
                       .lanes = p->lanes, .rows = p->rows, .columns = p->columns,
                       .to_row = p->length * p->columns, .from_row = p->extent * p->columns, .from_step = p->columns};
}

static void load_weights(const job *j, const tile *p) {
    const dim4 shape = {1, CHIP_NPU_NUM, 1, p->length}, every = {0, 0, 0, 1}; /* the same in each lane */
    for (int t = 0; t < j->taps; t++)
        okk_gdma_32bit_cpy_S2L(p->weights + 4u * (local_addr_t)(t * local_line(p->length)),
                               j->weights + 4ull * (u64)((long long)t * j->length + p->first), &shape, &every, &every);
}

/* The numbers [at, at + lanes * rows) of outer. */
static void run_tile(const job *j, const tile *p, int at) {
    const line_work work = work_of(j, p);
    const long long in = (long long)j->extent * j->inner, out = (long long)j->length * j->inner;
    if (p->rows > 1) {
        const dim4 load = {1, p->lanes, p->rows, p->extent}, store = {1, p->lanes, p->rows, p->length};
        const dim4 from = {0, (int)in * p->rows, (int)in, 1}, to = {0, (int)out * p->rows, (int)out, 1};
        const dim4 local_in = {0, 0, p->extent, 1}, local_out = {0, 0, p->length, 1};
        okk_gdma_32bit_cpy_S2L(p->in, j->x + 4ull * (u64)(at * in + p->low), &load, &local_in, &from);
        compute(&work);
        okk_gdma_32bit_cpy_L2S(j->y + 4ull * (u64)(at * out + p->first), p->out, &store, &to, &local_out);
        return;
    }
    const dim4 load = {1, p->lanes, p->extent, p->columns}, store = {1, p->lanes, p->length, p->columns};
    const dim4 from = {0, (int)in, j->inner, 1}, to = {0, (int)out, j->inner, 1}, local = {0, 0, p->columns, 1};
    okk_gdma_32bit_cpy_S2L(p->in, j->x + 4ull * (u64)(at * in + (long long)p->low * j->inner + p->column), &load,
                           &local, &from);
    compute(&work);
    okk_gdma_32bit_cpy_L2S(j->y + 4ull * (u64)(at * out + (long long)p->first * j->inner + p->column), p->out, &store,
                           &to, &local);
}

/* ---- all of them ---- */

/* The largest tile that begins at element `first` of the axis: narrower, then shorter, until it fits. */
static bool fit(const job *j, tile *p, int first) {
    p->first = first;
    p->length = smaller(j->length - first, LONGEST);
    p->rows = 1;
    for (;; p->length = (p->length + 1) / 2) {
        const int least = p->length == 1 ? 1 : smaller(j->inner, CHIP_ALIGN_WORDS);
        window(j, p);
        p->columns = smaller(j->inner, LONGEST);
        for (;;) {
            if (place(j, p)) return true;
            if (p->columns <= least) break;
            p->columns = larger(p->columns / 2, least);
        }
        if (p->length == 1) return false;
    }
}

static void run_rows(const job *j, tile p) {
    int at = 0;
    while (j->inner == 1 && j->outer - at >= 2 * CHIP_NPU_NUM) { /* as many rows in each lane as fit */
        p.lanes = CHIP_NPU_NUM;
        p.rows = (j->outer - at) / CHIP_NPU_NUM;
        while (p.rows > LONGEST || !place(j, &p)) p.rows = (p.rows + 1) / 2;
        if (p.rows < 2) break;
        load_weights(j, &p);
        for (; j->outer - at >= CHIP_NPU_NUM * p.rows; at += CHIP_NPU_NUM * p.rows) run_tile(j, &p, at);
    }
    p.rows = 1;
    place(j, &p);
    load_weights(j, &p);
    for (; at < j->outer; at += p.lanes) {
        p.lanes = smaller(j->outer - at, CHIP_NPU_NUM);
        for (p.column = 0; p.column < j->inner; p.column += p.columns) {
            tile narrow = p;
            if (j->inner - p.column < p.columns) narrow.columns = j->inner - p.column;
            run_tile(j, &narrow, at);
        }
    }
}

__BM_GLOBAL__(TPU_RESIZE)
int resize_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_resize_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0], *indices = &in_tensors[1];
    const int axis = bm_layer_axis(p->axis, (int)in->dims);
    const job j = {.outer = (int)bm_layer_elements(in->shape, 0, axis),
                   .extent = in->shape[axis],
                   .length = indices->shape[1],
                   .inner = (int)bm_stride_of(in, axis),
                   .taps = indices->shape[0],
                   .indices = indices->host_data,
                   .x = in->addr,
                   .y = out_tensors[0].addr,
                   .weights = in_tensors[2].addr};
    okk_initialize();
    for (int first = 0; first < j.length;) {
        tile part = {0};
        if (!fit(&j, &part, first)) return BM_LAYER_NOT_SUPPORTED;
        run_rows(&j, part);
        first += part.length;
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: x and y lie aligned; along h, or along w with as many rows ---- */

__BM_LOCAL__(TPU_RESIZE)
int resize_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const tpu_resize_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0], *out = &out_tensors[0];
    const int axis = bm_layer_axis(p->axis, (int)in->dims);
    int a[4] = {1, 1, 1, 1}, b[4] = {1, 1, 1, 1}, behind[4] = {0}; /* behind: where y begins in x */
    for (int d = 0; d < (int)in->dims; d++) {
        a[d] = in->slice_shape[d];
        b[d] = out->slice_shape[d];
        behind[d] = d == axis ? 0 : out->processed[d] - in->processed[d];
    }
    const int to_lane = local_line(b[2] * b[3]), from_lane = local_line(a[2] * a[3]), at = out->processed[axis];
    line_work f = {.indices = in_tensors[1].host_data, .first = at, .length = b[axis], .low = in->processed[axis],
                   .lanes = b[1], .rows = axis == 3 ? b[2] : 1, .columns = axis == 3 ? 1 : b[3],
                   .to_lane = to_lane, .to_row = b[3], .from_lane = from_lane, .from_row = a[3],
                   .from_step = axis == 3 ? 1 : a[3], .weights = (local_addr_t)buffer_offset};
    extents_of(&in_tensors[2], &f.taps, &f.all);
    f.part = f.weights + 4u * (local_addr_t)(f.taps * local_line(f.length));
    for (int t = 0; t < f.taps; t++)
        bm_spread_row(f.weights + 4u * (local_addr_t)(t * local_line(f.length)),
                      (local_addr_t)in_tensors[2].addr + 4u * (local_addr_t)(t * f.all + at),
                      smaller(b[1], CHIP_NPU_NUM), f.length);
    for (int n = 0; n < b[0]; n++) {
        f.out = (local_addr_t)out->addr + 4u * (local_addr_t)(n * local_slots(b[1]) * to_lane);
        f.in = (local_addr_t)in->addr + 4u * (local_addr_t)(n * local_slots(a[1]) * from_lane + behind[2] * a[3] + behind[3]);
        compute(&f);
    }
    return BM_LAYER_OK;
}
