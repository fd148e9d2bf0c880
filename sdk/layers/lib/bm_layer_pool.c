#include "bm_layer_pool.h"

void bm_pool_fill_weights(local_addr_t weights, int c, int kernel_h, int kernel_w, int weight) {
    const dim4 words = {1, CHIP_NPU_NUM, 1, (int)(bm_pool_weight_bytes(c, kernel_h, kernel_w) / 4)};
    okk_bdc_32bit_set_C(weights, (x32){.u32 = 0x01010101u * (unsigned int)weight}, &words, NULL);
}

/* No product is signed where neither input nor result is. */
static void packed_instruction(const pool_work *w, local_addr_t output, local_addr_t input, const dim4 *shape,
                               dim2 kernel, dim2 stride, Padding pad) {
    const pool_packed *p = w->packed;
    const unsigned int n = (unsigned)shape->n, c = (unsigned)shape->c, rows = (unsigned)shape->h;
    const unsigned int kernel_h = (unsigned)kernel.h, kernel_w = (unsigned)kernel.w;
    const unsigned int stride_h = (unsigned)stride.h, stride_w = (unsigned)stride.w;
    const unsigned int around[4] = {(unsigned)pad.top, (unsigned)pad.bottom, (unsigned)pad.left, (unsigned)pad.right};
    if (w->mode == POOL_MAX) {
        const PoolQuantParam q = {.input_addr = input, .output_addr = output,
                                  .input_shape = {n, c, rows, (unsigned)shape->w}, .kernel_h = kernel_h,
                                  .kernel_w = kernel_w, .stride_h = stride_h, .stride_w = stride_w, .dilate_h = 1,
                                  .dilate_w = 1, .pad = {around[0], around[1], around[2], around[3]},
                                  .input_sign = p->input_sign};
        bm_atomic_max_pool_quantized(&q);
        return;
    }
    const DepthwiseQuantParam q = {.input_addr = input, .weight_addr = w->temporary, .output_addr = output,
                                   .input_shape = {n, c, rows, (unsigned)shape->w}, .kernel_h = kernel_h,
                                   .kernel_w = kernel_w, .stride_h = stride_h, .stride_w = stride_w, .dilate_h = 1,
                                   .dilate_w = 1, .pad = {around[0], around[1], around[2], around[3]},
                                   .rshift_bit = (unsigned)p->rshift, .if_relu = !p->output_sign,
                                   .input_sign = p->input_sign, .weight_sign = p->output_sign};
    bm_atomic_depthwise_quantized(&q);
}

static void pool_instruction(const pool_work *w, local_addr_t output, local_addr_t input, const dim4 *shape,
                             dim2 kernel, dim2 stride, Padding pad, float factor) {
    if (w->packed != NULL) {
        packed_instruction(w, output, input, shape, kernel, stride, pad);
        return;
    }
    if (w->mode == POOL_MAX) {
        okk_bdc_max_pool2d(output, input, shape, kernel.h, kernel.w, &pad, &stride);
        return;
    }
    const unsigned n = (unsigned)shape->n, c = (unsigned)shape->c, rows = (unsigned)shape->h;
    const SumPoolParam p = {.input_addr = input,
                            .output_addr = output,
                            .input_shape = {n, c, rows, (unsigned)shape->w},
                            .kernel_h = (unsigned)kernel.h,
                            .kernel_w = (unsigned)kernel.w,
                            .stride_h = (unsigned)stride.h,
                            .stride_w = (unsigned)stride.w,
                            .pad = {(unsigned)pad.top, (unsigned)pad.bottom, (unsigned)pad.left, (unsigned)pad.right},
                            .coeff = factor};
    bm_atomic_sum_pool(&p);
}

/* Whether columns and then rows take fewer steps of 16 elements than both at once. */
static bool pool_in_two(const pool_work *w) {
    const long long between = (long long)w->input_shape.h * w->output_shape.w;
    const long long results = ((long long)w->output_shape.h * w->output_shape.w + 15) / 16;
    return (between + 15) / 16 * (w->kernel.w + 3) + results * (w->kernel.h + 3) <
           results * ((long long)w->kernel.h * w->kernel.w + 3);
}

/* Tap by tap with element-wise instructions, for strides and dilations that the pools do not have. The input holds
 * its pads. */
static void pool_taps(const pool_work *w) {
    dim4 from, to;
    okk_128_byte_aligned_stride_for_32bit(&from, 0, &w->input_shape);
    okk_128_byte_aligned_stride_for_32bit(&to, 0, &w->output_shape);
    const dim4 step = {from.n, from.c, from.h * w->stride.h, from.w * w->stride.w}, *shape = &w->output_shape;
    for (int y = 0; y < w->kernel.h; y++) {
        for (int x = 0; x < w->kernel.w; x++) {
            const int at = y * w->dilation.h * from.h + x * w->dilation.w;
            const local_addr_t input = w->input + 4u * (local_addr_t)at;
            if (w->mode == POOL_AVERAGE && y + x == 0)
                okk_bdc_mul_C(w->output, input, w->factor, shape, &to, &step);
            else if (w->mode == POOL_AVERAGE)
                okk_bdc_mac_C(w->output, input, w->factor, shape, &to, &step);
            else if (y + x == 0)
                okk_bdc_max_C(w->output, input, POOL_LOWEST, shape, &to, &step);
            else
                okk_bdc_max(w->output, w->output, input, shape, &to, &to, &step);
        }
    }
}

