/* out = factor * a + b over fp32 elements in DDR: what this project offers to hosts and to layers. */
#ifndef SCALE_ADD_H
#define SCALE_ADD_H

/* The argument of the kernel "scale_add", as the host sends it. Addresses are absolute. */
typedef struct __attribute__((packed)) {
    unsigned long long out;
    unsigned long long a;
    unsigned long long b;
    unsigned long long count; /* elements */
    float factor;
} scale_add_args_t;

/* The same for device code: a layer's global function calls it. Any count, also 0; out may be a or b. */
void scale_add_fp32(unsigned long long out, unsigned long long a, unsigned long long b,
                    unsigned long long count, float factor);

#endif
