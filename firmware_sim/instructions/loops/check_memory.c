/* Commands that touch memory which they were not given, and what commands have not written.
 *
 * A table of areas says what a command may use. In DDR and L2 a block, with all its rows, lies in one area; in
 * local memory each byte and lane of it in any. */
#include "check.h"

typedef struct {
    int64_t space;
    uint64_t lanes;
    int64_t start, end, rights;
} check_area;

TL_INLINE bool permits(const check_area *area, const check_block *b) {
    return area->space == b->space && !(b->access & ~area->rights);
}

/* Lanes of `lanes` in which byte `at` is in no area; *next: up to where that holds. */
static uint64_t missing_at(const check_block *b, const check_area *areas, int64_t count, int64_t at, int64_t *next) {
    uint64_t missing = b->lanes;
    for (int64_t i = 0; i < count; i++) {
        const check_area *area = &areas[i];
        if (!permits(area, b)) continue;
        if (at < area->start) *next = TL_MIN(*next, area->start);
        if (at < area->start || at >= area->end) continue;
        *next = TL_MIN(*next, area->end);
        missing &= ~area->lanes;
    }
    return missing;
}

static bool inside(const check_block *b, const check_area *areas, int64_t count) {
    const int64_t end = b->maybe ? b->start + 1 : check_end(b);
    const bool local = b->space == CHECK_LOCAL;
    for (int64_t i = 0; i < count; i++) {
        const check_area *area = &areas[i];
        if (permits(area, b) && area->start <= b->start && end <= area->end && !(local && (b->lanes & ~area->lanes)))
            return true;
    }
    if (!local) return false;
    check_runs r = check_first(b);
    do {
        const int64_t stop = b->maybe ? r.at + 1 : r.at + b->run;
        for (int64_t at = r.at, next = stop; at < stop; at = next, next = stop)
            if (missing_at(b, areas, count, at, &next)) return false;
    } while (!b->maybe && check_next(b, &r));
    return true;
}

/* addresses of records, each one's table (negative: none), tables: first area and how many, areas, first, found:
 * commands from `first` on. Returns the first one with a block that is not where it may be, found[0] being the
 * block; or how many there are. */
int64_t check_memory(const tl_arg *a) {
    const check_record *const *records = a[0].data;
    const int64_t *table = a[1].data, (*tables)[2] = a[2].data;
    const check_area *areas = a[3].data;
    int64_t *found = a[5].data;
    for (int64_t k = a[4].value; k < a[0].shape[0]; k++) {
        if (table[k] < 0) continue;
        const int64_t *of = tables[table[k]];
        for (int64_t i = 0; i < records[k]->count; i++)
            if (!inside(&records[k]->block[i], areas + of[0], of[1])) {
                found[0] = i;
                return k;
            }
    }
    return a[0].shape[0];
}

/* addresses of records, record of what should be written, marks (zeros: in local memory 64 lanes of each byte from
 * `start` on, elsewhere a bit of each byte), start, bytes from there on, found: marks what the commands write.
 * Returns how many bytes of what should be written they leave out, of all lanes; found: the first one's offset and
 * lanes. */
int64_t check_outputs(const tl_arg *a) {
    const check_record *const *records = a[0].data, *wanted = a[1].data;
    uint64_t *marks = a[2].data;
    const int64_t start = a[3].value, end = start + a[4].value, space = wanted->block[0].space;
    const bool local = space == CHECK_LOCAL;
    int64_t *found = a[5].data, missing = 0;
    for (int64_t k = 0; k < a[0].shape[0]; k++)
        for (int64_t i = 0; i < records[k]->count; i++) {
            const check_block *b = &records[k]->block[i];
            if (!(b->access & CHECK_WRITES) || b->space != space || b->start >= end || check_end(b) <= start) continue;
            check_runs r = check_first(b);
            do {
                const int64_t from = TL_MAX(r.at, start) - start, to = TL_MIN(r.at + b->run, end) - start;
                if (local)
                    for (int64_t at = from; at < to; at++) marks[at] |= b->lanes;
                else
                    for (int64_t at = from; at < to;) {
                        const int64_t stop = TL_MIN(to, (at / 64 + 1) * 64), count = stop - at;
                        marks[at / 64] |= (count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1) << at % 64;
                        at = stop;
                    }
            } while (check_next(b, &r));
        }
    for (int64_t i = 0; i < wanted->count; i++) {
        const check_block *b = &wanted->block[i];
        const uint64_t lanes = local ? b->lanes : 1;
        check_runs r = check_first(b);
        do {
            for (int64_t at = r.at - start; at < r.at - start + b->run; at++) {
                if (!local && at % 64 == 0 && at + 64 <= r.at - start + b->run && !~marks[at / 64]) {
                    at += 63;
                    continue;
                }
                const uint64_t gone = lanes & ~(local ? marks[at] : marks[at / 64] >> at % 64);
                if (!gone) continue;
                if (!missing || at + start < found[0]) found[0] = at + start, found[1] = (int64_t)gone;
                missing += __builtin_popcountll(gone);
            }
        } while (check_next(b, &r));
    }
    return missing;
}
