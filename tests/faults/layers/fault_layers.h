/* What the layers here share: signatures, shapes, and global functions without a mistake. */
#ifndef FAULT_LAYERS_H
#define FAULT_LAYERS_H

#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define SHAPE(NAME) \
    int NAME(const void *param, const int param_size, const tpu_tensor_t *in, const int in_num, tpu_tensor_t *out, \
             const int out_num)
#define GLOBAL(NAME) \
    int NAME(const void *param, const int param_size, const tpu_tensor_t *in, const int in_num, \
             const bm_addr_t buffer, const bm_size_t buffer_size, tpu_tensor_t *out, const int out_num)
#define LOCAL(NAME) \
    int NAME(const void *param, const int param_size, const tpu_tensor_t *in, const int in_num, u64 buffer, \
             u64 buffer_size, tpu_tensor_t *out, const int out_num)

#define ALIGN(a, b) (((a) + (b) - 1) / (b) * (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

enum { NPUS = 64, BANK = 0x10000, HALF = 0x40000, FLOAT = 4 };

static inline int same_shape(const tpu_tensor_t *in, tpu_tensor_t *out) {
    out->ttype = BMNET_NEURON;
    out->dtype = in->dtype;
    out->dims = in->dims;
    for (unsigned d = 0; d < in->dims; d++) {
        out->shape[d] = in->shape[d];
        out->processed[d] = in->processed[d];
        out->slice_shape[d] = in->slice_shape[d];
        out->slice_pad[d] = 0;
    }
    return BM_LAYER_OK;
}

static inline dim4 whole(const tpu_tensor_t *t) { return (dim4){t->shape[0], t->shape[1], t->shape[2], t->shape[3]}; }

static inline dim4 tile(const tpu_tensor_t *t) {
    return (dim4){t->slice_shape[0], t->slice_shape[1], t->slice_shape[2], t->slice_shape[3]};
}

/* Bytes of a lane that an aligned tensor takes. */
static inline unsigned aligned_bytes(const dim4 *s) {
    return (unsigned)(s->n * ((s->c + NPUS - 1) / NPUS) * ALIGN(s->h * s->w, 32) * FLOAT);
}

/* y = 2 x of any number of elements. */
static inline int double_all(const tpu_tensor_t *in, const tpu_tensor_t *out) {
    okk_initialize();
    for (int done = 0, left = in->elem_num; left > 0;) {
        dim4 shape = {1, 64, 1, MIN(left / 64, 65535)};
        if (left < 64) shape = (dim4){1, left, 1, 1};
        okk_gdma_32bit_cpy_S2L(0, in->addr + 4ull * done, &shape, NULL, NULL);
        okk_bdc_mul_C(0, 0, 2.f, &shape, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(out->addr + 4ull * done, 0, &shape, NULL, NULL);
        done += shape.c * shape.w;
        left -= shape.c * shape.w;
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* y[h] = x[h - 1] + x[h] + x[h + 1], zeros outside, of rows in local memory: those of x begin at x_first of a
 * tensor with `height` rows, those of y at y_first. */
static inline void sum_rows(local_addr_t y, local_addr_t x, dim4 y_shape, dim4 x_shape, int y_first, int x_first, int height) {
    dim4 ys, xs;
    okk_128_byte_aligned_stride_for_32bit(&ys, 0, &y_shape);
    okk_128_byte_aligned_stride_for_32bit(&xs, 0, &x_shape);
    okk_bdc_32bit_cpy(y, x + (local_addr_t)((y_first - x_first) * x_shape.w * FLOAT), &y_shape, &ys, &xs);
    for (int side = -1; side <= 1; side += 2) {
        const int begin = MAX(y_first, -side), end = MIN(y_first + y_shape.h, height - side);
        const dim4 part = {y_shape.n, y_shape.c, end - begin, y_shape.w};
        if (part.h < 1) continue;
        const local_addr_t to = y + (local_addr_t)((begin - y_first) * y_shape.w * FLOAT);
        okk_bdc_add(to, to, x + (local_addr_t)((begin + side - x_first) * x_shape.w * FLOAT), &part, &ys, &ys, &xs);
    }
}

/* The same of tensors in DDR, a batch and 64 channels at a time. */
static inline int sum_rows_all(const tpu_tensor_t *in, const tpu_tensor_t *out) {
    const int *s = in->shape;
    okk_initialize();
    for (int n = 0; n < s[0]; n++) {
        for (int c = 0; c < s[1]; c += NPUS) {
            const dim4 shape = {1, MIN(NPUS, s[1] - c), s[2], s[3]};
            const u64 at = 4ull * (n * s[1] + c) * s[2] * s[3];
            if (aligned_bytes(&shape) > HALF) return BM_LAYER_NOT_SUPPORTED;
            okk_gdma_32bit_cpy_S2L(0, in->addr + at, &shape, NULL, NULL);
            sum_rows(HALF, 0, shape, shape, 0, 0, s[2]);
            okk_gdma_32bit_cpy_L2S(out->addr + at, HALF, &shape, NULL, NULL);
        }
    }
    okk_poll();
    return BM_LAYER_OK;
}

#endif
