/* What bmlib says about the card, its messages, and what an emulated card does not have. Included by
 * bmlib_runtime.h.
 */
#ifndef BMLIB_CARD_H_
#define BMLIB_CARD_H_

#include "bmlib_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the card ---- */

#define BM1682_CHIPID_BIT_MASK (0X1 << 0)
#define BM1684_CHIPID_BIT_MASK (0X1 << 1)
#define BM1686_CHIPID_BIT_MASK (0X1 << 2)

struct bm_misc_info {
    int pcie_soc_mode;  /* 0: on PCIe, the program runs on another machine */
    int ddr_ecc_enable; /* 0 */
    long long ddr0a_size; /* of DDR, 12 GiB in all */
    long long ddr0b_size;
    long long ddr1_size;
    long long ddr2_size;
    unsigned int chipid; /* 0x1684 */
    unsigned long chipid_bit_mask;
    unsigned int driver_version; /* 0 from here on: there is no driver and no board */
    int domain_bdf;
    int board_version;
    int a53_enable;
    int dyn_enable;
};
bm_status_t bm_get_misc_info(bm_handle_t handle, struct bm_misc_info *pmisc_info);

/* In MiB. The emulated card has one heap, all of DDR that programs may use. */
struct bm_heap_stat {
    unsigned int mem_total;
    unsigned int mem_avail;
    unsigned int mem_used;
};
typedef struct bm_dev_stat {
    int mem_total;
    int mem_used;
    int tpu_util; /* 0: between launches it does nothing */
    int heap_num;
    struct bm_heap_stat heap_stat[4];
} bm_dev_stat_t;
bm_status_t bm_get_stat(bm_handle_t handle, bm_dev_stat_t *stat);

/* In bytes. */
typedef struct bm_heap_stat_byte {
    unsigned int heap_id; /* 0 */
    unsigned long long mem_total;
    unsigned long long mem_avail;
    unsigned long long mem_used;
    unsigned long long mem_start_addr;
} bm_heap_stat_byte_t;
bm_status_t bm_get_gmem_heap_stat_byte_by_id(bm_handle_t handle, bm_heap_stat_byte_t *pheap_byte, unsigned int
                                             heap_id);
bm_status_t bm_get_gmem_total_heap_num(bm_handle_t handle, unsigned int *heap_num);
bm_status_t bm_get_gmem_heap_id(bm_handle_t handle, bm_device_mem_t *pmem, unsigned int *heapid);

/* Since bm_dev_request. Times in us: copies by this machine's clock, the TPU's by the model of the chip's. */
typedef struct bm_profile {
    unsigned long cdma_in_time;
    unsigned long cdma_in_counter;
    unsigned long cdma_out_time;
    unsigned long cdma_out_counter;
    unsigned long tpu_process_time;
    unsigned long tpu1_process_time; /* 0 */
    unsigned long sent_api_counter;
    unsigned long completed_api_counter;
} bm_profile_t;
bm_status_t bm_get_profile(bm_handle_t handle, bm_profile_t *profile);
/* Modelled time of the newest launch that ended, in us, rounded up. */
bm_status_t bm_get_last_api_process_time_us(bm_handle_t handle, unsigned long *time_us);

/* name: room for 25 bytes; "TPULAYER". Temperatures: always 25, there is no sensor. Clocks: 550 MHz, which stays. */
bm_status_t bm_get_board_name(bm_handle_t handle, char *name);
bm_status_t bm_get_chip_temp(bm_handle_t handle, unsigned int *chip_temp);
bm_status_t bm_get_tpu_maxclk(bm_handle_t handle, unsigned int *tpu_maxclk);
bm_status_t bm_get_tpu_minclk(bm_handle_t handle, unsigned int *tpu_minclk);
bm_status_t bm_get_clk_tpu_freq(bm_handle_t handle, int *freq);
bm_status_t bm_set_clk_tpu_freq(bm_handle_t handle, int freq);
/* *status: bits of errors, 0. One card with one chip. */
bm_status_t bm_get_status(bm_handle_t handle, int *status);
bm_status_t bm_get_card_id(bm_handle_t handle, unsigned int *card_id);
bm_status_t bm_get_card_num(unsigned int *card_num);
bm_status_t bm_get_chip_num_from_card(unsigned int card_id, unsigned int *chip_num, unsigned int
                                      *dev_start_index);
bm_status_t bm_get_tpu_scalar_num(bm_handle_t handle, unsigned int *core_num);
#define bm_get_tpu_core_num bm_get_tpu_scalar_num

