/* Where a crash happens, and what of it the address tells. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "fw_internal.h"
#include "fw_native.h"

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
enum { CRASHES = sizeof crashes / sizeof crashes[0], ABOVE = 8 /* frames of the handler itself */ };
static struct sigaction before[CRASHES];
static uintptr_t image; /* where the one with the kernels was loaded; 0 for a program with fixed addresses */
static const uint8_t *code_start, *code_end; /* of that image */
static bool caught;
enum { NO_WALK, WALK = 0x57414C4B }; /* not what overwritten memory holds */
static volatile int walking;
static sigjmp_buf walked; /* the walk met code without unwind tables, and crashed */

/* The code address of the crash, and the return address of a call that led nowhere. */
static uintptr_t crashed_at(const ucontext_t *context, const void *fault, uintptr_t *caller) {
#if defined __x86_64__
    uintptr_t pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    bool called = pc == (uintptr_t)fault && pc != 0;
    *caller = called || pc == 0 ? *(const uintptr_t *)context->uc_mcontext.gregs[REG_RSP] : 0;
    return pc;
#elif defined __aarch64__
    *caller = (uintptr_t)context->uc_mcontext.regs[30];
    return (uintptr_t)context->uc_mcontext.pc;
#else
    (void)context, (void)fault;
    return *caller = 0;
#endif
}

static uintptr_t stack_used_to(const ucontext_t *context) {
#if defined __x86_64__
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#elif defined __aarch64__
    return (uintptr_t)context->uc_mcontext.sp;
#else
    (void)context;
    return 0;
#endif
}

/* Whether a call in the image returns there. */
static bool returns(const uint8_t *address) {
    if (address < code_start + 8 || address >= code_end) return false;
#if defined __x86_64__
    if (address[-5] == 0xE8) return true;
    for (int bytes = 2; bytes <= 7; bytes++) /* call through a register or memory */
        if (address[-bytes] == 0xFF && (address[1 - bytes] & 0x38) == 0x10) return true;
    return false;
#else
    return true;
#endif
}

/* What looks like return addresses into the image, where nothing better is known. */
static int scan_stack(uint64_t *frames, int count, uintptr_t from) {
    const uintptr_t *words = (const uintptr_t *)(from & ~(uintptr_t)7);
    for (size_t left = fw_native_stack_words(words); left > 0 && count < FW_FRAMES; left--, words++)
        if (returns((const uint8_t *)*words)) frames[count++] = *words - image;
    return count;
}

/* Inside the handler of one. */
static void allow_crashes(int how) {
    sigset_t these;
    sigemptyset(&these);
    sigaddset(&these, SIGSEGV);
    sigaddset(&these, SIGBUS);
    pthread_sigmask(how, &these, NULL);
}

/* The return addresses on the stack; 0 where it is too damaged. Apart, for its jump leaves locals undefined. */
static __attribute__((noinline)) int walk(void **found, int most) {
    volatile int n = 0;
    if (sigsetjmp(walked, 1) == 0) {
        allow_crashes(SIG_UNBLOCK);
        walking = WALK;
        n = backtrace(found, most);
        walking = NO_WALK;
        allow_crashes(SIG_BLOCK);
    }
    return n;
}

static void note_frames(uint64_t *frames, const ucontext_t *context, const void *fault) {
    void *found[FW_FRAMES + ABOVE];
    uintptr_t caller, pc = crashed_at(context, fault, &caller);
    int count = 0, at = 0;
    if (pc != 0) frames[count++] = pc + 1 - image; /* before the walk, which a damaged stack may end */
    if (pc != 0 && caller != 0) frames[count++] = caller - image;
    int n = walk(found, FW_FRAMES + ABOVE);
    while (at < n && (uintptr_t)found[at] != pc) at++;
    if (pc == 0 && at == n && caller != 0) frames[count++] = caller - image;
    bool reached = false; /* a walk may end in the C library, before it comes to whoever called that */
    for (at++; at < n && count < FW_FRAMES; at++) {
        const uint8_t *address = found[at];
        reached = reached || (address >= code_start && address < code_end);
        frames[count++] = (uintptr_t)address - image;
    }
    if (!reached) scan_stack(frames, count, stack_used_to(context));
}

/* Goes with what ran: "kernel scale, which ...,". */
static void note_address(const void *address, uintptr_t used_to) {
    char *activity = fw.platform->activity;
    char why[96];
    if (activity == NULL || !fw_native_explain(address, used_to, why, sizeof why)) return;
    size_t used = strlen(activity), room = fw.platform->activity_bytes;
    if (used < room) fw_text(activity + used, room - used, ", which %s,", why);
}

/* Notes the stack and leaves the rest to whoever handled the signal before. */
static void on_crash(int signal, siginfo_t *info, void *context) {
    if (walking == WALK) {
        walking = NO_WALK;
        siglongjmp(walked, 1);
    }
    if (fw.platform->frames[0] == 0) {
        note_frames(fw.platform->frames, context, info->si_addr);
        if (signal == SIGSEGV || signal == SIGBUS) note_address(info->si_addr, stack_used_to(context));
    }
    for (int i = 0; i < CRASHES; i++)
        if (crashes[i] == signal) sigaction(signal, &before[i], NULL);
    if (info->si_code <= 0) raise(signal); /* sent by somebody; a fault comes again by itself */
}

void fw_native_catch_crashes(void) {
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    action.sa_sigaction = on_crash;
    for (int i = 0; i < CRASHES; i++) sigaction(crashes[i], &action, &before[i]);
    caught = true;
}

static int find_code(struct dl_phdr_info *about, size_t bytes, void *unused) {
    (void)bytes, (void)unused;
    for (int i = 0; about->dlpi_addr == image && i < about->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &about->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0) continue;
        code_start = (const uint8_t *)(image + part->p_vaddr);
        code_end = code_start + part->p_memsz;
        return 1;
    }
    return 0;
}

bool fw_native_find_image(const void *kernel) {
    if (caught) return false;
    Dl_info info;
    struct link_map *map = NULL;
    const void *code = kernel == NULL ? (const void *)crashes : kernel;
    if (dladdr1(code, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) return false;
    image = map->l_addr;
    dl_iterate_phdr(find_code, NULL);
    void *once[1];
    backtrace(once, 1); /* the first call loads a library, which a handler should not */
    return true;
}

uintptr_t fw_native_image(void) { return image; }
