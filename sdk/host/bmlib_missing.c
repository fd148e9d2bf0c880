/* Functions for what an emulated card does not have: one message, and BM_NOT_SUPPORTED. */
#include "bmlib_internal.h"

#include <stddef.h>

static bm_status_t missing(const char *function, const char *what) {
    bmlib_say("bmlib: %s: an emulated card has no %s", function, what);
    return BM_NOT_SUPPORTED;
}

/* ---- board, driver, units beside the TPU ---- */

bm_status_t bm_get_tpu_current(bm_handle_t handle, unsigned int *tpuc) {
    return (void)handle, (void)tpuc, missing(__func__, "sensor of current");
}
bm_status_t bm_get_board_max_power(bm_handle_t handle, unsigned int *maxp) {
    return (void)handle, (void)maxp, missing(__func__, "board");
}
bm_status_t bm_get_board_power(bm_handle_t handle, unsigned int *boardp) {
    return (void)handle, (void)boardp, missing(__func__, "sensor of power");
}
bm_status_t bm_get_fan_speed(bm_handle_t handle, unsigned int *fan) {
    return (void)handle, (void)fan, missing(__func__, "fan");
}
bm_status_t bm_get_ecc_correct_num(bm_handle_t handle, unsigned long *ecc_correct_num) {
    return (void)handle, (void)ecc_correct_num, missing(__func__, "ECC");
}
bm_status_t bm_get_12v_atx(bm_handle_t handle, int *atx_12v) {
    return (void)handle, (void)atx_12v, missing(__func__, "power supply");
}
bm_status_t bm_get_product_sn(char *product_sn) {
    return (void)product_sn, missing(__func__, "serial number");
}
bm_status_t bm_get_sn(bm_handle_t handle, char *sn) {
    return (void)handle, (void)sn, missing(__func__, "serial number");
}
bm_status_t bm_get_driver_version(bm_handle_t handle, int *driver_version) {
    return (void)handle, (void)driver_version, missing(__func__, "driver");
}
bm_status_t bm_get_board_temp(bm_handle_t handle, unsigned int *board_temp) {
    return (void)handle, (void)board_temp, missing(__func__, "board");
}
bm_status_t bm_get_tpu_power(bm_handle_t handle, float *tpu_power) {
    return (void)handle, (void)tpu_power, missing(__func__, "sensor of power");
}
bm_status_t bm_get_tpu_volt(bm_handle_t handle, unsigned int *tpu_volt) {
    return (void)handle, (void)tpu_volt, missing(__func__, "sensor of voltage");
}
bm_status_t bm_get_vpu_instant_usage(bm_handle_t handle, int *vpu_usage) {
    return (void)handle, (void)vpu_usage, missing(__func__, "video unit");
}
bm_status_t bm_get_jpu_core_usage(bm_handle_t handle, int *jpu_usage) {
    return (void)handle, (void)jpu_usage, missing(__func__, "JPEG unit");
}
bm_status_t bm_get_vpp_instant_usage(bm_handle_t handle, int *vpp_usage) {
    return (void)handle, (void)vpp_usage, missing(__func__, "unit for pictures");
}
bm_status_t bm_get_boot_loader_version(bm_handle_t handle, boot_loader_version *version) {
    return (void)handle, (void)version, missing(__func__, "boot loader");
}
bm_status_t bm_get_dynfreq_status(bm_handle_t handle, int *dynfreq_status) {
    return (void)handle, (void)dynfreq_status, missing(__func__, "clock that changes");
}
bm_status_t bm_change_dynfreq_status(bm_handle_t handle, int new_status) {
    return (void)handle, (void)new_status, missing(__func__, "clock that changes");
}
bm_status_t bm_enable_perf_monitor(bm_handle_t handle, bm_perf_monitor_t *perf_monitor) {
    return (void)handle, (void)perf_monitor, missing(__func__, "performance monitor");
}
bm_status_t bm_disable_perf_monitor(bm_handle_t handle, bm_perf_monitor_t *perf_monitor) {
    return (void)handle, (void)perf_monitor, missing(__func__, "performance monitor");
}
unsigned long long bm_gmem_arm_reserved_request(bm_handle_t handle) {
    return (void)handle, missing(__func__, "memory set aside for its controller"), BM_MEM_ADDR_NULL;
}
void bm_gmem_arm_reserved_release(bm_handle_t handle) { (void)handle; }