/* ---- messages ----
 * Each message of bmlib and bmruntime is one at BMLIB_LOG_ERROR. Those above the level are dropped; the callback gets
 * the others too, and prints them or not. NULL: stderr, as at the start.
 */
#define BMLIB_LOG_QUIET -8
#define BMLIB_LOG_PANIC 0
#define BMLIB_LOG_FATAL 8
#define BMLIB_LOG_ERROR 16
#define BMLIB_LOG_WARNING 24
#define BMLIB_LOG_INFO 32
#define BMLIB_LOG_VERBOSE 40
#define BMLIB_LOG_DEBUG 48
#define BMLIB_LOG_TRACE 56
void bmlib_log(const char *tag, int level, const char *fmt, ...);
int bmlib_log_get_level(void);
void bmlib_log_set_level(int level);
void bmlib_log_set_callback(void (*callback)(const char *, int, const char *, va_list args));
/* The firmware's log is always shown, and the callback for it never called. */
void bm_set_debug_mode(bm_handle_t handle, int mode);
typedef void (*bmlib_api_dbg_callback)(int, int, int, const char *);
void bmlib_set_api_dbg_callback(bmlib_api_dbg_callback callback);
void show_md5(unsigned char md5[]); /* 16 bytes, to stdout */

/* ---- not on an emulated card ----
 * BM_NOT_SUPPORTED (where no status comes back -1, NULL or BM_MEM_ADDR_NULL) and one message: sensors of the board,
 * its numbers, its driver; the video units; the clock's regulation; the processors beside the TPU; kernel modules, which
 * later chips have.
 */
typedef enum { PERF_MONITOR_GDMA = 0, PERF_MONITOR_TPU = 1 } PERF_MONITOR_ID;
typedef enum { BMCPU_IDLE = 0, BMCPU_RUNNING = 1, BMCPU_FAULT = 2 } bm_cpu_status_t;
#define BMCPU_EXEC_OPT_NO_FLUSH_CACHE 1

typedef struct bm_perf_monitor {
    long long buffer_start_addr;
    int buffer_size;
    PERF_MONITOR_ID monitor_id;
} bm_perf_monitor_t;

typedef struct bootloader_version {
    char *bl1_version;
    char *bl2_version;
    char *bl31_version;
    char *uboot_version;
} boot_loader_version;

#define MD5SUM_LEN 16
#define LIB_MAX_NAME_LEN 64
#define FUNC_MAX_NAME_LEN 64

typedef struct bm_module {
    char lib_name[LIB_MAX_NAME_LEN];
    unsigned char md5[MD5SUM_LEN];
} bm_module;

typedef struct bm_module *tpu_kernel_module_t;
typedef int tpu_kernel_function_t;

typedef struct {
    int core_id;
    tpu_kernel_function_t func_id;
    void *param_data;
    unsigned int param_size;
} tpu_launch_param_t;

bm_status_t bm_get_tpu_current(bm_handle_t handle, unsigned int *tpuc);
bm_status_t bm_get_board_max_power(bm_handle_t handle, unsigned int *maxp);
bm_status_t bm_get_board_power(bm_handle_t handle, unsigned int *boardp);
bm_status_t bm_get_fan_speed(bm_handle_t handle, unsigned int *fan);
bm_status_t bm_get_ecc_correct_num(bm_handle_t handle, unsigned long *ecc_correct_num);
bm_status_t bm_get_12v_atx(bm_handle_t handle, int *atx_12v);
bm_status_t bm_get_product_sn(char *product_sn);
bm_status_t bm_get_sn(bm_handle_t handle, char *sn);
bm_status_t bm_get_driver_version(bm_handle_t handle, int *driver_version);
bm_status_t bm_get_board_temp(bm_handle_t handle, unsigned int *board_temp);
bm_status_t bm_get_tpu_power(bm_handle_t handle, float *tpu_power);
bm_status_t bm_get_tpu_volt(bm_handle_t handle, unsigned int *tpu_volt);
bm_status_t bm_get_vpu_instant_usage(bm_handle_t handle, int *vpu_usage);
bm_status_t bm_get_jpu_core_usage(bm_handle_t handle, int *jpu_usage);
bm_status_t bm_get_vpp_instant_usage(bm_handle_t handle, int *vpp_usage);
bm_status_t bm_get_boot_loader_version(bm_handle_t handle, boot_loader_version *version);
bm_status_t bm_get_dynfreq_status(bm_handle_t handle, int *dynfreq_status);
bm_status_t bm_change_dynfreq_status(bm_handle_t handle, int new_status);
bm_status_t bm_enable_perf_monitor(bm_handle_t handle, bm_perf_monitor_t *perf_monitor);
bm_status_t bm_disable_perf_monitor(bm_handle_t handle, bm_perf_monitor_t *perf_monitor);
unsigned long long bm_gmem_arm_reserved_request(bm_handle_t handle);
void bm_gmem_arm_reserved_release(bm_handle_t handle);