/* a = a + b, or the larger one, where both lie by the same strides. */
static void pool_join(const pool_work *w, local_addr_t a, local_addr_t b, const dim4 *shape, const dim4 *stride) {
    if (w->mode == POOL_AVERAGE)
        okk_bdc_add(a, a, b, shape, stride, stride, stride);
    else
        okk_bdc_max(a, a, b, shape, stride, stride, stride);
}

/* Windows that lie side by side: their columns, then their rows are folded in half again and again. */
static void pool_side_by_side(const pool_work *w) {
    const dim4 *in = &w->input_shape, *out = &w->output_shape;
    dim4 from, to;
    okk_128_byte_aligned_stride_for_32bit(&from, 0, in);
    okk_128_byte_aligned_stride_for_32bit(&to, 0, out);
    const dim4 columns = {in->w, from.c, w->kernel.w, 1}, rows = {w->kernel.h * in->w, from.c, in->w, w->kernel.w};
    for (int left = w->kernel.w; left > 1; left -= left / 2) {
        const dim4 shape = {in->h, in->c, out->w, left / 2};
        pool_join(w, w->input, w->input + 4u * (local_addr_t)(left - left / 2), &shape, &columns);
    }
    for (int left = w->kernel.h; left > 1; left -= left / 2) {
        const dim4 shape = {out->h, in->c, left / 2, out->w};
        pool_join(w, w->input, w->input + 4u * (local_addr_t)((left - left / 2) * in->w), &shape, &rows);
    }
    const dim4 shape = {out->h, in->c, 1, out->w}, target = {out->w, to.c, out->w, 1};
    if (w->mode == POOL_AVERAGE)
        okk_bdc_mul_C(w->output, w->input, w->factor, &shape, &target, &rows);
    else
        okk_bdc_max_C(w->output, w->input, POOL_LOWEST, &shape, &target, &rows);
}

void bm_pool_compute(const pool_work *w, bool taps) {
    const bool beside = w->kernel.h == w->stride.h && w->kernel.w == w->stride.w && w->input_shape.n == 1;
    if (taps && beside && w->dilation.h == 1 && w->dilation.w == 1) {
        pool_side_by_side(w);
        return;
    }
    if (taps) {
        pool_taps(w);
        return;
    }
    const bool weights = w->packed != NULL && w->mode == POOL_AVERAGE;
    if (weights || w->temporary >= CHIP_LOCAL_BYTES || !pool_in_two(w)) {
        pool_instruction(w, w->output, w->input, &w->input_shape, w->kernel, w->stride, w->pad, w->factor);
        return;
    }
    const dim4 between = {w->input_shape.n, w->input_shape.c, w->input_shape.h, w->output_shape.w};
    pool_instruction(w, w->temporary, w->input, &w->input_shape, (dim2){1, w->kernel.w}, (dim2){1, w->stride.w},
                     (Padding){0, 0, w->pad.left, w->pad.right}, 1.0f);
    pool_instruction(w, w->output, w->temporary, &between, (dim2){w->kernel.h, 1}, (dim2){w->stride.h, 1},
                     (Padding){w->pad.top, w->pad.bottom, 0, 0}, w->factor);
}

/* ---- averages over windows that reach over an edge ---- */

/* Taps of output element `at` that count: those in the tensor and in `counted_before` and `counted_after` elements
 * around it. */
static int pool_counted(const window_axis *a, int at, int counted_before, int counted_after) {
    const long long start = (long long)at * a->stride - a->before;
    int count = 0;
    for (int k = 0; k < a->kernel; k++) {
        const long long tap = start + (long long)k * a->dilation;
        if (tap >= -counted_before && tap < (long long)a->size + counted_after) count++;
    }
    return count;
}

void bm_pool_correct(local_addr_t output, const dim4 *shape, const window_axis *a, int first, bool along_h,
                     int counted_before, int counted_after) {
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, shape);
    const int length = along_h ? shape->h : shape->w;
    for (int i = 0, end; i < length; i = end) {
        /* Far from both edges all of the kernel counts: no need to look tap by tap. */
        const long long start = (long long)(first + i) * a->stride - a->before;
        if (start >= 0 && start + bm_axis_extent(a) <= a->size) {
            end = i + 1;
            continue;
        }
        const int count = pool_counted(a, first + i, counted_before, counted_after);
        for (end = i + 1; end < length; end++)
            if (pool_counted(a, first + end, counted_before, counted_after) != count) break;
        if (count == a->kernel) continue;
        dim4 part = *shape;
        if (along_h) part.h = end - i;
        else part.w = end - i;
        const local_addr_t at = output + 4u * (local_addr_t)(i * (along_h ? stride.h : stride.w));
        okk_bdc_mul_C(at, at, count == 0 ? 0.0f : (float)a->kernel / (float)count, &part, &stride, &stride);
    }
}
