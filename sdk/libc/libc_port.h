/* What this library needs of the firmware that it is linked into (fw_port.c there), and nothing else. */
#ifndef FW_LIBC_PORT_H
#define FW_LIBC_PORT_H

#pragma GCC visibility push(default)

/* Text for the device log. */
void fw_log(int level, char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the request with "file:line: function: assertion failed". */
void fw_assert_failed(const char *assertion, const char *file, int line, const char *function)
    __attribute__((noreturn));
/* Ends the request: `caller` called free or realloc with a pointer that is none of a block in use. */
void fw_heap_misused(const char *function, const char *why, const void *caller) __attribute__((noreturn));
/* Somebody wrote beyond the end of a block of malloc, which `function` noticed, or of a local array (where: in the function's code): nothing that
 * follows can be trusted, so the device is reset. */
void fw_heap_damaged(const char *function) __attribute__((noreturn));
void fw_stack_damaged(const void *where) __attribute__((noreturn));

#pragma GCC visibility pop

#endif
