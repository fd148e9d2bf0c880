/* What the files of the native platform share (fw_native*.c). */
#ifndef FW_NATIVE_H
#define FW_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Handles the signals of crashes from now on. */
void fw_native_catch_crashes(void);
/* Before the first time: looks where the image with this kernel was loaded (NULL: the firmware's own). False when it
 * was done before, or cannot be told. */
bool fw_native_find_image(const void *kernel);
/* What code addresses in reports of crashes count from. */
uintptr_t fw_native_image(void);
/* Runs function(argument) on a stack as large as the controller's; meanwhile the device's callbacks run on the
 * caller's. */
void fw_native_on_stack(void (*function)(void *), void *argument);
/* Where an address lies around that stack: what code touches that uses more of it than there is, or that runs over
 * the end of an array in it. */
typedef enum { FW_STACK_ELSEWHERE, FW_STACK_BELOW, FW_STACK_INSIDE, FW_STACK_ABOVE } fw_stack_place;
fw_stack_place fw_native_stack_place(const void *address);
/* The words of that stack from `from` on; 0 when it lies elsewhere. */
size_t fw_native_stack_words(const void *from);
/* What a kernel does that faults at `address` with its stack used down to `used_to` (0: unknown): "needs more than
 * 95 KiB of stack"; false when nothing is known. */
bool fw_native_explain(const void *address, uintptr_t used_to, char *text, size_t capacity);
/* Around what runs: it starts with the usual rounding and other modes of the processor. What it leaves changed of them,
 * and in the handling of signals as noted after boot, is put back: what follows "left", NULL for nothing. */
void fw_native_start_usual(void);
const char *fw_native_put_back(void);
void fw_native_note_handlers(void);
/* Around what runs, called by whose frame begins the stack of calls: until the end the device is told what
 * fw_watch says, if it wants to know. */
void fw_native_watch_start(const void *frame);
void fw_native_watch_end(void);
/* Puts the callbacks that leave that stack in place of the device's own. */
void fw_native_wrap_platform(void);

#endif
