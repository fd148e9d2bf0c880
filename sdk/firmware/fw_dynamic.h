/* What the steps of dynamic programs (fw_dynamic_run.c) share: tensors, their memory (fw_dynamic.c) and groups
 * (fw_group.c). */
#ifndef FW_DYNAMIC_H
#define FW_DYNAMIC_H

#include "fw_program_internal.h"

typedef struct {
    uint64_t addr, bytes;
    uint32_t users; /* tensors that live in it */
} block;

typedef struct {
    uint64_t addr, bytes;
    block *blocks; /* in use, by address */
    uint32_t count, room;
} pool;

typedef struct {
    program *p;
    pool memory;
    bool *ready;             /* has shape and address */
    tpu_tensor_t **inferred; /* what a group's layers make, before anything of it runs; else NULL */
    const tpu_tensor_t *in;
    tpu_tensor_t *out;
} state;

/* Makes room for what a program needs, whose p, in and out are given, and takes its inputs and constants. */
void fw_dynamic_begin(state *d);
/* A block of the neuron memory; fails, in the name of a layer, where there is none. */
uint64_t fw_dynamic_allocate(state *d, uint64_t bytes, const char *layer);
void fw_dynamic_free(state *d, uint64_t addr);
/* Fails for a tensor of the program that is larger than its compiled maximum, or of another kind. */
void fw_dynamic_check(const state *d, uint32_t index, const tpu_tensor_t *t, const char *layer);
/* The inputs of a step; fails for those that do not exist. */
void fw_dynamic_gather(const state *d, const step *s, tpu_tensor_t *in);
/* Gathers the inputs of a layer and calls its shape function; fails for inputs that do not exist. in and out have room
 * for FW_MAX_TENSORS and live as long as what is returned, which calls the layer with them. */
fw_layer_args fw_dynamic_infer(const state *d, const step *s, tpu_tensor_t *in, tpu_tensor_t *out);
/* Gives output `index` of the program its address; fails over the compiled maximum. */
void fw_dynamic_place(state *d, const step *s, uint32_t index, tpu_tensor_t *t);
void fw_dynamic_settle(state *d, uint32_t index, const tpu_tensor_t *t);
/* Releases the neurons that step `index` was the last to use. */
void fw_dynamic_release(state *d, uint32_t index);

/* Runs the group that step s begins and returns the step with which the program goes on: for shapes that its tiles do
 * not allow the first of those that do the same on DDR data, which have not run then. */
uint32_t fw_group_run(state *d, const step *s);

#endif
