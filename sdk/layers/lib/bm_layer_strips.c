#include "bm_layer_strips.h"

#include "bm_layer_move.h"
#include "bm_layer_pipeline.h"
#include "bm_layer_shape.h"

static dim4 stride_of(const bm_strips *t) {
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &t->shape);
    return stride;
}

static local_addr_t row_of(const bm_strips *t, int row) {
    return t->addr + 4u * (local_addr_t)((row - t->first) * t->shape.w);
}

/* What of the rows is in y: an empty shape if none. */
static dim4 rows_of(const bm_strips *y, int *to, int *from, int rows) {
    const int begin = larger(*to, y->first), end = smaller(*to + rows, y->first + y->shape.h);
    *from += begin - *to;
    *to = begin;
    return (dim4){1, y->shape.c, end - begin, y->shape.w};
}

void bm_strips_shift(const bm_strips *y, int to, const bm_strips *x, int from, int rows, int places) {
    const dim4 shape = rows_of(y, &to, &from, rows), ys = stride_of(y), xs = stride_of(x);
    if (shape.h > 0) okk_bdc_32bit_logical_shift_C(row_of(y, to), row_of(x, from), places, &shape, &ys, &xs);
}

void bm_strips_and(const bm_strips *y, int to, const bm_strips *x, int from, int rows, unsigned int mask) {
    const dim4 shape = rows_of(y, &to, &from, rows), ys = stride_of(y), xs = stride_of(x);
    if (shape.h <= 0) return;
    if (mask == BM_ONES)
        okk_bdc_32bit_cpy(row_of(y, to), row_of(x, from), &shape, &ys, &xs);
    else
        okk_bdc_32bit_and_C(row_of(y, to), row_of(x, from), bm_word(mask), &shape, &ys, &xs);
}

void bm_strips_or(const bm_strips *y, int to, const bm_strips *x, int from, int rows) {
    const dim4 shape = rows_of(y, &to, &from, rows), ys = stride_of(y), xs = stride_of(x);
    if (shape.h > 0) okk_bdc_32bit_or(row_of(y, to), row_of(y, to), row_of(x, from), &shape, &ys, &ys, &xs);
}

void bm_strips_or_word(const bm_strips *y, int to, int rows, unsigned int word) {
    int from = 0;
    const dim4 shape = rows_of(y, &to, &from, rows), ys = stride_of(y);
    if (word && shape.h > 0) okk_bdc_32bit_or_C(row_of(y, to), row_of(y, to), bm_word(word), &shape, &ys, &ys);
}

void bm_strips_set(const bm_strips *y, int to, int rows, unsigned int word) {
    int from = 0;
    const dim4 shape = rows_of(y, &to, &from, rows), ys = stride_of(y);
    if (shape.h > 0) okk_bdc_32bit_set_C(row_of(y, to), bm_word(word), &shape, &ys);
}

int bm_strips_shape(tpu_tensor_t *out, const tpu_tensor_t *in, int batches, int out_batches, long long rows) {
    if (!bm_is_packed(in) || (in->dims != 3 && in->dims != 4) || in->shape[0] != batches) return BM_LAYER_NOT_SUPPORTED;
    if (rows < 1 || rows > BM_STRIPS_ROWS || in->shape[2] > BM_STRIPS_ROWS) return BM_LAYER_NOT_SUPPORTED;
    bm_output_like(out, in, (int)in->dims);
    out->shape[0] = out_batches;
    out->shape[1] = in->shape[1];
    out->shape[2] = (int)rows;
    if (in->dims == 4) out->shape[3] = in->shape[3];
    return BM_LAYER_OK;
}

/* ---- global: channels and columns in a pipeline of tiles, rows whole ---- */

typedef struct {
    const void *param;
    bm_strips_function function;
    bm_addr_t x, y;
    int channels, width, rows[2]; /* rows of x and y */
    int c, w, ws;                 /* of a tile, and how many tiles there are in a row */
    local_addr_t input[2], output[2], work;
} strips_run;

/* The tile of x (0) or y (1), its first word in DDR, and the steps there. */
static bm_strips tile_of(const strips_run *r, int step, int which, u64 *at, dim4 *stride) {
    const int w = step % r->ws * r->w, c = step / r->ws * r->c;
    *stride = (dim4){0, r->rows[which] * r->width, r->width, 1};
    *at = 4 * ((u64)c * (u64)stride->c + (u64)w);
    const local_addr_t addr = which ? r->output[step % 2] : r->input[step % 2];
    return (bm_strips){addr, {1, smaller(r->c, r->channels - c), r->rows[which], smaller(r->w, r->width - w)}, 0};
}

static void load_tile(const void *run, int step) {
    const strips_run *r = run;
    u64 at;
    dim4 stride;
    const bm_strips x = tile_of(r, step, 0, &at, &stride);
    okk_gdma_32bit_cpy_S2L(x.addr, r->x + at, &x.shape, NULL, &stride);
}

static void compute_tile(const void *run, int step) {
    const strips_run *r = run;
    u64 at;
    dim4 stride;
    const bm_strips x = tile_of(r, step, 0, &at, &stride), y = tile_of(r, step, 1, &at, &stride);
    r->function(r->param, &y, &x, r->work);
}

static void store_tile(const void *run, int step) {
    const strips_run *r = run;
    u64 at;
    dim4 stride;
    const bm_strips y = tile_of(r, step, 1, &at, &stride);
    okk_gdma_32bit_cpy_L2S(r->y + at, y.addr, &y.shape, &stride, NULL);
}

void bm_strips_whole(const void *param, const tpu_tensor_t *out, const tpu_tensor_t *in, bm_strips_function function) {
    strips_run r = {.param = param, .function = function, .x = in->addr, .y = out->addr, .channels = in->shape[1],
                    .width = in->dims == 4 ? in->shape[3] : 1, .rows = {in->shape[2], out->shape[2]}};
    long long x, y;
    r.c = smaller(r.channels, CHIP_CHANNELS_WHOLE);
    r.w = r.width;
    for (;;) {
        x = local_bytes(1, r.c, r.rows[0], r.w);
        y = local_bytes(1, r.c, r.rows[1], r.w);
        if (2 * x + 3 * y <= CHIP_LOCAL_BYTES) break;
        if (r.c > CHIP_NPU_NUM)
            r.c = divide_up(divide_up(r.c, 2), CHIP_NPU_NUM) * CHIP_NPU_NUM;
        else
            r.w = divide_up(r.w, 2); /* one column fits: BM_STRIPS_ROWS */
    }
    r.ws = divide_up(r.width, r.w);
    for (unsigned int i = 0; i < 2; i++) {
        r.input[i] = i * (local_addr_t)x;
        r.output[i] = 2 * (local_addr_t)x + i * (local_addr_t)y;
    }
    r.work = 2 * (local_addr_t)x + 2 * (local_addr_t)y;
    okk_initialize();
    bm_run_pipeline(divide_up(r.channels, r.c) * r.ws, &r, load_tile, compute_tile, store_tile);
    okk_poll();
}

void bm_strips_tile(const void *param, const tpu_tensor_t *out, const tpu_tensor_t *in, u64 buffer_offset,
                    bm_strips_function function) {
    const int *a = in->slice_shape, *b = out->slice_shape;
    const bm_strips x = {(local_addr_t)in->addr, {1, a[1], a[2], a[3]}, 0};
    const bm_strips y = {(local_addr_t)out->addr, {1, b[1], b[2], b[3]}, out->processed[2]};
    function(param, &y, &x, (local_addr_t)buffer_offset);
}