/* ---- the processors beside the TPU ---- */

#define CPU "processor beside the TPU"

bm_cpu_status_t bmcpu_get_cpu_status(bm_handle_t handle) {
    return (void)handle, missing(__func__, CPU), BMCPU_IDLE;
}
bm_status_t bmcpu_start_cpu(bm_handle_t handle, char *boot_file, char *core_file) {
    return (void)handle, (void)boot_file, (void)core_file, missing(__func__, CPU);
}
int bmcpu_open_process(bm_handle_t handle, unsigned int flags, int timeout) {
    return (void)handle, (void)flags, (void)timeout, missing(__func__, CPU), -1;
}
bm_status_t bmcpu_load_library(bm_handle_t handle, int process_handle, char *library_file, int timeout) {
    return (void)handle, (void)process_handle, (void)library_file, (void)timeout, missing(__func__, CPU);
}
bm_status_t bmcpu_unload_library(bm_handle_t handle, int process_handle, char *library_file, int timeout) {
    return (void)handle, (void)process_handle, (void)library_file, (void)timeout, missing(__func__, CPU);
}
int bmcpu_exec_function(bm_handle_t handle, int process_handle, char *function_name, void *function_param,
                        unsigned int param_size, int timeout) {
    return (void)handle, (void)process_handle, (void)function_name, (void)function_param,
           (void)param_size, (void)timeout, missing(__func__, CPU), -1;
}
int bmcpu_exec_function_ext(bm_handle_t handle, int process_handle, char *function_name, void *function_param,
                            unsigned int param_size, unsigned int opt, int timeout) {
    return (void)handle, (void)process_handle, (void)function_name, (void)function_param,
           (void)param_size, (void)opt, (void)timeout, missing(__func__, CPU), -1;
}
bm_status_t bmcpu_exec_function_async(bm_handle_t handle, int process_handle, char *function_name, void
                                      *function_param, unsigned int param_size, unsigned long long
                                      *api_handle) {
    return (void)handle, (void)process_handle, (void)function_name, (void)function_param,
           (void)param_size, (void)api_handle, missing(__func__, CPU);
}
bm_status_t bmcpu_exec_function_async_ext(bm_handle_t handle, int process_handle, char *function_name, void
                                          *function_param, unsigned int param_size, unsigned int opt, unsigned
                                          long long *api_handle) {
    return (void)handle, (void)process_handle, (void)function_name, (void)function_param,
           (void)param_size, (void)opt, (void)api_handle, missing(__func__, CPU);
}
int bmcpu_query_exec_function_result(bm_handle_t handle, unsigned long long api_handle, int timeout) {
    return (void)handle, (void)api_handle, (void)timeout, missing(__func__, CPU), -1;
}
void *bmcpu_map_phys_addr(bm_handle_t handle, int process_handle, void *phys_addr, unsigned int size, int
                          timeout) {
    return (void)handle, (void)process_handle, (void)phys_addr, (void)size, (void)timeout,
           missing(__func__, CPU), NULL;
}
bm_status_t bmcpu_unmap_phys_addr(bm_handle_t handle, int process_handle, void *phys_addr, int timeout) {
    return (void)handle, (void)process_handle, (void)phys_addr, (void)timeout, missing(__func__, CPU);
}
bm_status_t bmcpu_close_process(bm_handle_t handle, int process_handle, int timeout) {
    return (void)handle, (void)process_handle, (void)timeout, missing(__func__, CPU);
}
bm_status_t bmcpu_reset_cpu(bm_handle_t handle) { return (void)handle, missing(__func__, CPU); }
bm_status_t bmcpu_set_log(bm_handle_t handle, unsigned int log_level, unsigned int log_to_console, int
                          timeout) {
    return (void)handle, (void)log_level, (void)log_to_console, (void)timeout, missing(__func__, CPU);
}
bm_status_t bmcpu_get_log(bm_handle_t handle, int process_handle, char *log_file, int timeout) {
    return (void)handle, (void)process_handle, (void)log_file, (void)timeout, missing(__func__, CPU);
}
bm_status_t bmcpu_sync_time(bm_handle_t handle) { return (void)handle, missing(__func__, CPU); }

