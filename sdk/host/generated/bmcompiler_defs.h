/* Generated with the toolkit from user_layers/bmcompiler; changes here are lost. */
#ifndef BMCOMPILER_DEFS_H_
#define BMCOMPILER_DEFS_H_

#define ARCH_BM1684 "BM1684"

#ifndef BMCOMPILER_TYPES_DEFINED
#define BMCOMPILER_TYPES_DEFINED
typedef enum {
    DTYPE_FP32 = 0,
    DTYPE_FP16 = 1,
    DTYPE_INT8 = 2,
    DTYPE_UINT8 = 3,
    DTYPE_INT16 = 4,
    DTYPE_UINT16 = 5,
    DTYPE_INT32 = 6,
    DTYPE_UINT32 = 7
} DATA_TYPE_T;

typedef enum {
    BMNET_NEURON = 0,       /* aligned layout */
    BMNET_COEFF = 1,        /* compact layout, address a multiple of 4 */
    BMNET_COEFF_NEURON = 2, /* compact layout, address a multiple of 128 */
    BMNET_COEFF_FC = 3,
    BMNET_COEFF_WINOGRAD = 4,
    BMNET_NEURON_FC = 5,
    BMNET_NEURON_CONST = 6,
    BMNET_NEURON_SHAPE = 7, /* small integers that the controller reads through host_data */
    BMNET_NEURON_CPU = 8,
    BMNET_NEURON_ARRAY = 9,
    BMNET_NEURON_FLOW = 10,
    BMNET_NEURON_3IC = 11
} TENSOR_TYPE_T;

typedef enum { STORE_MODE_1N = 0, STORE_MODE_2N = 1, STORE_MODE_4N = 2 } STORE_MODE_T;
#endif
#endif
