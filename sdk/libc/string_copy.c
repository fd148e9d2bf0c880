/* memcpy, memmove and memset of the controller, by words: an ARM926 stores and loads only aligned words,
 * and four of them at once cost little more than one. Where source and destination are aligned
 * differently, words are put together from two halves.
 */
#include <string.h>

#include "libc_internal.h"

typedef uint32_t __attribute__((may_alias)) word;

#define MISALIGNED(pointer) ((uintptr_t)(pointer) & 3)

FW_PLAIN_LOOPS static void forward_shifted(uint8_t *to, const uint8_t *from, size_t words) {
    unsigned low = 8 * (unsigned)MISALIGNED(from), high = 32 - low;
    const word *source = (const word *)(from - MISALIGNED(from));
    word *target = (word *)to;
    word now = *source++;
    for (; words != 0; words--) {
        word next = *source++;
        *target++ = now >> low | next << high;
        now = next;
    }
}

FW_PLAIN_LOOPS static void forward_aligned(uint8_t *to, const uint8_t *from, size_t words) {
    word *target = (word *)to;
    const word *source = (const word *)from;
    for (; words >= 8; words -= 8, source += 8, target += 8) {
        word a = source[0], b = source[1], c = source[2], d = source[3];
        word e = source[4], f = source[5], g = source[6], h = source[7];
        target[0] = a, target[1] = b, target[2] = c, target[3] = d;
        target[4] = e, target[5] = f, target[6] = g, target[7] = h;
    }
    for (; words != 0; words--) *target++ = *source++;
}

FW_PLAIN_LOOPS static void forward(uint8_t *to, const uint8_t *from, size_t bytes) {
    if (bytes >= 16) {
        for (; MISALIGNED(to); bytes--) *to++ = *from++;
        size_t whole = bytes & ~(size_t)3;
        if (MISALIGNED(from))
            forward_shifted(to, from, whole / 4);
        else
            forward_aligned(to, from, whole / 4);
        to += whole, from += whole, bytes -= whole;
    }
    for (; bytes != 0; bytes--) *to++ = *from++;
}

FW_PLAIN_LOOPS static void backward(uint8_t *to, const uint8_t *from, size_t bytes) {
    to += bytes, from += bytes;
    if (bytes >= 16 && MISALIGNED(to) == MISALIGNED(from)) {
        for (; MISALIGNED(to); bytes--) *--to = *--from;
        for (; bytes >= 4; bytes -= 4) {
            to -= 4, from -= 4;
            *(word *)to = *(const word *)from;
        }
    }
    for (; bytes != 0; bytes--) *--to = *--from;
}

FW_PLAIN_LOOPS void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    forward(to, from, bytes);
    return to;
}

FW_PLAIN_LOOPS void *memmove(void *to, const void *from, size_t bytes) {
    if ((uintptr_t)to - (uintptr_t)from >= bytes) /* also where to lies before from */
        forward(to, from, bytes);
    else
        backward(to, from, bytes);
    return to;
}

FW_PLAIN_LOOPS void *memset(void *start, int value, size_t bytes) {
    uint8_t *to = start;
    if (bytes >= 16) {
        for (; MISALIGNED(to); bytes--) *to++ = (uint8_t)value;
        word four = (uint8_t)value * 0x01010101u;
        for (; bytes >= 32; bytes -= 32, to += 32) {
            word *target = (word *)to;
            target[0] = four, target[1] = four, target[2] = four, target[3] = four;
            target[4] = four, target[5] = four, target[6] = four, target[7] = four;
        }
        for (; bytes >= 4; bytes -= 4, to += 4) *(word *)to = four;
    }
    for (; bytes != 0; bytes--) *to++ = (uint8_t)value;
    return start;
}
