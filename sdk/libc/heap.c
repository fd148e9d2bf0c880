/* malloc and free over one stretch of memory, in constant time, the same in both builds of a firmware.
 *
 * Blocks lie one behind the other, each behind a header of 16 bytes; neighbours that are free are one. Free blocks
 * are in lists by size, 16 per power of two; the first of the smallest list whose blocks are all large enough is
 * taken. What a block has more than was asked for holds a pattern, and headers hold a check: whoever writes beyond
 * a block is noticed when it or a neighbour is used again, or by fw_heap_check.
 */
#include <string.h> /* the system's, in one build: not hidden */

#include "libc_internal.h"
#include "fw_heap.h"
#include "include/stdlib.h"
#include "libc_port.h"

#if FW_OWN_HEAP

enum { UNIT = 16, FINE = 16, POWERS = 25, LISTS = POWERS * FINE, TRIED = 32, PATTERN = 0xA5 };
#define NONE UINT32_MAX

typedef struct {
    uint32_t bytes;  /* behind the header, a multiple of UNIT */
    uint32_t before; /* of the block before, with its header; 0: this is the first */
    uint32_t asked;  /* by the caller; NONE: it is free */
    uint32_t check;  /* of the other three and the place */
} block;

/* Of a free block, behind its header: its neighbours in the list, as distances from the heap's start. */
typedef struct {
    uint32_t next, previous;
} links;

static char *heap_start;
static block *heap_end; /* the last header: nothing follows, and it is in use */
static uint32_t lists[LISTS];
static uint32_t powers, fine[POWERS]; /* which of them hold something */

static uint32_t place_of(const block *b) { return (uint32_t)((const char *)b - heap_start); }
static block *at(uint32_t place) { return (block *)(void *)(heap_start + place); }
static char *memory_of(block *b) { return (char *)(b + 1); }
static links *links_of(block *b) { return (links *)(void *)(b + 1); }
static block *after(block *b) { return (block *)(void *)(memory_of(b) + b->bytes); }

static uint32_t check_of(const block *b) {
    uint32_t sum = (place_of(b) + 1) * 2654435761u ^ b->bytes;
    sum = (sum << 7 | sum >> 25) ^ b->before;
    return (sum << 9 | sum >> 23) ^ b->asked ^ 0x48454150u;
}

static void seal(block *b) { b->check = check_of(b); }

/* ---- is it as this file left it? ---- */

static _Bool header_is_sound(block *b) {
    if (b->check != check_of(b)) return 0;
    return b == heap_end || b->bytes <= place_of(heap_end) - place_of(b) - sizeof(block);
}

static _Bool rest_is_sound(block *b) {
    const unsigned char *rest = (const unsigned char *)memory_of(b);
    for (uint32_t i = b->asked; i < b->bytes; i++)
        if (rest[i] != PATTERN) return 0;
    return 1;
}

static block *sound(block *b, const char *function) {
    if (!header_is_sound(b)) fw_heap_damaged(function);
    return b;
}

void fw_heap_check(void) {
    if (heap_start == NULL) return;
    for (block *b = at(0); sound(b, "malloc") != heap_end; b = after(b))
        if (b->asked != NONE && !rest_is_sound(b)) fw_heap_damaged("malloc");
}

/* ---- lists of free blocks ---- */

/* The list of blocks of so many bytes; exact: whose blocks are all as large at least. */
static uint32_t list_of(uint32_t bytes, _Bool exact) {
    uint32_t units = bytes / UNIT;
    if (units < FINE) return units;
    uint32_t power = 31u - (uint32_t)__builtin_clz(units), shift = power - 4;
    if (exact) {
        units += (1u << shift) - 1;
        power = 31u - (uint32_t)__builtin_clz(units);
        shift = power - 4;
    }
    return (power - 3) * FINE + (units >> shift) - FINE;
}

