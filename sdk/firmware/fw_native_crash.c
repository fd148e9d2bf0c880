/* Where a crash happens, and what of it the address tells. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "fw_internal.h"
#include "fw_native.h"

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
enum { CRASHES = sizeof crashes / sizeof crashes[0], ABOVE = 8 /* frames of the handler itself */ };
static struct sigaction before[CRASHES];
static uintptr_t image; /* where the one with the kernels was loaded; 0 for a program with fixed addresses */
static bool caught;

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

static void note_frames(uint64_t *frames, const ucontext_t *context, const void *fault) {
    void *found[FW_FRAMES + ABOVE];
    uintptr_t caller, pc = crashed_at(context, fault, &caller);
    int at = 0, count = 0;
    if (pc != 0) frames[count++] = pc + 1 - image; /* before the walk, which a damaged stack may end */
    if (pc != 0 && caller != 0) frames[count++] = caller - image;
    int n = backtrace(found, FW_FRAMES + ABOVE);
    while (at < n && (uintptr_t)found[at] != pc) at++;
    if (pc == 0 && at == n && caller != 0) frames[count++] = caller - image;
    for (at++; at < n && count < FW_FRAMES; at++) frames[count++] = (uintptr_t)found[at] - image;
}

/* Goes with what ran: "kernel scale, which ...,". */
static void note_address(const void *address) {
    char *activity = fw.platform->activity;
    char why[96];
    if (activity == NULL || !fw_native_explain(address, why, sizeof why)) return;
    size_t used = strlen(activity), room = fw.platform->activity_bytes;
    if (used < room) fw_text(activity + used, room - used, ", which %s,", why);
}

/* Notes the stack and leaves the rest to whoever handled the signal before. */
static void on_crash(int signal, siginfo_t *info, void *context) {
    if (fw.platform->frames[0] == 0) {
        note_frames(fw.platform->frames, context, info->si_addr);
        if (signal == SIGSEGV || signal == SIGBUS) note_address(info->si_addr);
    }
    for (int i = 0; i < CRASHES; i++)
        if (crashes[i] == signal) sigaction(signal, &before[i], NULL);
    if (info->si_code <= 0) raise(signal); /* sent by somebody; a fault comes again by itself */
}

void fw_native_catch_crashes(void) {
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    action.sa_sigaction = on_crash;
    for (int i = 0; i < CRASHES; i++) sigaction(crashes[i], &action, caught ? NULL : &before[i]);
    caught = true;
}

bool fw_native_find_image(const void *kernel) {
    if (caught) return false;
    Dl_info info;
    struct link_map *map = NULL;
    const void *code = kernel == NULL ? (const void *)crashes : kernel;
    if (dladdr1(code, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) return false;
    image = map->l_addr;
    void *once[1];
    backtrace(once, 1); /* the first call loads a library, which a handler should not */
    return true;
}

uintptr_t fw_native_image(void) { return image; }
