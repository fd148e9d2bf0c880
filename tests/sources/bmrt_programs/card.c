/* The functions about the card, its memory and its time; with the firmware of test_bmlib. */
#include "bmlib_runtime.h"

typedef struct {
    unsigned long long addr;
    int n;
    float add;
} __attribute__((packed)) args_t;

static int messages;
static void count(const char *tag, int level, const char *fmt, va_list args) {
    char text[500];
    vsnprintf(text, sizeof text, fmt, args);
    messages += level == BMLIB_LOG_ERROR && strcmp(tag, "bmlib") == 0 && strstr(text, "an emulated card has no") != NULL;
}

int main(void) {
    bm_handle_t h, other;
    struct bm_misc_info info;
    bm_dev_stat_t stat;
    bm_heap_stat_byte_t heap;
    bm_profile_t profile;
    unsigned int number, first;
    int signed_number;
    unsigned long us;
    char name[32];
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    CHECK(bm_get_misc_info(h, &info) == BM_SUCCESS && info.chipid == 0x1684 && info.pcie_soc_mode == 0);
    CHECK(info.ddr0a_size + info.ddr0b_size + info.ddr1_size + info.ddr2_size == 12ll << 30);
    CHECK((info.chipid_bit_mask & BM1684_CHIPID_BIT_MASK) && bm_get_misc_info(h, NULL) == BM_ERR_PARAM);
    CHECK(bm_get_board_name(h, name) == BM_SUCCESS && strcmp(name, "TPULAYER") == 0);
    CHECK(bm_get_chip_temp(h, &number) == BM_SUCCESS && number == 25);
    CHECK(bm_get_tpu_maxclk(h, &number) == BM_SUCCESS && number == 550);
    CHECK(bm_set_clk_tpu_freq(h, 550) == BM_SUCCESS && bm_set_clk_tpu_freq(h, 500) == BM_NOT_SUPPORTED);
    CHECK(bm_get_card_num(&number) == BM_SUCCESS && number == 1);
    CHECK(bm_get_chip_num_from_card(0, &number, &first) == BM_SUCCESS && number == 1 && first == 0);
    CHECK(bm_get_chip_num_from_card(1, &number, &first) == BM_ERR_PARAM);
    CHECK(bm_get_tpu_core_num(h, &number) == BM_SUCCESS && number == 1);
    CHECK(bm_get_gmem_total_heap_num(h, &number) == BM_SUCCESS && number == 1);
    CHECK(bm_thread_sync_from_core(h, 0) == BM_SUCCESS && bm_thread_sync_from_core(h, 1) == BM_ERR_PARAM);
    CHECK(bm_set_sync_timeout(h, 60000) == BM_SUCCESS && bm_set_sync_timeout(h, 0) == BM_ERR_PARAM);

    /* memory, large and small */
    bm_device_mem_u64_t wide, part;
    sg_device_mem_t segment;
    bm_device_mem_t mem, back;
    unsigned char bytes[64], got[64];
    for (int i = 0; i < 64; i++) bytes[i] = (unsigned char)(i * 3);
    CHECK(bm_malloc_device_byte_u64(h, &wide, 5ull << 30) == BM_SUCCESS);
    CHECK(bm_mem_get_device_size_u64(wide) == 5ull << 30 && bm_mem_get_type_u64(wide) == BM_MEM_TYPE_DEVICE);
    CHECK(bm_memcpy_s2d_partial_offset_u64(h, wide, bytes, 64, (5ull << 30) - 64) == BM_SUCCESS);
    CHECK(bm_memcpy_s2d_partial_offset_u64(h, wide, bytes, 64, (5ull << 30) - 63) == BM_ERR_PARAM);
    part = bm_mem_from_device_u64(bm_mem_get_device_addr_u64(wide) + (5ull << 30) - 60, 60);
    CHECK(bm_memcpy_d2s_u64(h, got, part) == BM_SUCCESS && memcmp(got, bytes + 4, 60) == 0);
    CHECK(bm_get_stat(h, &stat) == BM_SUCCESS && stat.heap_num == 1 && stat.mem_used == 5 * 1024);
    CHECK(stat.mem_total > 12000 && stat.heap_stat[0].mem_avail == (unsigned)(stat.mem_total - stat.mem_used));
    CHECK(bm_get_gmem_heap_stat_byte_by_id(h, &heap, 0) == BM_SUCCESS && heap.mem_used == 5ull << 30);
    CHECK(heap.mem_start_addr <= bm_mem_get_device_addr_u64(wide));
    CHECK(bm_get_gmem_heap_stat_byte_by_id(h, &heap, 1) == BM_ERR_PARAM);
    bm_free_device_u64(h, wide);
    CHECK(sg_malloc_neuron_device(h, &segment, 1, 2, 3, 4) == BM_SUCCESS && sg_mem_get_device_size(segment) == 96);
    CHECK(sg_malloc_neuron_device(h, &segment, 1ull << 40, 1ull << 40, 1, 1) == BM_ERR_PARAM);
    CHECK(sg_memcpy_s2d_partial(h, segment, bytes, 64) == BM_SUCCESS);
    unsigned long long address, seen;
    CHECK(sg_mem_mmap_device_mem(h, &segment, &address) == BM_SUCCESS);
    CHECK(memcmp((void *)address, bytes, 64) == 0);
    CHECK(bm_mem_vir_to_phy(h, address + 5, &seen) == BM_SUCCESS && seen == sg_mem_get_device_addr(segment) + 5);
    CHECK(sg_mem_flush_partial_device_mem(h, &segment, 90, 7) == BM_ERR_PARAM);
    CHECK(sg_mem_unmap_device_mem(h, (void *)address, 96) == BM_SUCCESS);
    CHECK(bm_mem_vir_to_phy(h, address, &seen) == BM_ERR_PARAM);
    sg_free_device(h, segment);
    CHECK(bm_malloc_device_mem(h, &address, 0, 64) == BM_SUCCESS);
    mem = bm_mem_from_device(address, 64);
    CHECK(bm_memcpy_s2d_gather(h, mem, 4, bytes + 32, 32ull, bytes, 32ull) == BM_SUCCESS);
    memset(got, 0, 64);
    CHECK(bm_memcpy_d2s_scatter(h, mem, 4, got + 60, 4ull, got, 20ull) == BM_SUCCESS);
    CHECK(memcmp(got + 60, bytes + 32, 4) == 0 && memcmp(got, bytes + 36, 20) == 0 && got[20] == 0);
    CHECK(bm_memcpy_s2d_gather(h, mem, 2, bytes, 65ull) == BM_ERR_PARAM);

    /* strides: every third word; bytes into every fourth place, which leaves the others alone */
    CHECK(bm_malloc_device_byte(h, &back, 64) == BM_SUCCESS && bm_memcpy_s2d(h, mem, bytes) == BM_SUCCESS);
    CHECK(bm_memcpy_d2d_stride(h, back, 1, mem, 3, 5, 4) == BM_SUCCESS && bm_memcpy_d2s(h, got, back) == BM_SUCCESS);
    for (int i = 0; i < 20; i++) CHECK(got[i] == bytes[i / 4 * 12 + i % 4]);
    CHECK(bm_memset_device(h, 0x55555555, back) == BM_SUCCESS);
    CHECK(bm_memcpy_d2d_stride(h, back, 4, mem, 1, 16, 1) == BM_SUCCESS && bm_memcpy_d2s(h, got, back) == BM_SUCCESS);
    for (int i = 0; i < 64; i++) CHECK(got[i] == (i % 4 ? 0x55 : bytes[i / 4]));
    CHECK(bm_memcpy_d2d_stride(h, back, 1, mem, 3, 6, 4) == BM_SUCCESS);
    CHECK(bm_memcpy_d2d_stride(h, back, 1, mem, 3, 7, 4) == BM_ERR_PARAM);
    CHECK(bm_memcpy_d2d_stride(h, back, 2, mem, 1, 1, 4) == BM_ERR_PARAM);
    CHECK(bm_memcpy_d2d_stride(h, back, 1, mem, 1, 1, 3) == BM_ERR_PARAM);

    /* another device; time and counts */
    CHECK(bm_dev_request(&other, 1) == BM_SUCCESS && bm_malloc_device_byte(other, &back, 64) == BM_SUCCESS);
    CHECK(bm_memcpy_c2c(h, other, mem, back, true) == BM_SUCCESS && bm_memcpy_d2s(other, got, back) == BM_SUCCESS);
    CHECK(memcmp(got, bytes, 64) == 0 && bm_memcpy_p2p(other, back, h, mem) == BM_SUCCESS);
    bm_dev_free(other);
    args_t args = {address, 16, 0.f};
    CHECK(tpu_kernel_launch_sync(h, "plus", &args, sizeof args) == BM_SUCCESS && tpu_kernel_sync(h) == BM_SUCCESS);
    CHECK(bm_get_last_api_process_time_us(h, &us) == BM_SUCCESS && us > 0 && us < 1000);
    CHECK(bm_get_profile(h, &profile) == BM_SUCCESS && profile.sent_api_counter == 1);
    CHECK(profile.completed_api_counter == 1 && profile.tpu_process_time <= us && profile.cdma_in_counter > 3);
    bm_free_device_mem(h, address);

    /* what there is not: a status and one message */
    bmlib_log_set_callback(count);
    CHECK(bm_get_fan_speed(h, &number) == BM_NOT_SUPPORTED && bm_get_tpu_power(h, NULL) == BM_NOT_SUPPORTED);
    CHECK(bm_get_driver_version(h, &signed_number) == BM_NOT_SUPPORTED && bm_get_sn(h, name) == BM_NOT_SUPPORTED);
    CHECK(bmcpu_start_cpu(h, name, name) == BM_NOT_SUPPORTED && bmcpu_open_process(h, 0, 1) == -1);
    CHECK(bmcpu_map_phys_addr(h, 0, NULL, 1, 1) == NULL && tpu_kernel_load_module(h, name, 1) == NULL);
    CHECK(bm_gmem_arm_reserved_request(h) == BM_MEM_ADDR_NULL && messages == 9);
    bmlib_log_set_callback(NULL);
    bmlib_log_set_level(BMLIB_LOG_QUIET);
    CHECK(bmlib_log_get_level() == BMLIB_LOG_QUIET && bm_get_fan_speed(h, &number) == BM_NOT_SUPPORTED);
    bmlib_log_set_level(BMLIB_LOG_INFO);
    bmlib_log("mine", BMLIB_LOG_DEBUG, "not shown\n");
    bmlib_log("mine", BMLIB_LOG_INFO, "shown %d\n", 3);
    bm_dev_free(h);
    CHECK(bm_get_card_id(h, &number) == BM_ERR_PARAM);
    printf("ok\n");
    return 0;
}
