/* The entries through which the firmware reaches layers. */
#ifndef FW_LAYERS_H
#define FW_LAYERS_H

#include "bmcompiler_tpulayer_device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int (*tpu_shape_entry_t)(int op_type, const void *param, int param_size, const tpu_tensor_t *in_tensors,
                                 int in_num, tpu_tensor_t *out_tensors, int out_num);
typedef int (*tpu_calculate_entry_t)(int op_type, const void *param, int param_size,
                                     const tpu_tensor_t *in_tensors, int in_num, u64 buffer, u64 buffer_size,
                                     tpu_tensor_t *out_tensors, int out_num);

/* Makes these the entries of the user's layers, for an image that defines no tpu_*_entry of its own
 * (a foreign firmware that links firmware_layer.a under other names). */
void set_tpu_entry(tpu_shape_entry_t shape, tpu_calculate_entry_t global, tpu_calculate_entry_t local);

#ifdef __cplusplus
}
#endif
#endif
