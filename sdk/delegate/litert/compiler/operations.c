/* What LiteRT's operations are called, and how their options are read: TFLite's codes, and places in LiteRT's table. */
#include "operations.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {
    "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE", "DEQUANTIZE",
    "EMBEDDING_LOOKUP", "FLOOR", "FULLY_CONNECTED", "HASHTABLE_LOOKUP", "L2_NORMALIZATION", "L2_POOL_2D",
    "LOCAL_RESPONSE_NORMALIZATION", "LOGISTIC", "LSH_PROJECTION", "LSTM", "MAX_POOL_2D", "MUL", "RELU",
    "RELU_N1_TO_1", "RELU6", "RESHAPE", "RESIZE_BILINEAR", "RNN", "SOFTMAX", "SPACE_TO_DEPTH", "SVDF", "TANH",
    "CONCAT_EMBEDDINGS", "SKIP_GRAM", "CALL", "CUSTOM", "EMBEDDING_LOOKUP_SPARSE", "PAD",
    "UNIDIRECTIONAL_SEQUENCE_RNN", "GATHER", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "TRANSPOSE", "MEAN", "SUB",
    "DIV", "SQUEEZE", "UNIDIRECTIONAL_SEQUENCE_LSTM", "STRIDED_SLICE", "BIDIRECTIONAL_SEQUENCE_RNN", "EXP",
    "TOPK_V2", "SPLIT", "LOG_SOFTMAX", "DELEGATE", "BIDIRECTIONAL_SEQUENCE_LSTM", "CAST", "PRELU", "MAXIMUM",
    "ARG_MAX", "MINIMUM", "LESS", "NEG", "PADV2", "GREATER", "GREATER_EQUAL", "LESS_EQUAL", "SELECT", "SLICE",
    "SIN", "TRANSPOSE_CONV", "SPARSE_TO_DENSE", "TILE", "EXPAND_DIMS", "EQUAL", "NOT_EQUAL", "LOG", "SUM", "SQRT",
    "RSQRT", "SHAPE", "POW", "ARG_MIN", "FAKE_QUANT", "REDUCE_PROD", "REDUCE_MAX", "PACK", "LOGICAL_OR", "ONE_HOT",
    "LOGICAL_AND", "LOGICAL_NOT", "UNPACK", "REDUCE_MIN", "FLOOR_DIV", "REDUCE_ANY", "SQUARE", "ZEROS_LIKE", "FILL",
    "FLOOR_MOD", "RANGE", "RESIZE_NEAREST_NEIGHBOR", "LEAKY_RELU", "SQUARED_DIFFERENCE", "MIRROR_PAD", "ABS",
    "SPLIT_V", "UNIQUE", "CEIL", "REVERSE_V2", "ADD_N", "GATHER_ND", "COS", "WHERE", "RANK", "ELU",
    "REVERSE_SEQUENCE", "MATRIX_DIAG", "QUANTIZE", "MATRIX_SET_DIAG", "ROUND", "HARD_SWISH", "IF", "WHILE",
    "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "SCATTER_ND", "SELECT_V2", "DENSIFY", "SEGMENT_SUM",
    "BATCH_MATMUL", "PLACEHOLDER_FOR_GREATER_OP_CODES", "CUMSUM", "CALL_ONCE", "BROADCAST_TO", "RFFT2D", "CONV_3D",
    "IMAG", "REAL", "COMPLEX_ABS", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE",
    "REDUCE_ALL", "CONV_3D_TRANSPOSE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "BROADCAST_ARGS",
    "RANDOM_STANDARD_NORMAL", "BUCKETIZE", "RANDOM_UNIFORM", "MULTINOMIAL", "GELU", "DYNAMIC_UPDATE_SLICE",
    "RELU_0_TO_1", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_SUM", "ATAN2",
    "UNSORTED_SEGMENT_MIN", "SIGN", "BITCAST", "BITWISE_XOR", "RIGHT_SHIFT", "STABLEHLO_LOGISTIC", "STABLEHLO_ADD",
    "STABLEHLO_DIVIDE", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM", "STABLEHLO_RESHAPE", "STABLEHLO_CLAMP",
    "STABLEHLO_CONCATENATE", "STABLEHLO_BROADCAST_IN_DIM", "STABLEHLO_CONVOLUTION", "STABLEHLO_SLICE",
    "STABLEHLO_CUSTOM_CALL", "STABLEHLO_REDUCE", "STABLEHLO_ABS", "STABLEHLO_AND", "STABLEHLO_COSINE",
    "STABLEHLO_EXPONENTIAL", "STABLEHLO_FLOOR", "STABLEHLO_LOG", "STABLEHLO_MINIMUM", "STABLEHLO_NEGATE",
    "STABLEHLO_OR", "STABLEHLO_POWER", "STABLEHLO_REMAINDER", "STABLEHLO_RSQRT", "STABLEHLO_SELECT",
    "STABLEHLO_SUBTRACT", "STABLEHLO_TANH", "STABLEHLO_SCATTER", "STABLEHLO_COMPARE", "STABLEHLO_CONVERT",
    "STABLEHLO_DYNAMIC_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE", "STABLEHLO_PAD", "STABLEHLO_IOTA",
    "STABLEHLO_DOT_GENERAL", "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_SORT", "STABLEHLO_WHILE", "STABLEHLO_GATHER",
    "STABLEHLO_TRANSPOSE", "DILATE", "STABLEHLO_RNG_BIT_GENERATOR", "REDUCE_WINDOW", "STABLEHLO_COMPOSITE",
    "STABLEHLO_SHIFT_LEFT", "STABLEHLO_CBRT",
};

