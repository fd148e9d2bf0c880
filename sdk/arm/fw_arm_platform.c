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

bool fw_platform_try(void (*body)(void *), void *argument) {
    if (fw_arm_save(&unwind_to) != 0) return false;
    body(argument);
    return true;
}

void fw_platform_unwind(void) { fw_arm_restore(&unwind_to); }

uint8_t *fw_platform_scratch(size_t start, size_t bytes) {
    (void)bytes;
    return (uint8_t *)(uintptr_t)FW_ARM_SCRATCH + start;
}

void fw_platform_scratch_release(void) {}

const char *fw_platform_left(void) { return NULL; }

void fw_platform_aside(bool aside) { ((volatile fw_link *)(uintptr_t)FW_ARM_LINK)->aside = aside; }

/* So that a kernel whose struct is longer than what was sent runs into the page behind. */
void *fw_platform_arguments(size_t bytes) {
    if (bytes > FW_ARM_ARGUMENTS_BYTES) return NULL;
    uint32_t padded = ((uint32_t)bytes + 7u) & ~7u;
    return memset((uint8_t *)(uintptr_t)FW_ARM_ARGUMENTS + FW_ARM_ARGUMENTS_BYTES - padded, 0, padded);
}

void fw_platform_abort(const char *why, const void *where) {
    (void)why, (void)where;
    for (;;) __builtin_trap();
}

void fw_platform_boot(const void *kernel) { (void)kernel; }
