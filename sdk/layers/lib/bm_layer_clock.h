/* What transfers cost, for layers that choose between ways to move their data. */
#ifndef BM_LAYER_CLOCK_H
#define BM_LAYER_CLOCK_H

/* Tenths of cycles of the DMA engine, as the clock has them (firmware_sim/isa/timing.py): of a load's and a store's
 * latency, of a burst that is read or written. */
enum { BM_COST_LOADED = 1380, BM_COST_STORED = 460, BM_COST_READ = 13, BM_COST_WRITTEN = 14 };

/* Of a command: what the controller takes to issue it, while others work. Static nets have it for nothing; a plan does
 * not know for whom it is made. */
enum { BM_COST_ISSUED = 20000 };

/* Tenths of cycles of so many parts, of each of which the next one's data move while it is computed. */
long long bm_parts_cost(long long parts, long long move, long long compute, long long commands);

/* Tenths of cycles of so many runs with all of these words, a burst of which costs that much. */
long long bm_transfer_cost(long long runs, long long words, int burst);

#endif