typedef enum { I, U, B, F } option_type; /* int32, uint32 (an enumeration), bool, float */

/* Shapes say the rest: lengths, numbers of parts, whether dimensions are kept. */
static const struct {
    uint16_t code, at; /* at: of the function in the table */
    option_type type;
    const char *name;
} options[] = {
    {0, 504, U, "fused_activation_function"}, /* ADD */
    {1, 672, U, "padding"}, /* AVERAGE_POOL_2D */
    {1, 680, I, "stride_w"}, /* AVERAGE_POOL_2D */
    {1, 688, I, "stride_h"}, /* AVERAGE_POOL_2D */
    {1, 712, U, "fused_activation_function"}, /* AVERAGE_POOL_2D */
    {1, 696, I, "filter_width"}, /* AVERAGE_POOL_2D */
    {1, 704, I, "filter_height"}, /* AVERAGE_POOL_2D */
    {2, 576, I, "axis"}, /* CONCATENATION */
    {2, 584, U, "fused_activation_function"}, /* CONCATENATION */
    {3, 368, U, "padding"}, /* CONV_2D */
    {3, 376, I, "stride_w"}, /* CONV_2D */
    {3, 384, I, "stride_h"}, /* CONV_2D */
    {3, 392, U, "fused_activation_function"}, /* CONV_2D */
    {3, 400, I, "dilation_w_factor"}, /* CONV_2D */
    {3, 408, I, "dilation_h_factor"}, /* CONV_2D */
    {4, 416, U, "padding"}, /* DEPTHWISE_CONV_2D */
    {4, 424, I, "stride_w"}, /* DEPTHWISE_CONV_2D */
    {4, 432, I, "stride_h"}, /* DEPTHWISE_CONV_2D */
    {4, 448, U, "fused_activation_function"}, /* DEPTHWISE_CONV_2D */
    {4, 456, I, "dilation_w_factor"}, /* DEPTHWISE_CONV_2D */
    {4, 464, I, "dilation_h_factor"}, /* DEPTHWISE_CONV_2D */
    {4, 440, I, "depth_multiplier"}, /* DEPTHWISE_CONV_2D */
    {5, 976, I, "block_size"}, /* DEPTH_TO_SPACE */
    {9, 528, U, "fused_activation_function"}, /* FULLY_CONNECTED */
    {9, 536, U, "weights_format"}, /* FULLY_CONNECTED */
    {9, 544, B, "keep_num_dims"}, /* FULLY_CONNECTED */
    {12, 928, U, "padding"}, /* L2_POOL_2D */
    {12, 936, I, "stride_w"}, /* L2_POOL_2D */
    {12, 944, I, "stride_h"}, /* L2_POOL_2D */
    {12, 968, U, "fused_activation_function"}, /* L2_POOL_2D */
    {12, 952, I, "filter_width"}, /* L2_POOL_2D */
    {12, 960, I, "filter_height"}, /* L2_POOL_2D */
    {17, 720, U, "padding"}, /* MAX_POOL_2D */
    {17, 728, I, "stride_w"}, /* MAX_POOL_2D */
    {17, 736, I, "stride_h"}, /* MAX_POOL_2D */
    {17, 760, U, "fused_activation_function"}, /* MAX_POOL_2D */
    {17, 744, I, "filter_width"}, /* MAX_POOL_2D */
    {17, 752, I, "filter_height"}, /* MAX_POOL_2D */
    {18, 512, U, "fused_activation_function"}, /* MUL */
    {23, 616, B, "align_corners"}, /* RESIZE_BILINEAR */
    {23, 624, B, "half_pixel_centers"}, /* RESIZE_BILINEAR */
    {25, 568, F, "beta"}, /* SOFTMAX */
    {26, 984, I, "block_size"}, /* SPACE_TO_DEPTH */
    {36, 848, I, "axis"}, /* GATHER */
    {36, 856, I, "batch_dims"}, /* GATHER */
    {41, 352, U, "fused_activation_function"}, /* SUB */
    {42, 520, U, "fused_activation_function"}, /* DIV */
    {45, 304, I, "begin_mask"}, /* STRIDED_SLICE */
    {45, 312, I, "end_mask"}, /* STRIDED_SLICE */
    {45, 328, I, "ellipsis_mask"}, /* STRIDED_SLICE */
    {45, 336, I, "new_axis_mask"}, /* STRIDED_SLICE */
    {45, 320, I, "shrink_axis_mask"}, /* STRIDED_SLICE */
    {45, 344, B, "offset"}, /* STRIDED_SLICE */
    {67, 472, U, "padding"}, /* TRANSPOSE_CONV */
    {67, 480, I, "stride_w"}, /* TRANSPOSE_CONV */
    {67, 488, I, "stride_h"}, /* TRANSPOSE_CONV */
    {67, 496, U, "fused_activation_function"}, /* TRANSPOSE_CONV */
    {83, 808, I, "axis"}, /* PACK */
    {85, 824, I, "axis"}, /* ONE_HOT */
    {88, 832, I, "axis"}, /* UNPACK */
    {97, 632, B, "align_corners"}, /* RESIZE_NEAREST_NEIGHBOR */
    {97, 640, B, "half_pixel_centers"}, /* RESIZE_NEAREST_NEIGHBOR */
    {98, 768, F, "alpha"}, /* LEAKY_RELU */
    {100, 1016, U, "mode"}, /* MIRROR_PAD */
    {126, 648, B, "adj_x"}, /* BATCH_MATMUL */
    {126, 656, B, "adj_y"}, /* BATCH_MATMUL */
    {128, 992, B, "exclusive"}, /* CUMSUM */
    {128, 1000, B, "reverse"}, /* CUMSUM */
    {132, 864, U, "padding"}, /* CONV_3D */
    {132, 880, I, "stride_w"}, /* CONV_3D */
    {132, 888, I, "stride_h"}, /* CONV_3D */
    {132, 896, U, "fused_activation_function"}, /* CONV_3D */
    {132, 872, I, "stride_d"}, /* CONV_3D */
    {132, 904, I, "dilation_d_factor"}, /* CONV_3D */
    {132, 912, I, "dilation_w_factor"}, /* CONV_3D */
    {132, 920, I, "dilation_h_factor"}, /* CONV_3D */
    {150, 1008, B, "approximate"}, /* GELU */
};

