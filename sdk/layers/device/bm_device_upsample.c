/* TPU_UPSAMPLE: each element of [N, C, H, W] scale_h times along h and scale_w times along w; 32-bit elements,
 * or integers in 4N or 2N.
 *
 * Inputs: x `[N, C, H, W]` of 32-bit elements, or integers in 4N or 2N
 * Makes: each element several times along h and w
 */
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_pipeline.h"
#include "bm_layer_shape.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define SCALE_MAX 64

__BM_PARAM__(TPU_UPSAMPLE)
typedef struct {
    int scale_h, scale_w; /* 1..SCALE_MAX */
} tpu_upsample_param_t;

__BM_SHAPE__(TPU_UPSAMPLE)
int upsample_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                   tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_upsample_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_upsample_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    if (p->scale_h < 1 || p->scale_w < 1) return BM_LAYER_PARAM_INVALID;
    if (p->scale_h > SCALE_MAX || p->scale_w > SCALE_MAX || in->dims != 4) return BM_LAYER_NOT_SUPPORTED;
    if (bm_element_bytes(in->dtype) * bm_layer_together(in) != 4) return BM_LAYER_NOT_SUPPORTED;
    const long long h = (long long)in->shape[2] * p->scale_h, w = (long long)in->shape[3] * p->scale_w;
    if (h * w > 0x7fffffff) return BM_LAYER_NOT_SUPPORTED;
    bm_output_like(out, in, 4);
    out->shape[0] = in->shape[0];
    out->shape[1] = in->shape[1];
    out->shape[2] = (int)h;
    out->shape[3] = (int)w;
    return BM_LAYER_OK;
}

/* ---- in local memory, everything aligned from NPU 0 on ---- */

/* Along one direction: the elements of the output that are copy number `turn` of theirs, `first` being the index of the
 * output's first element and `in` that of the input's. */
typedef struct {
    int start, count, source;
} share;

static share share_of(int turn, int scale, int first, int extent, int in) {
    const int start = (turn - first % scale + scale) % scale;
    return (share){start, start < extent ? (extent - 1 - start) / scale + 1 : 0, (first + start) / scale - in};
}

static void repeat(const tpu_upsample_param_t *p, local_addr_t output, local_addr_t input, const dim4 *out,
                   const dim4 *in, dim2 out_first, dim2 in_first) {
    dim4 to, from;
    okk_128_byte_aligned_stride_for_32bit(&to, 0, out);
    okk_128_byte_aligned_stride_for_32bit(&from, 0, in);
    const dim4 step = {to.n, to.c, p->scale_h * to.h, p->scale_w};
    for (int y = 0; y < p->scale_h; y++) {
        const share h = share_of(y, p->scale_h, out_first.h, out->h, in_first.h);
        for (int x = 0; x < p->scale_w; x++) {
            const share w = share_of(x, p->scale_w, out_first.w, out->w, in_first.w);
            if (h.count == 0 || w.count == 0) continue;
            const dim4 shape = {out->n, out->c, h.count, w.count};
            okk_bdc_32bit_cpy(output + 4u * (local_addr_t)(h.start * to.h + w.start),
                              input + 4u * (local_addr_t)(h.source * from.h + w.source), &shape, &step, &from);
        }
    }
}

/* ---- global: planes of all batches and channels side by side, a pipeline of tiles ---- */

typedef struct {
    const tpu_upsample_param_t *param;
    bm_addr_t x, y;
    int planes, height, width; /* of the input */
    int c, h, w;               /* of a tile of it */
    int hs, ws;                /* how many tiles in a plane */
    local_addr_t input[2], output[2];
} upsampling;

typedef struct {
    int c, h, w; /* first plane, row and column of the input */
    dim4 input, output;
} tile;

static tile tile_at(const upsampling *r, int index) {
    tile t = {.w = index % r->ws * r->w, .h = index / r->ws % r->hs * r->h, .c = index / r->ws / r->hs * r->c};
    t.input = (dim4){1, smaller(r->c, r->planes - t.c), smaller(r->h, r->height - t.h), smaller(r->w, r->width - t.w)};
    t.output = (dim4){1, t.input.c, t.input.h * r->param->scale_h, t.input.w * r->param->scale_w};
    return t;
}

