/* A libbmlib.so without a device: memory is the host's, every call is a line of $MOCK_LOG. $MOCK_FAILS names a call
 * that fails, with $MOCK_STATUS; $MOCK_REMOVES a file that goes when the device is opened. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bmlib_runtime.h"

void mock_say(const char *format, ...);
bool mock_fails(const char *call);

void mock_say(const char *format, ...) {
    FILE *file = fopen(getenv("MOCK_LOG"), "a");
    va_list more;
    va_start(more, format);
    vfprintf(file, format, more);
    va_end(more);
    fclose(file);
}

bool mock_fails(const char *call) {
    const char *named = getenv("MOCK_FAILS");
    return named && strcmp(named, call) == 0;
}

static bm_status_t status_of(const char *call) {
    return mock_fails(call) ? (bm_status_t)atoi(getenv("MOCK_STATUS")) : BM_SUCCESS;
}

static char handle;

bm_status_t bm_dev_request(bm_handle_t *made, int devid) {
    mock_say("bm_dev_request %d\n", devid);
    if (getenv("MOCK_REMOVES")) remove(getenv("MOCK_REMOVES"));
    *made = (bm_handle_t)&handle;
    return status_of("bm_dev_request");
}

void bm_dev_free(bm_handle_t given) { mock_say("bm_dev_free %d\n", (char *)given == &handle); }

bm_status_t bm_malloc_device_byte(bm_handle_t given, bm_device_mem_t *memory, unsigned int size) {
    memset(memory, 0, sizeof *memory);
    memory->u.device.device_addr = (unsigned long)malloc(size);
    memory->size = size;
    mock_say("bm_malloc_device_byte %d %u\n", (char *)given == &handle, size);
    return status_of("bm_malloc_device_byte");
}

void bm_free_device(bm_handle_t given, bm_device_mem_t memory) {
    mock_say("bm_free_device %d %u\n", (char *)given == &handle, memory.size);
    free((void *)memory.u.device.device_addr);
}

unsigned int bm_mem_get_device_size(bm_device_mem_t memory) { return memory.size; }

bm_status_t bm_memcpy_s2d_partial(bm_handle_t given, bm_device_mem_t to, void *from, unsigned int size) {
    mock_say("bm_memcpy_s2d_partial %d %u of %u\n", (char *)given == &handle, size, to.size);
    memcpy((void *)to.u.device.device_addr, from, size);
    return status_of("bm_memcpy_s2d_partial");
}

bm_status_t bm_memcpy_d2s_partial(bm_handle_t given, void *to, bm_device_mem_t from, unsigned int size) {
    mock_say("bm_memcpy_d2s_partial %d %u of %u\n", (char *)given == &handle, size, from.size);
    memcpy(to, (void *)from.u.device.device_addr, size);
    if (mock_fails("bits of copies")) ((char *)to)[7] ^= 1;
    return status_of("bm_memcpy_d2s_partial");
}

bm_status_t bm_thread_sync(bm_handle_t given) {
    mock_say("bm_thread_sync %d\n", (char *)given == &handle);
    return status_of("bm_thread_sync");
}

bm_status_t okkernel_load_firmware(bm_handle_t given, const char *tcm, const char *ddr) {
    FILE *files[2] = {fopen(tcm, "rb"), fopen(ddr, "rb")};
    mock_say("okkernel_load_firmware %d %s %s %d\n", (char *)given == &handle, tcm, ddr, files[0] && files[1]);
    for (int i = 0; i < 2; i++)
        if (files[i]) fclose(files[i]);
    return status_of("okkernel_load_firmware");
}

bm_status_t bm_get_chipid(bm_handle_t given, unsigned int *chip) {
    *chip = 0x1684;
    return (char *)given == &handle ? BM_SUCCESS : BM_ERR_PARAM;
}

bm_status_t bm_get_board_name(bm_handle_t given, char *name) {
    strcpy(name, "a board \033[31m\"\\");
    return (char *)given == &handle ? BM_SUCCESS : BM_ERR_PARAM;
}

bm_status_t bm_get_chip_temp(bm_handle_t given, unsigned int *degrees) {
    *degrees = 51;
    return (char *)given == &handle ? BM_NOT_SUPPORTED : BM_ERR_PARAM;
}
