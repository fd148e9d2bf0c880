/* TPU_GATHER: planes of one dimension of its first input, chosen by the indices in the second; any type. The
 * indices are int32: constants, which the shape function checks, or computed in the net.
 *
 * Inputs: x of any type, int32 indices
 * Makes: planes of one dimension
 */
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_GATHER)
typedef struct {
    int axis;   /* negative counts from the end; the dimensions of the indices take its place */
    int scalar; /* 1: the index is one number, and the dimension vanishes (unless it is the only one) */
} tpu_gather_param_t;

/* Indices of planes; negative ones count from the end. */
typedef struct {
    const int *values;
    int extent;
} indices;

static int plane_at(const void *list, int i) {
    const indices *x = list;
    return x->values[i] < 0 ? x->values[i] + x->extent : x->values[i];
}

static bool inside(const indices *x, int count) {
    for (int i = 0; i < count; i++)
        if (x->values[i] < -x->extent || x->values[i] >= x->extent) return false;
    return true;
}

__BM_SHAPE__(TPU_GATHER)
int gather_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_gather_param_t) || in_num != 2 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_gather_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0], *chosen = &in_tensors[1];
    const int dims = (int)in->dims, axis = bm_layer_axis(p->axis, dims);
    if (axis < 0 || (p->scalar != 0 && p->scalar != 1)) return BM_LAYER_PARAM_INVALID;
    if (p->scalar && chosen->elem_num != 1) return BM_LAYER_PARAM_INVALID;
    if (chosen->dtype != DTYPE_INT32) return BM_LAYER_NOT_SUPPORTED;
    const indices list = {chosen->host_data, in->shape[axis]};
    if (list.values != NULL && !inside(&list, chosen->elem_num)) return BM_LAYER_PARAM_INVALID;
    const int added = p->scalar ? (dims == 1 ? 1 : 0) : (int)chosen->dims;
    if (dims - 1 + added > MAX_SHAPE_DIMS) return BM_LAYER_NOT_SUPPORTED;
    bm_output_like(&out_tensors[0], in, dims - 1 + added);
    int *shape = out_tensors[0].shape;
    for (int d = 0; d < axis; d++) *shape++ = in->shape[d];
    for (int d = 0; d < added; d++) *shape++ = chosen->shape[d];
    for (int d = axis + 1; d < dims; d++) *shape++ = in->shape[d];
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_GATHER)
int gather_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_gather_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), *in = &x, *chosen = &in_tensors[1];
    const int axis = bm_layer_axis(p->axis, (int)in->dims), count = chosen->elem_num;
    const int plane = (int)bm_stride_of(in, axis), planes = (int)bm_layer_elements(in->shape, 0, axis);
    indices list = {chosen->host_data, in->shape[axis]};
    okk_initialize();
    if (list.values == NULL) {
        okk_poll(); /* what the layers before have written is there now */
        list.values = (const int *)(const void *)okk_global_mem_addr(chosen->addr);
        if (!inside(&list, count)) return BM_LAYER_RUNTIME_ERROR;
    }
    bm_move m = {.dims = 0};
    bm_move_add(&m, planes, (long long)plane * count, (long long)plane * list.extent);
    bm_move_add(&m, plane, 1, 1);
    bm_move_indexed(out_tensors[0].addr, in->addr, &m, bm_element_bytes(in->dtype), plane, plane, plane_at, &list,
                    count);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: constant indices; rows and columns, of which a tile has all, by the tensor unit, channels by the DMA engine,
 * which the compiler knows ---- */

typedef struct {
    local_addr_t x, y;
    dim4 from, to, size; /* size: of y */
    indices list;
} tiles;

/* Batches of one command are what repeats, and rows, or columns, the elements of a run. */
static void copy_run(const tiles *t, int axis, int i, const bm_runs *r) {
    const int row = axis == 2 ? t->from.h : 1, made = axis == 2 ? t->to.h : 1;
    const dim4 step = {r->length * made, t->to.c, t->to.h, 1};
    const dim4 rows = {r->again * row, t->from.c, axis == 2 ? r->step * row : t->from.h, axis == 2 ? 1 : r->step};
    const dim4 shape = {r->repeats, t->size.c, axis == 2 ? r->length : t->size.h, axis == 2 ? t->size.w : r->length};
    for (int n = 0; n < t->size.n; n++)
        okk_bdc_32bit_cpy(t->y + 4u * (local_addr_t)(n * t->to.n + i * made),
                          t->x + 4u * (local_addr_t)(n * t->from.n + plane_at(&t->list, i) * row), &shape, &step, &rows);
}

/* Channels that follow one another, or one. */
static void copy_channels(const tiles *t, int i, int count) {
    const dim4 shape = {t->size.n, count, t->size.h, t->size.w};
    okk_gdma_32bit_cpy_L2L(local_channel(t->y, i, 4 * t->to.c), local_channel(t->x, plane_at(&t->list, i), 4 * t->from.c),
                           &shape, &t->to, &t->from);
}

static void copy_all(const tiles *t, int axis) {
    const int count = axis == 1 ? t->size.c : axis == 2 ? t->size.h : t->size.w;
    for (int i = 0; i < count;) {
        const bm_runs r = bm_runs_of(plane_at, &t->list, i, count, false);
        const int found = axis > 1 ? r.length * r.repeats : r.step == 1 ? r.length : 1;
        if (axis > 1) copy_run(t, axis, i, &r);
        else copy_channels(t, i, found);
        i += found;
    }
}

__BM_LOCAL__(TPU_GATHER)
int gather_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_gather_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const int axis = bm_layer_axis(p->axis, (int)x.dims);
    const dim4 input = local_extents(&x);
    tiles t = {.x = (local_addr_t)x.addr, .y = (local_addr_t)y.addr, .size = local_extents(&y),
               .list = {in_tensors[1].host_data, x.shape[axis]}};
    okk_128_byte_aligned_stride_for_32bit(&t.from, 0, &input);
    okk_128_byte_aligned_stride_for_32bit(&t.to, 0, &t.size);
    copy_all(&t, axis);
    return BM_LAYER_OK;
}
