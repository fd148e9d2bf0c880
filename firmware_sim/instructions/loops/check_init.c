/* Which bytes something has written. Local memory: a bit per lane for each line of 128 bytes that is written whole,
 * and for each byte of the others. DDR and L2: a byte for each page of 4096 that is written whole, and a bit per byte
 * of the others. A byte counts as written where either says so. */
#include "check.h"

enum { PAGE = 4096, WORD = 64, LANE = 4096 * CHECK_LINE };

typedef struct {
    uint64_t *lines, *bytes; /* local memory */
    uint8_t *dirty;          /* its lines of which some bytes are noted */
    uint8_t *pages[3];       /* by space; none of local memory */
    uint64_t *bits[3];
} shadow;

static bool local_written(const shadow *s, int64_t at, int64_t run, uint64_t lanes) {
    const int64_t end = at + run;
    while (at < end) {
        const int64_t line = at / CHECK_LINE, stop = TL_MIN(end, (line + 1) * CHECK_LINE);
        const uint64_t missing = lanes & ~s->lines[line];
        if (missing) {
            uint64_t all = ~(uint64_t)0;
            for (int64_t i = at; i < stop; i++) all &= s->bytes[i];
            if (missing & ~all) return false;
        }
        at = stop;
    }
    return true;
}

static void local_write(shadow *s, int64_t at, int64_t run, uint64_t lanes) {
    const int64_t end = at + run;
    while (at < end) {
        const int64_t line = at / CHECK_LINE, stop = TL_MIN(end, (line + 1) * CHECK_LINE);
        if (stop - at == CHECK_LINE)
            s->lines[line] |= lanes;
        else if (lanes & ~s->lines[line]) {
            for (int64_t i = at; i < stop; i++) s->bytes[i] |= lanes;
            s->dirty[line] = 1;
        }
        at = stop;
    }
}

/* Bits [at, stop) of the word that both lie in. */
TL_INLINE uint64_t some_bits(int64_t at, int64_t stop) {
    const int64_t count = stop - at;
    return (count == WORD ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1) << at % WORD;
}

static bool system_written(const shadow *s, int64_t space, int64_t at, int64_t run) {
    const int64_t end = at + run;
    while (at < end) {
        const int64_t page = at / PAGE, last = TL_MIN(end, (page + 1) * PAGE);
        if (!s->pages[space][page])
            for (int64_t i = at; i < last;) {
                const int64_t stop = TL_MIN(last, (i / WORD + 1) * WORD);
                const uint64_t wanted = some_bits(i, stop);
                if ((s->bits[space][i / WORD] & wanted) != wanted) return false;
                i = stop;
            }
        at = last;
    }
    return true;
}

static void system_write(shadow *s, int64_t space, int64_t at, int64_t run) {
    const int64_t end = at + run;
    while (at < end) {
        const int64_t page = at / PAGE, last = TL_MIN(end, (page + 1) * PAGE);
        if (last - at == PAGE)
            s->pages[space][page] = 1;
        else if (!s->pages[space][page])
            for (int64_t i = at; i < last;) {
                const int64_t stop = TL_MIN(last, (i / WORD + 1) * WORD);
                s->bits[space][i / WORD] |= some_bits(i, stop);
                i = stop;
            }
        at = last;
    }
}

static bool block_written(const shadow *s, const check_block *b) {
    check_runs r = check_first(b);
    do {
        if (b->space == CHECK_LOCAL ? !local_written(s, r.at, b->run, b->lanes)
                                    : !system_written(s, b->space, r.at, b->run))
            return false;
    } while (check_next(b, &r));
    return true;
}

static void block_write(shadow *s, const check_block *b) {
    check_runs r = check_first(b);
    do {
        if (b->space == CHECK_LOCAL)
            local_write(s, r.at, b->run, b->lanes);
        else
            system_write(s, b->space, r.at, b->run);
    } while (check_next(b, &r));
}

/* Arguments from `first` on: lines, bytes, dirty, then pages and bits of DDR and of L2. */
static shadow shadow_of(const tl_arg *a, int first) {
    return (shadow){.lines = a[first].data,
                    .bytes = a[first + 1].data,
                    .dirty = a[first + 2].data,
                    .pages = {NULL, a[first + 3].data, a[first + 5].data},
                    .bits = {NULL, a[first + 4].data, a[first + 6].data}};
}

/* ---- element-wise commands ---- */

enum { OPERANDS = 8 };

