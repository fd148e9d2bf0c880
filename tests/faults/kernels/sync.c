/* Ids, polls and sections. */
#include "faults.h"

typedef struct {
    unsigned bd, gdma, in_parallel;
} node_t;

/* Waits for a GDMA command that is never issued. */
void waits_for_what_never_comes(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    node_t node = {0, 9, 0};
    okk_initialize();
    okk_bdc_32bit_set_C(0, (x32){.fp32 = 1}, &shape, NULL);
    node.bd = 1;
    okk_set_id_node(&node); /* FAULT sync.never */
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL); /* FAULT sync.never */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL); /* FAULT sync.never */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(waits_for_what_never_comes)

/* Both engines are told that the other one is ahead. */
void both_wait(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    node_t node = {5, 5, 0};
    okk_initialize();
    okk_set_id_node(&node);
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL); /* FAULT sync.never */
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL); /* FAULT sync.never */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL); /* FAULT sync.never */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(both_wait)

/* The BD counter is set ahead "to be safe": the store waits for numbers in between that nobody has. */
void ids_left_out(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    node_t node;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_get_id_node(&node);
    node.bd += 3;
    okk_set_id_node(&node);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL); /* FAULT sync.never */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(ids_left_out)

/* Returns without a poll. */
void never_polls(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL); /* FAULT sync.no_poll */
}
OKKERNEL_FUNC_REGISTER(never_polls)

/* Polls, then stores. */
void stores_behind_the_poll(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_poll();
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL); /* FAULT sync.no_poll */
}
OKKERNEL_FUNC_REGISTER(stores_behind_the_poll)

/* One of two ways out has no poll. */
void early_return(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(p->out, p->in, &shape, NULL, NULL); /* FAULT sync.no_poll */
    if (p->k == 0) return;
    okk_gdma_32bit_cpy_S2L(0, p->out, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, (float)p->k, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(early_return)

/* Polls inside the loop only when there is another batch. */
void no_poll_for_the_last(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    const unsigned long long bytes = (unsigned long long)p->c * p->h * p->w * FLOAT;
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        okk_gdma_32bit_cpy_S2L(0, p->in + n * bytes, &one, NULL, NULL);
        okk_bdc_relu(0, 0, &one, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->out + n * bytes, 0, &one, NULL, NULL); /* FAULT sync.no_poll */
        if (n + 1 < p->n) okk_poll();
    }
}
OKKERNEL_FUNC_REGISTER(no_poll_for_the_last)

/* A section is left open. */
void section_left_open(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_parallel_start(); /* FAULT */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL); /* FAULT sync.no_poll */
}
OKKERNEL_FUNC_REGISTER(section_left_open)

/* A section inside a section. */
void section_twice(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_parallel_start();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_parallel_start(); /* FAULT */
    okk_gdma_32bit_cpy_S2S(p->out, p->in, &shape, NULL, NULL);
    okk_parallel_end();
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(section_twice)

/* A poll inside a section. */
void poll_in_a_section(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_parallel_start();
    okk_gdma_32bit_cpy_S2S(p->out, p->in, &shape, NULL, NULL);
    okk_poll(); /* FAULT */
    okk_parallel_end();
}
OKKERNEL_FUNC_REGISTER(poll_in_a_section)

/* One end too many, from a branch that opens none. */
void end_without_start(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    if (p->k > 1) okk_parallel_start();
    okk_gdma_32bit_cpy_S2S(p->out, p->in, &shape, NULL, NULL);
    okk_parallel_end(); /* FAULT */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(end_without_start)

/* Ids set back to those from before a load, so that nothing waits for it. */
void ids_set_back(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    node_t node;
    okk_initialize();
    okk_get_id_node(&node);
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_set_id_node(&node); /* FAULT */
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(ids_set_back)
