/* Arguments of kernels, and what an address that faults tells. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "fw_arm.h"
#include "fw_internal.h"
#include "fw_native.h"

/* They end where memory ends, but for the padding that a struct may have: a kernel whose struct is longer than
 * the host's faults instead of reading what happens to lie there. */
static struct {
    uint8_t *end;
    size_t sent;
} arguments;

void *fw_platform_arguments(size_t bytes) {
    enum { ROOM = 0x10000, PADDING = 8 };
    if (bytes > ROOM) return NULL;
    if (arguments.end == NULL) {
        int rights = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
        uint8_t *start = mmap(NULL, ROOM + FW_ARM_GUARD_BYTES, rights, flags, -1, 0);
        if (start == MAP_FAILED) return NULL;
        mprotect(start + ROOM, FW_ARM_GUARD_BYTES, PROT_NONE);
        arguments.end = start + ROOM;
    }
    arguments.sent = bytes;
    size_t padded = (bytes + PADDING - 1) / PADDING * PADDING;
    return memset(arguments.end - padded, 0, padded);
}

bool fw_native_explain(const void *address, uintptr_t used_to, char *text, size_t capacity) {
    enum { RED = 4096 }; /* what a call may touch below the stack pointer */
    const uint8_t *at = address, *ddr = fw.platform->ddr;
    fw_stack_place place = fw_native_stack_place(address);
    if (arguments.end != NULL && at >= arguments.end && at < arguments.end + FW_ARM_GUARD_BYTES)
        fw_text(text, capacity, "was sent %u bytes of arguments and uses more", (unsigned)arguments.sent);
    else if (place == FW_STACK_BELOW && (used_to == 0 || (uintptr_t)address + RED >= used_to))
        fw_text(text, capacity, "needs more than %u KiB of stack", FW_ARM_STACK_BYTES >> 10);
    else if (place == FW_STACK_BELOW)
        fw_text(text, capacity, "uses memory far below its local variables, as by a negative index");
    else if (place == FW_STACK_ABOVE)
        fw_text(text, capacity, "uses a local array beyond its end");
    else if (at >= ddr && at < ddr + fw.platform->ddr_reserved)
        fw_text(text, capacity, "writes to 0x%llx, where the firmware's own memory is",
                (unsigned long long)(CHIP_DDR_BASE + (uint64_t)(at - ddr)));
    else
        return false;
    return true;
}
