/* TPU_CAST: its input in another type, any of them into any other.
 *
 * To integers the fraction is dropped. What does not fit is: from fp32 or fp16 to int8, uint8 and int32 the
 * nearest that does; to int16 and uint16 the low half of that int32; to uint32 the same as to int32. From
 * integers to shorter ones the low bits. Integers become the nearest fp32. fp32 becomes the nearest fp16, but
 * the chip has no fp16 under 2^-14: those become 0, and NaN has no fp16 either.
 *
 * Inputs: x of any type
 * Makes: x in another type
 */
#include "bm_atomic.h"
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_words.h"
#include "okk.h"

#define COLUMNS (2 * CHIP_BANK_WORDS) /* elements that a lane holds in one buffer */

__BM_PARAM__(TPU_CAST)
typedef struct {
    int to; /* DATA_TYPE_T */
} tpu_cast_param_t;

__BM_SHAPE__(TPU_CAST)
int cast_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_cast_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_cast_param_t *p = param;
    if (p->to < DTYPE_FP32 || p->to > DTYPE_UINT32) return BM_LAYER_PARAM_INVALID;
    const tpu_tensor_t *in = &in_tensors[0];
    bm_output_like(&out_tensors[0], in, (int)in->dims);
    out_tensors[0].dtype = (unsigned char)p->to;
    for (unsigned int d = 0; d < in->dims; d++) out_tensors[0].shape[d] = in->shape[d];
    return BM_LAYER_OK;
}

/* ---- in local memory: 32-bit elements [1, lanes, 1, columns], aligned ---- */

/* data is what the elements are in now, spare and more are free. All lie in banks of their own. */
typedef struct {
    dim4 shape;
    local_addr_t data, spare, more;
} work;

static void swap(work *w) {
    const local_addr_t data = w->data;
    w->data = w->spare;
    w->spare = data;
}

/* Whole fp32 to int32; the fraction is dropped, what is too large becomes the largest. */
static void float_to_int(work *w) {
    okk_bdc_fp32_to_int32(w->spare, w->data, &w->shape);
    swap(w);
}

/* int32 or uint32 to the nearest fp32. A number k under 2^23 is 2^23 + k where 0x4b000000 is put in front of its
 * bits; both halves are made so, and their sum is rounded once. */
static void int_to_float(work *w, bool is_signed) {
    const float front = 8388608.0f;
    okk_bdc_32bit_and_C(w->spare, w->data, bm_word(0xffff), &w->shape, NULL, NULL);
    okk_bdc_32bit_or_C(w->spare, w->spare, bm_word(0x4b000000), &w->shape, NULL, NULL);
    okk_bdc_sub_C(w->spare, w->spare, front, &w->shape, NULL, NULL);
    okk_bdc_32bit_logical_shift_C(w->data, w->data, -16, &w->shape, NULL, NULL);
    if (is_signed) okk_bdc_32bit_xor_C(w->data, w->data, bm_word(0x8000), &w->shape, NULL, NULL);
    okk_bdc_32bit_or_C(w->data, w->data, bm_word(0x4b000000), &w->shape, NULL, NULL);
    okk_bdc_sub_C(w->data, w->data, is_signed ? front + 32768.0f : front, &w->shape, NULL, NULL);
    okk_bdc_mul_C(w->data, w->data, 65536.0f, &w->shape, NULL, NULL);
    okk_bdc_add(w->data, w->data, w->spare, &w->shape, NULL, NULL, NULL);
}

static fp32_or_addr_t number(float value) { return (fp32_or_addr_t){.is_addr = false, .context.val = value}; }

/* data = a > b ? yes : no */
static void choose(const work *w, fp32_or_addr_t a, fp32_or_addr_t b, x32_or_addr_t yes, local_addr_t no) {
    const x32_or_addr_t other = bm_words_at(no);
    okk_bdc_greater_select(w->data, &a, &b, &yes, &other, &w->shape);
}

/* The engine only rebases the exponent of an fp16: under 2^-14 it gives 2^-15 + v / 2, for infinity 2^16, for NaN
 * more. */
