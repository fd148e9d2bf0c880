/* Several loops in a row, and the numbers that Python needs to know. */
#include "fixed.h"
#include "loops.h"
#include "tiles.h"
#include "tiles_fixed.h"

typedef struct {
    tl_loop *loop;
    const tl_arg *arguments;
} tl_call;

/* Calls that return nothing but TL_DONE, one after the other; how many were done when memory ran out, or all. */
int64_t tl_run(const tl_call *calls, int64_t count) {
    int64_t done = 0;
    while (done < count && calls[done].loop(calls[done].arguments) != TL_NO_MEMORY)
        done++;
    return done;
}

const int64_t tl_rows = TL_ROWS;       /* of a tile */
const int64_t tl_columns = TL_COLUMNS; /* of a tile */
const int64_t tl_fixed_block = FIXED_BLOCK;
const int64_t tl_at_once = FX_AT_ONCE;
