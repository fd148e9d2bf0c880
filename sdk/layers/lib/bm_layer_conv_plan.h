/* How a convolution on DDR data is cut into tiles that fit into local memory. */
#ifndef BM_LAYER_CONV_PLAN_H
#define BM_LAYER_CONV_PLAN_H

#include "bm_layer_axis.h"
#include "bm_layer_conv.h"
#include "bm_layer_joined.h"
#include "bm_layer_local.h"

/* 8 bits: everything counts words, each of four batches or of a tap's weights for four input channels; the input
 * channels of a group are not cut, since the unit cannot add to 8-bit results. */
typedef struct {
    int n, groups;
    int in_c, out_c;   /* per group */
    int weight_words;  /* of one output channel and one set of input channels; depthwise: of one channel */
    window_axis h, w;
    bool depthwise, bias;
    bool joined; /* the bias lies behind the weights of each channel */
    bool turned; /* the kernel is turned by half a turn */
    bool phased; /* by phases of the stride: bm_conv_phases */
    bool taps;   /* tap by tap: bm_conv_compute */
    bool filled; /* the pads are zeros in local memory */
    const conv_quantised *bytes; /* NULL: fp32 */
} conv_problem;

/* Input channels of a group as the instruction is told. It takes longer for fewer than four than for four, so three
 * and less have zeros beside them. */
static inline int bm_conv_told(int groups, int in_c) { return groups == 1 && in_c < 4 ? 4 : in_c; }

/* Sets of input channels that a group's weights have: pairs in fp32, fours in 8 bits. */
static inline int bm_conv_weight_sets(int groups, int in_c, bool bytes) {
    return bytes ? divide_up(in_c, 4) : divide_up(bm_conv_told(groups, in_c), 2);
}

/* Input channels of a group as the instruction is told. */
static inline int bm_conv_channels(const conv_problem *p) {
    return p->bytes != NULL ? p->in_c : bm_conv_told(p->groups, p->in_c);
}

/* Whether strides or dilations go beyond those of the instruction. */
static inline bool bm_conv_by_taps(const conv_problem *p) {
    return !bm_axis_in_instruction(&p->h) || !bm_axis_in_instruction(&p->w);
}

static inline bool bm_conv_has_pads(const conv_problem *p) {
    return (p->h.before | p->h.after | p->w.before | p->w.after) != 0;
}

/* Zeros in the channels beside the input's that the instruction is told of; `bytes` of each lane. */
void bm_conv_zero_beside(const conv_problem *p, local_addr_t input, long long bytes);

/* Extents of the tiles, how many there are, and where the buffers lie. Output channels and input channels are
 * cut only where a tile has one group. */
typedef struct {
    int group, out_c, in_c, n, h, w;
    int groups, out_cs, in_cs, ns, hs, ws;
    bool tiles_outer; /* weights change within a tile; otherwise tiles change below the same weights */
    local_addr_t input[2], output[2], weight[2], bias[2];
    local_addr_t phases; /* of the output, one after the other */
} conv_plan;

/* Of a tile; tiles of fewer channels than a group has are of four at least. */
static inline int bm_conv_sets(const conv_problem *p, int in_c) {
    if (p->depthwise) return 1;
    return in_c == p->in_c ? bm_conv_weight_sets(p->groups, in_c, p->bytes != NULL) : divide_up(in_c, 2);
}

/* Words of one output channel, for in_c input channels of a group. */
static inline int bm_conv_channel_words(const conv_problem *p, int in_c) {
    return bm_conv_sets(p, in_c) * p->weight_words + (p->joined ? CONV_JOINED : 0);
}

/* Whether columns that no window of the tile sees come along, so that rows lie together in DDR. Where a transposed
 * convolution leaves out more than its kernel reaches over, they would move its windows, or give more of them. */
static inline bool bm_conv_all_columns(const conv_problem *p, const conv_plan *t) {
    return t->w == p->w.out && !p->filled && p->w.insert == 0 && p->w.before >= 0 && p->w.after >= 0 &&
           p->w.size + p->w.before <= CHIP_WINDOW_SIDE_MAX;
}

/* Bytes per NPU of the input of a tile. */
long long bm_conv_input_bytes(const conv_problem *p, const conv_plan *t);

/* The plan that costs least. False: not even one output element with four input channels fits. */
bool bm_conv_make_plan(const conv_problem *p, conv_plan *best);

#endif
