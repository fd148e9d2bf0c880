/* What bmlib says about the card. */
#include "bmlib_internal.h"

#include <stdio.h>
#include <string.h>

#include "bm1684_chip.h"

enum { MIB_SHIFT = 20, CELSIUS = 25, MHZ = 1000000 };

static bm_status_t ask_state(bm_handle_t handle, device_state *state, const char *function) {
    question q = {.function = function, .head = {.op = OP_STATE}, .out = state, .capacity = sizeof *state};
    return tpulayer_ask(handle, &q);
}

/* For what needs no device: whether there is a place for the answer, and the handle is one. */
static bm_status_t check(bm_handle_t handle, const void *answer, const char *function) {
    if (answer == NULL) return bmlib_refuse(function, "there is no place for the answer (NULL)");
    return bm_get_devid(handle) >= 0 ? BM_SUCCESS : bmlib_refuse(function, "no such handle");
}

static bm_status_t tell(bm_handle_t handle, unsigned int *answer, unsigned int value, const char *function) {
    bm_status_t status = check(handle, answer, function);
    if (status == BM_SUCCESS) *answer = value;
    return status;
}

bm_status_t bm_get_chipid(bm_handle_t handle, unsigned int *p_chipid) {
    return tell(handle, p_chipid, 0x1684, __func__);
}

bm_status_t bm_get_misc_info(bm_handle_t handle, struct bm_misc_info *pmisc_info) {
    bm_status_t status = check(handle, pmisc_info, __func__);
    if (status != BM_SUCCESS) return status;
    const long long whole = CHIP_DDR_BYTES;
    *pmisc_info = (struct bm_misc_info){.ddr0a_size = whole / 6,
                                        .ddr0b_size = whole / 6,
                                        .ddr1_size = whole / 3,
                                        .ddr2_size = whole / 3,
                                        .chipid = 0x1684,
                                        .chipid_bit_mask = BM1684_CHIPID_BIT_MASK};
    return BM_SUCCESS;
}

/* ---- memory ---- */

bm_status_t bm_get_stat(bm_handle_t handle, bm_dev_stat_t *stat) {
    device_state state;
    bm_status_t status = check(handle, stat, __func__);
    if (status == BM_SUCCESS) status = ask_state(handle, &state, __func__);
    if (status != BM_SUCCESS) return status;
    memset(stat, 0, sizeof *stat);
    stat->heap_num = 1;
    stat->heap_stat[0].mem_total = (unsigned int)(state.heap_bytes >> MIB_SHIFT);
    stat->heap_stat[0].mem_avail = (unsigned int)((state.heap_bytes - state.heap_used) >> MIB_SHIFT);
    stat->heap_stat[0].mem_used = stat->heap_stat[0].mem_total - stat->heap_stat[0].mem_avail;
    stat->mem_total = (int)stat->heap_stat[0].mem_total;
    stat->mem_used = (int)stat->heap_stat[0].mem_used;
    return BM_SUCCESS;
}

bm_status_t bm_get_gmem_total_heap_num(bm_handle_t handle, unsigned int *heap_num) {
    return tell(handle, heap_num, 1, __func__);
}

bm_status_t bm_get_gmem_heap_stat_byte_by_id(bm_handle_t handle, bm_heap_stat_byte_t *pheap_byte,
                                             unsigned int heap_id) {
    device_state state;
    bm_status_t status = check(handle, pheap_byte, __func__);
    if (status == BM_SUCCESS && heap_id != 0) status = bmlib_refuse(__func__, "the only heap is 0");
    if (status == BM_SUCCESS) status = ask_state(handle, &state, __func__);
    if (status != BM_SUCCESS) return status;
    *pheap_byte = (bm_heap_stat_byte_t){.mem_total = state.heap_bytes,
                                        .mem_avail = state.heap_bytes - state.heap_used,
                                        .mem_used = state.heap_used,
                                        .mem_start_addr = state.heap_start};
    return BM_SUCCESS;
}

/* ---- time ---- */

