/* TPU_TURN_BYTES: rows of bytes as columns, and back. The four batches of a word are four elements of a row that lie
 * side by side: `[4, R, W]` is a matrix of R rows and 4 W columns, whose element [r, 4 w + b] is that of batch b.
 *
 * Strips of a picture's pixels, `[4, C, rows]`, become tokens with the bytes of their channels in words, and such tokens
 * strips of pixels.
 *
 * Inputs: x `[4, R, W]` as int8 or uint8 in 4N, R a multiple of four
 * Makes: `[4, 4 W, R / 4]`, of the same scale
 */
#include "bm_atomic.h"
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_packed.h"
#include "okk.h"

#define ROWS 1024 /* of a tile that is turned on its way through DDR */
#define WORDS 256 /* and words of each of its rows */

__BM_PARAM__(TPU_TURN_BYTES)
typedef struct {
    int reserved; /* a parameter struct is never empty */
} tpu_turn_bytes_param_t;

__BM_SHAPE__(TPU_TURN_BYTES)
int turn_bytes_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     tpu_tensor_t *out_tensors, const int out_num) {
    (void)param;
    if (param_size != (int)sizeof(tpu_turn_bytes_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_tensor_t *in = &in_tensors[0];
    if (!bm_is_packed(in) || in->dims != 3 || in->shape[0] != BM_PACKED || in->shape[1] % BM_PACKED != 0)
        return BM_LAYER_NOT_SUPPORTED;
    bm_output_like(&out_tensors[0], in, 3);
    out_tensors[0].shape[0] = BM_PACKED;
    out_tensors[0].shape[1] = BM_PACKED * in->shape[2];
    out_tensors[0].shape[2] = in->shape[1] / BM_PACKED;
    return BM_LAYER_OK;
}

/* Rows of so many words, aligned in local memory. */
static void turn(u64 to, u64 from, int rows, int words) {
    const CWTransParam turned = {.src_addr = from,
                                 .dst_addr = to,
                                 .src_c = (unsigned int)rows,
                                 .src_w = (unsigned int)(BM_PACKED * words),
                                 .format = BM_GDMA_FORMAT_INT8,
                                 .src_c_stride = (unsigned int)(BM_PACKED * local_line(words)),
                                 .dst_c_stride = (unsigned int)(BM_PACKED * local_line(rows / BM_PACKED))};
    bm_atomic_cwtrans(&turned);
}

__BM_GLOBAL__(TPU_TURN_BYTES)
int turn_bytes_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                      const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const int rows = in_tensors[0].shape[1], words = in_tensors[0].shape[2], row = rows / BM_PACKED;
    const local_addr_t turned = (local_addr_t)local_bytes(1, ROWS, 1, WORDS);
    okk_initialize();
    for (int r = 0; r < rows; r += ROWS)
        for (int w = 0; w < words; w += WORDS) {
            const int count = smaller(ROWS, rows - r), wide = smaller(WORDS, words - w);
            const dim4 source = {1, count, 1, wide}, from = {0, words, words, 1};
            const dim4 target = {1, BM_PACKED * wide, 1, count / BM_PACKED}, to = {0, row, row, 1};
            okk_gdma_32bit_cpy_S2L(0, in_tensors[0].addr + 4ull * ((u64)r * (u64)words + (u64)w), &source, NULL, &from);
            turn(turned, 0, count, wide);
            okk_gdma_32bit_cpy_L2S(out_tensors[0].addr + 4ull * ((u64)BM_PACKED * (u64)w * (u64)row + (u64)r / BM_PACKED),
                                   turned, &target, &to, NULL);
        }
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: by the DMA engine ---- */

__BM_LOCAL__(TPU_TURN_BYTES)
int turn_bytes_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    turn(out_tensors[0].addr, in_tensors[0].addr, in_tensors[0].shape[1], in_tensors[0].shape[2]);
    return BM_LAYER_OK;
}
