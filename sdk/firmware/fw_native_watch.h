/* What the files that watch the controller's accesses share (fw_native_watch*.c). */
#ifndef FW_NATIVE_WATCH_H
#define FW_NATIVE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Where an address may be in watched memory: [low, +span) has all of it, and is empty while nobody watches. */
typedef struct {
    uintptr_t low, span;
} fw_watched_range;
extern fw_watched_range fw_watched;

/* Notes an access if it is to watched memory. site, frame: the code behind it, and the frame of what that called. */
void fw_watched_access(const void *start, size_t bytes, bool write, const void *site, const void *frame)
    __attribute__((cold, noinline));

#pragma GCC visibility pop

/* For ranges, which may begin before it. */
static inline bool fw_watches(void) { return __builtin_expect(fw_watched.span != 0, 0); }

/* First in what watched code calls for an access. */
#define FW_WATCHED(start, size, write)                                                                        \
    do {                                                                                                      \
        if (__builtin_expect((uintptr_t)(start)-fw_watched.low < fw_watched.span, 0))                      \
            fw_watched_access(start, size, write, __builtin_return_address(0), __builtin_frame_address(0));   \
    } while (0)

#define FW_WATCHED_RANGE(start, size, write)                                                                  \
    do {                                                                                                      \
        if (fw_watches())                                                                                     \
            fw_watched_access(start, size, write, __builtin_return_address(0), __builtin_frame_address(0));   \
    } while (0)

#endif
