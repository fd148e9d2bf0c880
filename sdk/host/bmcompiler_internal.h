/* What the functions of libbmcompiler.so (bmcompiler_calls.c, generated from user_layers/bmcompiler) are made of. */
#ifndef TPULAYER_BMCOMPILER_INTERNAL_H_
#define TPULAYER_BMCOMPILER_INTERNAL_H_

#include <stddef.h>
#include <stdint.h>

#include "bmcompiler_if.h"

/* The arguments of one call. After the first thing that is wrong, `wrong` says what, and nothing is added. */
typedef struct {
    const char *function;
    const char *wrong;
    char *data;
    size_t size, room;
} message;

message message_begin(const char *function);
void put_int(message *m, int value);
void put_float(message *m, float value);
/* NULL is sent as such. A negative count is not: the server sees it in its own parameter. */
void put_text(message *m, const char *text);
void put_bytes(message *m, const void *data, int64_t size);
void put_ints(message *m, const int *values, int64_t count);
void put_floats(message *m, const float *values, int64_t count);
void put_texts(message *m, const char *const *texts, int64_t count);
void put_shapes(message *m, const int *const *shapes, const int *dims, int64_t count);
/* Data of tensors, whose sizes the server is asked for. */
void put_arrays(message *m, void *p_bmcpl, const char *const *names, float *const *data, int64_t count);

/* How many numbers an array has: a product divided by `per`; 0 where that makes no sense, which the server sees. */
int64_t product_of(message *m, const int64_t *terms, int count, int64_t per);
/* The product of `number` extents from `axis` on; number -1: of all the rest; a negative axis counts from the end. */
int64_t extents(const int *shape, int dims, int axis, int number);
const int *first_shape(const int *const *shapes, int count);
int first_int(const int *values, int count);

/* Each of these sends the message and frees it. */
void *message_create(message *m);
void message_call(void *p_bmcpl, message *m);
int message_value(void *p_bmcpl, message *m);
/* ... and p_bmcpl with it. */
void message_end(void *p_bmcpl, message *m);
void message_data(void *p_bmcpl, message *m, void **data, unsigned int *size);

/* After message_call of a function that adds one layer: the shapes of its outputs, of as many numbers as these have
 * dimensions, which the server is asked for. */
void message_shapes(void *p_bmcpl, const char *function, const int *const *shapes, int count);

#endif