static bool same_form(const check_block *x, const check_block *y) {
    if (x->space != CHECK_LOCAL || y->space != CHECK_LOCAL || x->lanes != y->lanes || x->run != y->run ||
        x->dims != y->dims)
        return false;
    for (int64_t d = 0; d < x->dims; d++)
        if (x->dim[d].count != y->dim[d].count) return false;
    const bool same = x->start == y->start && memcmp(x->dim, y->dim, sizeof x->dim) == 0;
    return same || check_end(x) <= y->start || check_end(y) <= x->start;
}

static uint64_t lanes_of(const shadow *s, int64_t at) { return s->lines[at / CHECK_LINE] | s->bytes[at]; }

/* Bytes of a run of the result are written in the lanes in which those of all inputs are. */
static void carry_run(shadow *s, int64_t to, const int64_t *from, int count, int64_t run, uint64_t lanes, int64_t item) {
    uint64_t kept[CHECK_LINE];
    for (int64_t done = 0; done < run;) {
        const int64_t n = TL_MIN(run - done, CHECK_LINE - (to + done) % CHECK_LINE);
        uint64_t all = lanes;
        for (int64_t i = 0; i < n; i++) {
            kept[i] = lanes;
            for (int k = 0; k < count; k++) kept[i] &= lanes_of(s, from[k] + done + i);
        }
        for (int64_t i = 0; i + item <= n; i += item) {
            for (int64_t b = 1; b < item; b++) kept[i] &= kept[i + b];
            for (int64_t b = 1; b < item; b++) kept[i + b] = kept[i];
            all &= kept[i];
        }
        if (all == lanes) {
            local_write(s, to + done, n, lanes);
        } else {
            const int64_t line = (to + done) / CHECK_LINE;
            if (s->lines[line] & lanes)
                for (int64_t i = 0; i < CHECK_LINE; i++) s->bytes[line * CHECK_LINE + i] |= s->lines[line] & lanes;
            s->lines[line] &= ~lanes;
            s->dirty[line] = 1;
            for (int64_t i = 0; i < n; i++) s->bytes[to + done + i] = (s->bytes[to + done + i] & ~lanes) | kept[i];
        }
        done += n;
    }
}

/* Carries what is unwritten from the operands of an element-wise command to its results; false, and nothing is done,
 * where an operand that is not written whole has another form than a result. */
static bool carry(shadow *s, const check_record *record) {
    const check_block *missing[OPERANDS][OPERANDS], *result[OPERANDS];
    int count[OPERANDS] = {0}, results = 0;
    if (!record->carry) return false;
    for (int64_t i = 0; i < record->count; i++) {
        const check_block *b = &record->block[i];
        if (!(b->access & CHECK_WRITES)) continue;
        if (results == OPERANDS || b->run % record->carry || b->start % record->carry) return false;
        result[results++] = b;
    }
    for (int64_t i = 0; i < record->count; i++) {
        const check_block *b = &record->block[i];
        if (!(b->access & CHECK_READS) || b->maybe || block_written(s, b)) continue;
        int fits = 0;
        for (int r = 0; r < results; r++)
            if (same_form(b, result[r])) {
                if (count[r] == OPERANDS) return false;
                missing[r][count[r]++] = b;
                fits++;
            }
        if (fits != 1) return false; /* pieces of operands and results that are alike in lanes are rare */
    }
    for (int r = 0; r < results; r++) {
        const check_block *to = result[r];
        if (!count[r]) {
            block_write(s, to);
            continue;
        }
        check_runs at = check_first(to), in[OPERANDS];
        int64_t from[OPERANDS];
        for (int k = 0; k < count[r]; k++) in[k] = check_first(missing[r][k]);
        bool more;
        do {
            for (int k = 0; k < count[r]; k++) from[k] = in[k].at;
            carry_run(s, at.at, from, count[r], to->run, to->lanes, record->carry);
            more = check_next(to, &at);
            for (int k = 0; k < count[r]; k++) check_next(missing[r][k], &in[k]);
        } while (more);
    }
    return true;
}

/* The first unwritten byte of a block in local memory, over all lanes; how many there are, and their lanes. */
static void missing_of(const shadow *s, const check_block *b, int64_t *told) {
    uint64_t lanes = 0;
    told[1] = -1, told[2] = 0;
    check_runs r = check_first(b);
    do {
        for (int64_t at = r.at; at < r.at + b->run; at++) {
            const uint64_t unwritten = b->lanes & ~lanes_of(s, at);
            if (unwritten && told[1] < 0) told[1] = __builtin_ctzll(unwritten) * (int64_t)LANE + at;
            told[2] += __builtin_popcountll(unwritten);
            lanes |= unwritten;
        }
    } while (check_next(b, &r));
    told[3] = (int64_t)lanes;
}