static void mend_half(work *w) {
    okk_bdc_32bit_and_C(w->more, w->data, bm_word(0x80000000), &w->shape, NULL, NULL);
    okk_bdc_32bit_and_C(w->data, w->data, bm_word(0x7fffffff), &w->shape, NULL, NULL);
    okk_bdc_sub_C(w->spare, w->data, 0x1p-15f, &w->shape, NULL, NULL);
    okk_bdc_mul_C(w->spare, w->spare, 2.0f, &w->shape, NULL, NULL);
    choose(w, number(0x1p-14f), bm_number_at(w->data), bm_words_at(w->spare), w->data);
    okk_bdc_32bit_cpy(w->spare, w->data, &w->shape, NULL, NULL);
    choose(w, bm_number_at(w->spare), number(65504.0f), (x32_or_addr_t){.context.val = bm_word(0x7f800000)}, w->data);
    choose(w, bm_number_at(w->spare), number(65536.0f), (x32_or_addr_t){.context.val = bm_word(0x7fc00000)}, w->data);
    okk_bdc_32bit_or(w->data, w->data, w->more, &w->shape, NULL, NULL, NULL);
}

/* To the nearest number of 11 bits: added to one whose last bit counts as much as theirs, 1.5 * 2^13 times the power
 * of two in front, the sum rounds there. The engine cuts the rest off, and makes infinity of 2^16 and more. */
static void round_to_half(work *w) {
    okk_bdc_min_C(w->data, w->data, 131072.0f, &w->shape, NULL, NULL);
    okk_bdc_max_C(w->data, w->data, -131072.0f, &w->shape, NULL, NULL);
    okk_bdc_32bit_and_C(w->spare, w->data, bm_word(0x7f800000), &w->shape, NULL, NULL);
    okk_bdc_mul_C(w->spare, w->spare, 12288.0f, &w->shape, NULL, NULL);
    okk_bdc_add(w->data, w->data, w->spare, &w->shape, NULL, NULL, NULL);
    okk_bdc_sub(w->data, w->data, w->spare, &w->shape, NULL, NULL, NULL);
}

/* ---- from DDR and back ---- */

static bool is_float(int dtype) { return dtype == DTYPE_FP32 || dtype == DTYPE_FP16; }
static bool is_byte(int dtype) { return dtype == DTYPE_INT8 || dtype == DTYPE_UINT8; }

static BmGDMAFormat format_of(int dtype) {
    if (dtype == DTYPE_FP16) return BM_GDMA_FORMAT_FLOAT16;
    return dtype == DTYPE_INT8 ? BM_GDMA_FORMAT_INT8 : BM_GDMA_FORMAT_UINT8;
}

static dim4 aligned_stride(const work *w) {
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &w->shape);
    return stride;
}

/* fp32 in local memory, fp16, int8 or uint8 outside: the engine converts on the way. */
static void convert(const work *w, u64 addr, int dtype, bool load) {
    const dim4 s = w->shape, inside = aligned_stride(w);
    const unsigned int shape[4] = {1, (unsigned)s.c, 1, (unsigned)s.w}, outer[4] = {0, (unsigned)s.w, 0, 1};
    const unsigned int inner[4] = {0, (unsigned)inside.c, 0, 1};
    MemCpy4DParam p = {.src_addr = load ? addr : w->data,
                       .dst_addr = load ? w->data : addr,
                       .src_format = load ? format_of(dtype) : BM_GDMA_FORMAT_FLOAT32,
                       .dst_format = load ? BM_GDMA_FORMAT_FLOAT32 : format_of(dtype),
                       .direction = load ? BM_GDMA_DIR_S2L : BM_GDMA_DIR_L2S};
    for (int d = 0; d < 4; d++) {
        p.src_shape[d] = p.dst_shape[d] = shape[d];
        p.src_stride[d] = load ? outer[d] : inner[d];
        p.dst_stride[d] = load ? inner[d] : outer[d];
    }
    bm_atomic_memcpy_4D(&p);
}

