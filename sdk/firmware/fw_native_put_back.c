/* What kernels share with the process they run in and may leave changed: how the processor computes and copies, and
 * what signals do. (Files, programs, timers and the like: firmware_sim/firmware/leftovers.py.)
 */
#define _GNU_SOURCE
#include <fenv.h>
#include <signal.h>
#include <string.h>

#include "fw_native.h"

static struct sigaction usual[NSIG];
static stack_t usual_stack; /* that handlers run on */
static bool known;
static sigset_t blocked; /* before what runs now */

/* Rounding, exceptions that trap, denormals, the direction of copies. */
static bool put_back_modes(void) {
#if defined __x86_64__
    enum { MXCSR_MODES = 0xFFC0, MXCSR_USUAL = 0x1F80, X87_USUAL = 0x37F, DIRECTION = 0x400 };
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    bool changed = (__builtin_ia32_stmxcsr() & MXCSR_MODES) != MXCSR_USUAL || x87 != X87_USUAL ||
                   (__builtin_ia32_readeflags_u64() & DIRECTION) != 0;
    __asm__ volatile("cld");
#elif defined __aarch64__
    uint64_t modes;
    __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
    bool changed = modes != 0;
#else
    bool changed = fegetround() != FE_TONEAREST;
#endif
    fesetenv(FE_DFL_ENV);
    return changed;
}

static bool put_back_blocked(void) {
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, &blocked, &now);
    for (int i = 1; i < NSIG; i++)
        if (sigismember(&now, i) != sigismember(&blocked, i)) return true;
    return false;
}

/* The C library sets a flag of its own with every handler. */
static bool is_another(const struct sigaction *a, const struct sigaction *b) {
    enum { RESTORER = 0x04000000 };
    return a->sa_sigaction != b->sa_sigaction || ((a->sa_flags ^ b->sa_flags) & ~RESTORER) != 0;
}

static bool put_back_handlers(void) {
    bool changed = false;
    stack_t stack;
    if (known && sigaltstack(NULL, &stack) == 0 && stack.ss_sp != usual_stack.ss_sp)
        changed = sigaltstack(&usual_stack, NULL) == 0;
    for (int i = 1; known && i < NSIG; i++) {
        struct sigaction now;
        if (sigaction(i, NULL, &now) != 0) continue; /* the C library's own */
        if (is_another(&now, &usual[i])) changed = sigaction(i, &usual[i], NULL) == 0;
    }
    return changed;
}

void fw_native_note_handlers(void) {
    for (int i = 1; i < NSIG; i++) sigaction(i, NULL, &usual[i]);
    sigaltstack(NULL, &usual_stack);
    known = true;
}

void fw_native_start_usual(void) {
    fesetenv(FE_DFL_ENV);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
}

const char *fw_native_put_back(void) {
    static const char *const what[] = {"rounding or another mode of the processor changed",
                                       "signals blocked or unblocked", "handlers of signals changed"};
    const bool changed[] = {put_back_modes(), put_back_blocked(), put_back_handlers()};
    static char text[160];
    text[0] = 0;
    for (int i = 0; i < 3; i++) {
        if (!changed[i]) continue;
        if (text[0] != 0) strcat(text, " and left ");
        strcat(text, what[i]);
    }
    return text[0] == 0 ? NULL : text;
}