static void load_tile(const void *run, int index) {
    const upsampling *r = run;
    const tile t = tile_at(r, index);
    const dim4 from = {0, r->height * r->width, r->width, 1};
    const u64 at = (u64)t.c * (u64)from.c + (u64)t.h * (u64)from.h + (u64)t.w;
    okk_gdma_32bit_cpy_S2L(r->input[index % 2], r->x + 4 * at, &t.input, NULL, &from);
}

static void compute_tile(const void *run, int index) {
    const upsampling *r = run;
    const tile t = tile_at(r, index);
    repeat(r->param, r->output[index % 2], r->input[index % 2], &t.output, &t.input, (dim2){0, 0}, (dim2){0, 0});
}

static void store_tile(const void *run, int index) {
    const upsampling *r = run;
    const tile t = tile_at(r, index);
    const int wide = r->width * r->param->scale_w;
    const dim4 to = {0, r->height * r->param->scale_h * wide, wide, 1};
    const u64 at = (u64)t.c * (u64)to.c + (u64)(t.h * r->param->scale_h) * (u64)wide + (u64)(t.w * r->param->scale_w);
    okk_gdma_32bit_cpy_L2S(r->y + 4 * at, r->output[index % 2], &t.output, &to, NULL);
}

static bool fits(const upsampling *r) {
    const tpu_upsample_param_t *p = r->param;
    return 2 * (local_bytes(1, r->c, r->h, r->w) +
                local_bytes(1, r->c, (long long)r->h * p->scale_h, (long long)r->w * p->scale_w)) <= CHIP_LOCAL_BYTES;
}

/* Few planes rather than parts of them; one row of one element fits for a plane on each lane. */
static void plan(upsampling *r) {
    r->c = smaller(r->planes, CHIP_CHANNELS_WHOLE);
    r->h = smaller(r->height, CHIP_EXTENT_MAX / r->param->scale_h);
    r->w = smaller(r->width, CHIP_EXTENT_MAX / r->param->scale_w);
    while (!fits(r) && r->c > CHIP_NPU_NUM) r->c = divide_up(divide_up(r->c, 2), CHIP_NPU_NUM) * CHIP_NPU_NUM;
    while (!fits(r) && r->h > 1) r->h = divide_up(r->h, 2);
    while (!fits(r) && r->w > 1) r->w = divide_up(r->w, 2);
    r->hs = divide_up(r->height, r->h);
    r->ws = divide_up(r->width, r->w);
    const local_addr_t in = (local_addr_t)local_bytes(1, r->c, r->h, r->w);
    const local_addr_t out = (local_addr_t)local_bytes(1, r->c, r->h * r->param->scale_h, r->w * r->param->scale_w);
    for (unsigned int i = 0; i < 2; i++) {
        r->input[i] = i * in;
        r->output[i] = 2 * in + i * out;
    }
}

__BM_GLOBAL__(TPU_UPSAMPLE)
int upsample_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                    const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_tensor_t words = bm_layer_as_words(&in_tensors[0]);
    const int *x = words.shape;
    upsampling r = {.param = param, .x = in_tensors[0].addr, .y = out_tensors[0].addr, .planes = x[0] * x[1],
                    .height = x[2], .width = x[3]};
    plan(&r);
    okk_initialize();
    bm_run_pipeline(divide_up(r.planes, r.c) * r.hs * r.ws, &r, load_tile, compute_tile, store_tile);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local ---- */

__BM_LOCAL__(TPU_UPSAMPLE)
int upsample_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                   u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const tpu_tensor_t *in = &x, *out = &y;
    const int *a = in->slice_shape, *b = out->slice_shape;
    const dim4 input = {a[0], a[1], a[2], a[3]}, output = {b[0], b[1], b[2], b[3]};
    repeat(param, (local_addr_t)out->addr, (local_addr_t)in->addr, &output, &input,
           (dim2){out->processed[2], out->processed[3]}, (dim2){in->processed[2], in->processed[3]});
    return BM_LAYER_OK;
}