/* Shorter elements outside, in the low bytes of words inside: one by one. */
static void copy_low(const work *w, u64 addr, int bytes, bool load) {
    const int per_word = 4 / bytes;
    const dim4 shape = {1, w->shape.c, w->shape.w, 1}, outer = {0, w->shape.w, 1, 1};
    const dim4 inner = {0, aligned_stride(w).c * per_word, per_word, 1};
    if (load)
        okk_gdma_16bit_cpy_S2L(w->data, addr, &shape, &inner, &outer);
    else if (bytes == 2)
        okk_gdma_16bit_cpy_L2S(addr, w->data, &shape, &outer, &inner);
    else
        okk_gdma_8bit_cpy_L2S(addr, w->data, &shape, &outer, &inner);
}

/* Afterwards data holds fp32 for floats and bytes, int32 or uint32 for others. */
static void load(work *w, u64 addr, int dtype) {
    if (bm_element_bytes(dtype) == 4) {
        okk_gdma_32bit_cpy_S2L(w->data, addr, &w->shape, NULL, NULL);
    } else if (dtype == DTYPE_FP16 || is_byte(dtype)) {
        convert(w, addr, dtype, true);
        if (dtype == DTYPE_FP16) mend_half(w);
    } else {
        okk_bdc_32bit_set_C(w->data, bm_word(0), &w->shape, NULL);
        copy_low(w, addr, 2, true);
        if (dtype == DTYPE_UINT16) return;
        okk_bdc_32bit_logical_shift_C(w->data, w->data, 16, &w->shape, NULL, NULL);
        okk_bdc_32bit_arithmetic_shift_C(w->data, w->data, -16, &w->shape, NULL, NULL);
    }
}

/* data is as load() left it. */
static void store(work *w, u64 addr, int from, int to) {
    bool real = is_float(from) || is_byte(from);
    if (real && is_byte(to) && is_float(from)) {
        okk_bdc_min_C(w->data, w->data, to == DTYPE_INT8 ? 127.0f : 255.0f, &w->shape, NULL, NULL);
        okk_bdc_max_C(w->data, w->data, to == DTYPE_INT8 ? -128.0f : 0.0f, &w->shape, NULL, NULL);
    }
    if (real && !is_float(to)) {
        float_to_int(w);
        real = false;
    }
    if (!real && (is_float(to) || (is_byte(to) && is_float(from)))) {
        int_to_float(w, from != DTYPE_UINT32);
        real = true;
    }
    if (to == DTYPE_FP16) round_to_half(w);
    if (bm_element_bytes(to) == 4)
        okk_gdma_32bit_cpy_L2S(addr, w->data, &w->shape, NULL, NULL);
    else if (real)
        convert(w, addr, to, false);
    else
        copy_low(w, addr, bm_element_bytes(to), false);
}

__BM_GLOBAL__(TPU_CAST)
int cast_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_tensor_t *in = &in_tensors[0], *out = &out_tensors[0];
    const int from = in->dtype, to = out->dtype, bytes = bm_element_bytes(from);
    okk_initialize();
    if (from == to || (bytes == bm_element_bytes(to) && !is_float(from) && !is_float(to))) {
        bm_move_straight(out->addr, in->addr, in->elem_num, bytes); /* the same bits */
        okk_poll();
        return BM_LAYER_OK;
    }
    for (int done = 0; done < in->elem_num;) {
        const int left = in->elem_num - done;
        work w = {.shape = {1, CHIP_NPU_NUM, 1, smaller(left / CHIP_NPU_NUM, COLUMNS)},
                  .data = 0,
                  .spare = 4 * COLUMNS,
                  .more = 8 * COLUMNS};
        if (left < CHIP_NPU_NUM) w.shape = (dim4){1, left, 1, 1};
        load(&w, in->addr + (u64)((long long)done * bytes), from);
        store(&w, out->addr + (u64)((long long)done * bm_element_bytes(to)), from, to);
        done += w.shape.c * w.shape.w;
    }
    okk_poll();
    return BM_LAYER_OK;
}
