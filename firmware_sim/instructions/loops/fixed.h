/* How many elements firmware_sim.instructions.arithmetic_fixed works on at once: all of them are read before any is
 * written. */
#ifndef TPULAYER_FIXED_H
#define TPULAYER_FIXED_H

enum { FIXED_BLOCK = 512 };

#endif
