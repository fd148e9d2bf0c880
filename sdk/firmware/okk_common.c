/* okk.h: order, ids, memories and layouts. */
#include <limits.h>

#include "bm_atomic.h"
#include "fw_internal.h"

/* ---- order ---- */

/* In a local function the compiler owns the order: it has placed the call between its own loads and
 * stores. */
static void not_in_local_function(void) {
    if (fw.scope == FW_SCOPE_LOCAL)
        fw_refuse("layer %s calls it in its local function; there the compiler orders the commands", fw.layer);
    if (fw.scope == FW_SCOPE_SHAPE)
        fw_refuse("layer %s calls it in its shape function, which only computes shapes", fw.layer);
}

static void initialize(void) {
    not_in_local_function();
    if (fw.scope != FW_SCOPE_KERNEL) return; /* the ids of a layer's commands go on */
    if (fw.parallel) fw_refuse("a parallel section is open%s", fw_opened());
    if (fw.bd_id != 0 || fw.gdma_id != 0) fw_flush(fw.recording ? FW_FLUSH_SPLIT : FW_FLUSH_FULL);
}

void fw_poll(void) {
    not_in_local_function();
    if (fw.parallel)
        fw_refuse("it is not allowed inside a parallel section: call okk_parallel_end first%s", fw_opened());
    /* Recorded commands run later, one after another: there is nothing to wait for now. */
    if (!fw.recording && (fw.bd_pending != 0 || fw.gdma_pending != 0)) fw_flush(FW_FLUSH_POLL);
}

void okk_initialize(void) {
    FW_ENTER();
    initialize();
}

void bm_initialize(void) {
    FW_ENTER();
    initialize();
}

void okk_poll(void) {
    FW_ENTER();
    fw_poll();
}

void bm_poll(void) {
    FW_ENTER();
    fw_poll();
}

void okk_parallel_start(void) {
    FW_ENTER();
    not_in_local_function();
    fw_parallel_start();
    fw.opened = fw.site;
}

void okk_parallel_end(void) {
    FW_ENTER();
    not_in_local_function();
    fw_parallel_end();
}

bool okk_is_parallel_state(void) { return fw.parallel; }

/* ---- command ids ---- */

typedef struct {
    uint32_t bd, gdma, parallel;
} id_node;

void okk_get_id_node(void *node) {
    FW_ENTER();
    if (node == NULL) fw_refuse("the node is NULL");
    id_node *n = node;
    n->bd = fw.parallel ? fw.bd_start : fw.bd_id;
    n->gdma = fw.parallel ? fw.gdma_start : fw.gdma_id;
    n->parallel = fw.parallel;
}

void okk_set_id_node(void *node) {
    FW_ENTER();
    if (node == NULL) fw_refuse("the node is NULL");
    if (fw.scope != FW_SCOPE_KERNEL)
        fw_refuse("layer %s sets command ids; the compiler numbers the commands of layers", fw.layer);
    if (fw.parallel) fw_refuse("a parallel section is open%s", fw_opened());
    const id_node *n = node;
    if (n->bd > FW_ID_LIMIT || n->gdma > FW_ID_LIMIT)
        fw_refuse("ids %u and %u are over the limit %u", (unsigned)n->bd, (unsigned)n->gdma, FW_ID_LIMIT);
    if (n->bd < fw.bd_id || n->gdma < fw.gdma_id) {
        if (fw.check_ids)
            fw_refuse("ids %u (BD) and %u (GDMA) go back behind %u and %u, which are given",
                      (unsigned)n->bd, (unsigned)n->gdma, (unsigned)fw.bd_id, (unsigned)fw.gdma_id);
        fw_flush(fw.recording ? FW_FLUSH_SPLIT : FW_FLUSH_FULL);
    }
    fw.bd_id = n->bd;
    fw.gdma_id = n->gdma;
}

void okk_enable_check_id_node(void) { fw.check_ids = true; }

