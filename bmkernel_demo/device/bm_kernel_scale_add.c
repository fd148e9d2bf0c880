#include "scale_add.h"

#include "okk.h"

#define FP32_BYTES 4
#define MAX_W 4096 /* elements per NPU in one step: 16 KiB for each of the two tensors */

/* One step: c * w consecutive elements, w on each of c NPUs. */
static void step(unsigned long long out, unsigned long long a, unsigned long long b, int c, int w,
                 float factor) {
    const dim4 shape = {1, c, 1, w};
    const local_addr_t local_a = 0;
    const local_addr_t local_b = MAX_W * FP32_BYTES;
    okk_gdma_32bit_cpy_S2L(local_a, a, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(local_b, b, &shape, NULL, NULL);
    okk_bdc_mul_C(local_a, local_a, factor, &shape, NULL, NULL);
    okk_bdc_add(local_a, local_a, local_b, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out, local_a, &shape, NULL, NULL);
}

void scale_add_fp32(unsigned long long out, unsigned long long a, unsigned long long b,
                    unsigned long long count, float factor) {
    const int npu_num = okk_npu_num();
    while (count > 0) {
        /* As many NPUs as there are elements for, then as many elements as each can hold. */
        const int c = count < (unsigned long long)npu_num ? (int)count : npu_num;
        const unsigned long long per_npu = count / (unsigned long long)c;
        const int w = per_npu < MAX_W ? (int)per_npu : MAX_W;
        step(out, a, b, c, w, factor);
        const unsigned long long done = (unsigned long long)c * (unsigned long long)w;
        out += done * FP32_BYTES;
        a += done * FP32_BYTES;
        b += done * FP32_BYTES;
        count -= done;
    }
}

void scale_add(const void *args) {
    const scale_add_args_t *p = args;
    okk_initialize();
    scale_add_fp32(p->out, p->a, p->b, p->count, p->factor);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(scale_add)
