/* TPU_REDUCE: sums, means, extremes, products and norms over any dimensions of an fp32 tensor.
 *
 * Inputs: x
 * Makes: sums, means, extremes, products, norms over dimensions
 */
#include "bm_layer_log.h"
#include "bm_layer_reduce.h"
#include "bm_layer_reduce_power.h"
#include "bm_layer_shape.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

enum {
    REDUCE_SUM = 0,
    REDUCE_MEAN = 1,
    REDUCE_MAX = 2,
    REDUCE_MIN = 3,
    REDUCE_PROD = 4,
    REDUCE_L1 = 5,         /* sum of |x| */
    REDUCE_L2 = 6,         /* square root of the sum of squares */
    REDUCE_SUM_SQUARE = 7,
    REDUCE_LOG_SUM = 8,
    REDUCE_LOG_SUM_EXP = 9
};

__BM_PARAM__(TPU_REDUCE)
typedef struct {
    int kind;      /* REDUCE_... */
    int keep_dims; /* 1: reduced dimensions stay, with extent 1 */
    int axes_num;  /* 0: all dimensions */
    int axes[8];   /* negative ones count from the end; each once */
} tpu_reduce_param_t;

/* Which dimensions are reduced, as bits; -1 for an axis that is not there or comes twice. */
static int mask_of(const tpu_reduce_param_t *p, int dims) {
    int mask = 0;
    if (p->axes_num == 0) return (1 << dims) - 1;
    for (int i = 0; i < p->axes_num; i++) {
        const int axis = bm_layer_axis(p->axes[i], dims);
        if (axis < 0 || (mask >> axis & 1)) return -1;
        mask |= 1 << axis;
    }
    return mask;
}

__BM_SHAPE__(TPU_REDUCE)
int reduce_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_reduce_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_reduce_param_t *p = param;
    if (p->kind < REDUCE_SUM || p->kind > REDUCE_LOG_SUM_EXP || (p->keep_dims & ~1) || p->axes_num < 0 ||
        p->axes_num > MAX_SHAPE_DIMS)
        return BM_LAYER_PARAM_INVALID;
    if (!bm_layer_all_fp32(in_tensors, 1)) return BM_LAYER_NOT_SUPPORTED;
    const int dims = (int)in_tensors[0].dims, mask = mask_of(p, dims);
    if (mask < 0) return BM_LAYER_PARAM_INVALID;
    tpu_tensor_t *out = &out_tensors[0];
    int made = 0;
    for (int d = 0; d < dims; d++) {
        if (!(mask >> d & 1))
            out->shape[made++] = in_tensors[0].shape[d];
        else if (p->keep_dims)
            out->shape[made++] = 1;
    }
    if (made == 0) out->shape[made++] = 1; /* one number */
    out->ttype = BMNET_NEURON;
    out->dtype = DTYPE_FP32;
    out->dims = (unsigned int)made;
    return BM_LAYER_OK;
}

/* ---- element-wise passes ---- */

/* y = log x0, or log x0 + x1 */
static void logarithm(const void *param, const bm_job *job) {
    const bm_tiling *t = param;
    bm_log(job->y.addr, job->x[0].addr, bm_work(job, 0), bm_work(job, 1), &job->shape);
    if (t->operands == 2)
        okk_bdc_add(job->y.addr, job->y.addr, job->x[1].addr, &job->shape, NULL, NULL, NULL);
}

/* y = square root of x0 */
static void root(const void *param, const bm_job *job) {
    (void)param;
    const dim4 flat = bm_flat(&job->shape);
    bm_sqrt(job->y.addr, job->x[0].addr, bm_work(job, 0), bm_work(job, 1), bm_work(job, 2), bm_work(job, 3), &flat);
}

/* The function of each of `count` numbers in their place, beside those at `added` (0: none). */
static void each(bm_job_function function, system_addr_t numbers, system_addr_t added, int count) {
    bm_tiling t = {.operands = added == 0 ? 1 : 2, .work_buffers = 4, .dims = 1, .extent = {count},
                   .step = {{1, 1, 1}}, .addr = {numbers, numbers, added}};
    bm_run_tiles(t, function, &t);
}

/* ---- one run of dimensions that lie together ---- */

