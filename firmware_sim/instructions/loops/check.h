/* What the loops of the checks share: records of commands, see firmware_sim/checks/records.py. */
#ifndef TPULAYER_LOOPS_CHECK_H
#define TPULAYER_LOOPS_CHECK_H

#include "loops.h"

enum { CHECK_READS = 1, CHECK_WRITES = 2, CHECK_LOCAL = 0, CHECK_DDR = 1, CHECK_L2 = 2, CHECK_DIMS = 4 };
enum { CHECK_LINE = 128 }; /* bytes of local memory that are looked at together */

typedef struct {
    int64_t operand, access, space;
    uint64_t lanes;
    int64_t start, run, dims, maybe;
    struct {
        int64_t count, stride;
    } dim[CHECK_DIMS];
} check_block;

/* carry: bytes of an element, where a result's elements depend on the operands' in the same place alone; or 0. */
typedef struct {
    int64_t count, carry;
    check_block block[];
} check_record;

/* Goes through the runs of a block:
 *     check_runs r = check_first(b);
 *     do ... r.at is where the run begins ... while (check_next(b, &r)); */
typedef struct {
    int64_t at, i[CHECK_DIMS];
} check_runs;

TL_INLINE check_runs check_first(const check_block *b) { return (check_runs){b->start, {0, 0, 0, 0}}; }

TL_INLINE bool check_next(const check_block *b, check_runs *r) {
    for (int64_t d = 0; d < b->dims; d++) {
        r->at += b->dim[d].stride;
        if (++r->i[d] < b->dim[d].count) return true;
        r->at -= b->dim[d].stride * b->dim[d].count;
        r->i[d] = 0;
    }
    return false;
}

/* Behind the block's last byte. */
TL_INLINE int64_t check_end(const check_block *b) {
    int64_t end = b->start + b->run;
    for (int64_t d = 0; d < b->dims; d++) end += (b->dim[d].count - 1) * b->dim[d].stride;
    return end;
}

#endif
