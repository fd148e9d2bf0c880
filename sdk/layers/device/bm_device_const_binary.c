/* TPU_CONST_BINARY: x op value, or value op x, element by element, for fp32 tensors of any shape.
 *
 * Inputs: x
 * Makes: x op a number
 */
#include "bm_layer_shape.h"
#include "bm_layer_tiles.h"

/* binary_op: the vendor's BmBinaryType. */
enum {
    BINARY_ADD = 0,
    BINARY_SUB = 1,
    BINARY_MUL = 2,
    BINARY_DIV = 3,
    BINARY_MAX = 4,
    BINARY_MIN = 10000
};

__BM_PARAM__(TPU_CONST_BINARY)
typedef struct {
    float value;
    int binary_op;
    int inversed; /* 0: x op value, 1: value op x */
} tpu_const_binary_param_t;

static bool known_op(int op) { return (op >= BINARY_ADD && op <= BINARY_MAX) || op == BINARY_MIN; }

/* ---- shape: the output is as large as the input ---- */

__BM_SHAPE__(TPU_CONST_BINARY)
int const_binary_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                       tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_const_binary_param_t) || in_num != 1 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_const_binary_param_t *p = param;
    if (!known_op(p->binary_op) || (p->inversed != 0 && p->inversed != 1)) return BM_LAYER_PARAM_INVALID;
    if (in_tensors[0].dtype != DTYPE_FP32) return BM_LAYER_NOT_SUPPORTED;
    bm_layer_same_shape(&out_tensors[0], &in_tensors[0]);
    return BM_LAYER_OK;
}

/* ---- the operation, on data in local memory ---- */

static void compute(const void *param, const bm_job *job) {
    const tpu_const_binary_param_t *p = param;
    const local_addr_t y = job->y.addr, x = job->x[0].addr;
    const dim4 *shape = &job->shape;
    switch (p->binary_op) {
    case BINARY_ADD:
        okk_bdc_add_C(y, x, p->value, shape, NULL, NULL);
        break;
    case BINARY_SUB:
        if (p->inversed)
            okk_bdc_C_sub(y, x, p->value, shape, NULL, NULL);
        else
            okk_bdc_sub_C(y, x, p->value, shape, NULL, NULL);
        break;
    case BINARY_MUL:
        okk_bdc_mul_C(y, x, p->value, shape, NULL, NULL);
        break;
    case BINARY_DIV:
        if (p->inversed)
            okk_bdc_C_div(y, x, p->value, shape, NULL, NULL);
        else
            okk_bdc_div_C(y, x, p->value, shape, NULL, NULL);
        break;
    case BINARY_MAX:
        okk_bdc_max_C(y, x, p->value, shape, NULL, NULL);
        break;
    default: /* BINARY_MIN; the shape function lets nothing else pass */
        okk_bdc_min_C(y, x, p->value, shape, NULL, NULL);
        break;
    }
}

/* ---- global: from DDR through local memory to DDR ---- */

__BM_GLOBAL__(TPU_CONST_BINARY)
int const_binary_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                        const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                        const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    okk_initialize();
    bm_run_tiles(bm_tiling_of(&out_tensors[0], in_tensors, 1), compute, param);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: the compiler has the data in local memory already ---- */

__BM_LOCAL__(TPU_CONST_BINARY)
int const_binary_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                       u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    dim4 stride;
    const bm_job job = bm_local_job(&out_tensors[0], in_tensors, 1, buffer_offset, &stride);
    compute(param, &job);
    return BM_LAYER_OK;
}
