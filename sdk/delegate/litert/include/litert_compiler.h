/* The table that LiteRT gives a compiler plugin, up to the last member that is used. */
#ifndef TPULAYER_LITERT_COMPILER_H_
#define TPULAYER_LITERT_COMPILER_H_

#include "litert_abi.h"

typedef struct {
    litert_abi abi;
    litert_status (*get_num_model_subgraphs)(litert_handle model, size_t *num);
    litert_status (*get_model_subgraph)(litert_handle model, size_t index, litert_handle *subgraph);
    litert_status (*get_num_subgraph_ops)(litert_handle subgraph, size_t *num);
    litert_status (*get_subgraph_op)(litert_handle subgraph, size_t index, litert_handle *op);
    litert_status (*get_num_subgraph_inputs)(litert_handle subgraph, size_t *num);
    litert_status (*get_subgraph_input)(litert_handle subgraph, size_t index, litert_handle *tensor);
    litert_status (*get_num_subgraph_outputs)(litert_handle subgraph, size_t *num);
    litert_status (*get_subgraph_output)(litert_handle subgraph, size_t index, litert_handle *tensor);
    litert_status (*get_op_code)(litert_handle op, int *code);
    litert_status (*get_custom_code)(litert_handle op, const char **code);
    litert_status (*get_num_op_inputs)(litert_handle op, size_t *num);
    litert_status (*get_op_input)(litert_handle op, size_t index, litert_handle *tensor);
    litert_status (*get_num_op_outputs)(litert_handle op, size_t *num);
    litert_status (*get_op_output)(litert_handle op, size_t index, litert_handle *tensor);
    litert_status (*get_tensor_name)(litert_handle tensor, const char **name);
    litert_status (*get_tensor_index)(litert_handle tensor, uint32_t *index);
    litert_status (*get_tensor_type_id)(litert_handle tensor, int *type);
    litert_status (*get_ranked_tensor_type)(litert_handle tensor, litert_ranked *type);
    void *unranked_tensor_type;
    litert_status (*get_quantization_type_id)(litert_handle tensor, int *type);
    litert_status (*get_per_tensor)(litert_handle tensor, litert_per_tensor *quantization);
    litert_status (*get_per_channel)(litert_handle tensor, litert_per_channel *quantization);
    void *uses[3];
    litert_status (*get_tensor_weights)(litert_handle tensor, litert_handle *weights);
    litert_status (*get_weights_buffer_id)(litert_handle weights, int32_t *id);
    litert_status (*get_weights_bytes)(litert_handle weights, const void **data, size_t *size);
    litert_status (*get_composite_name)(litert_handle op, const char **name);
    void *composites[3];
    litert_status (*push_op)(litert_handle ops, litert_handle op, size_t partition);
    litert_status (*get_opaque_options)(litert_handle options, litert_handle *opaque);
    litert_status (*find_opaque_data)(litert_handle opaque, const char *identifier, void **data);
    void *options[93];
    litert_status (*get_custom_options)(litert_handle op, const uint8_t **options, int32_t *size);
} litert_compiler;

_Static_assert(offsetof(litert_compiler, get_tensor_weights) == 208, "LiteRT's table of functions");
_Static_assert(offsetof(litert_compiler, get_composite_name) == 232, "LiteRT's table of functions");
_Static_assert(offsetof(litert_compiler, push_op) == 264, "LiteRT's table of functions");
_Static_assert(offsetof(litert_compiler, get_custom_options) == 1032, "LiteRT's table of functions");

#endif
