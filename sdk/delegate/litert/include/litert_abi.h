/* What LiteRT 2.x hands to compiler plugins and dispatch libraries, as far as these two use it. The tables of functions
 * only grow: a member is there if the struct_size that the table begins with reaches behind it. */
#ifndef TPULAYER_LITERT_ABI_H_
#define TPULAYER_LITERT_ABI_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LITERT_EXPORT __attribute__((visibility("default")))

typedef int litert_status;
enum {
    LITERT_OK = 0,
    LITERT_BAD_ARGUMENT = 1,
    LITERT_NO_MEMORY = 2,
    LITERT_FAILURE = 3,
    LITERT_UNSUPPORTED = 5,
    LITERT_WRONG_VERSION = 8,
    LITERT_COMPILATION = 504,
    LITERT_INDEX = 1000
};

typedef void *litert_handle; /* of models, subgraphs, operations, tensors, buffers, options, environments */

typedef struct {
    uint16_t struct_size, major, minor, reserved;
} litert_abi;

typedef struct {
    int major, minor, patch;
} litert_version;

enum { LITERT_MAX_RANK = 8 };

typedef struct {
    unsigned rank : 7;
    unsigned has_strides : 1;
    int32_t dims[LITERT_MAX_RANK];
    uint32_t strides[LITERT_MAX_RANK];
} litert_layout;

typedef struct {
    int element_type;
    litert_layout layout;
} litert_ranked;

enum { LITERT_PER_TENSOR = 1, LITERT_PER_CHANNEL = 2 };

typedef struct {
    float scale;
    int64_t zero_point;
} litert_per_tensor;

typedef struct {
    int32_t axis;
    uint64_t num;
    const float *scales;
    const int64_t *zero_points;
} litert_per_channel;

enum { LITERT_ANY_INT = 2 };

typedef struct {
    int type;
    union {
        bool truth;
        int64_t number;
        double real;
        const char *text;
        const void *pointer;
    };
} litert_any;

typedef struct {
    const char *name;
    litert_any value;
} litert_metric;

_Static_assert(sizeof(litert_ranked) == 72, "LiteRT's ranked tensor type has 72 bytes");
_Static_assert(sizeof(litert_any) == 16, "LiteRT's any has 16 bytes");

#endif
