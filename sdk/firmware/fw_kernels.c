/* The table of free kernels. OKKERNEL_FUNC_REGISTER fills it before main, so a mistake is kept and
 * reported when the firmware boots.
 */
#include <string.h>

#include "fw_internal.h"

#define MAX_KERNELS 512

static struct {
    const char *name;
    okk_kernel_func_t func;
} kernels[MAX_KERNELS];

/* The entry of kernel projects that have one for all their functions, launched by bmkernel_launch. */
__attribute__((weak)) int bmkernel_func(void *args);

static uint32_t kernel_count;
static const char *mistake; /* the first one */
static const char *mistaken;

void okk_register_kernel_func(const char *name, okk_kernel_func_t func) {
    const char *wrong = NULL;
    if (strlen(name) > FW_NAME_BYTES)
        wrong = "has more than 64 characters";
    else if (fw_kernel_find(name) != NULL)
        wrong = "is registered twice; kernel names are unique";
    else if (kernel_count == MAX_KERNELS)
        wrong = "is one too many; a firmware holds 512 kernels";
    if (wrong == NULL) {
        kernels[kernel_count].name = name;
        kernels[kernel_count++].func = func;
    } else if (mistake == NULL) {
        mistake = wrong;
        mistaken = name;
    }
}

static void run_entry(const void *args) {
    int status = bmkernel_func((void *)(uintptr_t)args);
    if (status != 0) fw_fail(FW_STATUS_ASSERT, "bmkernel_func returned %d", status);
}

__attribute__((constructor)) static void register_entry(void) {
    if (bmkernel_func != NULL) okk_register_kernel_func("bmkernel_func", run_entry);
}

uint32_t fw_kernel_count(void) { return kernel_count; }

const char *fw_kernel_name(uint32_t index) { return kernels[index].name; }

okk_kernel_func_t fw_kernel_find(const char *name) {
    for (uint32_t i = 0; i < kernel_count; i++)
        if (strcmp(kernels[i].name, name) == 0) return kernels[i].func;
    return NULL;
}

const void *fw_kernel_code(void) {
    if (bmkernel_func != NULL) return (const void *)(uintptr_t)bmkernel_func; /* its kernel is run_entry, here */
    return kernel_count > 0 ? (const void *)(uintptr_t)kernels[0].func : NULL;
}

const char *fw_kernel_registration_error(void) {
    if (mistake == NULL) return NULL;
    static char text[256];
    fw_text(text, sizeof text, "kernel %s %s", mistaken, mistake);
    return text;
}

void okk_dump_registered_kernel_funcs(void) {
    for (uint32_t i = 0; i < kernel_count; i++) OKKERNEL_LOG("%s\n", kernels[i].name);
}