static void put(block *b) {
    uint32_t list = list_of(b->bytes, 0);
    b->asked = NONE;
    seal(b);
    *links_of(b) = (links){lists[list], NONE};
    if (lists[list] != NONE) links_of(at(lists[list]))->previous = place_of(b);
    lists[list] = place_of(b);
    powers |= 1u << list / FINE;
    fine[list / FINE] |= 1u << list % FINE;
}

/* A free block that a link names. */
static block *linked(uint32_t place, const char *function) {
    if (place % UNIT != 0 || place >= place_of(heap_end)) fw_heap_damaged(function);
    block *b = sound(at(place), function);
    if (b->asked != NONE) fw_heap_damaged(function);
    return b;
}

static void unlist(block *b, const char *function) {
    uint32_t list = list_of(b->bytes, 0);
    links l = *links_of(b);
    if (l.previous != NONE)
        links_of(linked(l.previous, function))->next = l.next;
    else if (lists[list] == place_of(b))
        lists[list] = l.next;
    else
        fw_heap_damaged(function);
    if (l.next != NONE) links_of(linked(l.next, function))->previous = l.previous;
    if (lists[list] != NONE) return;
    fine[list / FINE] &= ~(1u << list % FINE);
    if (fine[list / FINE] == 0) powers &= ~(1u << list / FINE);
}

static block *first_from(uint32_t list) {
    if (list >= LISTS) return NULL;
    uint32_t power = list / FINE, found = fine[power] & (~0u << list % FINE);
    if (found == 0) {
        uint32_t more = powers & ~((2u << power) - 1);
        if (more == 0) return NULL;
        power = (uint32_t)__builtin_ctz(more);
        found = fine[power];
    }
    return at(lists[power * FINE + (uint32_t)__builtin_ctz(found)]);
}

/* A free block of so many bytes. The list that blocks of this size are in has smaller ones too: of those a few
 * are tried when there is no larger one, so that a heap without holes can be given away whole. */
static block *find_free(uint32_t bytes, const char *function) {
    block *b = first_from(list_of(bytes, 1));
    if (b != NULL) return linked(place_of(b), function);
    uint32_t place = lists[list_of(bytes, 0)];
    for (int i = 0; i < TRIED && place != NONE; i++) {
        b = linked(place, function);
        if (b->bytes >= bytes) return b;
        place = links_of(b)->next;
    }
    return NULL;
}

/* ---- blocks ---- */

/* A block, in no list, gives what it has beyond `bytes` back, and is in use. */
static void take(block *b, uint32_t bytes, uint32_t asked, const char *function) {
    uint32_t rest = b->bytes - bytes;
    if (rest >= sizeof(block) + UNIT) {
        b->bytes = bytes;
        block *behind = after(b);
        *behind = (block){rest - (uint32_t)sizeof(block), bytes + (uint32_t)sizeof(block), NONE, 0};
        block *third = after(behind);
        if (third != heap_end && sound(third, function)->asked == NONE) {
            unlist(third, function);
            behind->bytes += (uint32_t)sizeof(block) + third->bytes;
            third->check = ~third->check;
        }
        after(behind)->before = behind->bytes + (uint32_t)sizeof(block);
        seal(after(behind));
        put(behind);
    }
    b->asked = asked;
    seal(b);
    memset(memory_of(b) + asked, PATTERN, b->bytes - asked);
}

/* A block in no list takes in the one behind it, if that is free. */
static void join(block *b, const char *function) {
    block *behind = sound(after(b), function);
    if (behind == heap_end || behind->asked != NONE) return;
    unlist(behind, function);
    b->bytes += (uint32_t)sizeof(block) + behind->bytes;
    behind->check = ~behind->check; /* no header any more */
    after(b)->before = b->bytes + (uint32_t)sizeof(block);
    seal(after(b));
    seal(b);
}

