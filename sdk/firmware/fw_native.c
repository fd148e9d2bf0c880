/* The platform below the firmware when it runs as a shared library in the device process. The
 * controller's own platform file gives the same functions without an operating system.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "fw_internal.h"

static jmp_buf unwind_to;
static bool trying;

bool fw_platform_try(void (*body)(void *), void *argument) {
    bool ended = false;
    trying = true;
    if (setjmp(unwind_to) == 0) {
        body(argument);
        ended = true;
    }
    trying = false;
    return ended;
}

void fw_platform_unwind(void) {
    if (trying) longjmp(unwind_to, 1);
    /* in a constructor, before there are requests */
    fprintf(stderr, "%s\n", fw.error);
    abort();
}

/* Blocks of one request, newest first. */
typedef struct block {
    struct block *next;
    void *reserved; /* keeps what follows at a multiple of 16 */
} block;

static block *blocks;

void *fw_platform_scratch(size_t bytes) {
    if (bytes > SIZE_MAX - sizeof(block)) return NULL;
    block *b = calloc(1, sizeof(block) + bytes);
    if (b == NULL) return NULL;
    b->next = blocks;
    blocks = b;
    return b + 1;
}

void fw_platform_scratch_release(void) {
    while (blocks != NULL) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

/* ---- arguments ---- */

/* They end where memory ends, but for the padding that a struct may have: a kernel whose struct is longer than
 * the host's faults instead of reading what happens to lie there. */
static struct {
    uint8_t *end;
    size_t page, sent;
} arguments;

void *fw_platform_arguments(size_t bytes) {
    enum { ROOM = 0x10000, PADDING = 8 };
    if (bytes > ROOM) return NULL;
    if (arguments.end == NULL) {
        arguments.page = (size_t)sysconf(_SC_PAGESIZE);
        uint8_t *room = mmap(NULL, ROOM + arguments.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) return NULL;
        mprotect(room + ROOM, arguments.page, PROT_NONE);
        arguments.end = room + ROOM;
    }
    arguments.sent = bytes;
    size_t padded = (bytes + PADDING - 1) / PADDING * PADDING;
    return memset(arguments.end - padded, 0, padded);
}

/* Tells it with what ran: "kernel scale, which ...". */
static void note_arguments(const void *fault) {
    uintptr_t end = (uintptr_t)arguments.end, at = (uintptr_t)fault;
    char *activity = fw.platform->activity;
    if (arguments.end == NULL || at < end || at >= end + arguments.page || activity == NULL) return;
    size_t used = strlen(activity), room = fw.platform->activity_bytes;
    if (used < room)
        fw_text(activity + used, room - used, ", which was sent %zu bytes of arguments and uses more,", arguments.sent);
}

/* ---- where a crash happens ---- */

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
enum { CRASHES = sizeof crashes / sizeof crashes[0], ABOVE = 8 /* frames of the handler itself */ };
static struct sigaction before[CRASHES];
static uintptr_t image; /* where the one with the kernels was loaded */
static bool booted;

/* The code address of the crash, and the return address of a call that led nowhere. */
static uintptr_t crashed_at(const ucontext_t *context, uintptr_t *caller) {
#if defined __x86_64__
    uintptr_t pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    *caller = pc == 0 ? *(const uintptr_t *)context->uc_mcontext.gregs[REG_RSP] : 0;
    return pc;
#elif defined __aarch64__
    *caller = (uintptr_t)context->uc_mcontext.regs[30];
    return (uintptr_t)context->uc_mcontext.pc;
#else
    (void)context;
    return *caller = 0;
#endif
}

static void note_frames(uint64_t *frames, const ucontext_t *context) {
    void *found[FW_FRAMES + ABOVE];
    uintptr_t caller, pc = crashed_at(context, &caller);
    int at = 0, count = 0;
    if (pc != 0) frames[count++] = pc + 1 - image; /* before the walk, which a damaged stack may end */
    int n = backtrace(found, FW_FRAMES + ABOVE);
    while (at < n && (uintptr_t)found[at] != pc) at++;
    if (at == n && caller != 0) frames[count++] = caller - image;
    for (at++; at < n && count < FW_FRAMES; at++) frames[count++] = (uintptr_t)found[at] - image;
}

/* Notes the stack and leaves the rest to whoever handled the signal before. */
static void on_crash(int signal, siginfo_t *info, void *context) {
    if (fw.platform->frames[0] == 0) {
        note_frames(fw.platform->frames, context);
        if (signal == SIGSEGV || signal == SIGBUS) note_arguments(info->si_addr);
    }
    for (int i = 0; i < CRASHES; i++)
        if (crashes[i] == signal) sigaction(signal, &before[i], NULL);
    if (info->si_code <= 0) raise(signal); /* sent by somebody; a fault comes again by itself */
}

void fw_platform_boot(const void *kernel) {
    if (fw.platform->frames == NULL || booted) return;
    Dl_info info;
    struct link_map *map = NULL;
    const void *code = kernel == NULL ? (const void *)crashes : kernel;
    if (dladdr1(code, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) return;
    booted = true;
    image = map->l_addr; /* 0 for a program with fixed addresses */
    void *once[1];
    backtrace(once, 1); /* the first call loads a library, which a handler should not */
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    action.sa_sigaction = on_crash;
    for (int i = 0; i < CRASHES; i++) sigaction(crashes[i], &action, &before[i]);
}
