/* What kernels and the C library call of the firmware (okk.h, libc_port.h): the log and failed assertions. */
#include "fw_format.h"
#include "fw_internal.h"

void fw_assert_failed(const char *assertion, const char *file, int line, const char *function) {
    fw_fail(FW_STATUS_ASSERT, "%s:%d: %s: assertion \"%s\" failed", file, line, function, assertion);
}

void fw_heap_misused(const char *function, const char *why, const void *caller) {
    fw_enter(function, caller);
    fw_refuse("%s", why);
}

/* The controller's words are undefined instructions that firmware_sim/arm/machine.py knows. */
void fw_heap_damaged(const char *function) {
    (void)function;
#if defined __arm__
    __asm__ volatile(".word 0xE7F0CBF0");
#endif
    fw_platform_abort("memory was written beyond the end of what malloc gave", NULL);
}

void fw_stack_damaged(const void *where) {
#if defined __arm__
    __asm__ volatile(".word 0xE7F09BF0");
#endif
    fw_platform_abort("a local array was written beyond its end", where);
}

static void to_log(fw_sink *sink) {
    if (sink->used > 0) fw.platform->log(sink->text, (uint32_t)sink->used);
    sink->used = 0;
}

void fw_log(int level, char *format, ...) {
    (void)level;
    if (fw.platform == NULL || fw.platform->log == NULL) return;
    *fw.newest = (uintptr_t)__builtin_return_address(0);
    char text[1024];
    fw_sink sink = {.text = text, .capacity = sizeof text, .full = to_log};
    va_list arguments;
    va_start(arguments, format);
    fw_format_to(&sink, format, arguments);
    va_end(arguments);
    to_log(&sink);
}