const char *operation_kind(int code) {
    return code >= 0 && (size_t)code < sizeof kinds / sizeof *kinds ? kinds[code] : NULL;
}

/* A function of the table by its place; NULL where this LiteRT has none. */
static void *function_at(const litert_compiler *c, size_t at) {
    void *found = NULL;
    if (at + sizeof found <= c->abi.struct_size) memcpy(&found, (const char *)c + at, sizeof found);
    return found;
}

static litert_status read_option(void *function, option_type type, litert_handle op, double *value) {
    union {
        void *any;
        litert_status (*of_int)(litert_handle, int32_t *);
        litert_status (*of_enum)(litert_handle, uint32_t *);
        litert_status (*of_bool)(litert_handle, bool *);
        litert_status (*of_float)(litert_handle, float *);
    } get = {.any = function};
    int32_t i = 0;
    uint32_t u = 0;
    bool b = false;
    float f = 0;
    litert_status status = LITERT_UNSUPPORTED;
    switch (type) {
    case I: status = get.of_int(op, &i); *value = i; break;
    case U: status = get.of_enum(op, &u); *value = u; break;
    case B: status = get.of_bool(op, &b); *value = b; break;
    case F: status = get.of_float(op, &f); *value = (double)f; break;
    }
    return status;
}

void operation_options(const litert_compiler *c, litert_handle op, int code, option_visit visit, void *with) {
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        if (options[k].code != code) continue;
        double value = 0;
        void *function = function_at(c, options[k].at);
        /* What is stored without options has TFLite's defaults, which the spellings know. */
        if (function == NULL || read_option(function, options[k].type, op, &value) != LITERT_OK) continue;
        char text[40];
        snprintf(text, sizeof text, options[k].type == F ? "%.9g" : "%.0f", value);
        if (isnan(value)) strcpy(text, "NaN"); /* as Python reads them */
        if (isinf(value)) strcpy(text, value > 0 ? "Infinity" : "-Infinity");
        visit(with, options[k].name, text);
    }
}