/* addresses of records, first, carried, shadow: commands from `first` on, what they write counts as written afterwards,
 * but for what element-wise ones make of unwritten bytes. carried, of each such one: the operand, counted from 1, and
 * of what it lacks the first byte's place, how many bytes, and their lanes. Returns the first other command
 * that reads what nothing wrote; it has written nothing yet. Or how many there are. */
int64_t check_init(const tl_arg *a) {
    const check_record *const *records = a[0].data;
    int64_t *carried = a[2].data;
    shadow s = shadow_of(a, 3);
    for (int64_t k = a[1].value; k < a[0].shape[0]; k++) {
        const check_record *record = records[k];
        int64_t i = 0;
        while (i < record->count && (!(record->block[i].access & CHECK_READS) || record->block[i].maybe ||
                                     block_written(&s, &record->block[i])))
            i++;
        if (i < record->count) {
            int64_t told[4] = {record->block[i].operand + 1};
            if (record->carry) missing_of(&s, &record->block[i], told);
            if (!carry(&s, record)) return k;
            memcpy(carried + 4 * k, told, sizeof told);
            continue;
        }
        for (i = 0; i < record->count; i++)
            if (record->block[i].access & CHECK_WRITES) block_write(&s, &record->block[i]);
    }
    return a[0].shape[0];
}

/* places of elements, written [elements, bytes of each], space, shadow: whether each byte is written. */
int64_t check_init_written(const tl_arg *a) {
    const int64_t *at = a[0].data, size = a[1].shape[1];
    uint8_t *written = a[1].data;
    const shadow s = shadow_of(a, 3);
    for (int64_t i = 0; i < a[0].shape[0]; i++)
        for (int64_t b = 0; b < size; b++)
            *written++ = a[2].value == CHECK_LOCAL
                             ? local_written(&s, at[i] % LANE + b, 1, (uint64_t)1 << at[i] / LANE)
                             : system_written(&s, a[2].value, at[i] + b, 1);
    return TL_DONE;
}

/* An operand's elements as they lie, see check_init_lacking. */
typedef struct {
    int64_t space, offset, lane, n, c, h, w, n_step, c_step, h_step, w_step, item, parts, used;
} elements;

/* The bytes of an element that nothing wrote, a bit for each of up to 8. */
TL_INLINE uint64_t unwritten_of(const shadow *s, const elements *e, int64_t at, uint64_t lane, int64_t used) {
    uint64_t found = 0;
    for (int64_t b = 0; b < used; b++)
        if (e->space == CHECK_LOCAL ? !local_written(s, at + b, 1, lane) : !system_written(s, e->space, at + b, 1))
            found |= (uint64_t)1 << b;
    return found;
}

/* What an operand lacks. elements: i64[14], one of these: memory, first byte (in local memory within the lane), lane of
 * channel 0, shape, steps in bytes, bytes of an element, parts of it that are looked at apart, bytes that count of the
 * last n's; marks: bool[n, parts, c, h, w], zeros, of parts with an unwritten byte; told: i64[3], the first such byte's
 * place, how many there are and their lanes, elements that a step of 0 repeats once; shadow. Returns how many
 * elements lack a byte. */
int64_t check_init_lacking(const tl_arg *a) {
    enum { LANES = 64 };
    const elements *e = a[0].data;
    uint8_t *marks = a[1].data;
    int64_t *told = a[2].data, lacking = 0;
    const shadow s = shadow_of(a, 3);
    const int64_t plane = e->h * e->w, size = e->item / e->parts;
    const bool local = e->space == CHECK_LOCAL;
    for (int64_t n = 0; n < e->n; n++)
        for (int64_t c = 0; c < e->c; c++)
            for (int64_t y = 0; y < e->h; y++) {
                const int64_t lane = (e->lane + c) % LANES, slot = local ? (e->lane + c) / LANES : c;
                const int64_t row = e->offset + n * e->n_step + slot * e->c_step + y * e->h_step;
                const int64_t used = n == e->n - 1 ? e->used : e->item;
                const uint64_t bit = (uint64_t)1 << lane;
                for (int64_t x = 0; x < e->w; x++) {
                    const int64_t at = row + x * e->w_step, left = CHECK_LINE - at % CHECK_LINE;
                    if (local && s.lines[at / CHECK_LINE] & bit && left >= e->item) {
                        if (e->w_step == e->item) x += left / e->item - 1; /* as far as this line goes */
                        continue;
                    }
                    const uint64_t unwritten = unwritten_of(&s, e, at, bit, used);
                    if (!unwritten) continue;
                    if (!lacking++) told[0] = (local ? lane * LANE : 0) + at + __builtin_ctzll(unwritten);
                    for (int64_t part = 0; part < e->parts; part++)
                        if (unwritten >> part * size & (((uint64_t)1 << size) - 1))
                            marks[((n * e->parts + part) * e->c + c) * plane + y * e->w + x] = 1;
                    if ((n && !e->n_step) || (y && !e->h_step) || (x && !e->w_step) ||
                        (!e->c_step && c >= (local ? LANES : 1)))
                        continue;
                    told[1] += __builtin_popcountll(unwritten);
                    told[2] |= (int64_t)(local ? bit : 0);
                }
            }
    return lacking;
}