/* ---- kernel modules ---- */

#define MODULES "kernel modules: those are for later chips, and launches by okkernel_launch_sync"

tpu_kernel_module_t tpu_kernel_load_module_file(bm_handle_t handle, const char *module_file) {
    return (void)handle, (void)module_file, missing(__func__, MODULES), NULL;
}
tpu_kernel_module_t tpu_kernel_load_module_file_key(bm_handle_t handle, const char *module_file, const char
                                                    *key, int size) {
    return (void)handle, (void)module_file, (void)key, (void)size, missing(__func__, MODULES), NULL;
}
bm_status_t tpu_kernel_unload_module(bm_handle_t handle, tpu_kernel_module_t p_module) {
    return (void)handle, (void)p_module, missing(__func__, MODULES);
}
bm_status_t tpu_kernel_unload_module_from_core(bm_handle_t handle, tpu_kernel_module_t p_module, int core_id) {
    return (void)handle, (void)p_module, (void)core_id, missing(__func__, MODULES);
}
bm_status_t tpu_kernel_free_module(bm_handle_t handle, tpu_kernel_module_t p_module) {
    return (void)handle, (void)p_module, missing(__func__, MODULES);
}
tpu_kernel_module_t tpu_kernel_load_module(bm_handle_t handle, const char *data, size_t length) {
    return (void)handle, (void)data, (void)length, missing(__func__, MODULES), NULL;
}
tpu_kernel_module_t tpu_kernel_load_module_to_core(bm_handle_t handle, const char *data, size_t length, int
                                                   core_id) {
    return (void)handle, (void)data, (void)length, (void)core_id, missing(__func__, MODULES), NULL;
}
tpu_kernel_function_t tpu_kernel_get_function(bm_handle_t handle, tpu_kernel_module_t module, const char
                                              *function) {
    return (void)handle, (void)module, (void)function, missing(__func__, MODULES), -1;
}
tpu_kernel_function_t tpu_kernel_get_function_from_core(bm_handle_t handle, tpu_kernel_module_t module, const
                                                        char *function, int core_id) {
    return (void)handle, (void)module, (void)function, (void)core_id, missing(__func__, MODULES), -1;
}
bm_status_t tpu_kernel_launch(bm_handle_t handle, tpu_kernel_function_t function, void *args, size_t size) {
    return (void)handle, (void)function, (void)args, (void)size, missing(__func__, MODULES);
}
bm_status_t tpu_kernel_launch_from_core(bm_handle_t handle, tpu_kernel_function_t function, void *args, size_t
                                        size, int core_id) {
    return (void)handle, (void)function, (void)args, (void)size, (void)core_id, missing(__func__, MODULES);
}
bm_status_t tpu_kernel_launch_async(bm_handle_t handle, tpu_kernel_function_t function, void *args, size_t
                                    size) {
    return (void)handle, (void)function, (void)args, (void)size, missing(__func__, MODULES);
}
bm_status_t tpu_kernel_launch_async_from_core(bm_handle_t handle, tpu_kernel_function_t function, void *args,
                                              size_t size, int core_id) {
    return (void)handle, (void)function, (void)args, (void)size, (void)core_id, missing(__func__, MODULES);
}
bm_status_t tpu_kernel_launch_async_multicores(bm_handle_t handle, tpu_launch_param_t *param_list, int
                                               param_num) {
    return (void)handle, (void)param_list, (void)param_num, missing(__func__, MODULES);
}
