/* What compilers call where a function's local arrays were overrun (-fstack-protector-strong). */
#include "libc_internal.h"

#include "libc_port.h"

void __stack_chk_fail(void) __attribute__((noreturn));

#if !defined __x86_64__ /* where the system's value is used */
extern uintptr_t __stack_chk_guard;
uintptr_t __stack_chk_guard = (uintptr_t)0x00E396A7D2DEull;
#endif

void __stack_chk_fail(void) { fw_stack_damaged(__builtin_return_address(0)); }