void okk_disable_check_id_node(void) { fw.check_ids = false; }

/* ---- memories ---- */

unsigned long long okk_global_mem_start_addr(void) { return CHIP_DDR_BASE; }
unsigned int okk_local_mem_start_addr(void) { return CHIP_LOCAL_BASE; }
unsigned int okk_local_mem_bank_per_npu(void) { return CHIP_LOCAL_BANKS; }
unsigned int okk_local_mem_size_per_npu(void) { return CHIP_LOCAL_BYTES; }
unsigned int okk_l2_sram_start_addr(void) { return CHIP_L2_BASE + CHIP_L2_USER_OFFSET; }
unsigned int okk_l2_sram_size(void) { return CHIP_L2_USER_BYTES; }
unsigned int okk_dtcm_start_addr(void) { return CHIP_DTCM_BASE + CHIP_DTCM_USER_OFFSET; }
unsigned int okk_dtcm_size(void) { return CHIP_DTCM_USER_BYTES; }
unsigned int okk_lookup_table_start_addr(void) { return CHIP_L2_LOOKUP_START; }
unsigned int okk_lookup_table_size(void) { return CHIP_L2_LOOKUP_BYTES; }
unsigned int okk_eu_num(void) { return CHIP_EU_NUM; }
int okk_npu_num(void) { return CHIP_NPU_NUM; }

/* While recording nothing has been computed, so what a pointer would read is not there yet. */
static void needs_execution(void) {
    if (!fw.recording) return;
    const char *who = fw.layer ? fw.layer : "kernel";
    fw_fail(FW_STATUS_NOT_RECORDABLE,
            "%s: %s reads device memory while its commands are being recorded; nothing has run yet, so its "
            "commands cannot be recorded. Return true from must_dynamic_run() in the layer's descriptor "
            "[called at 0x%llx]",
            fw.api, who, (unsigned long long)(uintptr_t)fw.site);
}

unsigned char *okk_global_mem_addr(unsigned long long addr) {
    FW_ENTER();
    needs_execution();
    unsigned char *p = fw_ddr_pointer(addr, 1);
    if (p == NULL)
        fw_refuse("0x%llx is not in the %u MiB of DDR that the controller's pointers reach, from 0x%llx", addr,
                  (unsigned)(fw.platform->ddr_bytes >> 20), CHIP_DDR_BASE);
    if (addr - CHIP_DDR_BASE < fw.platform->ddr_reserved)
        fw_warn("0x%llx is in the firmware's own memory, for reading only; it ends at 0x%llx", addr,
                CHIP_DDR_BASE + fw.platform->ddr_reserved - 1);
    return p;
}

unsigned char *okk_local_mem_addr(unsigned int idx, unsigned int addr) {
    FW_ENTER();
    needs_execution();
    if (idx >= CHIP_NPU_NUM) fw_refuse("NPU %u does not exist; there are %d", idx, CHIP_NPU_NUM);
    if (addr >= CHIP_LOCAL_BYTES)
        fw_refuse("0x%x is over the %u bytes of an NPU's local memory", addr, CHIP_LOCAL_BYTES);
    return fw.platform->local + (size_t)idx * CHIP_LOCAL_BYTES + addr;
}

unsigned char *okk_l2_sram_addr(unsigned int addr) {
    FW_ENTER();
    needs_execution();
    if (addr < CHIP_L2_BASE || addr - CHIP_L2_BASE >= CHIP_L2_BYTES)
        fw_refuse("0x%x is not in L2, 0x%x..0x%x", addr, CHIP_L2_BASE, CHIP_L2_BASE + CHIP_L2_BYTES - 1);
    return fw.platform->l2 + (addr - CHIP_L2_BASE);
}