/* What a block needs for so many bytes; 0 when that is more than any heap. */
static uint32_t rounded(size_t bytes) {
    if (bytes > UINT32_MAX / 4) return 0;
    return bytes == 0 ? UNIT : ((uint32_t)bytes + UNIT - 1) / UNIT * UNIT;
}

/* malloc; under that name a compiler would make calloc of it and memset, inside calloc too. */
static void *allocate(size_t bytes, const char *function) {
    uint32_t size = rounded(bytes);
    if (size == 0 || heap_start == NULL) return NULL;
    block *b = find_free(size, function);
    if (b == NULL) return NULL;
    unlist(b, function);
    take(b, size, (uint32_t)bytes, function);
    return memory_of(b);
}

/* The used block that a pointer came from, which nobody overran. caller: of `function`, to be blamed. */
static block *used(void *memory, const char *function, const void *caller) {
    block *b = (block *)memory - 1;
    uintptr_t place = (uintptr_t)b - (uintptr_t)heap_start;
    _Bool inside = heap_start != NULL && place % UNIT == 0 && place < place_of(heap_end);
    if (!inside || !header_is_sound(b)) {
        if (inside) fw_heap_check(); /* a header that is damaged, or none */
        fw_heap_misused(function, "the pointer did not come from malloc, or was freed before", caller);
    }
    if (b->asked == NONE) fw_heap_misused(function, "the block was freed before", caller);
    if (!rest_is_sound(b)) fw_heap_damaged(function);
    return b;
}

static void release(block *b, const char *function) {
    join(b, function);
    if (b->before != 0) {
        block *before = sound(at(place_of(b) - b->before), function);
        if (before->asked == NONE) {
            unlist(before, function);
            before->bytes += (uint32_t)sizeof(block) + b->bytes;
            b->check = ~b->check;
            b = before;
            after(b)->before = b->bytes + (uint32_t)sizeof(block);
            seal(after(b));
        }
    }
    put(b);
}

void fw_heap_init(void *start, size_t bytes) {
    heap_start = NULL;
    for (int i = 0; i < LISTS; i++) lists[i] = NONE;
    memset(fine, 0, sizeof fine);
    powers = 0;
    size_t skip = (0 - (uintptr_t)start) % UNIT;
    if (bytes < skip + 2 * sizeof(block) + UNIT) return;
    bytes = (bytes - skip) / UNIT * UNIT;
    heap_start = (char *)start + skip;
    uint32_t room = (uint32_t)(bytes - 2 * sizeof(block));
    heap_end = at((uint32_t)sizeof(block) + room);
    *heap_end = (block){0, room + (uint32_t)sizeof(block), 0, 0};
    seal(heap_end);
    block *all = at(0);
    *all = (block){room, 0, NONE, 0};
    put(all);
}

/* ---- for everybody ---- */

void *malloc(size_t bytes) { return allocate(bytes, __func__); }

void free(void *memory) {
    if (memory != NULL) release(used(memory, __func__, __builtin_return_address(0)), __func__);
}

void *calloc(size_t count, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *memory = allocate(all, __func__);
    if (memory != NULL) memset(memory, 0, all);
    return memory;
}

void *realloc(void *memory, size_t bytes) {
    if (memory == NULL) return malloc(bytes);
    block *b = used(memory, __func__, __builtin_return_address(0));
    uint32_t size = rounded(bytes), had = b->asked;
    if (size == 0) return NULL;
    if (b->bytes < size) {
        uint32_t old = b->bytes;
        join(b, __func__);
        if (b->bytes < size) {
            take(b, old, had, __func__); /* gives back what was joined */
            void *moved = allocate(bytes, __func__);
            if (moved == NULL) return NULL;
            memcpy(moved, memory, had);
            release(b, __func__);
            return moved;
        }
    }
    take(b, size, (uint32_t)bytes, __func__);
    return memory;
}

#else

void fw_heap_init(void *start, size_t bytes) { (void)start, (void)bytes; }
void fw_heap_check(void) {}

#endif
