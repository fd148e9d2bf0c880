/* TPU_PAD: elements around its input, or cut off where a number is negative; any type.
 *
 * Inputs: x of any type
 * Makes: elements around x, or less of it
 */
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_PAD)
typedef struct {
    int mode; /* 0: a constant, 1: mirrored without the edge, 2: the edge, 3: from the other end (wrapped) */
    int before[MAX_SHAPE_DIMS], after[MAX_SHAPE_DIMS]; /* elements added at both ends of each dimension */
    float value; /* the constant for fp32 */
    int bits;    /* for other types its bits: for integers the number itself, whatever their scale */
} tpu_pad_param_t;

enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

/* What a dimension of the output holds: elements [first, first + count) of the output are elements
 * [source, source + count) of the input. */
typedef struct {
    int first, count, source;
} inside;

static inside inside_of(const tpu_pad_param_t *p, const tpu_tensor_t *in, int d) {
    const int before = p->before[d], after = p->after[d];
    inside s = {before > 0 ? before : 0, in->shape[d], before < 0 ? -before : 0};
    s.count -= s.source + (after < 0 ? -after : 0);
    return s;
}

/* Where the elements of a dimension before or behind the input come from, as indices of the output. */
typedef struct {
    int mode, start; /* start: the first element wanted */
    inside s;
} outside;

static int outside_at(const void *list, int i) {
    const outside *o = list;
    int at = o->start + i - o->s.first; /* as index of what is inside */
    const int last = o->s.count - 1;
    if (o->mode == PAD_EDGE) {
        at = at < 0 ? 0 : last;
    } else {
        const int period = o->mode == PAD_WRAP ? o->s.count : last > 0 ? 2 * last : 1;
        at %= period;
        if (at < 0) at += period;
        if (at > last) at = period - at;
    }
    return o->s.first + at;
}

/* The constant as often as the tensor has batches in a word. */
static unsigned int filling(const tpu_pad_param_t *p, const tpu_tensor_t *t) {
    const unsigned int bits = (unsigned int)p->bits;
    switch (bm_layer_together(t)) {
    case 4:
        return 0x01010101u * (unsigned char)bits;
    case 2:
        return 0x00010001u * (unsigned short)bits;
    default:
        return t->dtype == DTYPE_FP32 ? (x32){.fp32 = p->value}.u32 : bits;
    }
}

/* Elements [start, start + count) of dimension d; of the dimensions before d what is inside, of those behind it
 * all. value: the constant. */
static void fill(const tpu_pad_param_t *p, const tpu_tensor_t *in, const tpu_tensor_t *out, unsigned int value, int d,
                 int start, int count) {
    if (count < 1) return;
    bm_move m = {.dims = 0};
    const int bytes = bm_element_bytes(out->dtype);
    const long long stride = bm_stride_of(out, d);
    u64 plane = out->addr;
    for (int i = 0; i < (int)out->dims; i++) {
        const inside s = inside_of(p, in, i);
        const long long step = bm_stride_of(out, i);
        if (i < d) plane += (u64)(s.first * step * bytes);
        if (i != d) bm_move_add(&m, i < d ? s.count : out->shape[i], step, step);
    }
    const u64 target = plane + (u64)(start * stride * bytes);
    if (p->mode == PAD_CONSTANT) {
        bm_move_add(&m, count, stride, stride);
        bm_move_fill(target, value, &m, bytes);
        return;
    }
    const outside o = {p->mode, start, inside_of(p, in, d)};
    bm_move_indexed(target, plane, &m, bytes, stride, stride, outside_at, &o, count);
}

__BM_SHAPE__(TPU_PAD)
int pad_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
              tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_pad_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_pad_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    if (p->mode < PAD_CONSTANT || p->mode > PAD_WRAP) return BM_LAYER_PARAM_INVALID;
    bm_output_like(&out_tensors[0], in, (int)in->dims);
    for (int d = 0; d < MAX_SHAPE_DIMS; d++) {
        const long long before = p->before[d], after = p->after[d];
        if (d >= (int)in->dims) {
            if (before != 0 || after != 0) return BM_LAYER_PARAM_INVALID;
            continue;
        }
        const long long cut = (before < 0 ? -before : 0) + (after < 0 ? -after : 0);
        const long long extent = in->shape[d] + before + after;
        /* Something of the input has to be left to pad with. */
        if (cut >= in->shape[d] || extent > 0x7fffffff) return BM_LAYER_PARAM_INVALID;
        out_tensors[0].shape[d] = (int)extent;
    }
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_PAD)
int pad_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_pad_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const tpu_tensor_t *in = &x, *out = &y;
    const int bytes = bm_element_bytes(in->dtype);
    bm_move m = {.dims = 0};
    u64 source = in->addr, target = out->addr;
    for (int d = 0; d < (int)in->dims; d++) {
        const inside s = inside_of(p, in, d);
        const long long to = bm_stride_of(out, d), from = bm_stride_of(in, d);
        bm_move_add(&m, s.count, to, from);
        target += (u64)(s.first * to * bytes);
        source += (u64)(s.source * from * bytes);
    }
    const unsigned int value = filling(p, &out_tensors[0]);
    okk_initialize();
    bm_move_run(target, source, &m, bytes);
    for (int d = (int)in->dims - 1; d >= 0; d--) {
        const inside s = inside_of(p, in, d);
        fill(p, in, out, value, d, 0, s.first);
        fill(p, in, out, value, d, s.first + s.count, out->shape[d] - s.first - s.count);
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* A constant around rows and columns: the descriptor lets nothing else come here. */
__BM_LOCAL__(TPU_PAD)
int pad_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
              u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_pad_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const tpu_tensor_t *in = &x, *out = &y;
    const int *a = in->slice_shape, *b = out->slice_shape;
    const dim4 tile = {a[0], a[1], a[2], a[3]}, whole = {b[0], b[1], b[2], b[3]};
    const int row = in->processed[2] + p->before[2] - out->processed[2];
    const int column = in->processed[3] + p->before[3] - out->processed[3];
    if (row < 0 || column < 0 || row + tile.h > whole.h || column + tile.w > whole.w) return BM_LAYER_RUNTIME_ERROR;
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &whole);
    okk_bdc_32bit_set_C((local_addr_t)out->addr, (x32){.u32 = filling(p, &out_tensors[0])}, &whole, NULL);
    okk_bdc_32bit_cpy((local_addr_t)out->addr + 4u * (local_addr_t)(row * stride.h + column), (local_addr_t)in->addr,
                      &tile, &stride, NULL);
    return BM_LAYER_OK;
}
