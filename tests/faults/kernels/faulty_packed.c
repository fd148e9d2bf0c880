/* 8-bit and 16-bit integers with a mistake, packed and not. */
#include "faults.h"

/* Words of four batches: the last two of six are left out. */
void words_of_whole_fours(const void *args) {
    const args_t *p = args;
    const dim4 words = {p->n / 4, p->c, p->h, p->w}, shape = {p->n, p->c, p->h, p->w};
    const dim4 all = {DIV_UP(p->n, 4), p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &words, NULL, NULL);
    okk_bdc_fixed_point_packed_add_C(BANK, 0, 3, &shape, NULL, NULL, S8_OP_S8_TO_S8, 0); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &all, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(words_of_whole_fours)

/* Sums of 16 bits, two batches to a word, stored as if there were four. */
void halves_stored_as_bytes(const void *args) {
    const args_t *p = args;
    const dim4 words = {p->n / 4, p->c, p->h, p->w}, shape = {p->n, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &words, NULL, NULL);
    okk_bdc_fixed_point_packed_mul_C(BANK, 0, 77, &shape, NULL, NULL, S8_OP_S8_TO_S16, 0);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &words, NULL, NULL); /* FAULT memory.not_written */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(halves_stored_as_bytes)

/* A 16-bit number times an 8-bit one needs both bytes of the first. */
void low_bytes_not_made(const void *args) {
    const args_t *p = args;
    const dim4 pairs = {p->n / 2, p->c, p->h, p->w}, fours = {p->n / 4, p->c, p->h, p->w};
    const dim4 shape = {p->n, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &pairs, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->in2, &fours, NULL, NULL);
    okk_bdc_fixed_point_packed_16bit_split_high_8bit(2 * BANK, 0, &shape, NULL, NULL);
    okk_bdc_fixed_point_packed_16bit_mul_8bit(4 * BANK, 2 * BANK, 3 * BANK, BANK, &shape, NULL, NULL, NULL, NULL, S16_MUL_S8_TO_S16, 4); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &pairs, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(low_bytes_not_made)

/* Adds products of bytes to 16-bit sums that begin with nothing. */
void bytes_added_to_nothing(const void *args) {
    const args_t *p = args;
    const dim4 pairs = {p->n / 2, p->c, p->h, p->w}, fours = {p->n / 4, p->c, p->h, p->w};
    const dim4 shape = {p->n, p->c, p->h, p->w};
    okk_initialize();
    for (int k = 0; k < p->k; k++) {
        okk_gdma_32bit_cpy_S2L(0, p->in + k * p->n * p->c * p->h * p->w, &fours, NULL, NULL);
        okk_bdc_fixed_point_packed_mac_C(BANK, 0, 3, &shape, NULL, NULL, true, S8_OP_S8_TO_S16, 0, 0); /* FAULT init.unwritten */
    }
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &pairs, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bytes_added_to_nothing)

static void load_bytes(local_addr_t addr, unsigned long long from, dim4 shape) {
    dim4 compact;
    okk_compact_stride(&compact, 0, &shape);
    okk_gdma_8bit_cpy_S2L(addr, from, &shape, &compact, NULL);
}

static ConvQuantParam point_conv(const args_t *p) {
    const unsigned slot = ALIGN(p->h * p->w, 32);
    return (ConvQuantParam){
        .input_addr = 0, .weight_addr = BANK, .bias_addr = 2 * BANK, .output_addr = 4 * BANK,
        .input_shape = {p->n, p->c, p->h, p->w}, .output_c = p->oc, .kernel_h = 1, .kernel_w = 1, .stride_h = 1,
        .stride_w = 1, .input_stride = {slot, slot, p->w, 1}, .kernel_stride = {1, 1, 1, 1}, .dilate_h = 1,
        .dilate_w = 1, .rshift_bit = 6, .using_bias = true, .input_sign = true, .weight_sign = true,
        .bias_sign = true};
}

/* Weights of one group of four input channels, where there are eight. */
void weights_of_four_channels(const void *args) {
    const args_t *p = args;
    const dim4 words = {p->n / 4, p->c, p->h, p->w}, result = {p->n / 4, p->oc, p->h, p->w};
    const ConvQuantParam conv = point_conv(p);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &words, NULL, NULL);
    load_bytes(BANK, p->in2, (dim4){1, p->oc, 1, 4});
    okk_gdma_16bit_cpy_S2L(2 * BANK, p->in3, &(dim4){1, p->oc, 1, 1}, &(dim4){1, 1, 1, 1}, NULL);
    bm_atomic_conv_quantized(&conv); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(weights_of_four_channels)

/* The bias has 16 bits, and half of them are loaded. */
void bias_of_bytes(const void *args) {
    const args_t *p = args;
    const dim4 words = {p->n / 4, p->c, p->h, p->w}, result = {p->n / 4, p->oc, p->h, p->w};
    const ConvQuantParam conv = point_conv(p);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &words, NULL, NULL);
    load_bytes(BANK, p->in2, (dim4){DIV_UP(p->c, 4), p->oc, 1, 4});
    load_bytes(2 * BANK, p->in3, (dim4){1, p->oc, 1, 1});
    bm_atomic_conv_quantized(&conv); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bias_of_bytes)

/* A product of 16 bits, stored a byte to an element. */
void product_of_bytes_stored(const void *args) {
    const args_t *p = args;
    const dim4 left = {p->n, p->k, 1, 1}, right = {p->k, p->w, 1, 1}, result = {p->n, p->w, 1, 1};
    dim4 line;
    okk_128_byte_aligned_stride_for_8bit(&line, 0, &left);
    const MatmulQuantParam product = {
        .input_l_addr = 0, .input_r_addr = BANK, .output_addr = 2 * BANK, .l_row = p->n, .l_col = p->k,
        .l_tensor_w = 1, .l_tensor_c = p->k, .r_tensor_w = 1, .r_tensor_c = p->w, .input_l_sign = true,
        .input_r_sign = true, .output_16bit = true};
    okk_initialize();
    okk_gdma_8bit_cpy_S2L(0, p->in, &left, &line, NULL);
    okk_gdma_8bit_cpy_S2L(BANK, p->in2, &right, &line, NULL);
    bm_atomic_matmul_quantized(&product);
    okk_gdma_8bit_cpy_L2S(p->out, 2 * BANK, &result, NULL, &line); /* FAULT memory.not_written */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(product_of_bytes_stored)

/* Bytes are filled without strides, which are then those of 32-bit elements; they are read by those of bytes. */
void filled_by_strides_of_words(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const x8 one = {.s8 = 1};
    okk_initialize();
    okk_gdma_8bit_set_C_local(0, one, &shape, NULL);
    okk_gdma_8bit_cpy_L2S(p->out, 0, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(filled_by_strides_of_words)

/* Bytes are loaded with lines of 128 bytes and converted as if they lay one behind the other. */
void lines_converted_as_compact(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w}, words = {DIV_UP(p->n, 4), p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &words, NULL, NULL);
    okk_bdc_4N_int8_to_fp32(BANK, 0, 4 * BANK, &shape, true, false); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(lines_converted_as_compact)

/* The extents of the words that are filled are those of the bytes. */
void bytes_filled_as_words(const void *args) {
    const args_t *p = args;
    const x32 zero = {.u32 = 0};
    okk_initialize();
    okk_gdma_32bit_set_C_system(p->out, zero, &(dim4){1, p->c, p->h, p->w}, NULL); /* FAULT memory.beyond */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bytes_filled_as_words)

/* The high byte is that of pixels that were never loaded: a quarter of them is. */
void pixels_counted_as_words(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, part = {1, p->c, p->h, p->w / 4};
    dim4 line;
    okk_128_byte_aligned_stride_for_8bit(&line, 0, &shape);
    okk_initialize();
    okk_gdma_8bit_cpy_S2L(0, p->in, &part, &line, &(dim4){0, p->h * p->w, p->w, 1});
    okk_bdc_int8_to_fp32(BANK, 0, 4 * BANK, &shape, false, true); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(pixels_counted_as_words)

/* 100 products of large bytes do not fit into 16 bits. */
void sums_leave_their_type(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w}, fours = {p->n / 4, p->c, p->h, p->w};
    const dim4 pairs = {p->n / 2, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &fours, NULL, NULL);
    okk_bdc_32bit_set_C(BANK, (x32){.u32 = 0}, &pairs, NULL);
    for (int k = 0; k < p->k; k++)
        okk_bdc_fixed_point_packed_mac(BANK, 0, 0, &shape, NULL, NULL, NULL, true, S8_OP_S8_TO_S16, 0, 0); /* FAULT numeric.saturated */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &pairs, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sums_leave_their_type)
