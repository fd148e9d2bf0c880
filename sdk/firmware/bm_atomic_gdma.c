/* bm_atomic.h: copies, fills, exchange of channels and columns, and the masked copy. */
#include "bm_atomic.h"
#include "fw_gdma.h"

static dim4 dims(const unsigned int *v) { return (dim4){(int)v[0], (int)v[1], (int)v[2], (int)v[3]}; }

static bool source_is_local(BmGDMADir d) { return d == BM_GDMA_DIR_L2S || d == BM_GDMA_DIR_L2L; }
static bool target_is_local(BmGDMADir d) { return d == BM_GDMA_DIR_S2L || d == BM_GDMA_DIR_L2L; }

static int bytes_of(BmGDMAFormat format) {
    switch (format) {
    case BM_GDMA_FORMAT_FLOAT32: return 4;
    case BM_GDMA_FORMAT_INT16:
    case BM_GDMA_FORMAT_FLOAT16: return 2;
    case BM_GDMA_FORMAT_UINT8:
    case BM_GDMA_FORMAT_INT8: return 1;
    }
    fw_refuse("format %d does not exist", (int)format);
}

/* A local offset on NPU idx, or a system address. */
static uint64_t place(bool local, unsigned long long addr, unsigned int idx, const char *which) {
    if (!local) {
        if (addr >> 40) fw_refuse("%s address 0x%llx has more than 40 bits", which, addr);
        return addr;
    }
    if (idx >= CHIP_NPU_NUM || addr >= (uint64_t)(CHIP_NPU_NUM - idx) * CHIP_LOCAL_BYTES)
        fw_refuse("%s is at 0x%llx of NPU %u; there are %d NPUs with 0x%x bytes", which, addr, idx, CHIP_NPU_NUM,
                  CHIP_LOCAL_BYTES);
    if (addr >= CHIP_LOCAL_BYTES)
        fw_warn("%s is at 0x%llx of NPU %u, which has 0x%x bytes: that is on another NPU", which, addr, idx,
                CHIP_LOCAL_BYTES);
    return CHIP_LOCAL_BASE + (uint64_t)idx * CHIP_LOCAL_BYTES + addr;
}

static void check_direction(BmGDMADir direction) {
    if ((unsigned)direction > BM_GDMA_DIR_L2L) fw_refuse("direction %d does not exist", (int)direction);
}

static void begin(uint32_t *d, BmGDMADir direction, BmGDMAFormat src, BmGDMAFormat dst, uint64_t source) {
    check_direction(direction);
    (void)bytes_of(src);
    (void)bytes_of(dst);
    fw_gdma_check_scope((int)direction, source);
    gdma_defaults(d);
    gdma_set_direction(d, (uint32_t)direction);
    gdma_set_src_data_format(d, (uint32_t)src);
    gdma_set_dst_data_format(d, (uint32_t)dst);
}

static void set_src_addr(uint32_t *d, uint64_t addr) {
    gdma_set_src_start_addr_l32(d, (uint32_t)addr);
    gdma_set_src_start_addr_h8(d, (uint32_t)(addr >> 32));
}

static void set_dst_addr(uint32_t *d, uint64_t addr) {
    gdma_set_dst_start_addr_l32(d, (uint32_t)addr);
    gdma_set_dst_start_addr_h8(d, (uint32_t)(addr >> 32));
}

void bm_atomic_memcpy_1D(const MemCpy1DParam *param) {
    FW_ENTER();
    if (param->length < 1) fw_refuse("a length of 0");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin(d, param->direction, param->format, BM_GDMA_FORMAT_FLOAT32, param->src_addr);
    gdma_set_common_mode(d, 1);
    gdma_set_src_nstride(d, param->length);
    set_src_addr(d, place(false, param->src_addr, 0, "source"));
    set_dst_addr(d, place(false, param->dst_addr, 0, "destination"));
    fw_emit_gdma(d);
}

