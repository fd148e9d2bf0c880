/* When each command of a batch ends; see firmware_sim.again. */
#include "loops.h"

/* Commands in the order of replay: engine, wait (place in the other engine's ends of what it waits for), cycles; start:
 * f64[2], when the batch begins, and what passes between the issue of one command and the next; ends of either engine
 * (f64[its commands + 1], the first one is known). */
int64_t timeline_ends(const tl_arg *a) {
    const int64_t *engine = a[0].data, *wait = a[1].data, count = a[0].shape[0];
    const double *cycles = a[2].data, *start = a[3].data;
    double *const ends[2] = {a[4].data, a[5].data};
    int64_t done[2] = {0, 0};
    double issued = start[0];
    for (int64_t k = 0; k < count; k++) {
        double *const own = ends[engine[k]] + done[engine[k]]++;
        issued += start[1];
        const double ready = ends[1 - engine[k]][wait[k]], begin = issued > ready ? issued : ready;
        own[1] = (begin > own[0] ? begin : own[0]) + cycles[k];
    }
    return TL_DONE;
}
