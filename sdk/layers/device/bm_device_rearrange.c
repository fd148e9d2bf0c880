/* TPU_REARRANGE: the rows of each batch in other places, as boxes of rows; any type. Windows of pictures are such, and
 * pictures rolled around their edges.
 *
 * Inputs: x [N, T, C] of any type, int32 boxes
 * Makes: [N, rows, C]
 */
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

enum { BOX_DIMS = 4 };

__BM_PARAM__(TPU_REARRANGE)
typedef struct {
    int rows; /* of each batch of the output; the boxes write each of them once */
} tpu_rearrange_param_t;

/* A row of the second input, of 14 numbers: the first row that is written and the first that is read (-1: rows are
 * filled with zeros), how many rows there are along four dimensions, and rows from one to the next along these, in the
 * output and in the input. */
typedef struct {
    int to, from, extent[BOX_DIMS], to_step[BOX_DIMS], from_step[BOX_DIMS];
} box;

enum { BOX_NUMBERS = sizeof(box) / sizeof(int) };

/* Whether rows that begin at `first` and go on by these steps, none of them backwards, are among so many. */
static bool among(int first, const int *extent, const int *step, int rows) {
    long long last = first;
    for (int d = 0; d < BOX_DIMS; d++) {
        if (step[d] < 0) return false;
        last += (long long)(extent[d] - 1) * step[d];
    }
    return first >= 0 && last < rows;
}

static bool is_valid(const box *b, int rows, int given) {
    for (int d = 0; d < BOX_DIMS; d++)
        if (b->extent[d] < 1) return false;
    return among(b->to, b->extent, b->to_step, rows) && (b->from == -1 || among(b->from, b->extent, b->from_step, given));
}

static long long rows_of(const box *b) { return (long long)b->extent[0] * b->extent[1] * b->extent[2] * b->extent[3]; }

/* Errors: BM_LAYER_PARAM_INVALID for boxes beyond the rows, or of more or fewer rows than there are. */
__BM_SHAPE__(TPU_REARRANGE)
int rearrange_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_rearrange_param_t) || in_num != 2 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_rearrange_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0], *boxes = &in_tensors[1];
    if (boxes->dtype != DTYPE_INT32 || in->dims != 3) return BM_LAYER_NOT_SUPPORTED;
    if (boxes->dims != 2 || boxes->shape[1] != BOX_NUMBERS || p->rows < 1) return BM_LAYER_PARAM_INVALID;
    const box *list = (const box *)(const void *)boxes->host_data;
    long long rows = 0;
    for (int i = 0; list != NULL && i < boxes->shape[0]; i++) {
        if (!is_valid(&list[i], p->rows, in->shape[1])) return BM_LAYER_PARAM_INVALID;
        rows += rows_of(&list[i]);
    }
    if (list != NULL && rows != p->rows) return BM_LAYER_PARAM_INVALID;
    bm_output_like(&out_tensors[0], in, 3);
    out_tensors[0].shape[0] = in->shape[0];
    out_tensors[0].shape[1] = p->rows;
    out_tensors[0].shape[2] = in->shape[2];
    return BM_LAYER_OK;
}

/* Elements of x and y: words where several batches share one. */
static void move_box(const box *b, const tpu_tensor_t *x, const tpu_tensor_t *y) {
    const int row = x->shape[2], bytes = bm_element_bytes(x->dtype);
    bm_move m = {.dims = 0};
    bm_move_add(&m, x->shape[0], bm_stride_of(y, 0), bm_stride_of(x, 0));
    for (int d = 0; d < BOX_DIMS; d++)
        bm_move_add(&m, b->extent[d], (long long)b->to_step[d] * row, (long long)b->from_step[d] * row);
    bm_move_add(&m, row, 1, 1);
    const u64 size = (u64)row * (u64)bytes, to = y->addr + (u64)b->to * size;
    if (b->from < 0)
        bm_move_fill(to, 0, &m, bytes);
    else
        bm_move_run(to, x->addr + (u64)b->from * size, &m, bytes);
}

__BM_GLOBAL__(TPU_REARRANGE)
int rearrange_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                     const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const box *list = (const box *)(const void *)in_tensors[1].host_data;
    if (list == NULL) return BM_LAYER_NOT_SUPPORTED;
    okk_initialize();
    for (int i = 0; i < in_tensors[1].shape[0]; i++) move_box(&list[i], &x, &y);
    okk_poll();
    return BM_LAYER_OK;
}
