/* assert: ends the request with "file:line: function: assertion failed". */
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : fw_assert_failed(#condition, __FILE__, __LINE__, __func__))
#endif

#ifndef FW_LIBC_ASSERT_H
#define FW_LIBC_ASSERT_H

#define static_assert _Static_assert

void fw_assert_failed(const char *assertion, const char *file, int line, const char *function)
    __attribute__((noreturn));

#endif
