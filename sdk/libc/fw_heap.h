/* The heap behind malloc, for the firmware that this library is linked into. With AddressSanitizer, whose malloc it
 * is then, both do nothing.
 */
#ifndef FW_HEAP_H
#define FW_HEAP_H

#include <stddef.h>

/* AddressSanitizer, which no controller has, brings a malloc that sees more. */
#if defined __SANITIZE_ADDRESS__
#define FW_OWN_HEAP 0
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define FW_OWN_HEAP 0
#endif
#endif
#ifndef FW_OWN_HEAP
#define FW_OWN_HEAP 1
#endif

#pragma GCC visibility push(hidden)

/* Gives [start, +bytes) to malloc as one free block, and forgets the heap before it. Without a heap malloc returns
 * NULL. */
void fw_heap_init(void *start, size_t bytes);
/* Looks at every block; fw_heap_damaged when somebody wrote beyond one. */
void fw_heap_check(void);

#pragma GCC visibility pop

#endif