void bm_atomic_memcpy_2D(const MemCpy2DParam *param) {
    FW_ENTER();
    check_direction(param->direction);
    if (param->direction != BM_GDMA_DIR_S2L && param->direction != BM_GDMA_DIR_L2S)
        fw_refuse("a matrix is copied between system and local memory only, not in direction %d",
                  (int)param->direction);
    if (param->row < 1 || param->col < 1 || param->sec_size < 1)
        fw_refuse("%u rows, %u columns, %u to a channel; sizes start at 1", param->row, param->col,
                  param->sec_size);
    if (param->result_add && param->format != BM_GDMA_FORMAT_FLOAT32)
        fw_refuse("only fp32 is added to the old result, not format %d", (int)param->format);
    bool to_local = param->direction == BM_GDMA_DIR_S2L;
    unsigned int n = param->transpose ? param->col : param->row, spread = param->transpose ? param->row : param->col;
    unsigned int w = param->sec_size;
    if (param->transpose && w > spread) w = spread;
    dim4 sys_shape = {1, 1, (int)param->row, (int)param->col}, sys_stride = {0, 0, (int)param->row_stride, 1};
    dim4 shape = {(int)n, (int)((spread + w - 1) / w), 1, (int)w}, stride;
    fw_aligned_stride(&stride, (int)param->local_mem_idx, &shape, bytes_of(param->format));
    stride.h = stride.c;
    uint64_t system = place(false, param->global_mem_addr, 0, "global");
    uint64_t local = place(true, param->local_mem_addr, param->local_mem_idx, "local");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin(d, param->direction, param->format, param->format, to_local ? system : local);
    gdma_set_stride_enable(d, 1);
    gdma_set_sys_mem_type(d, 1);
    gdma_set_acc_write_enable(d, param->result_add);
    if (param->transpose) gdma_set_special_func(d, GDMA_SPECIAL_TRANSPOSE_NC);
    fw_gdma_set_src(d, to_local ? system : local, to_local ? &sys_shape : &shape);
    fw_gdma_set_src_stride(d, to_local ? &sys_stride : &stride);
    fw_gdma_set_dst(d, to_local ? local : system, to_local ? &shape : &sys_shape);
    fw_gdma_set_dst_stride(d, to_local ? &stride : &sys_stride);
    fw_emit_gdma(d);
}

/* GDMA moves w with stride 1. */
static void check_w_stride(const dim4 *stride, const dim4 *shape, const char *which) {
    if (shape->w > 1 && stride->w != 1)
        fw_refuse("%s w-stride is %d; GDMA moves w with stride 1", which, stride->w);
}

static int64_t elements(const unsigned int *shape) {
    return (int64_t)shape[0] * shape[1] * (int64_t)shape[2] * shape[3];
}

void bm_atomic_memcpy_4D(const MemCpy4DParam *param) {
    FW_ENTER();
    dim4 src_shape = dims(param->src_shape), dst_shape = dims(param->dst_shape);
    dim4 src_stride = dims(param->src_stride), dst_stride = dims(param->dst_stride);
    fw_check_shape(&src_shape);
    fw_check_shape(&dst_shape);
    if (elements(param->src_shape) != elements(param->dst_shape))
        fw_refuse("the source has %lld elements and the destination %lld", (long long)elements(param->src_shape),
                  (long long)elements(param->dst_shape));
    check_w_stride(&src_stride, &src_shape, "source");
    check_w_stride(&dst_stride, &dst_shape, "destination");
    if (param->src_format != param->dst_format) {
        if (param->transpose)
            fw_refuse("n and c are exchanged in one format, not from %d to %d", (int)param->src_format,
                      (int)param->dst_format);
        if (param->src_format == BM_GDMA_FORMAT_INT16 || param->dst_format == BM_GDMA_FORMAT_INT16)
            fw_refuse("int16 is not converted (format %d to %d)", (int)param->src_format, (int)param->dst_format);
    }
    check_direction(param->direction);
    uint64_t src = place(source_is_local(param->direction), param->src_addr, param->src_local_idx, "source");
    uint64_t dst = place(target_is_local(param->direction), param->dst_addr, param->dst_local_idx, "destination");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin(d, param->direction, param->src_format, param->dst_format, src);
    gdma_set_stride_enable(d, 1);
    if (param->transpose) gdma_set_special_func(d, GDMA_SPECIAL_TRANSPOSE_NC);
    else if (param->src_format != param->dst_format) gdma_set_special_func(d, GDMA_SPECIAL_FORMAT);
    fw_gdma_set_src(d, src, &src_shape);
    fw_gdma_set_src_stride(d, &src_stride);
    fw_gdma_set_dst(d, dst, &dst_shape);
    fw_gdma_set_dst_stride(d, &dst_stride);
    fw_emit_gdma(d);
}

