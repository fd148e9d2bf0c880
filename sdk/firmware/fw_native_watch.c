/* Who issues commands, and what the controller's own code does in the memories that the engines use.
 *
 * User's and layers' C is compiled with the instrumentation of ThreadSanitizer (user_layers/toolchain/watched.py), which
 * calls a function before each access; these are here, and its library is not needed. The functions of the C library
 * that take pointers have twins with the same prefix in fw_native_watch_libc.c. The firmware's own C is not watched.
 */
#include <string.h>

#include "fw_arm.h"
#include "fw_internal.h"
#include "fw_native.h"
#include "fw_native_watch.h"

/* ---- chains ---- */

enum { SLOTS = 2 * FW_CHAINS };

static fw_watch *watch;    /* NULL while nobody watches */
static const uintptr_t *outermost; /* the frame in which the firmware called what runs */
static uint32_t slots[SLOTS], newest;
static bool any_slots; /* since they were emptied; chain_count is set to 0 from outside too */

static uint32_t hash(const uint64_t *chain) {
    uint64_t sum = 0;
    for (int i = 0; i < FW_FRAMES; i++) sum = (sum ^ chain[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(sum >> 40) % SLOTS;
}

static bool same(const uint64_t *a, const uint64_t *b) { return memcmp(a, b, FW_FRAMES * sizeof *a) == 0; }

/* 0 when there are too many different ones. */
static uint32_t numbered(const uint64_t *chain) {
    if (newest != 0 && same(watch->chains[newest], chain)) return newest;
    uint32_t at = hash(chain);
    while (slots[at] != 0 && !same(watch->chains[slots[at]], chain)) at = (at + 1) % SLOTS;
    if (slots[at] == 0) {
        if (watch->chain_count + 1 >= FW_CHAINS) return 0;
        slots[at] = ++watch->chain_count;
        any_slots = true;
        memcpy(watch->chains[slots[at]], chain, sizeof watch->chains[0]);
    }
    return newest = slots[at];
}

/* A frame begins with the address of the one around it and the address that it returns to, on all machines that
 * firmware.so is built for. Code without frames, as in a library, leaves anything there: what is not further up in
 * the stack is not followed. */
static const uintptr_t *around(const uintptr_t *frame) {
    uintptr_t next = frame[0];
    bool up = next > (uintptr_t)frame && next < (uintptr_t)outermost && next % sizeof next == 0;
    return up ? (const uintptr_t *)next : NULL;
}

/* The chain from the code at `site`, which called the function with this frame, or one whose frame it is in. */
static uint32_t chain_of(const uintptr_t *frame, uintptr_t site) {
    enum { INSIDE = 16 }; /* functions of the firmware between its API and here */
    uint64_t chain[FW_FRAMES] = {site};
    int known = 1, passed = 0;
    bool inside = (uintptr_t)frame < (uintptr_t)outermost; /* another thread has another stack */
    const uintptr_t *at = inside ? frame : NULL;
    while (at != NULL && at[1] != site && passed++ < INSIDE) at = around(at);
    if (at != NULL && at[1] == site)
        while (known < FW_FRAMES && (at = around(at)) != NULL) chain[known++] = at[1];
    return numbered(chain);
}

void fw_platform_issued(bool to_bd) {
    if (watch == NULL) return;
    uint32_t at = to_bd ? fw.bd_pending : fw.gdma_pending;
    if (at >= FW_ARENA) return;
    uint32_t chain = fw.site == NULL ? 0 : chain_of(__builtin_frame_address(0), (uintptr_t)fw.site);
    (to_bd ? watch->bd_chain : watch->gdma_chain)[at] = chain;
}

/* ---- accesses ---- */

fw_watched_range fw_watched;

typedef struct {
    uintptr_t start;
    uint64_t bytes;
    uint64_t skipped; /* at its start: where the firmware's own memory is */
    uint8_t space;
} window;

enum { WINDOWS = 3, RUNS = 8 };

static window windows[WINDOWS];

/* Entries of the log that may still grow: what one place in the code does in adjacent memory. Growing moves an
 * access to the time of the entry's first one. So a read may only grow over what no write that came behind its first
 * access touched, and a write accordingly. `runs` are the newest entries, one for each place; ended[w] is the newest
 * entry of reads (0) or writes (1) that is no longer among them. */
static struct {
    uint32_t entry; /* its place in the log, plus 1; 0: none */
    uintptr_t site;
} runs[RUNS];
static uint32_t ended[2], victim;

static bool touches(const fw_access *a, uint64_t offset, uint64_t bytes) {
    return offset < a->offset + a->bytes && a->offset < offset + bytes;
}

static bool grows(uint32_t entry, uint64_t offset, uint64_t bytes) {
    fw_access *own = &watch->accesses[entry - 1];
    if (own->bd != fw.bd_pending || own->gdma != fw.gdma_pending) return false;
    if (offset > own->offset + own->bytes || own->offset > offset + bytes) return false;
    uint64_t start = offset < own->offset ? offset : own->offset;
    uint64_t end = offset + bytes > own->offset + own->bytes ? offset + bytes : own->offset + own->bytes;
    if (ended[!own->write] > entry) return false;
    for (int i = 0; i < RUNS; i++) {
        if (runs[i].entry <= entry) continue;
        const fw_access *other = &watch->accesses[runs[i].entry - 1];
        if (other->write != own->write && other->space == own->space && touches(other, offset, bytes)) return false;
    }
    own->offset = start;
    own->bytes = end - start;
    return true;
}

/* Which bytes were read and written since commands were last issued, or the log taken: doing it again tells nothing new.
 * Many words of memory share a place here; what had it before is forgotten, and noted again. */
enum { SEEN = 1 << 15, WORD = 8, MOST_SEEN = 8 * WORD };
static struct {
    uintptr_t word;
    uint64_t since;
    uint8_t bytes[2]; /* a bit each: read, written */
} seen[SEEN];
static uint64_t since = 1;
static uint32_t logged, bd_then, gdma_then;

static bool seen_before(uintptr_t start, uint64_t bytes, bool write) {
    if (watch->access_count != logged || fw.bd_pending != bd_then || fw.gdma_pending != gdma_then) since++;
    logged = watch->access_count, bd_then = fw.bd_pending, gdma_then = fw.gdma_pending;
    if (bytes > MOST_SEEN) return false;
    bool all = true;
    for (uintptr_t at = start, end = start + bytes; at < end;) {
        const uintptr_t word = at / WORD, next = (word + 1) * WORD < end ? (word + 1) * WORD : end;
        const uint8_t bits = (uint8_t)(((1u << (next - at)) - 1) << at % WORD);
        if (seen[word % SEEN].word != word || seen[word % SEEN].since != since) {
            memset(&seen[word % SEEN], 0, sizeof *seen);
            seen[word % SEEN].word = word, seen[word % SEEN].since = since;
        }
        uint8_t *known = &seen[word % SEEN].bytes[write];
        all = all && (*known & bits) == bits;
        *known |= bits;
        at = next;
    }
    return all;
}

static void forget_runs(void) {
    memset(runs, 0, sizeof runs);
    ended[0] = ended[1] = 0;
}

static void noted(const window *in, uint64_t offset, uint64_t bytes, bool write, uintptr_t site,
                  const uintptr_t *frame) {
    int at = -1;
    if (watch->access_count == 0) forget_runs(); /* a flush took the log */
    for (int i = 0; i < RUNS && at < 0; i++)
        if (runs[i].entry != 0 && runs[i].site == site && watch->accesses[runs[i].entry - 1].space == in->space &&
            watch->accesses[runs[i].entry - 1].write == write)
            at = i;
    if (at >= 0 && grows(runs[at].entry, offset, bytes)) return;
    if (watch->access_count == FW_ACCESSES) {
        /* The device takes the log, and in any case it begins again: it knows when it could not. */
        fw.platform->flush(0, 0, FW_FLUSH_ACCESSES);
        watch->access_count = 0;
        forget_runs();
        at = -1;
    }
    fw_access *entry = &watch->accesses[watch->access_count++];
    *entry = (fw_access){offset, bytes, fw.bd_pending, fw.gdma_pending, chain_of(frame, site), in->space, write, {0}};
    if (at < 0) at = (int)(victim++ % RUNS);
    if (runs[at].entry != 0) {
        bool of = watch->accesses[runs[at].entry - 1].write;
        if (runs[at].entry > ended[of]) ended[of] = runs[at].entry;
    }
    runs[at].entry = logged = watch->access_count;
    runs[at].site = site;
}

void fw_watched_access(const void *start, size_t bytes, bool write, const void *site, const void *frame) {
    if (watch == NULL || bytes == 0) return;
    uintptr_t first = (uintptr_t)start, end = first + bytes < first ? UINTPTR_MAX : first + bytes;
    for (int i = 0; i < WINDOWS; i++) {
        const window *in = &windows[i];
        uintptr_t from = first > in->start + in->skipped ? first : in->start + in->skipped;
        uintptr_t to = end < in->start + in->bytes ? end : in->start + in->bytes;
        if (from < to && !seen_before(from, to - from, write))
            noted(in, from - in->start, to - from, write, (uintptr_t)site, frame);
    }
}

/* ---- begin and end ---- */

void fw_native_watch_start(const void *frame) {
    const fw_platform *p = fw.platform;
    watch = p != NULL && p->watch != NULL && p->watch->on ? p->watch : NULL;
    if (watch == NULL) return;
    if (any_slots) memset(slots, 0, sizeof slots);
    any_slots = false;
    watch->access_count = watch->chain_count = newest = logged = 0;
    since++;
    forget_runs();
    outermost = frame;
    windows[0] = (window){(uintptr_t)p->ddr, p->ddr_bytes, p->ddr_reserved, FW_SPACE_DDR};
    windows[1] = (window){(uintptr_t)p->local, (uint64_t)CHIP_NPU_NUM * CHIP_LOCAL_BYTES, 0, FW_SPACE_LOCAL};
    windows[2] = (window){(uintptr_t)p->l2, CHIP_L2_BYTES, 0, FW_SPACE_L2};
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (int i = 0; i < WINDOWS; i++) {
        if (windows[i].start < low) low = windows[i].start;
        if (windows[i].start + windows[i].bytes > high) high = windows[i].start + windows[i].bytes;
    }
    fw_watched = (fw_watched_range){low, high - low};
}

void fw_native_watch_end(void) {
    fw_watched = (fw_watched_range){0, 0};
    watch = NULL;
}
