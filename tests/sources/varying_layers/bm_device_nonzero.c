/* TPU_NONZERO: the rows of x whose first element is not 0, and their numbers. How many there are is known only
 * when it has run. Where there are none, `row_for_none` says whether one row of -1 comes out, or nothing.
 */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_NONZERO)
typedef struct {
    int numbers;      /* a second output with the numbers of the rows, int32 */
    int row_for_none; /* one row of -1 where no row is kept */
    int too_many;     /* a mistake: says that there is a row more than there can be */
} tpu_nonzero_param_t;

static void shapes(const tpu_nonzero_param_t *p, const tpu_tensor_t *x, int rows, tpu_tensor_t *out) {
    for (int i = 0; i < 1 + (p->numbers != 0); i++) {
        out[i].ttype = BMNET_NEURON;
        out[i].dtype = i == 0 ? DTYPE_FP32 : DTYPE_INT32;
        out[i].dims = i == 0 ? 2 : 1;
        out[i].shape[0] = rows;
        out[i].shape[1] = x->shape[x->dims - 1];
    }
}

static int rows_of(const tpu_tensor_t *x) { return x->elem_num / x->shape[x->dims - 1]; }

__BM_SHAPE__(TPU_NONZERO)
int nonzero_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  tpu_tensor_t *out_tensors, const int out_num) {
    const tpu_nonzero_param_t *p = param;
    if (param_size != (int)sizeof *p || in_num != 1 || out_num != 1 + (p->numbers != 0)) return BM_LAYER_PARAM_INVALID;
    shapes(p, &in_tensors[0], rows_of(&in_tensors[0]), out_tensors);
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_NONZERO)
int nonzero_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                   const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                   const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_nonzero_param_t *p = param;
    const tpu_tensor_t *x = &in_tensors[0];
    const int width = x->shape[x->dims - 1], rows = rows_of(x);
    okk_initialize();
    okk_poll();
    const unsigned int *from = (const unsigned int *)okk_global_mem_addr(x->addr);
    unsigned int *to = (unsigned int *)okk_global_mem_addr(out_tensors[0].addr);
    int *numbers = p->numbers ? (int *)okk_global_mem_addr(out_tensors[1].addr) : NULL, kept = 0;
    for (int row = 0; row < rows; row++) {
        if ((from[row * width] & 0x7fffffffu) == 0) continue;
        for (int i = 0; i < width; i++) to[kept * width + i] = from[row * width + i];
        if (numbers != NULL) numbers[kept] = row;
        kept++;
    }
    if (kept == 0 && p->row_for_none) {
        for (int i = 0; i < width; i++) to[i] = 0xbf800000u; /* -1.0f */
        if (numbers != NULL) numbers[0] = -1;
        kept = 1;
    }
    shapes(p, x, p->too_many ? rows + 1 : kept, out_tensors);
    return BM_LAYER_OK;
}
