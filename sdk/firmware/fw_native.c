/* The platform below the firmware when it runs as a shared library in the device process. The
 * controller's own platform file gives the same functions without an operating system.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fw_arm.h"
#include "fw_heap.h"
#include "fw_internal.h"
#include "fw_native.h"

static jmp_buf unwind_to;
static bool trying;
static const char *left;

typedef struct {
    void (*body)(void *);
    void *argument;
    bool ended;
} attempt;

static void run(void *argument) {
    attempt *a = argument;
    trying = true;
    fw_native_start_usual();
    fw_native_watch_start(__builtin_frame_address(0));
    if (setjmp(unwind_to) == 0) {
        a->body(a->argument);
        a->ended = true;
    }
    trying = false;
    fw_native_watch_end();
    left = fw_native_put_back(); /* here: another stack has modes of its own */
}

bool fw_platform_try(void (*body)(void *), void *argument) {
    attempt a = {body, argument, false};
    fw_native_on_stack(run, &a);
    return a.ended;
}

void fw_platform_unwind(void) {
    if (trying) longjmp(unwind_to, 1);
    fw_platform_abort(fw.error, NULL); /* in a constructor, before there are requests */
}

/* Without stdio, which needs more stack than a kernel may have left. */
void fw_platform_abort(const char *why, const void *where) {
    if (where != NULL && fw.platform != NULL && fw.platform->frames != NULL)
        fw.platform->frames[0] = (uintptr_t)where - fw_native_image();
    if (write(STDERR_FILENO, why, strlen(why)) < 0 || write(STDERR_FILENO, "\n", 1) < 0) abort();
    abort();
}

const char *fw_platform_left(void) { return left; }

void fw_platform_aside(bool aside) { (void)aside; }

void fw_platform_boot(const void *kernel) {
    fw_native_wrap_platform();
    if (fw.platform->frames != NULL && fw_native_find_image(kernel)) {
        fw_native_catch_crashes();
        fw_native_note_handlers();
    }
}

/* ---- memory, as much as the controller has ---- */

#if !FW_OWN_HEAP
void __asan_poison_memory_region(const volatile void *start, size_t bytes);
void __asan_unpoison_memory_region(const volatile void *start, size_t bytes);
#define CLOSE(start, bytes) __asan_poison_memory_region(start, bytes)
#define OPEN(start, bytes) __asan_unpoison_memory_region(start, bytes)
#else
#define CLOSE(start, bytes) ((void)(start), (void)(bytes))
#define OPEN(start, bytes) ((void)(start), (void)(bytes))
#endif

static uint8_t *scratch;

static void *room(size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

uint8_t *fw_platform_scratch(size_t start, size_t bytes) {
    if (scratch == NULL) scratch = room(FW_ARM_SCRATCH_BYTES);
    if (scratch != NULL) OPEN(scratch + start, bytes);
    return scratch == NULL ? NULL : scratch + start;
}

void fw_platform_scratch_release(void) {
    if (scratch != NULL) CLOSE(scratch, FW_ARM_SCRATCH_BYTES);
}
