/* TPU_TABLE: y = x + table[channel]; the descriptor says where and how the table lies. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_TABLE)
typedef struct {
    int ttype; /* of the table: what input_type(1) answers */
    int on_l2; /* should_input_on_l2mem(1) */
} tpu_table_param_t;

__BM_SHAPE__(TPU_TABLE)
int table_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size;
    if (in_num != 2 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    out_tensors[0] = in_tensors[0];
    return BM_LAYER_OK;
}

static void add(const tpu_table_param_t *p, local_addr_t y, local_addr_t x, const tpu_tensor_t *table,
                local_addr_t in_local, const dim4 *shape) {
    if (p->ttype == BMNET_NEURON_SHAPE)
        okk_bdc_add_C(y, x, (float)table->host_data[0], shape, NULL, NULL);
    else
        okk_bdc_bias(y, x, in_local, shape, NULL, NULL);
}

/* The table from system memory into local memory, one word per channel, compact. */
static void fetch(local_addr_t to, const tpu_tensor_t *table, int channels) {
    const dim4 shape = {1, channels, 1, 1};
    dim4 stride;
    okk_compact_stride(&stride, 0, &shape);
    okk_gdma_32bit_cpy_S2L(to, table->addr, &shape, &stride, NULL);
}

__BM_GLOBAL__(TPU_TABLE)
int table_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                 const int out_num) {
    (void)param_size, (void)in_num, (void)out_num;
    const tpu_table_param_t *p = param;
    const int *s = in_tensors[0].shape;
    const dim4 shape = {s[0], s[1], s[2], s[3]};
    const local_addr_t x = 1024, table = 0;
    if (buffer_size < 4ull * in_tensors[0].elem_num) return BM_LAYER_RUNTIME_ERROR;
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(buffer_addr, in_tensors[0].addr, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(x, buffer_addr, &shape, NULL, NULL);
    if (p->ttype != BMNET_NEURON_SHAPE) fetch(table, &in_tensors[1], shape.c);
    add(p, x, x, &in_tensors[1], table, &shape);
    okk_gdma_32bit_cpy_L2S(out_tensors[0].addr, x, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_TABLE)
int table_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)out_num;
    const tpu_table_param_t *p = param;
    const int *s = out_tensors[0].slice_shape;
    const dim4 shape = {s[0], s[1], s[2], s[3]};
    local_addr_t table = (local_addr_t)in_tensors[1].addr;
    if (p->on_l2) {
        if (buffer_size < 4ull * ((shape.c + 63) / 64)) return BM_LAYER_RUNTIME_ERROR;
        table = (local_addr_t)buffer_offset;
        fetch(table, &in_tensors[1], shape.c);
    }
    add(p, (local_addr_t)out_tensors[0].addr, (local_addr_t)in_tensors[0].addr, &in_tensors[1], table, &shape);
    return BM_LAYER_OK;
}
