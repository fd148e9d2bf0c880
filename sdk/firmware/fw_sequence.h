/* Sequences of okk_sfu.c that other files use: aligned tensors, work apart from dst. */
#ifndef FW_SEQUENCE_H
#define FW_SEQUENCE_H

#include "fw_bd.h"

void fw_exponential(operand dst, operand src, operand work, const dim4 *shape, int num_series);
void fw_sigmoid(operand dst, operand src, operand work, const dim4 *shape, int num_series);
void fw_tanh(operand dst, operand src, operand work, const dim4 *shape, int num_series);

#endif
