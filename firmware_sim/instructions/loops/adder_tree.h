/* The adder tree; see firmware_sim.instructions.adder_tree. */
#ifndef TPULAYER_ADDER_TREE_H
#define TPULAYER_ADDER_TREE_H

#include "loops.h"

/* The sum of one row. steps: f64[256], see STEPS there. */
float tl_tree_row(const float *x, int64_t count, const double *steps);

#endif
