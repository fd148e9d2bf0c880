/* TPU_WRONG, y = 2x in fp32, with one mistake in its use of memory: the lines that checks have to name end with the
 * mistake's name. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

typedef enum {
    RIGHT,
    WRITES_INPUT,
    HALF,
    NOTHING,
    TOO_MUCH,
    BEHIND_INPUT,
    FAR_AWAY,
    BUFFER,
    LAST_COLUMN,
} mistake;

__BM_PARAM__(TPU_WRONG)
typedef struct {
    int mistake;
    int buffer; /* bytes that the descriptor asks for */
} tpu_wrong_param_t;

__BM_SHAPE__(TPU_WRONG)
int wrong_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)out_num;
    out_tensors[0] = in_tensors[0];
    out_tensors[0].ttype = BMNET_NEURON;
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_WRONG)
int wrong_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                 const int out_num) { // NOTHING
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const tpu_wrong_param_t *p = param;
    const int *s = in_tensors[0].shape;
    const bm_addr_t x = in_tensors[0].addr, y = out_tensors[0].addr;
    dim4 shape = {s[0], s[1], s[2], s[3]};
    okk_initialize();
    if (p->mistake == NOTHING) return BM_LAYER_OK;
    okk_gdma_32bit_cpy_S2L(0, x, &shape, NULL, NULL);
    okk_bdc_mul_C(0x20000, 0, 2.f, &shape, NULL, NULL);
    if (p->buffer) okk_gdma_32bit_cpy_L2S(buffer_addr, 0x20000, &shape, NULL, NULL); // BUFFER
    dim4 half = shape, larger = shape;
    half.h /= 2, larger.h += 2;
    dim4 stride = {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}, slots;
    okk_128_byte_aligned_stride_for_32bit(&slots, 0, &shape);
    switch (p->mistake) {
    case HALF: okk_gdma_32bit_cpy_L2S(y, 0x20000, &half, &stride, &slots); break; // HALF
    case TOO_MUCH: okk_gdma_32bit_cpy_L2S(y, 0x20000, &larger, NULL, NULL); break; // TOO_MUCH
    case BEHIND_INPUT: okk_gdma_32bit_cpy_S2L(0x40000, x, &larger, NULL, NULL); break; // BEHIND_INPUT
    case WRITES_INPUT: okk_gdma_32bit_cpy_L2S(x, 0x20000, &shape, NULL, NULL); break; // WRITES_INPUT
    case FAR_AWAY: okk_gdma_32bit_cpy_L2S(y + 0x10000000, 0x20000, &shape, NULL, NULL); break; // FAR_AWAY
    default: break;
    }
    if (p->mistake != HALF) okk_gdma_32bit_cpy_L2S(y, 0x20000, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_WRONG)
int wrong_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) { // LOCAL NOTHING
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const tpu_wrong_param_t *p = param;
    const int *s = out_tensors[0].slice_shape;
    const local_addr_t x = (local_addr_t)in_tensors[0].addr, y = (local_addr_t)out_tensors[0].addr;
    const local_addr_t work = (local_addr_t)buffer_offset;
    dim4 shape = {s[0], s[1], s[2], s[3]}, last = {s[0], s[1], s[2], s[3] - 1}, slots, larger = shape;
    okk_128_byte_aligned_stride_for_32bit(&slots, 0, &shape);
    larger.h += 64;
    switch (p->mistake) {
    case RIGHT: okk_bdc_mul_C(y, x, 2.f, &shape, NULL, NULL); break;
    case WRITES_INPUT: okk_bdc_mul_C(x, x, 2.f, &shape, NULL, NULL); break; // LOCAL WRITES_INPUT
    case LAST_COLUMN: okk_bdc_mul_C(y, x, 2.f, &last, &slots, &slots); break; // LAST_COLUMN
    case TOO_MUCH: okk_bdc_mul_C(y, x, 2.f, &larger, NULL, NULL); break; // LOCAL TOO_MUCH
    case FAR_AWAY: okk_bdc_mul_C(0x7f000, x, 2.f, &shape, NULL, NULL); break; // LOCAL FAR_AWAY
    case BUFFER: okk_bdc_mul_C(work, x, 2.f, &shape, NULL, NULL); break; // LOCAL BUFFER
    default: break;
    }
    if (p->mistake == WRITES_INPUT || p->mistake == FAR_AWAY || p->mistake == BUFFER)
        okk_bdc_mul_C(y, x, 2.f, &shape, NULL, NULL);
    return BM_LAYER_OK;
}
