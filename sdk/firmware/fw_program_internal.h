/* What the interpreters of fixed and of dynamic programs share: the steps (fw_steps.c). */
#ifndef FW_PROGRAM_INTERNAL_H
#define FW_PROGRAM_INTERNAL_H

#include "fw_internal.h"

/* The newest ids at the end of a step, and how often the ids had begun again. */
typedef struct {
    uint32_t bd_id, gdma_id, restarts;
} fw_mark;

/* A program that was read and checked. */
typedef struct {
    const fw_run *run;
    const fw_program *head;
    const fw_program_tensor *records;
    const fw_step *steps;
    const uint8_t *data;
    tpu_tensor_t *tensors; /* one for each record */
    fw_mark *marks;        /* one for each step; of dynamic programs, those that ran on tiles */
} program;

/* One step with its references resolved. */
typedef struct {
    uint32_t index;
    const fw_step *record;
    const char *name;
    const char *label; /* the name, of layer calls with the op; lives until the request ends */
    const void *param;
    uint32_t in[FW_MAX_TENSORS], out[FW_MAX_TENSORS];
} step;

/* What a step of this opcode takes; NULL for an unknown one. */
const fw_step_kind *fw_step_kind_of(uint32_t opcode);
void fw_step_load(const program *p, uint32_t index, step *s);
void fw_step_copy(const step *s, const tpu_tensor_t *in, const tpu_tensor_t *out);
fw_layer_args fw_step_call(const step *s, const tpu_tensor_t *in, tpu_tensor_t *out);

/* Runs a step with the tensors as they are now (LOCAL or GLOBAL: calls the layer). */
void fw_step_run(program *p, const step *s);
/* Whether a local function loads its output itself, from inputs in DDR. */
bool fw_step_gathers(const program *p, const step *s);
/* Whether a local function stores its output itself, from an input in local memory. */
bool fw_step_scatters(const program *p, const step *s);
/* Notes that a step is done, for those that wait for it. */
void fw_step_mark(program *p, uint32_t index);

/* Runs a dynamic program: infers shapes, allocates neurons, calls layers; out gets the shapes. */
void fw_dynamic_run(program *p, const tpu_tensor_t *in, tpu_tensor_t *out);

#endif
