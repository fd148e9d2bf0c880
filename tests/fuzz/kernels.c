/* Kernels and a layer for the fuzzers of messages, programs and bmodels. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

typedef struct {
    unsigned long long addr;
    float value;
} __attribute__((packed)) sane_t;

/* Shows that the device works. */
void sane(const void *args) {
    const sane_t *a = args;
    dim4 shape = {1, 1, 1, 64};
    okk_initialize();
    okk_gdma_32bit_set_C_system(a->addr, (x32)a->value, &shape, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sane)

#if defined __arm__
enum { WAIT = 1, COMMANDS = 2, TWICE = 4 };

typedef struct {
    unsigned flags, count;
    struct {
        unsigned addr, value;
    } pokes[];
} poke_t;

static void commands(void) {
    dim4 shape = {1, 1, 1, 1};
    okk_initialize();
    okk_bdc_add_C(0, 0, 1.0f, &shape, NULL, NULL);
}

/* Writes wherever it is told to, as a kernel with a wild pointer does. */
void poke(const void *args) {
    const poke_t *a = args;
    for (int round = 0; round < (a->flags & TWICE ? 2 : 1); round++) {
        if (a->flags & COMMANDS) commands();
        for (unsigned i = 0; i < a->count; i++) *(volatile unsigned *)a->pokes[i].addr = a->pokes[i].value;
        if (a->flags & WAIT) __asm__ volatile("mcr p15, 0, %0, c7, c0, 4" ::"r"(0) : "memory");
        if (a->flags & COMMANDS) okk_poll();
    }
}
OKKERNEL_FUNC_REGISTER(poke)
#endif

/* ---- a layer with as many outputs as asked for, and a shape function that may answer nonsense ---- */

typedef struct {
    int field, value; /* which number of the last output is wrong, 0: none */
} many_t;

const tpu_layer_entry_t bmtpu_layers[] = {{0, sizeof(many_t), 0x77, "TPU_MANY"}, {-1, 0, 0, 0}};
const unsigned int bmtpu_layer_count = 1;

static void spoil(tpu_tensor_t *t, const many_t *p) {
    switch (p->field) {
    case 1: t->dims = (unsigned int)p->value; break;
    case 2: t->dtype = (unsigned char)p->value; break;
    case 3: t->ttype = (unsigned char)p->value; break;
    case 4: t->shape[0] = p->value; break;
    case 5: t->store_mode = (unsigned char)p->value; break;
    case 6: t->elem_num = p->value; break;
    case 7: t->host_data = NULL; break;
    default: break;
    }
}

int tpu_shape_infer_entry(int op_type, const void *param, int param_size, const tpu_tensor_t *in, int in_num,
                          tpu_tensor_t *out, int out_num) {
    (void)op_type;
    if (param_size != (int)sizeof(many_t) || in_num < 1) return BM_LAYER_PARAM_INVALID;
    for (int i = 0; i < out_num; i++) {
        out[i].dims = in[0].dims;
        out[i].dtype = in[0].dtype;
        out[i].ttype = in[0].ttype;
        for (unsigned int d = 0; d < in[0].dims; d++) out[i].shape[d] = in[0].shape[d];
        if (i == out_num - 1) spoil(&out[i], param);
    }
    return BM_LAYER_OK;
}

int tpu_global_calculate_entry(int op_type, const void *param, int param_size, const tpu_tensor_t *in, int in_num,
                               u64 buffer_addr, u64 buffer_size, tpu_tensor_t *out, int out_num) {
    (void)op_type, (void)param_size, (void)in, (void)in_num, (void)buffer_addr, (void)buffer_size;
    if (out_num > 0 && ((const many_t *)param)->field < 0) spoil(&out[0], &(many_t){4, ((const many_t *)param)->value});
    return BM_LAYER_OK;
}

int tpu_local_calculate_entry(int op_type, const void *param, int param_size, const tpu_tensor_t *in, int in_num,
                              u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out, int out_num) {
    (void)op_type, (void)param, (void)param_size, (void)in, (void)in_num, (void)buffer_offset, (void)buffer_size;
    (void)out, (void)out_num;
    return BM_LAYER_OK;
}
