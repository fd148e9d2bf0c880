/* The platform below the firmware when it runs as a shared library in the device process. The
 * controller's own platform file gives the same functions without an operating system.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "fw_internal.h"

static jmp_buf unwind_to;

bool fw_platform_try(void (*body)(void *), void *argument) {
    if (setjmp(unwind_to) != 0) return false;
    body(argument);
    return true;
}

void fw_platform_unwind(void) { longjmp(unwind_to, 1); }

int fw_platform_format(char *text, size_t capacity, const char *format, va_list arguments) {
    return vsnprintf(text, capacity, format, arguments);
}

/* Blocks of one request, newest first. */
typedef struct block {
    struct block *next;
    void *reserved; /* keeps what follows at a multiple of 16 */
} block;

static block *blocks;

void *fw_platform_scratch(size_t bytes) {
    if (bytes > SIZE_MAX - sizeof(block)) return NULL;
    block *b = calloc(1, sizeof(block) + bytes);
    if (b == NULL) return NULL;
    b->next = blocks;
    blocks = b;
    return b + 1;
}

void fw_platform_scratch_release(void) {
    while (blocks != NULL) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}
