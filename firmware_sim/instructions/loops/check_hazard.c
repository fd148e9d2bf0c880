/* Commands of both engines that touch the same memory without an order.
 *
 * In the order of replay a BD command comes as soon as its waits allow. So it is in order with all GDMA commands before
 * it, and only a GDMA command has to look back: at the BD commands that came before it and that it does not wait for.
 * A table says which BD command used each line of local memory last; where that is one of these, bytes and lanes
 * are compared with all of them. */
#include "check.h"

enum { LINES = 4096, CHIP_LOCAL = LINES * CHECK_LINE, BITS = 64 };

static bool crosses(const check_block *x, const check_block *y, uint64_t *marks) {
    if (x->space != y->space) return false;
    if (x->space == CHECK_LOCAL && !(x->lanes & y->lanes)) return false;
    const int64_t low = TL_MAX(x->start, y->start), high = TL_MIN(check_end(x), check_end(y));
    if (low >= high) return false;
    if (!x->dims && !y->dims) return true;
    if (x->space != CHECK_LOCAL) { /* rare: few commands of BD use system memory */
        check_runs r = check_first(x);
        do {
            check_runs q = check_first(y);
            do {
                if (r.at < q.at + y->run && q.at < r.at + x->run) return true;
            } while (check_next(y, &q));
        } while (check_next(x, &r));
        return false;
    }
    memset(marks + low / BITS, 0, (size_t)((high - 1) / BITS - low / BITS + 1) * sizeof *marks);
    check_runs r = check_first(x);
    do {
        const int64_t from = TL_MAX(r.at, low), to = TL_MIN(r.at + x->run, high);
        for (int64_t i = from; i < to; i++) marks[i / BITS] |= (uint64_t)1 << i % BITS;
    } while (check_next(x, &r));
    r = check_first(y);
    do {
        const int64_t from = TL_MAX(r.at, low), to = TL_MIN(r.at + y->run, high);
        for (int64_t i = from; i < to; i++)
            if (marks[i / BITS] >> i % BITS & 1) return true;
    } while (check_next(y, &r));
    return false;
}

/* Whether one writes what the other uses; which blocks those are. */
static bool conflict(const check_record *x, const check_record *y, uint64_t *marks, int64_t *blocks) {
    for (int64_t i = 0; i < x->count; i++)
        for (int64_t j = 0; j < y->count; j++)
            if (((x->block[i].access | y->block[j].access) & CHECK_WRITES) &&
                crosses(&x->block[i], &y->block[j], marks)) {
                blocks[0] = i, blocks[1] = j;
                return true;
            }
    return false;
}

typedef struct {
    int64_t *read, *written; /* by line: the newest BD command, counted from 1 over all batches */
    int64_t *system;         /* the same for DDR and L2 */
} newest;

static void note(newest *n, const check_record *record, int64_t number) {
    for (int64_t i = 0; i < record->count; i++) {
        const check_block *b = &record->block[i];
        if (b->space != CHECK_LOCAL) {
            *n->system = number;
            continue;
        }
        check_runs r = check_first(b);
        do {
            for (int64_t line = r.at / CHECK_LINE; line <= (r.at + b->run - 1) / CHECK_LINE; line++) {
                if (b->access & CHECK_READS) n->read[line] = number;
                if (b->access & CHECK_WRITES) n->written[line] = number;
            }
        } while (check_next(b, &r));
    }
}

static bool suspect(const newest *n, const check_record *record, int64_t done) {
    for (int64_t i = 0; i < record->count; i++) {
        const check_block *b = &record->block[i];
        if (b->space != CHECK_LOCAL) {
            if (*n->system > done) return true;
            continue;
        }
        check_runs r = check_first(b);
        do {
            for (int64_t line = r.at / CHECK_LINE; line <= (r.at + b->run - 1) / CHECK_LINE; line++)
                if (n->written[line] > done || ((b->access & CHECK_WRITES) && n->read[line] > done)) return true;
        } while (check_next(b, &r));
    }
    return false;
}

/* addresses of records, engine (0 BD, 1 GDMA), after, positions of BD commands, base: BD commands before the batch,
 * read, written, system, first, marks, found: commands from `first` on. after: of a GDMA command, how many BD
 * commands of the batch are done before it. Returns the first GDMA command that is not in order with a BD command, whose
 * position is then found[0], the blocks of both found[1] and found[2]; or how many commands there are. */
int64_t check_hazard(const tl_arg *a) {
    const check_record *const *records = a[0].data;
    const int64_t *engine = a[1].data, *after = a[2].data, *bd = a[3].data, base = a[4].value;
    newest n = {a[5].data, a[6].data, a[7].data};
    uint64_t *marks = a[9].data;
    int64_t *found = a[10].data, done = 0;
    while (done < a[3].shape[0] && bd[done] < a[8].value) done++;
    for (int64_t k = a[8].value; k < a[0].shape[0]; k++) {
        if (engine[k] == 0) {
            note(&n, records[k], base + ++done);
            continue;
        }
        if (done <= after[k] || !suspect(&n, records[k], base + after[k])) continue;
        for (int64_t i = done - 1; i >= after[k]; i--)
            if (conflict(records[k], records[bd[i]], marks, found + 1)) {
                found[0] = bd[i];
                return k;
            }
    }
    return a[0].shape[0];
}
