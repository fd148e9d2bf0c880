/* The heap of a native firmware: as large as the controller's, and there before the constructors of kernels. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "fw_arm.h"
#include "fw_heap.h"

static void __attribute__((constructor(101))) make_heap(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *heap = mmap(NULL, FW_ARM_HEAP_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (heap != MAP_FAILED) fw_heap_init(heap, FW_ARM_HEAP_BYTES);
}
