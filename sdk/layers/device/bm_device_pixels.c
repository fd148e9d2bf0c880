/* TPU_PIXELS: pictures as cameras and image libraries give them, as nets take them: channels first, fp32,
 * (x - mean) * scale. One pass over DDR: rows lie in lanes, and the subtraction picks the channels apart.
 *
 * Inputs: x, uint8 or int8 `[N, H, W, C]`, or `[N, C, H, W]` where `planar` says so; at most 4 channels
 * Makes: `[N, C, H, W]` without the rows and columns that are cut off
 */
#include "bm_atomic.h"
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "okk.h"

#define WORDS (2 * CHIP_BANK_WORDS) /* that a lane has for what comes in, and as many for what goes out */
#define CHANNELS 4

__BM_PARAM__(TPU_PIXELS)
typedef struct {
    int planar;
    int backwards;                /* channels in the opposite order: RGB of BGR */
    int rows, columns;            /* that the input must have; 0: any */
    int top, bottom, left, right; /* rows and columns that are cut off */
    float mean[4], scale[4];      /* of the channels that are made */
} tpu_pixels_param_t;

typedef struct {
    int channels, rows, columns;
} picture;

static picture picture_of(const tpu_pixels_param_t *p, const int *shape) {
    return p->planar ? (picture){shape[1], shape[2], shape[3]} : (picture){shape[3], shape[1], shape[2]};
}

__BM_SHAPE__(TPU_PIXELS)
int pixels_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_pixels_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_pixels_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    if ((in->dtype != DTYPE_UINT8 && in->dtype != DTYPE_INT8) || in->store_mode != STORE_MODE_1N || in->dims != 4) return BM_LAYER_NOT_SUPPORTED;
    const picture from = picture_of(p, in->shape);
    if (p->top < 0 || p->bottom < 0 || p->left < 0 || p->right < 0) return BM_LAYER_PARAM_INVALID;
    if ((p->rows && p->rows != from.rows) || (p->columns && p->columns != from.columns)) return BM_LAYER_NOT_SUPPORTED;
    const long long rows = (long long)from.rows - p->top - p->bottom;
    const long long columns = (long long)from.columns - p->left - p->right;
    if (from.channels > CHANNELS || rows < 1 || columns < 1) return BM_LAYER_NOT_SUPPORTED;
    tpu_tensor_t *out = &out_tensors[0];
    bm_output_like(out, in, 4);
    out->dtype = DTYPE_FP32;
    out->shape[0] = in->shape[0];
    out->shape[1] = from.channels;
    out->shape[2] = (int)rows;
    out->shape[3] = (int)columns;
    return BM_LAYER_OK;
}

/* A part of one picture. Lane l holds the rows [l * shape.h, (l + 1) * shape.h) of it. */
typedef struct {
    const tpu_pixels_param_t *param;
    picture from, to;
    u64 x, y; /* the part's first element: of the first channel in both */
    dim4 shape;
    BmGDMAFormat format; /* of x */
} part;

/* Bytes from DDR, which become fp32 on the way; width: of them in each row. */
static void load(const part *t, local_addr_t to, u64 from, int width, int pitch) {
    const dim4 s = t->shape;
    const unsigned int shape[4] = {1, (unsigned)s.c, (unsigned)s.h, (unsigned)width};
    const unsigned int outer[4] = {0, (unsigned)(s.h * pitch), (unsigned)pitch, 1};
    const unsigned int inner[4] = {0, 0, (unsigned)width, 1};
    MemCpy4DParam p = {.src_addr = from,
                       .dst_addr = to,
                       .src_format = t->format,
                       .dst_format = BM_GDMA_FORMAT_FLOAT32,
                       .direction = BM_GDMA_DIR_S2L};
    for (int d = 0; d < 4; d++) {
        p.src_shape[d] = p.dst_shape[d] = shape[d];
        p.src_stride[d] = outer[d];
        p.dst_stride[d] = inner[d];
    }
    bm_atomic_memcpy_4D(&p);
}

static void run_part(const part *t) {
    const int channels = t->from.channels, planar = t->param->planar;
    const dim4 s = t->shape, packed = {0, 0, s.w * channels, channels};
    const dim4 made = {0, s.h * t->to.columns, t->to.columns, 1};
    const int units = (s.h * s.w + CHIP_EU_NUM - 1) / CHIP_EU_NUM;
    const local_addr_t taken = 0, plane = 4u * (local_addr_t)(units * CHIP_EU_NUM), results = 4u * WORDS;
    const u64 size = (u64)((long long)t->from.rows * t->from.columns);
    const u64 out = (u64)((long long)t->to.rows * t->to.columns);
    if (!planar) load(t, taken, t->x, s.w * channels, t->from.columns * channels);
    for (int k = 0; k < channels; k++) {
        const int from = t->param->backwards ? channels - 1 - k : k;
        const local_addr_t source = taken + (planar ? (local_addr_t)k * plane : 4u * (local_addr_t)from);
        const local_addr_t result = results + (local_addr_t)k * plane;
        if (planar) load(t, source, t->x + (u64)from * size, s.w, t->from.columns);
        okk_bdc_sub_C(result, source, t->param->mean[k], &s, NULL, planar ? NULL : &packed);
        okk_bdc_mul_C(result, result, t->param->scale[k], &s, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(t->y + 4 * (u64)k * out, result, &s, &made, NULL);
    }
}

__BM_GLOBAL__(TPU_PIXELS)
int pixels_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_pixels_param_t *p = param;
    const int *shape = out_tensors[0].shape;
    part t = {.param = p,
              .from = picture_of(p, in_tensors[0].shape),
              .to = {shape[1], shape[2], shape[3]},
              .format = in_tensors[0].dtype == DTYPE_INT8 ? BM_GDMA_FORMAT_INT8 : BM_GDMA_FORMAT_UINT8};
    const int step = p->planar ? 1 : t.from.channels; /* bytes from one column to the next */
    const int most = WORDS / CHANNELS - CHIP_EU_NUM;  /* elements of a channel in a lane */
    okk_initialize();
    for (int n = 0; n < shape[0]; n++)
        for (int column = 0; column < t.to.columns; column += t.shape.w) {
            const int width = smaller(t.to.columns - column, most);
            for (int row = 0; row < t.to.rows; row += t.shape.c * t.shape.h) {
                const int left = t.to.rows - row;
                const int together = smaller((left + CHIP_NPU_NUM - 1) / CHIP_NPU_NUM, most / width);
                t.shape = (dim4){1, smaller(left / together, CHIP_NPU_NUM), together, width};
                const long long start = (long long)n * t.from.channels * t.from.rows * t.from.columns;
                const long long place = (long long)(row + p->top) * t.from.columns + column + p->left;
                t.x = in_tensors[0].addr + (u64)(start + place * step);
                t.y = out_tensors[0].addr +
                      4 * (u64)(((long long)n * shape[1] * shape[2] + row) * t.to.columns + column);
                run_part(&t);
            }
        }
    okk_poll();
    return BM_LAYER_OK;
}