typedef struct {
    int kind;
    bool first, last; /* of the runs: squares come first, roots last */
    float factor;
    system_addr_t partial, largest, powers; /* memory for bm_reduce and REDUCE_LOG_SUM_EXP */
} reducing;

static void reduce_run(const reducing *w, system_addr_t in, system_addr_t out, int outer, int reduced, int inner) {
    bm_reduction r = {.in = in, .out = out, .outer = outer, .reduced = reduced, .inner = inner, .factor = w->factor};
    switch (w->kind) {
    case REDUCE_MEAN:
        if (w->last) r.after = BM_AFTER_SCALE;
        break;
    case REDUCE_MAX:
    case REDUCE_LOG_SUM_EXP:
        r.fold = BM_FOLD_MAX;
        break;
    case REDUCE_MIN:
        r.fold = BM_FOLD_MIN;
        break;
    case REDUCE_PROD:
        r.fold = BM_FOLD_PROD;
        break;
    case REDUCE_L1:
        if (w->first) r.before = BM_BEFORE_ABS;
        break;
    case REDUCE_L2:
        if (w->first) r.before = BM_BEFORE_SQUARE;
        break;
    case REDUCE_SUM_SQUARE:
        if (w->first) r.before = BM_BEFORE_SQUARE;
        break;
    default: /* plain sums */
        break;
    }
    if (w->kind != REDUCE_LOG_SUM_EXP) {
        bm_reduce(&r, w->partial);
        if (w->kind == REDUCE_LOG_SUM && w->last) each(logarithm, out, 0, outer * inner);
        if (w->kind == REDUCE_L2 && w->last) each(root, out, 0, outer * inner);
        return;
    }
    /* The logarithms of sums of powers that one run gives are such numbers again for the next run. */
    r.out = w->largest;
    bm_reduce(&r, w->partial);
    bm_tiling t = bm_tiling_of_reduced(outer, reduced, inner, 2, w->powers, (system_addr_t[]){in, w->largest});
    t.work_buffers = 1;
    bm_run_tiles(t, bm_power_of_difference, NULL);
    r.in = w->powers;
    r.out = out;
    r.fold = BM_FOLD_SUM;
    bm_reduce(&r, w->partial);
    each(logarithm, out, w->largest, outer * inner);
}

/* ---- all dimensions: runs, the innermost first ---- */

__BM_GLOBAL__(TPU_REDUCE)
int reduce_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const tpu_reduce_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    const int dims = (int)in->dims, mask = mask_of(p, dims);

    /* Extents of 1 do not matter; neighbours that are both reduced, or both stay, are one dimension. */
    int extents[MAX_SHAPE_DIMS] = {1}, reduced[MAX_SHAPE_DIMS], count = 0, runs = 0;
    float elements = 1;
    for (int d = 0; d < dims; d++) {
        const int drop = mask >> d & 1;
        if (in->shape[d] == 1) continue;
        if (drop) elements *= (float)in->shape[d];
        if (count > 0 && reduced[count - 1] == drop) {
            extents[count - 1] *= in->shape[d];
        } else {
            extents[count] = in->shape[d];
            reduced[count++] = drop;
            runs += drop;
        }
    }
    const unsigned long long bytes = 4ull * (unsigned long long)in->elem_num;
    reducing w = {.kind = p->kind, .first = true, .factor = 1 / elements, .partial = buffer_addr};
    /* Results between runs lie in turn in two places: each is at most half as large as what it was made from. */
    const system_addr_t place[2] = {buffer_addr + BM_REDUCE_BYTES, buffer_addr + BM_REDUCE_BYTES + bytes};
    w.largest = place[1] + bytes;
    w.powers = w.largest + bytes;
    system_addr_t source = in->addr;

    okk_initialize();
    if (runs == 0) { /* each number is reduced by itself */
        w.last = true;
        reduce_run(&w, source, out_tensors[0].addr, 1, 1, in->elem_num);
    }
    int inner = 1;
    for (int d = count - 1; d >= 0 && runs > 0; d--) {
        if (!reduced[d]) {
            inner *= extents[d];
            continue;
        }
        w.last = --runs == 0;
        const system_addr_t target = w.last ? out_tensors[0].addr : place[runs % 2];
        reduce_run(&w, source, target, (int)bm_layer_elements(extents, 0, d), extents[d], inner);
        source = target;
        w.first = false;
    }
    okk_poll();
    return BM_LAYER_OK;
}
