/* What the files of the native platform share (fw_native*.c). */
#ifndef FW_NATIVE_H
#define FW_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Handles the signals of crashes, also where a kernel has taken them over. */
void fw_native_catch_crashes(void);
/* Before the first time: looks where the image with this kernel was loaded (NULL: the firmware's own). False when it
 * was done before, or cannot be told. */
bool fw_native_find_image(const void *kernel);
/* What code addresses in reports of crashes count from. */
uintptr_t fw_native_image(void);
/* Runs function(argument) on a stack as large as the controller's; meanwhile the device's callbacks run on the
 * caller's. */
void fw_native_on_stack(void (*function)(void *), void *argument);
/* Whether code that touches `address` uses more of that stack than there is. */
bool fw_native_below_stack(const void *address);
/* What a kernel does that faults at `address`: "needs more than 95 KiB of stack"; false when nothing is known. */
bool fw_native_explain(const void *address, char *text, size_t capacity);
/* Puts the callbacks that leave that stack in place of the device's own. */
void fw_native_wrap_platform(void);

#endif
