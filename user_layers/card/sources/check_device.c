/* What can be said about libraries and device. Calls that only some versions have are looked up by name; no serial
 * numbers are read. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define MEMORY_BYTES (1u << 20)

static const char *const numbers[] = {
    /* bm_status_t NAME(bm_handle_t, unsigned int *) or (bm_handle_t, int *) */
    "bm_get_chipid",       "bm_get_driver_version", "bm_get_chip_temp",   "bm_get_board_temp",
    "bm_get_board_power",  "bm_get_tpu_volt",       "bm_get_tpu_maxclk",  "bm_get_tpu_minclk",
    "bm_get_clk_tpu_freq", "bm_get_status",         "bm_get_gmem_total_heap_num",
};
/* What the driver and the system say of themselves. */
static const char *const files[] = {"/proc/bmsophon/driver_version", "/etc/sophgo-release", "/etc/os-release",
                                    "/proc/device-tree/model", "/proc/version"};

static void record_library(const char *name, const char *function) {
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, function);
    char real[PATH_MAX], hash[65];
    if (!address || !dladdr(address, &info) || !info.dli_fname || !realpath(info.dli_fname, real)) return;
    step("reading %s", real);
    record_begin("library");
    record_text("name", name);
    record_text("path", real);
    FILE *file = fopen(real, "rb");
    char *data = NULL;
    long bytes = -1;
    if (file && fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) > 0 && (data = malloc((size_t)bytes)) &&
        fseek(file, 0, SEEK_SET) == 0 && fread(data, 1, (size_t)bytes, file) == (size_t)bytes) {
        sha256_text(data, (size_t)bytes, hash);
        record_int("bytes", bytes);
        record_text("sha256", hash);
    }
    record_end();
    if (file) fclose(file);
    free(data);
}

void record_libraries(void) {
    record_library("bmlib", "bm_dev_request");
    record_library("bmrt", "bmrt_create");
    const char *(*version)(void);
    *(void **)&version = dlsym(RTLD_DEFAULT, "libbmrt_version");
    if (version) {
        step("libbmrt_version");
        record_begin("version");
        record_text("text", version());
        record_end();
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[2048];
        FILE *file = fopen(files[i], "r");
        if (!file) continue;
        size_t got = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[got] = 0;
        record_begin("file");
        record_text("path", files[i]);
        record_text("text", text);
        record_end();
    }
}

static void record_number(bm_handle_t handle, const char *name) {
    bm_status_t (*get)(bm_handle_t, void *);
    int64_t room[4] = {0};
    *(void **)&get = dlsym(RTLD_DEFAULT, name);
    if (!get) return;
    step("%s", name);
    bm_status_t status = get(handle, room);
    int value;
    memcpy(&value, room, sizeof value);
    record_begin("info");
    record_text("call", name);
    record_int("status", status);
    if (status == BM_SUCCESS) record_int("value", value);
    record_end();
}

void record_device(bm_handle_t handle) {
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) record_number(handle, numbers[i]);
    bm_status_t (*get_name)(bm_handle_t, char *);
    *(void **)&get_name = dlsym(RTLD_DEFAULT, "bm_get_board_name");
    if (get_name) {
        char name[1024] = "";
        step("bm_get_board_name");
        bm_status_t status = get_name(handle, name);
        record_begin("info");
        record_text("call", "bm_get_board_name");
        record_int("status", status);
        if (status == BM_SUCCESS) record_text("text", name);
        record_end();
    }
}

bool last_time_us(bm_handle_t handle, int64_t *us) {
    bm_status_t (*get)(bm_handle_t, unsigned long *);
    unsigned long value = 0;
    *(void **)&get = dlsym(RTLD_DEFAULT, "bm_get_last_api_process_time_us");
    if (!get || get(handle, &value) != BM_SUCCESS || value > INT_MAX) return false;
    *us = (int64_t)value;
    return true;
}

bool check_memory(bm_handle_t handle) {
    static unsigned char out[MEMORY_BYTES], in[MEMORY_BYTES];
    bm_device_mem_t memory;
    uint32_t word = 1;
    for (size_t i = 0; i < MEMORY_BYTES; i++) {
        word = word * 1664525u + 1013904223u;
        out[i] = (unsigned char)(word >> 24);
    }
    const char *call = "bm_malloc_device_byte";
    step("%s of %u bytes", call, MEMORY_BYTES);
    bm_status_t status = bm_malloc_device_byte(handle, &memory, MEMORY_BYTES);
    bool there = status == BM_SUCCESS;
    if (there) {
        call = "bm_memcpy_s2d_partial";
        step("%s of %u bytes", call, MEMORY_BYTES);
        status = bm_memcpy_s2d_partial(handle, memory, out, MEMORY_BYTES);
    }
    if (status == BM_SUCCESS) {
        call = "bm_memcpy_d2s_partial";
        step("%s of %u bytes", call, MEMORY_BYTES);
        status = bm_memcpy_d2s_partial(handle, in, memory, MEMORY_BYTES);
    }
    size_t wrong = 0;
    for (size_t i = 0; status == BM_SUCCESS && i < MEMORY_BYTES; i++) wrong += in[i] != out[i];
    record_begin("memory");
    record_text("call", call);
    record_int("status", status);
    record_int("bytes", MEMORY_BYTES);
    record_int("different", (int64_t)wrong);
    record_end();
    if (there) {
        step("bm_free_device");
        bm_free_device(handle, memory);
    }
    if (status == BM_SUCCESS && wrong == 0) return true;
    record_failed();
    return false;
}
