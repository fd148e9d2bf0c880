/* Runs in lists of indices. */
#include "bm_layer_move.h"

int bm_order_at(const void *list, int i) { return ((const int *)list)[i]; }

bm_runs bm_runs_of(bm_index_at at, const void *list, int i, int count, bool backwards) {
    const int left = count - i;
    bm_runs r = {1, 0, 1, 0};
    if (left > 1) r.step = at(list, i + 1) - at(list, i);
    if (r.step < 0 && !backwards) r.step = 0;
    while (r.length < left && at(list, i + r.length) - at(list, i + r.length - 1) == r.step) r.length++;
    if (2 * r.length <= left) r.again = at(list, i + r.length) - at(list, i);
    if (r.again < 0 && !backwards) r.again = 0;
    for (; (r.repeats + 1) * r.length <= left; r.repeats++)
        for (int k = 0; k < r.length; k++)
            if (at(list, i + r.repeats * r.length + k) != at(list, i + k) + r.repeats * r.again) return r;
    return r;
}
