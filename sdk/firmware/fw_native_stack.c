/* Kernels on a stack of the controller's size. Below it nothing is mapped for a gigabyte, so that a frame that is
 * far too large faults too, and above it for as much as its arrays may be overrun by. The device's callbacks, which need more, run on the stack that the request came on:
 * kernel and device take turns, as controller and host do.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "fw_arm.h"
#include "fw_heap.h"
#include "fw_internal.h"
#include "fw_native.h"

#define BELOW ((size_t)1 << 30)
#define ABOVE ((size_t)1 << 24)

static fw_platform ours;
static const fw_platform *device;
static uint8_t *stack; /* its lowest byte */

#if FW_OWN_HEAP /* AddressSanitizer knows one stack, and its frames are larger */

static ucontext_t outside, inside;
static __thread bool on_stack;
static void (*wanted)(void); /* NULL: the function has ended */
static struct {
    void (*function)(void *);
    void *argument;
} call;
static struct {
    uint32_t bd, gdma, reason, bytes;
    const fw_group *group;
    const char *text;
    int32_t result;
} passed;

static void do_flush(void) { passed.result = device->flush(passed.bd, passed.gdma, passed.reason); }
static void do_run_group(void) { passed.result = device->run_group(passed.group); }
static void do_log(void) { device->log(passed.text, passed.bytes); }

/* Another thread that a kernel started has a stack of its own. */
static void leave_for(void (*what)(void)) {
    if (!on_stack) {
        what();
        return;
    }
    wanted = what;
    swapcontext(&inside, &outside);
}

static int32_t flush(uint32_t bd_num, uint32_t gdma_num, uint32_t reason) {
    passed.bd = bd_num;
    passed.gdma = gdma_num;
    passed.reason = reason;
    leave_for(do_flush);
    ours.filtered = device->filtered;
    return passed.result;
}

static int32_t run_group(const fw_group *group) {
    passed.group = group;
    leave_for(do_run_group);
    return passed.result;
}

static void log_text(const char *text, uint32_t bytes) {
    passed.text = text;
    passed.bytes = bytes;
    leave_for(do_log);
}

static void begin(void) {
    call.function(call.argument);
    wanted = NULL;
    swapcontext(&inside, &outside);
}

static bool make_stack(void) {
    if (stack != NULL) return true;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (FW_ARM_STACK_BYTES + page - 1) / page * page;
    uint8_t *room = mmap(NULL, BELOW + bytes + ABOVE, PROT_NONE, flags, -1, 0);
    if (room == MAP_FAILED || mprotect(room + BELOW, bytes, PROT_READ | PROT_WRITE) != 0) return false;
    stack = room + BELOW + bytes - FW_ARM_STACK_BYTES;
    return true;
}

void fw_native_on_stack(void (*function)(void *), void *argument) {
    if (!make_stack() || getcontext(&inside) != 0) {
        function(argument);
        return;
    }
    call.function = function;
    call.argument = argument;
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = FW_ARM_STACK_BYTES;
    inside.uc_link = NULL;
    makecontext(&inside, begin, 0);
    for (;;) {
        on_stack = true;
        swapcontext(&outside, &inside);
        on_stack = false;
        if (wanted == NULL) return;
        wanted();
    }
}

#else

static int32_t flush(uint32_t bd_num, uint32_t gdma_num, uint32_t reason) {
    int32_t result = device->flush(bd_num, gdma_num, reason);
    ours.filtered = device->filtered;
    return result;
}

static int32_t run_group(const fw_group *group) { return device->run_group(group); }
static void log_text(const char *text, uint32_t bytes) { device->log(text, bytes); }

void fw_native_on_stack(void (*function)(void *), void *argument) { function(argument); }

#endif

fw_stack_place fw_native_stack_place(const void *address) {
    const uint8_t *a = address;
    if (stack == NULL || a < stack - BELOW || a >= stack + FW_ARM_STACK_BYTES + ABOVE) return FW_STACK_ELSEWHERE;
    return a < stack ? FW_STACK_BELOW : a < stack + FW_ARM_STACK_BYTES ? FW_STACK_INSIDE : FW_STACK_ABOVE;
}

size_t fw_native_stack_words(const void *from) {
    if (fw_native_stack_place(from) != FW_STACK_INSIDE) return 0;
    return (size_t)(stack + FW_ARM_STACK_BYTES - (const uint8_t *)from) / sizeof(uintptr_t);
}

void fw_native_wrap_platform(void) {
    device = fw.platform;
    ours = *device;
    ours.flush = flush;
    ours.run_group = run_group;
    ours.log = log_text;
    fw.platform = &ours;
}
