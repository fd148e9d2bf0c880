/* The functions of string.h that take from malloc. */
#include <string.h> /* the system's, in one build: not hidden */

#include "libc_internal.h"
#include "fw_heap.h"
#include "include/stdlib.h"

#if FW_OWN_HEAP

__attribute__((visibility("hidden"))) char *strndup(const char *text, size_t limit) {
    size_t length = 0;
    while (length < limit && text[length] != '\0') length++;
    char *copy = malloc(length + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

__attribute__((visibility("hidden"))) char *strdup(const char *text) { return strndup(text, SIZE_MAX - 1); }

#endif
