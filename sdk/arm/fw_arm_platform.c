/* What fw_internal.h asks of a platform, on the ARM926EJ-S controller. */
#include "fw_arm.h"

#include <string.h>

#include "fw_internal.h"

typedef struct {
    uint32_t registers[10];
} fw_arm_context;

int fw_arm_save(fw_arm_context *context) __attribute__((returns_twice));
void fw_arm_restore(fw_arm_context *context) __attribute__((noreturn));

static FW_DTCM fw_arm_context unwind_to;
static FW_DTCM uint32_t scratch_used;

bool fw_platform_try(void (*body)(void *), void *argument) {
    if (fw_arm_save(&unwind_to) != 0) return false;
    body(argument);
    return true;
}

void fw_platform_unwind(void) { fw_arm_restore(&unwind_to); }

void *fw_platform_scratch(size_t bytes) {
    if (bytes > FW_ARM_SCRATCH_BYTES - scratch_used) return NULL;
    uint8_t *memory = (uint8_t *)(uintptr_t)FW_ARM_SCRATCH + scratch_used;
    scratch_used += ((uint32_t)bytes + 15u) & ~15u;
    if (scratch_used > FW_ARM_SCRATCH_BYTES) scratch_used = FW_ARM_SCRATCH_BYTES;
    return memset(memory, 0, bytes);
}

void fw_platform_scratch_release(void) { scratch_used = 0; }

/* So that a kernel whose struct is longer than what was sent runs into the page behind. */
void *fw_platform_arguments(size_t bytes) {
    if (bytes > FW_ARM_ARGUMENTS_BYTES) return NULL;
    uint32_t padded = ((uint32_t)bytes + 7u) & ~7u;
    return memset((uint8_t *)(uintptr_t)FW_ARM_ARGUMENTS + FW_ARM_ARGUMENTS_BYTES - padded, 0, padded);
}

void fw_platform_boot(const void *kernel) { (void)kernel; }