/* The controller's own scratch memory: commands do not reach it, so recording may use it. */
unsigned char *okk_dtcm_addr(unsigned int addr) {
    FW_ENTER();
    unsigned int start = CHIP_DTCM_BASE + CHIP_DTCM_USER_OFFSET;
    if (addr < start || addr - start >= CHIP_DTCM_USER_BYTES)
        fw_refuse("0x%x is not in the kernels' part of DTCM, 0x%x..0x%x", addr, start,
                  start + CHIP_DTCM_USER_BYTES - 1);
    return fw.platform->dtcm + (addr - CHIP_DTCM_BASE);
}

/* ---- layouts ---- */

void fw_check_aligned(uint64_t addr, const char *which) {
    if (addr % CHIP_ALIGN_BYTES != 0)
        fw_refuse("%s address 0x%llx is not a multiple of %d; this function works on the aligned layout", which,
                  (unsigned long long)addr, CHIP_ALIGN_BYTES);
}

void fw_check_shape(const dim4 *shape) {
    if (shape == NULL) fw_refuse("shape is NULL");
    if (shape->n < 1 || shape->c < 1 || shape->h < 1 || shape->w < 1)
        fw_refuse("shape [%d, %d, %d, %d] has an extent below 1", shape->n, shape->c, shape->h, shape->w);
}

/* Products that do not fit an int become INT_MAX, which no descriptor accepts as a stride. */
static int fit(int64_t value) { return value > INT_MAX ? INT_MAX : (int)value; }

static int64_t align_up(int64_t value, int unit) { return (value + unit - 1) / unit * unit; }

/* Channel slots that each NPU needs for a tensor that starts on start_npu. */
static int slots(int start_npu, int channels) { return (start_npu + channels + CHIP_NPU_NUM - 1) / CHIP_NPU_NUM; }

static void local_stride(dim4 *stride, int start_npu, const dim4 *shape, int64_t channel_size) {
    stride->n = fit(slots(start_npu, shape->c) * channel_size);
    stride->c = fit(channel_size);
    stride->h = shape->w;
    stride->w = 1;
}

void fw_aligned_stride(dim4 *stride, int start_npu, const dim4 *shape, int element) {
    local_stride(stride, start_npu, shape, align_up((int64_t)shape->h * shape->w, CHIP_ALIGN_BYTES / element));
}

void fw_compact_stride(dim4 *stride, int start_npu, const dim4 *shape) {
    local_stride(stride, start_npu, shape, (int64_t)shape->h * shape->w);
}

void fw_continuous_stride(dim4 *stride, const dim4 *shape) {
    int64_t channel = (int64_t)shape->h * shape->w;
    stride->n = channel > INT_MAX ? INT_MAX : fit(shape->c * channel);
    stride->c = fit(channel);
    stride->h = shape->w;
    stride->w = 1;
}

int okk_start_npu_index(local_addr_t addr) { return (int)(addr / CHIP_LOCAL_BYTES); }

int okk_channle_num_per_npu(int start_idx, int num_channels) { return slots(start_idx, num_channels); }

void okk_128_byte_aligned_stride_for_32bit(dim4 *stride, int start_idx, const dim4 *shape) {
    fw_aligned_stride(stride, start_idx, shape, 4);
}

void okk_128_byte_aligned_stride_for_16bit(dim4 *stride, int start_idx, const dim4 *shape) {
    fw_aligned_stride(stride, start_idx, shape, 2);
}

void okk_128_byte_aligned_stride_for_8bit(dim4 *stride, int start_idx, const dim4 *shape) {
    fw_aligned_stride(stride, start_idx, shape, 1);
}

void okk_compact_stride(dim4 *stride, int start_idx, const dim4 *shape) {
    fw_compact_stride(stride, start_idx, shape);
}

void okk_continuous_stride(dim4 *stride, const dim4 *shape) { fw_continuous_stride(stride, shape); }

unsigned int okk_64_byte_aligned_feature_size(int h, int w) { return (unsigned)align_up((int64_t)h * w * 4, 64); }
