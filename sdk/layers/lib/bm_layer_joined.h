/* Weights of convolutions that hold the bias; the descriptors lay them out. */
#ifndef BM_LAYER_JOINED_H
#define BM_LAYER_JOINED_H

/* Words of a channel behind its weights where the bias lies with them: a pair, half of it unused. */
#define CONV_JOINED 2

#endif
