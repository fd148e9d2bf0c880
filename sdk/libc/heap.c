/* malloc and free over one stretch of memory. Blocks lie one behind the other, each behind a header of
 * 16 bytes; the first free one that is large enough is taken, and neighbours that are free become one.
 * Every call walks the list from its start, so a pointer that is not a block's and a header that somebody
 * wrote over are noticed.
 */
#include <string.h>

#include "include/stdlib.h"
#include "libc_internal.h"
#include "libc_port.h"

typedef struct block {
    size_t bytes; /* behind the header, a multiple of 16 */
    uint32_t state;
    uint32_t check; /* of the other two and the address */
} __attribute__((aligned(16))) block;

enum { FREE = 0x46524545, USED = 0x55534544 };

static char *heap_start, *heap_end;

static uint32_t check_of(const block *b) {
    return (uint32_t)(uintptr_t)b * 2654435761u ^ (uint32_t)b->bytes ^ b->state << 1;
}

static void set(block *b, size_t bytes, uint32_t state) {
    b->bytes = bytes;
    b->state = state;
    b->check = check_of(b);
}

static char *memory_of(block *b) { return (char *)(b + 1); }

/* The next block; NULL behind the last. */
static block *after(block *b) {
    char *end = memory_of(b) + b->bytes;
    return end < heap_end ? (block *)end : NULL;
}

/* Its header is as this file left it. */
static block *sound(block *b) {
    if (b == NULL) return NULL;
    _Bool heap_is_undamaged = b->check == check_of(b) && (b->state == FREE || b->state == USED);
    if (!heap_is_undamaged) {
#if defined __arm__
        __asm__ volatile(".word 0xE7F0CBF0"); /* as in stdlib.c: only a reset gives a sound heap */
#endif
        fw_assert_failed("memory of malloc was not written beyond its end", __FILE__, __LINE__, "malloc");
    }
    return b;
}

static block *first(void) { return sound(heap_start < heap_end ? (block *)heap_start : NULL); }
static block *next(block *b) { return sound(after(b)); }

void fw_heap_init(void *start, size_t bytes) {
    heap_start = heap_end = NULL;
    size_t skip = (0 - (uintptr_t)start) & 15;
    if (bytes < skip + 2 * sizeof(block)) return;
    bytes = (bytes - skip) & ~(size_t)15;
    heap_start = (char *)start + skip;
    heap_end = heap_start + bytes;
    set((block *)heap_start, bytes - sizeof(block), FREE);
}

/* Rounds up to what a block holds; 0 when that is more than any heap. */
static size_t rounded(size_t bytes) {
    if (bytes > SIZE_MAX / 2) return 0;
    return bytes == 0 ? 16 : (bytes + 15) & ~(size_t)15;
}

/* Takes the first `bytes` of a block; what is left over becomes a free block. */
static void take(block *b, size_t bytes) {
    size_t rest = b->bytes - bytes;
    if (rest < 2 * sizeof(block)) {
        set(b, b->bytes, USED);
        return;
    }
    set(b, bytes, USED);
    set(after(b), rest - sizeof(block), FREE);
}

/* A block takes in the free ones behind it. */
static void merge(block *b) {
    for (block *n; (n = next(b)) != NULL && n->state == FREE;)
        set(b, b->bytes + sizeof(block) + n->bytes, b->state);
}

/* malloc; under that name a compiler would make calloc of it and memset, inside calloc too. */
static void *allocate(size_t bytes) {
    size_t size = rounded(bytes);
    if (size == 0) return NULL;
    for (block *b = first(); b != NULL; b = next(b)) {
        if (b->state != FREE || b->bytes < size) continue;
        take(b, size);
        return memory_of(b);
    }
    return NULL;
}

/* The used block that a pointer came from. `before` is the block before it. */
static block *find(const void *memory, block **before, const char *function) {
    *before = NULL;
    for (block *b = first(); b != NULL; *before = b, b = next(b)) {
        if (memory_of(b) != memory) {
            if (memory_of(b) + b->bytes > (const char *)memory) break;
            continue;
        }
        if (b->state != USED) fw_assert_failed("the block is not free already", __FILE__, __LINE__, function);
        return b;
    }
    fw_assert_failed("the pointer came from malloc and was not freed", __FILE__, __LINE__, function);
}

void *malloc(size_t bytes) { return allocate(bytes); }

void free(void *memory) {
    if (memory == NULL) return;
    block *before, *b = find(memory, &before, __func__);
    set(b, b->bytes, FREE);
    merge(b);
    if (before != NULL && before->state == FREE) merge(before);
}

void *calloc(size_t count, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *memory = allocate(all);
    if (memory != NULL) memset(memory, 0, all);
    return memory;
}

void *realloc(void *memory, size_t bytes) {
    if (memory == NULL) return malloc(bytes);
    size_t size = rounded(bytes);
    block *before, *b = find(memory, &before, __func__);
    if (size == 0) return NULL;
    size_t had = b->bytes;
    merge(b);
    if (b->bytes >= size) {
        take(b, size);
        return memory;
    }
    take(b, had); /* gives back what was merged */
    void *moved = allocate(bytes);
    if (moved == NULL) return NULL;
    memcpy(moved, memory, had < bytes ? had : bytes);
    free(memory);
    return moved;
}