bm_cpu_status_t bmcpu_get_cpu_status(bm_handle_t handle);
bm_status_t bmcpu_start_cpu(bm_handle_t handle, char *boot_file, char *core_file);
int bmcpu_open_process(bm_handle_t handle, unsigned int flags, int timeout);
bm_status_t bmcpu_load_library(bm_handle_t handle, int process_handle, char *library_file, int timeout);
bm_status_t bmcpu_unload_library(bm_handle_t handle, int process_handle, char *library_file, int timeout);
int bmcpu_exec_function(bm_handle_t handle, int process_handle, char *function_name, void *function_param,
                        unsigned int param_size, int timeout);
int bmcpu_exec_function_ext(bm_handle_t handle, int process_handle, char *function_name, void *function_param,
                            unsigned int param_size, unsigned int opt, int timeout);
bm_status_t bmcpu_exec_function_async(bm_handle_t handle, int process_handle, char *function_name, void
                                      *function_param, unsigned int param_size, unsigned long long
                                      *api_handle);
bm_status_t bmcpu_exec_function_async_ext(bm_handle_t handle, int process_handle, char *function_name, void
                                          *function_param, unsigned int param_size, unsigned int opt, unsigned
                                          long long *api_handle);
int bmcpu_query_exec_function_result(bm_handle_t handle, unsigned long long api_handle, int timeout);
void *bmcpu_map_phys_addr(bm_handle_t handle, int process_handle, void *phys_addr, unsigned int size, int
                          timeout);
bm_status_t bmcpu_unmap_phys_addr(bm_handle_t handle, int process_handle, void *phys_addr, int timeout);
bm_status_t bmcpu_close_process(bm_handle_t handle, int process_handle, int timeout);
bm_status_t bmcpu_reset_cpu(bm_handle_t handle);
bm_status_t bmcpu_set_log(bm_handle_t handle, unsigned int log_level, unsigned int log_to_console, int
                          timeout);
bm_status_t bmcpu_get_log(bm_handle_t handle, int process_handle, char *log_file, int timeout);
bm_status_t bmcpu_sync_time(bm_handle_t handle);

tpu_kernel_module_t tpu_kernel_load_module_file(bm_handle_t handle, const char *module_file);
tpu_kernel_module_t tpu_kernel_load_module_file_key(bm_handle_t handle, const char *module_file, const char
                                                    *key, int size);
bm_status_t tpu_kernel_unload_module(bm_handle_t handle, tpu_kernel_module_t p_module);
bm_status_t tpu_kernel_unload_module_from_core(bm_handle_t handle, tpu_kernel_module_t p_module, int core_id);
bm_status_t tpu_kernel_free_module(bm_handle_t handle, tpu_kernel_module_t p_module);
tpu_kernel_module_t tpu_kernel_load_module(bm_handle_t handle, const char *data, size_t length);
tpu_kernel_module_t tpu_kernel_load_module_to_core(bm_handle_t handle, const char *data, size_t length, int
                                                   core_id);
tpu_kernel_function_t tpu_kernel_get_function(bm_handle_t handle, tpu_kernel_module_t module, const char
                                              *function);
tpu_kernel_function_t tpu_kernel_get_function_from_core(bm_handle_t handle, tpu_kernel_module_t module, const
                                                        char *function, int core_id);
bm_status_t tpu_kernel_launch(bm_handle_t handle, tpu_kernel_function_t function, void *args, size_t size);
bm_status_t tpu_kernel_launch_from_core(bm_handle_t handle, tpu_kernel_function_t function, void *args, size_t
                                        size, int core_id);
bm_status_t tpu_kernel_launch_async(bm_handle_t handle, tpu_kernel_function_t function, void *args, size_t
                                    size);
bm_status_t tpu_kernel_launch_async_from_core(bm_handle_t handle, tpu_kernel_function_t function, void *args,
                                              size_t size, int core_id);
bm_status_t tpu_kernel_launch_async_multicores(bm_handle_t handle, tpu_launch_param_t *param_list, int
                                               param_num);

#ifdef __cplusplus
}
#endif
#endif