bm_status_t bm_get_profile(bm_handle_t handle, bm_profile_t *profile) {
    device_state state;
    bm_status_t status = check(handle, profile, __func__);
    if (status == BM_SUCCESS) status = ask_state(handle, &state, __func__);
    if (status == BM_SUCCESS) status = bmlib_profile(handle, profile, __func__);
    if (status == BM_SUCCESS) profile->tpu_process_time = (unsigned long)(state.run_ns / 1000);
    return status;
}

bm_status_t bm_get_last_api_process_time_us(bm_handle_t handle, unsigned long *time_us) {
    device_state state;
    bm_status_t status = check(handle, time_us, __func__);
    if (status == BM_SUCCESS) status = ask_state(handle, &state, __func__);
    if (status == BM_SUCCESS) *time_us = (unsigned long)((state.last_ns + 999) / 1000);
    return status;
}

bm_status_t bm_get_tpu_maxclk(bm_handle_t handle, unsigned int *tpu_maxclk) {
    return tell(handle, tpu_maxclk, CHIP_CLOCK_HZ / MHZ, __func__);
}

bm_status_t bm_get_tpu_minclk(bm_handle_t handle, unsigned int *tpu_minclk) {
    return tell(handle, tpu_minclk, CHIP_CLOCK_HZ / MHZ, __func__);
}

bm_status_t bm_get_clk_tpu_freq(bm_handle_t handle, int *freq) {
    return tell(handle, (unsigned int *)freq, CHIP_CLOCK_HZ / MHZ, __func__);
}

bm_status_t bm_set_clk_tpu_freq(bm_handle_t handle, int freq) {
    bm_status_t status = check(handle, &freq, __func__);
    if (status != BM_SUCCESS || freq == CHIP_CLOCK_HZ / MHZ) return status;
    bmlib_say("bmlib: %s: the emulated clock is %d MHz and cannot be changed to %d", __func__, CHIP_CLOCK_HZ / MHZ,
              freq);
    return BM_NOT_SUPPORTED;
}

/* ---- the board ---- */

bm_status_t bm_get_board_name(bm_handle_t handle, char *name) {
    bm_status_t status = check(handle, name, __func__);
    if (status == BM_SUCCESS) strcpy(name, "TPULAYER");
    return status;
}

bm_status_t bm_get_chip_temp(bm_handle_t handle, unsigned int *chip_temp) {
    return tell(handle, chip_temp, CELSIUS, __func__);
}

bm_status_t bm_get_status(bm_handle_t handle, int *status) { return tell(handle, (unsigned int *)status, 0, __func__); }
bm_status_t bm_get_card_id(bm_handle_t handle, unsigned int *card_id) { return tell(handle, card_id, 0, __func__); }

bm_status_t bm_get_tpu_scalar_num(bm_handle_t handle, unsigned int *core_num) {
    return tell(handle, core_num, 1, __func__);
}

bm_status_t bm_get_card_num(unsigned int *card_num) {
    if (card_num == NULL) return bmlib_refuse(__func__, "card_num is NULL");
    *card_num = 1;
    return BM_SUCCESS;
}

bm_status_t bm_get_chip_num_from_card(unsigned int card_id, unsigned int *chip_num, unsigned int *dev_start_index) {
    if (chip_num == NULL || dev_start_index == NULL)
        return bmlib_refuse(__func__, "chip_num or dev_start_index is NULL");
    if (card_id != 0) return bmlib_refuse(__func__, "the only card is 0");
    *chip_num = 1;
    *dev_start_index = 0;
    return BM_SUCCESS;
}

/* ---- what has no effect here ---- */

void bm_set_debug_mode(bm_handle_t handle, int mode) { (void)handle, (void)mode; }
void bmlib_set_api_dbg_callback(bmlib_api_dbg_callback callback) { (void)callback; }

void show_md5(unsigned char md5[]) {
    for (int i = 0; i < MD5SUM_LEN; i++) printf("%02x", md5[i]);
    printf("\n");
}