typedef struct {
    int64_t *range, count, most;
} ranges;

static void add_range(ranges *r, int64_t at, int64_t stop) {
    if (r->count && (r->range[2 * r->count - 1] == at || r->count == r->most)) {
        r->range[2 * r->count - 1] = stop;
        return;
    }
    r->range[2 * r->count] = at;
    r->range[2 * r->count + 1] = stop;
    r->count++;
}

/* ranges [most, 2], start, end, shadow: of DDR the ranges that nothing has written; how many there are. If there are
 * more, the last one goes on to the last such byte. */
int64_t check_init_unwritten(const tl_arg *a) {
    ranges found = {a[0].data, 0, a[0].shape[0]};
    const int64_t end = a[2].value;
    const shadow s = shadow_of(a, 3);
    for (int64_t at = a[1].value; at < end;) {
        if (s.pages[CHECK_DDR][at / PAGE]) {
            at = (at / PAGE + 1) * PAGE;
            continue;
        }
        const int64_t stop = TL_MIN(end, (at / WORD + 1) * WORD);
        const uint64_t word = s.bits[CHECK_DDR][at / WORD];
        if (!word)
            add_range(&found, at, stop);
        else if (word != ~(uint64_t)0)
            for (int64_t i = at; i < stop; i++)
                if (!(word >> i % WORD & 1)) add_range(&found, i, i + 1);
        at = stop;
    }
    return found.count;
}

/* a record, shadow: what it writes is written. */
int64_t check_init_write(const tl_arg *a) {
    const check_record *record = a[0].data;
    shadow s = shadow_of(a, 1);
    for (int64_t i = 0; i < record->count; i++)
        if (record->block[i].access & CHECK_WRITES) block_write(&s, &record->block[i]);
    return TL_DONE;
}

/* ranges of DDR i64[k, 2], write, shadow: whether all of them are written, 1 or 0; with write they are afterwards. */
int64_t check_init_ranges(const tl_arg *a) {
    const int64_t *range = a[0].data;
    shadow s = shadow_of(a, 2);
    for (int64_t i = 0; i < a[0].shape[0]; i++) {
        const int64_t at = range[2 * i], run = range[2 * i + 1] - at;
        if (a[1].value)
            system_write(&s, CHECK_DDR, at, run);
        else if (!system_written(&s, CHECK_DDR, at, run))
            return 0;
    }
    return 1;
}

static void local_clear(shadow *s, int64_t at, uint64_t lane) {
    const int64_t line = at / CHECK_LINE;
    if (s->lines[line]) {
        for (int64_t i = 0; i < CHECK_LINE; i++) s->bytes[line * CHECK_LINE + i] |= s->lines[line];
        s->lines[line] = 0;
        s->dirty[line] = 1;
    }
    s->bytes[at] &= ~lane;
}

static void system_clear(shadow *s, int64_t space, int64_t at) {
    const int64_t page = at / PAGE;
    if (s->pages[space][page]) {
        memset(&s->bits[space][page * PAGE / WORD], 0xff, PAGE / 8);
        s->pages[space][page] = 0;
    }
    s->bits[space][at / WORD] &= ~((uint64_t)1 << at % WORD);
}

/* places of elements, bytes of each, whether they are written now, space, shadow. */
int64_t check_init_mark(const tl_arg *a) {
    const int64_t *at = a[0].data, size = a[1].value, space = a[3].value;
    shadow s = shadow_of(a, 4);
    for (int64_t i = 0; i < a[0].shape[0]; i++) {
        const uint64_t lane = space == CHECK_LOCAL ? (uint64_t)1 << at[i] / LANE : 0;
        if (a[2].value) {
            if (space == CHECK_LOCAL)
                local_write(&s, at[i] % LANE, size, lane);
            else
                system_write(&s, space, at[i], size);
            continue;
        }
        for (int64_t b = 0; b < size; b++) {
            if (space == CHECK_LOCAL)
                local_clear(&s, at[i] % LANE + b, lane);
            else
                system_clear(&s, space, at[i] + b);
        }
    }
    return TL_DONE;
}
