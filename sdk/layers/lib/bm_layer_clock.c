#include "bm_layer_clock.h"

/* Tenths of cycles from a run of a burst or more to the next one, and of a shorter run; words of a burst. */
enum { JUMP = 84, SHORT = 25, BURST = 16 };

long long bm_transfer_cost(long long runs, long long words, int burst) {
    const long long bursts = runs + (words - runs) / BURST;
    if (words >= runs * BURST) return bursts * burst + runs * JUMP;
    return bursts * burst > runs * SHORT ? bursts * burst : runs * SHORT;
}

long long bm_parts_cost(long long parts, long long move, long long compute, long long commands) {
    const long long issue = commands * BM_COST_ISSUED;
    long long longest = move > compute ? move : compute;
    if (issue > longest) longest = issue;
    return move + compute + (parts - 1) * longest;
}