/* The constant's low bytes, as many as an element has. */
void bm_atomic_memset_4D(const MemSet4DParam *param) {
    FW_ENTER();
    if (param->const_val == NULL) fw_refuse("const_val is NULL");
    dim4 shape = dims(param->shape), stride = dims(param->stride);
    fw_check_shape(&shape);
    check_w_stride(&stride, &shape, "destination");
    uint32_t value = 0;
    memcpy(&value, param->const_val, (size_t)bytes_of(param->format));
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin(d, param->is_local_mem ? BM_GDMA_DIR_L2L : BM_GDMA_DIR_S2S, param->format, param->format, 0);
    gdma_set_stride_enable(d, 1);
    gdma_set_special_func(d, GDMA_SPECIAL_CONSTANT);
    gdma_set_constant_value(d, value);
    fw_gdma_set_dst(d, place(param->is_local_mem, param->start_addr, param->local_idx, "destination"), &shape);
    fw_gdma_set_dst_stride(d, &stride);
    fw_emit_gdma(d);
}

void bm_atomic_cwtrans(const CWTransParam *param) {
    FW_ENTER();
    dim4 src_shape = {1, (int)param->src_c, 1, (int)param->src_w}, dst_shape = {1, (int)param->src_w, 1, (int)param->src_c};
    fw_check_shape(&src_shape);
    dim4 src_stride = {0, (int)param->src_c_stride, 0, 1}, dst_stride = {0, (int)param->dst_c_stride, 0, 1};
    uint64_t src = place(true, param->src_addr, param->src_local_idx, "source");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin(d, BM_GDMA_DIR_L2L, param->format, param->format, src);
    gdma_set_stride_enable(d, 1);
    gdma_set_special_func(d, GDMA_SPECIAL_TRANSPOSE_CW);
    fw_gdma_set_src(d, src, &src_shape);
    fw_gdma_set_src_stride(d, &src_stride);
    fw_gdma_set_dst(d, place(true, param->dst_addr, param->dst_local_idx, "destination"), &dst_shape);
    fw_gdma_set_dst_stride(d, &dst_stride);
    fw_emit_gdma(d);
}

/* The mask has the layout of the data; its address lies where a destination's n-stride else is. */
void bm_atomic_mask_memcpy_4D(const MaskMemCpy4DPram *param) {
    FW_ENTER();
    dim4 shape = dims(param->shape);
    fw_check_shape(&shape);
    if (param->dst_global_mem_addr % 512 != 0)
        fw_refuse("destination address 0x%llx is not a multiple of 512", param->dst_global_mem_addr);
    if (param->data_local_mem_addr % CHIP_ALIGN_BYTES != 0 || param->mask_local_mem_addr % CHIP_ALIGN_BYTES != 0)
        fw_refuse("data address 0x%llx or mask address 0x%llx is not a multiple of %d",
                  (unsigned long long)param->data_local_mem_addr, (unsigned long long)param->mask_local_mem_addr,
                  CHIP_ALIGN_BYTES);
    if (param->mask_local_mem_addr >= CHIP_LOCAL_BYTES) /* the vendor's encoder joins it with the NPU bit by bit */
        fw_refuse("mask is at 0x%llx of NPU %u; there are %d NPUs with 0x%x bytes",
                  (unsigned long long)param->mask_local_mem_addr, param->local_mem_idx, CHIP_NPU_NUM, CHIP_LOCAL_BYTES);
    uint64_t src = place(true, param->data_local_mem_addr, param->local_mem_idx, "data");
    uint64_t mask = place(true, param->mask_local_mem_addr, param->local_mem_idx, "mask");
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin(d, BM_GDMA_DIR_L2S, BM_GDMA_FORMAT_FLOAT32, BM_GDMA_FORMAT_FLOAT32, src);
    gdma_set_special_func(d, GDMA_SPECIAL_FILTER);
    fw_gdma_set_src(d, src, &shape);
    fw_gdma_set_dst(d, place(false, param->dst_global_mem_addr, 0, "destination"), &shape);
    gdma_set_src_nstride(d, (uint32_t)elements(param->shape));
    gdma_set_dst_nstride(d, (uint32_t)mask);
    fw_emit_gdma(d);
}

unsigned int bm_get_mask_memcpy_res_num(void) {
    FW_ENTER();
    if (fw.recording) fw_refuse("the number of words kept is not known while commands are recorded");
    fw_poll();
    return fw.platform->filtered;
}
