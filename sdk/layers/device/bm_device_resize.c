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
#include "bm_layer_shape.h"
#include "okk.h"

#define MOST_TAPS 64
#define LONGEST (CHIP_EXTENT_MAX / 2 + 1) /* elements of a tile along a dimension */

__BM_PARAM__(TPU_RESIZE)
typedef struct {
    int axis; /* negative counts from the end */
} tpu_resize_param_t;

__BM_SHAPE__(TPU_RESIZE)
int resize_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_resize_param_t) || in_num != 3 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_resize_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0], *indices = &in_tensors[1], *weights = &in_tensors[2];
    const int axis = bm_layer_axis(p->axis, (int)in->dims);
    if (axis < 0 || indices->dims != 2 || weights->dims != 2) return BM_LAYER_PARAM_INVALID;
    if (in->dtype != DTYPE_FP32 || weights->dtype != DTYPE_FP32 || indices->dtype != DTYPE_INT32)
        return BM_LAYER_NOT_SUPPORTED;
    if (indices->shape[0] > MOST_TAPS || indices->host_data == NULL) return BM_LAYER_NOT_SUPPORTED;
    for (int d = 0; d < 2; d++)
        if (indices->shape[d] != weights->shape[d]) return BM_LAYER_PARAM_INVALID;
    for (int i = 0; i < indices->elem_num; i++)
        if (indices->host_data[i] < 0 || indices->host_data[i] >= in->shape[axis]) return BM_LAYER_PARAM_INVALID;
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

/* part[i] = x[index[i]] along the axis, run by run. */
static void choose(const tile *p, const int *index) {
    for (int i = 0; i < p->length;) {
        const bm_runs r = bm_runs_of(bm_order_at, index, i, p->length, false);
        const local_addr_t to = p->part + 4u * (local_addr_t)(i * p->columns);
        const local_addr_t from = p->in + 4u * (local_addr_t)((index[i] - p->low) * p->columns);
        dim4 shape = {r.repeats, p->lanes, r.length, p->columns};
        dim4 dst = {r.length * p->columns, 0, p->columns, 1}, src = {r.again * p->columns, 0, r.step * p->columns, 1};
        if (p->rows > 1) { /* of one column: h is free for them */
            shape = (dim4){r.repeats, p->lanes, p->rows, r.length};
            dst = (dim4){r.length, 0, p->length, 1};
            src = (dim4){r.again, 0, p->extent, r.step};
        }
        okk_bdc_32bit_cpy(to, from, &shape, &dst, &src);
        i += r.length * r.repeats;
    }
}

static void compute(const job *j, const tile *p) {
    const bool rows = p->rows > 1;
    const dim4 shape = {1, p->lanes, rows ? p->rows : p->length, rows ? p->length : p->columns};
    const dim4 dense = {0, 0, shape.w, 1};
    const dim4 weight = {0, 0, rows ? 0 : 1, rows ? 1 : 0};
    for (int t = 0; t < j->taps; t++) {
        const local_addr_t w = p->weights + 4u * (local_addr_t)(t * local_line(p->length));
        choose(p, j->indices + t * j->length + p->first);
        okk_bdc_mul(t == 0 ? p->out : p->part, p->part, w, &shape, &dense, &dense, &weight);
        if (t > 0) okk_bdc_add(p->out, p->out, p->part, &shape, &dense, &dense, &dense);
    }
}

static void load_weights(const job *j, const tile *p) {
    const dim4 shape = {1, CHIP_NPU_NUM, 1, p->length}, every = {0, 0, 0, 1}; /* the same in each lane */
    for (int t = 0; t < j->taps; t++)
        okk_gdma_32bit_cpy_S2L(p->weights + 4u * (local_addr_t)(t * local_line(p->length)),
                               j->weights + 4ull * (u64)((long long)t * j->length + p->first), &shape, &every, &every);
}

/* The numbers [at, at + lanes * rows) of outer. */
static void run_tile(const job *j, const tile *p, int at) {
    const long long in = (long long)j->extent * j->inner, out = (long long)j->length * j->inner;
    if (p->rows > 1) {
        const dim4 load = {1, p->lanes, p->rows, p->extent}, store = {1, p->lanes, p->rows, p->length};
        const dim4 from = {0, (int)in * p->rows, (int)in, 1}, to = {0, (int)out * p->rows, (int)out, 1};
        const dim4 local_in = {0, 0, p->extent, 1}, local_out = {0, 0, p->length, 1};
        okk_gdma_32bit_cpy_S2L(p->in, j->x + 4ull * (u64)(at * in + p->low), &load, &local_in, &from);
        compute(j, p);
        okk_gdma_32bit_cpy_L2S(j->y + 4ull * (u64)(at * out + p->first), p->out, &store, &to, &local_out);
        return;
    }
    const dim4 load = {1, p->lanes, p->extent, p->columns}, store = {1, p->lanes, p->length, p->columns};
    const dim4 from = {0, (int)in, j->inner, 1}, to = {0, (int)out, j->inner, 1}, local = {0, 0, p->columns, 1};
    okk_gdma_32bit_cpy_S2L(p->in, j->x + 4ull * (u64)(at * in + (long long)p->low * j->inner + p->column), &load,
                           &local, &from);
    compute(j, p);
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
