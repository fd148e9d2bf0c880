/* Generated with the toolkit from user_layers/bmcompiler; changes here are lost. */
#include "bmcompiler_internal.h"

void *create_bmcompiler(const char *chip_name) {
    message m = message_begin(__func__);
    put_text(&m, chip_name);
    return message_create(&m);
}

void *create_bmcompiler_dir(const char *chip_name, const char *dir) {
    message m = message_begin(__func__);
    put_text(&m, chip_name);
    put_text(&m, dir);
    return message_create(&m);
}

void finish_bmcompiler(void *p_bmcpl) {
    message m = message_begin(__func__);
    message_end(p_bmcpl, &m);
}

void finish_bmcompiler_data(void *p_bmcpl, void **bmodel_data, unsigned int *size) {
    message m = message_begin(__func__);
    message_data(p_bmcpl, &m, bmodel_data, size);
}

void delete_bmcompiler(void *p_bmcpl) {
    message m = message_begin(__func__);
    message_end(p_bmcpl, &m);
}

int get_max_layer_id(void *p_bmcpl) {
    message m = message_begin(__func__);
    return message_value(p_bmcpl, &m);
}

void add_layer_name(void *p_bmcpl, int layer_id, const char *layer_name) {
    message m = message_begin(__func__);
    put_int(&m, layer_id);
    put_text(&m, layer_name);
    message_call(p_bmcpl, &m);
}

void __bmcompile(void *p_bmcpl, const char *net_name) {
    message m = message_begin(__func__);
    put_text(&m, net_name);
    message_call(p_bmcpl, &m);
}

void __bmcompile_opt(void *p_bmcpl, const char *net_name, int opt_level) {
    message m = message_begin(__func__);
    put_text(&m, net_name);
    put_int(&m, opt_level);
    message_call(p_bmcpl, &m);
}

void __bmcompile_ir(void *p_bmcpl, const char *net_name) {
    message m = message_begin(__func__);
    put_text(&m, net_name);
    message_call(p_bmcpl, &m);
}

void __bmcompile_ir_opt(void *p_bmcpl, const char *net_name, int opt_level) {
    message m = message_begin(__func__);
    put_text(&m, net_name);
    put_int(&m, opt_level);
    message_call(p_bmcpl, &m);
}

void __bmcompile_ir_opt_no_multistage(void *p_bmcpl, const char *net_name, int opt_level) {
    message m = message_begin(__func__);
    put_text(&m, net_name);
    put_int(&m, opt_level);
    message_call(p_bmcpl, &m);
}

void compile_with_result_check(void *p_bmcpl, char **input_name, float **input_data, int input_num,
    char **refer_name, float **refer_data, int refer_num, const char *net_name) {
    message m = message_begin(__func__);
    put_texts(&m, (const char *const *)input_name, input_num);
    put_arrays(&m, p_bmcpl, (const char *const *)input_name, input_data, input_num);
    put_int(&m, input_num);
    put_texts(&m, (const char *const *)refer_name, refer_num);
    put_arrays(&m, p_bmcpl, (const char *const *)refer_name, refer_data, refer_num);
    put_int(&m, refer_num);
    put_text(&m, net_name);
    message_call(p_bmcpl, &m);
}

void compile_ir_with_result_check(void *p_bmcpl, char **input_name, float **input_data, int input_num,
    char **refer_name, float **refer_data, int refer_num, const char *net_name) {
    message m = message_begin(__func__);
    put_texts(&m, (const char *const *)input_name, input_num);
    put_arrays(&m, p_bmcpl, (const char *const *)input_name, input_data, input_num);
    put_int(&m, input_num);
    put_texts(&m, (const char *const *)refer_name, refer_num);
    put_arrays(&m, p_bmcpl, (const char *const *)refer_name, refer_data, refer_num);
    put_int(&m, refer_num);
    put_text(&m, net_name);
    message_call(p_bmcpl, &m);
}

void add_binary_layer_v2(void *p_bmcpl, const char *input_A_name, const int *input_A_shape, int input_A_dim,
    int A_is_coeff, const float *A_data, const char *input_B_name, const int *input_B_shape, int input_B_dim,
    int B_is_coeff, const float *B_data, const char *output_name, int binary_op) {
    message m = message_begin(__func__);
    put_text(&m, input_A_name);
    put_ints(&m, input_A_shape, input_A_dim);
    put_int(&m, input_A_dim);
    put_int(&m, A_is_coeff);
    put_floats(&m, A_is_coeff ? A_data : NULL, product_of(&m, (int64_t[]){extents(input_A_shape, input_A_dim, 0, -1)}, 1, 1));
    put_text(&m, input_B_name);
    put_ints(&m, input_B_shape, input_B_dim);
    put_int(&m, input_B_dim);
    put_int(&m, B_is_coeff);
    put_floats(&m, B_is_coeff ? B_data : NULL, product_of(&m, (int64_t[]){extents(input_B_shape, input_B_dim, 0, -1)}, 1, 1));
    put_text(&m, output_name);
    put_int(&m, binary_op);
    message_call(p_bmcpl, &m);
}

void add_broadcast_binary_layer_v2(void *p_bmcpl, const char *input_A_name, const int *input_A_shape,
    int input_A_dim, int A_is_coeff, const float *A_data, const char *input_B_name, const int *input_B_shape,
    int input_B_dim, int B_is_coeff, const float *B_data, const char *output_name, int binary_op) {
    message m = message_begin(__func__);
    put_text(&m, input_A_name);
    put_ints(&m, input_A_shape, input_A_dim);
    put_int(&m, input_A_dim);
    put_int(&m, A_is_coeff);
    put_floats(&m, A_is_coeff ? A_data : NULL, product_of(&m, (int64_t[]){extents(input_A_shape, input_A_dim, 0, -1)}, 1, 1));
    put_text(&m, input_B_name);
    put_ints(&m, input_B_shape, input_B_dim);
    put_int(&m, input_B_dim);
    put_int(&m, B_is_coeff);
    put_floats(&m, B_is_coeff ? B_data : NULL, product_of(&m, (int64_t[]){extents(input_B_shape, input_B_dim, 0, -1)}, 1, 1));
    put_text(&m, output_name);
    put_int(&m, binary_op);
    message_call(p_bmcpl, &m);
}

void add_binary_layer(void *p_bmcpl, const char *input_A_name, const int *input_A_shape, int A_is_coeff,
    const float *A_data, const char *input_B_name, const int *input_B_shape, int B_is_coeff,
    const float *B_data, int input_dim, const char *output_name, int binary_op) {
    message m = message_begin(__func__);
    put_text(&m, input_A_name);
    put_ints(&m, input_A_shape, input_dim);
    put_int(&m, A_is_coeff);
    put_floats(&m, A_is_coeff ? A_data : NULL, product_of(&m, (int64_t[]){extents(input_A_shape, input_dim, 0, -1)}, 1, 1));
    put_text(&m, input_B_name);
    put_ints(&m, input_B_shape, input_dim);
    put_int(&m, B_is_coeff);
    put_floats(&m, B_is_coeff ? B_data : NULL, product_of(&m, (int64_t[]){extents(input_B_shape, input_dim, 0, -1)}, 1, 1));
    put_int(&m, input_dim);
    put_text(&m, output_name);
    put_int(&m, binary_op);
    message_call(p_bmcpl, &m);
}

void add_broadcast_binary_layer(void *p_bmcpl, const char *input_A_name, const int *input_A_shape,
    int A_is_coeff, const float *A_data, const char *input_B_name, const int *input_B_shape, int B_is_coeff,
    const float *B_data, int input_dim, const char *output_name, int binary_op) {
    message m = message_begin(__func__);
    put_text(&m, input_A_name);
    put_ints(&m, input_A_shape, input_dim);
    put_int(&m, A_is_coeff);
    put_floats(&m, A_is_coeff ? A_data : NULL, product_of(&m, (int64_t[]){extents(input_A_shape, input_dim, 0, -1)}, 1, 1));
    put_text(&m, input_B_name);
    put_ints(&m, input_B_shape, input_dim);
    put_int(&m, B_is_coeff);
    put_floats(&m, B_is_coeff ? B_data : NULL, product_of(&m, (int64_t[]){extents(input_B_shape, input_dim, 0, -1)}, 1, 1));
    put_int(&m, input_dim);
    put_text(&m, output_name);
    put_int(&m, binary_op);
    message_call(p_bmcpl, &m);
}

void add_eltwise_binary_layer(void *p_bmcpl, const char *input_A_name, int A_is_coeff, const float *A_data,
    const char *input_B_name, int B_is_coeff, const float *B_data, const int *input_shape, int input_dim,
    const char *output_name, int binary_op) {
    message m = message_begin(__func__);
    put_text(&m, input_A_name);
    put_int(&m, A_is_coeff);
    put_floats(&m, A_is_coeff ? A_data : NULL, product_of(&m, (int64_t[]){extents(input_shape, input_dim, 0, -1)}, 1, 1));
    put_text(&m, input_B_name);
    put_int(&m, B_is_coeff);
    put_floats(&m, B_is_coeff ? B_data : NULL, product_of(&m, (int64_t[]){extents(input_shape, input_dim, 0, -1)}, 1, 1));
    put_ints(&m, input_shape, input_dim);
    put_int(&m, input_dim);
    put_text(&m, output_name);
    put_int(&m, binary_op);
    message_call(p_bmcpl, &m);
}

void add_const_binary_layer(void *p_bmcpl, const char *input_A_name, const int *input_A_shape,
    int input_A_dim, float B_value, const char *output_name, int binary_op, int inversed) {
    message m = message_begin(__func__);
    put_text(&m, input_A_name);
    put_ints(&m, input_A_shape, input_A_dim);
    put_int(&m, input_A_dim);
    put_float(&m, B_value);
    put_text(&m, output_name);
    put_int(&m, binary_op);
    put_int(&m, inversed);
    message_call(p_bmcpl, &m);
}

void add_eltwise_layer(void *p_bmcpl, int input_num, const int *const *input_shape,
    const int *input_shape_dim, const char *const *input_name, const int *output_shape, int output_shape_dim,
    const char *output_name, int op_code, const float *coefficients) {
    message m = message_begin(__func__);
    put_int(&m, input_num);
    put_shapes(&m, input_shape, input_shape_dim, input_num);
    put_ints(&m, input_shape_dim, input_num);
    put_texts(&m, input_name, input_num);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, op_code);
    put_floats(&m, coefficients, product_of(&m, (int64_t[]){input_num}, 1, 1));
    message_call(p_bmcpl, &m);
}

void add_active_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int active_type_id) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, active_type_id);
    message_call(p_bmcpl, &m);
}

void add_relu_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, float negative_slope,
    float upper_limit) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_float(&m, negative_slope);
    put_float(&m, upper_limit);
    message_call(p_bmcpl, &m);
}

void add_prelu_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    int channel_shared, const float *slope_) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_text(&m, layer_name);
    put_int(&m, channel_shared);
    put_floats(&m, slope_, channel_shared ? 1 : product_of(&m, (int64_t[]){extents(input_shape, input_shape_dim, 1, 1)}, 1, 1));
    message_call(p_bmcpl, &m);
}

void add_scale_layer(void *p_bmcpl, int input_num, const int *const *input_shape, const int *input_shape_dim,
    const char *const *input_name, const int *output_shape, int output_shape_dim, const char *output_name,
    const char *layer_name, const float *scale_factor, const float *bias_factor, int num_axes, int axis_,
    int have_bias) {
    message m = message_begin(__func__);
    put_int(&m, input_num);
    put_shapes(&m, input_shape, input_shape_dim, input_num);
    put_ints(&m, input_shape_dim, input_num);
    put_texts(&m, input_name, input_num);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_text(&m, layer_name);
    put_floats(&m, scale_factor, product_of(&m, (int64_t[]){extents(first_shape(input_shape, input_num), first_int(input_shape_dim, input_num), axis_, num_axes)}, 1, 1));
    put_floats(&m, bias_factor, product_of(&m, (int64_t[]){extents(first_shape(input_shape, input_num), first_int(input_shape_dim, input_num), axis_, num_axes)}, 1, 1));
    put_int(&m, num_axes);
    put_int(&m, axis_);
    put_int(&m, have_bias);
    message_call(p_bmcpl, &m);
}

void add_biasadd_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    int num_output_neuron, const float *bias, bool bIsCoefInt8) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_text(&m, layer_name);
    put_int(&m, num_output_neuron);
    put_floats(&m, bias, product_of(&m, (int64_t[]){num_output_neuron}, 1, 1));
    put_int(&m, bIsCoefInt8);
    message_call(p_bmcpl, &m);
}

void add_batchnorm_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    const float *mean_param, const float *variance_param, float scale_val, float epsilon, int NormMethod,
    int is_var_need_calc) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_text(&m, layer_name);
    put_floats(&m, mean_param, product_of(&m, (int64_t[]){extents(input_shape, input_shape_dim, 1, 1)}, 1, 1));
    put_floats(&m, variance_param, product_of(&m, (int64_t[]){extents(input_shape, input_shape_dim, 1, 1)}, 1, 1));
    put_float(&m, scale_val);
    put_float(&m, epsilon);
    put_int(&m, NormMethod);
    put_int(&m, is_var_need_calc);
    message_call(p_bmcpl, &m);
}

void add_select_layer(void *p_bmcpl, const char *cond_name, const char *s0_name, int s0_is_scalar,
    float s0_scalar, const char *s1_name, int s1_is_scalar, float s1_scalar, const char *output_name,
    const int *shape, int dims) {
    message m = message_begin(__func__);
    put_text(&m, cond_name);
    put_text(&m, s0_name);
    put_int(&m, s0_is_scalar);
    put_float(&m, s0_scalar);
    put_text(&m, s1_name);
    put_int(&m, s1_is_scalar);
    put_float(&m, s1_scalar);
    put_text(&m, output_name);
    put_ints(&m, shape, dims);
    put_int(&m, dims);
    message_call(p_bmcpl, &m);
}

void add_dtype_convert_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim,
    const char *input_name, const char *output_name, int src_dtype, int dst_dtype) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_text(&m, output_name);
    put_int(&m, src_dtype);
    put_int(&m, dst_dtype);
    message_call(p_bmcpl, &m);
}

void add_tpu_layer(void *p_bmcpl, int input_num, const char *const *input_names,
    const int *const *input_shapes, const int *input_dims, const int *input_dtypes, int output_num,
    const char *const *output_names, const int *const *output_shapes, const int *output_dims,
    const int *output_dtypes, int op_type, const void *layer_param, int param_size) {
    message m = message_begin(__func__);
    put_int(&m, input_num);
    put_texts(&m, input_names, input_num);
    put_shapes(&m, input_shapes, input_dims, input_num);
    put_ints(&m, input_dims, input_num);
    put_ints(&m, input_dtypes, input_num);
    put_int(&m, output_num);
    put_texts(&m, output_names, output_num);
    put_shapes(&m, output_shapes, output_dims, output_num);
    put_ints(&m, output_dims, output_num);
    put_ints(&m, output_dtypes, output_num);
    put_int(&m, op_type);
    put_bytes(&m, layer_param, param_size);
    put_int(&m, param_size);
    message_call(p_bmcpl, &m);
    if (output_shapes != NULL && output_dims == NULL) message_shapes(p_bmcpl, __func__, output_shapes, output_num);
}

void add_reshape_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const int *raw_param) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    (void)raw_param;
    message_call(p_bmcpl, &m);
}

void add_flatten_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const int *raw_param) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    (void)raw_param;
    message_call(p_bmcpl, &m);
}

void add_reshape_layer_v2(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    const char *output_name, const int *new_shape, int new_dims) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_ints(&m, input_shape, input_dim);
    put_int(&m, input_dim);
    put_text(&m, output_name);
    put_ints(&m, new_shape, new_dims);
    put_int(&m, new_dims);
    message_call(p_bmcpl, &m);
}

void add_flatten_layer_v2(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    const char *output_name, int begin_dim, int end_dim) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_ints(&m, input_shape, input_dim);
    put_int(&m, input_dim);
    put_text(&m, output_name);
    put_int(&m, begin_dim);
    put_int(&m, end_dim);
    message_call(p_bmcpl, &m);
}

void add_squeeze_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    const int *axis_list, int axis_num, const char *output_name) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_ints(&m, input_shape, input_dim);
    put_int(&m, input_dim);
    put_ints(&m, axis_list, axis_num);
    put_int(&m, axis_num);
    put_text(&m, output_name);
    message_call(p_bmcpl, &m);
}

void add_expand_dims_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    int axis, const char *output_name) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_ints(&m, input_shape, input_dim);
    put_int(&m, input_dim);
    put_int(&m, axis);
    put_text(&m, output_name);
    message_call(p_bmcpl, &m);
}

void add_expand_ndims_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    const float *input_data, int axis, int ndims, const char *output_name) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_ints(&m, input_shape, input_dim);
    put_int(&m, input_dim);
    put_floats(&m, input_data, product_of(&m, (int64_t[]){extents(input_shape, input_dim, 0, -1)}, 1, 1));
    put_int(&m, axis);
    put_int(&m, ndims);
    put_text(&m, output_name);
    message_call(p_bmcpl, &m);
}

void add_permute_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const int *permute_order) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_ints(&m, permute_order, input_shape_dim);
    message_call(p_bmcpl, &m);
}

void add_transpose_layer(void *p_bmcpl, const char *input_name, const char *output_name, const int *shape,
    const int *permute_order, int dims) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_text(&m, output_name);
    put_ints(&m, shape, dims);
    put_ints(&m, permute_order, dims);
    put_int(&m, dims);
    message_call(p_bmcpl, &m);
}

void add_transpose_layer_v2(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dims,
    int input_dtype, const char *output_name, const char *order_name, const int *permute_order) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_ints(&m, input_shape, input_dims);
    put_int(&m, input_dims);
    put_int(&m, input_dtype);
    put_text(&m, output_name);
    put_text(&m, order_name);
    put_ints(&m, permute_order, input_dims);
    message_call(p_bmcpl, &m);
}

void add_reverse_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int axis) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, axis);
    message_call(p_bmcpl, &m);
}

void add_shufflechannel_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim,
    const char *input_name, const int *output_shape, int output_shape_dim, const char *output_name,
    int group_) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, group_);
    message_call(p_bmcpl, &m);
}

void add_concat_layer(void *p_bmcpl, int input_num, const int *const *input_shape, const int *input_shape_dim,
    const char *const *input_name, const int *output_shape, int output_shape_dim, const char *output_name,
    int concat_axis) {
    message m = message_begin(__func__);
    put_int(&m, input_num);
    put_shapes(&m, input_shape, input_shape_dim, input_num);
    put_ints(&m, input_shape_dim, input_num);
    put_texts(&m, input_name, input_num);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, concat_axis);
    message_call(p_bmcpl, &m);
}

void add_split_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    int output_num, const int *const *output_shape, const int *output_shape_dim,
    const char *const *output_name) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_int(&m, output_num);
    put_shapes(&m, output_shape, output_shape_dim, output_num);
    put_ints(&m, output_shape_dim, output_num);
    put_texts(&m, output_name, output_num);
    message_call(p_bmcpl, &m);
}

void add_tf_split_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    int output_num, const int *const *output_shape, const int *output_shape_dim,
    const char *const *output_name, int shape_dim, int axis, const int *split_size, int split_num) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_int(&m, output_num);
    put_shapes(&m, output_shape, output_shape_dim, output_num);
    put_ints(&m, output_shape_dim, output_num);
    put_texts(&m, output_name, output_num);
    put_int(&m, shape_dim);
    put_int(&m, axis);
    put_ints(&m, split_size, split_num);
    put_int(&m, split_num);
    message_call(p_bmcpl, &m);
}

void add_crop_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const char *shape_name, const int *output_shape, int output_shape_dim, const char *output_name,
    const int *offsets) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_text(&m, shape_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_ints(&m, offsets, input_shape_dim);
    message_call(p_bmcpl, &m);
}

void add_stride_slice_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim,
    const char *input_name, const int *output_shape, int output_shape_dim, const char *output_name,
    int shape_size, int begin_mask, int end_mask, const int *begin_index, const int *end_index,
    const int *stride) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, shape_size);
    put_int(&m, begin_mask);
    put_int(&m, end_mask);
    put_ints(&m, begin_index, shape_size);
    put_ints(&m, end_index, shape_size);
    put_ints(&m, stride, shape_size);
    message_call(p_bmcpl, &m);
}

void add_stride_slice_layer_v2(void *p_bmcpl, const char *input_name, const int *input_shape,
    int input_shape_dim, const char *output_name, const int *begin_index, const int *end_index,
    const int *strides, int index_size, int begin_mask, int end_mask, int shrink_axis_mask, int new_axis_mask,
    int ellipsis_mask) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, output_name);
    put_ints(&m, begin_index, index_size);
    put_ints(&m, end_index, index_size);
    put_ints(&m, strides, index_size);
    put_int(&m, index_size);
    put_int(&m, begin_mask);
    put_int(&m, end_mask);
    put_int(&m, shrink_axis_mask);
    put_int(&m, new_axis_mask);
    put_int(&m, ellipsis_mask);
    message_call(p_bmcpl, &m);
}

void add_pad_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const int *paddings_, int pad_dim,
    float pad_val, int pad_mode) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_ints(&m, paddings_, pad_dim);
    put_int(&m, pad_dim);
    put_float(&m, pad_val);
    put_int(&m, pad_mode);
    message_call(p_bmcpl, &m);
}

void add_tile_layer_v2(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    int input_is_coeff, const float *input_data, int coeff_is_fixed, const char *coeff_name,
    const int *tile_coeff, const char *output_name, int type) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_ints(&m, input_shape, input_dim);
    put_int(&m, input_dim);
    put_int(&m, input_is_coeff);
    put_floats(&m, input_is_coeff ? input_data : NULL, product_of(&m, (int64_t[]){extents(input_shape, input_dim, 0, -1)}, 1, 1));
    put_int(&m, coeff_is_fixed);
    put_text(&m, coeff_name);
    put_ints(&m, tile_coeff, input_dim);
    put_text(&m, output_name);
    put_int(&m, type);
    message_call(p_bmcpl, &m);
}

void add_repeat_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int is_coeff,
    const float *data, const int *tile_coeff, int input_dim, const char *output_name) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_ints(&m, input_shape, input_dim);
    put_int(&m, is_coeff);
    put_floats(&m, is_coeff ? data : NULL, product_of(&m, (int64_t[]){extents(input_shape, input_dim, 0, -1)}, 1, 1));
    put_ints(&m, tile_coeff, input_dim);
    put_int(&m, input_dim);
    put_text(&m, output_name);
    message_call(p_bmcpl, &m);
}

void add_expand_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    int input_is_coeff, const float *input_data, int output_shape_is_fixed, const char *output_shape_name,
    const int *output_shape, int output_dim, const char *output_name) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_ints(&m, input_shape, input_dim);
    put_int(&m, input_dim);
    put_int(&m, input_is_coeff);
    put_floats(&m, input_is_coeff ? input_data : NULL, product_of(&m, (int64_t[]){extents(input_shape, input_dim, 0, -1)}, 1, 1));
    put_int(&m, output_shape_is_fixed);
    put_text(&m, output_shape_name);
    put_ints(&m, output_shape, output_dim);
    put_int(&m, output_dim);
    put_text(&m, output_name);
    message_call(p_bmcpl, &m);
}

void add_identity_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dims,
    const char *output_name) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_ints(&m, input_shape, input_dims);
    put_int(&m, input_dims);
    put_text(&m, output_name);
    message_call(p_bmcpl, &m);
}

void add_dropout_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    message_call(p_bmcpl, &m);
}

void add_coeff_layer(void *p_bmcpl, const char *name, const int *shape, const float *data, int dims) {
    message m = message_begin(__func__);
    put_text(&m, name);
    put_ints(&m, shape, dims);
    put_floats(&m, data, product_of(&m, (int64_t[]){extents(shape, dims, 0, -1)}, 1, 1));
    put_int(&m, dims);
    message_call(p_bmcpl, &m);
}

void add_const_data_layer(void *p_bmcpl, const char *input_name, const char *output_name, const int *shape,
    const float *data, int dims) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_text(&m, output_name);
    put_ints(&m, shape, dims);
    put_floats(&m, data, product_of(&m, (int64_t[]){extents(shape, dims, 0, -1)}, 1, 1));
    put_int(&m, dims);
    message_call(p_bmcpl, &m);
}

void add_output_layer_v2(void *p_bmcpl, const char *name) {
    message m = message_begin(__func__);
    put_text(&m, name);
    message_call(p_bmcpl, &m);
}

void add_output_layer(void *p_bmcpl, const int *io_shape, int io_shape_dim, const char *input_name,
    const char *output_name) {
    message m = message_begin(__func__);
    put_ints(&m, io_shape, io_shape_dim);
    put_int(&m, io_shape_dim);
    put_text(&m, input_name);
    put_text(&m, output_name);
    message_call(p_bmcpl, &m);
}

void add_conv_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    const float *weight, const float *bias, int kh, int kw, int groups, int pad_h_up, int pad_h_down,
    int pad_w_left, int pad_w_right, int stride_h, int stride_w, int dh, int dw, int have_bias) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_text(&m, layer_name);
    put_floats(&m, weight, product_of(&m, (int64_t[]){extents(output_shape, output_shape_dim, 1, 1), extents(input_shape, input_shape_dim, 1, 1), kh, kw}, 4, groups));
    put_floats(&m, have_bias ? bias : NULL, product_of(&m, (int64_t[]){extents(output_shape, output_shape_dim, 1, 1)}, 1, 1));
    put_int(&m, kh);
    put_int(&m, kw);
    put_int(&m, groups);
    put_int(&m, pad_h_up);
    put_int(&m, pad_h_down);
    put_int(&m, pad_w_left);
    put_int(&m, pad_w_right);
    put_int(&m, stride_h);
    put_int(&m, stride_w);
    put_int(&m, dh);
    put_int(&m, dw);
    put_int(&m, have_bias);
    message_call(p_bmcpl, &m);
}

void add_conv_layer_v2(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *weight_name,
    const float *weight, const char *bias_name, const float *bias, int kh, int kw, int groups, int pad_h_up,
    int pad_h_down, int pad_w_left, int pad_w_right, int stride_h, int stride_w, int dh, int dw,
    int have_bias) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_text(&m, weight_name);
    put_floats(&m, weight, product_of(&m, (int64_t[]){extents(output_shape, output_shape_dim, 1, 1), extents(input_shape, input_shape_dim, 1, 1), kh, kw}, 4, groups));
    put_text(&m, bias_name);
    put_floats(&m, have_bias ? bias : NULL, product_of(&m, (int64_t[]){extents(output_shape, output_shape_dim, 1, 1)}, 1, 1));
    put_int(&m, kh);
    put_int(&m, kw);
    put_int(&m, groups);
    put_int(&m, pad_h_up);
    put_int(&m, pad_h_down);
    put_int(&m, pad_w_left);
    put_int(&m, pad_w_right);
    put_int(&m, stride_h);
    put_int(&m, stride_w);
    put_int(&m, dh);
    put_int(&m, dw);
    put_int(&m, have_bias);
    message_call(p_bmcpl, &m);
}

void add_deconv_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    const float *weight, const float *bias, int kh, int kw, int groups, int pad_h_up, int pad_h_down,
    int pad_w_left, int pad_w_right, int stride_h, int stride_w, int dh, int dw, int have_bias) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_text(&m, layer_name);
    put_floats(&m, weight, product_of(&m, (int64_t[]){extents(output_shape, output_shape_dim, 1, 1), extents(input_shape, input_shape_dim, 1, 1), kh, kw}, 4, groups));
    put_floats(&m, have_bias ? bias : NULL, product_of(&m, (int64_t[]){extents(output_shape, output_shape_dim, 1, 1)}, 1, 1));
    put_int(&m, kh);
    put_int(&m, kw);
    put_int(&m, groups);
    put_int(&m, pad_h_up);
    put_int(&m, pad_h_down);
    put_int(&m, pad_w_left);
    put_int(&m, pad_w_right);
    put_int(&m, stride_h);
    put_int(&m, stride_w);
    put_int(&m, dh);
    put_int(&m, dw);
    put_int(&m, have_bias);
    message_call(p_bmcpl, &m);
}

void add_pooling_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    int output_number, const int *const *output_shape, const int *output_shape_dim,
    const char *const *output_name, int kh, int kw, int up_pad_h, int down_pad_h, int left_pad_w,
    int right_pad_w, int stride_h, int stride_w, int is_avg_pooling, int avg_pooling_mode,
    int is_global_pooling, int out_ceil_mode, const char *layer_name, const float *coeff_mask) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_int(&m, output_number);
    put_shapes(&m, output_shape, output_shape_dim, output_number);
    put_ints(&m, output_shape_dim, output_number);
    put_texts(&m, output_name, output_number);
    put_int(&m, kh);
    put_int(&m, kw);
    put_int(&m, up_pad_h);
    put_int(&m, down_pad_h);
    put_int(&m, left_pad_w);
    put_int(&m, right_pad_w);
    put_int(&m, stride_h);
    put_int(&m, stride_w);
    put_int(&m, is_avg_pooling);
    put_int(&m, avg_pooling_mode);
    put_int(&m, is_global_pooling);
    put_int(&m, out_ceil_mode);
    put_text(&m, layer_name);
    (void)coeff_mask;
    message_call(p_bmcpl, &m);
}

void add_pooling_tf_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int kh, int kw, int up_pad_h,
    int down_pad_h, int left_pad_w, int right_pad_w, int stride_h, int stride_w, int is_avg_pooling) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, kh);
    put_int(&m, kw);
    put_int(&m, up_pad_h);
    put_int(&m, down_pad_h);
    put_int(&m, left_pad_w);
    put_int(&m, right_pad_w);
    put_int(&m, stride_h);
    put_int(&m, stride_w);
    put_int(&m, is_avg_pooling);
    message_call(p_bmcpl, &m);
}

void add_interp_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int pad_beg, int pad_end,
    int platform_sp) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, pad_beg);
    put_int(&m, pad_end);
    put_int(&m, platform_sp);
    message_call(p_bmcpl, &m);
}

void add_interp_layer_v2(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    int shape_is_fixed, const int *output_shape, int output_shape_dim, const char *output_shape_name,
    const char *output_name, int pad_beg, int pad_end, int align_corners, int half_pixel_centers,
    int platform_sp) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_int(&m, shape_is_fixed);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_shape_name);
    put_text(&m, output_name);
    put_int(&m, pad_beg);
    put_int(&m, pad_end);
    put_int(&m, align_corners);
    put_int(&m, half_pixel_centers);
    put_int(&m, platform_sp);
    message_call(p_bmcpl, &m);
}

void add_upsample_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int size) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, size);
    message_call(p_bmcpl, &m);
}

void add_fc_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    int num_input_neuron, int num_output_neuron, const float *weight, const float *bias, int have_bias,
    int weight_col_is_in_neruon_num) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_text(&m, layer_name);
    put_int(&m, num_input_neuron);
    put_int(&m, num_output_neuron);
    put_floats(&m, weight, product_of(&m, (int64_t[]){num_input_neuron, num_output_neuron}, 2, 1));
    put_floats(&m, have_bias ? bias : NULL, product_of(&m, (int64_t[]){num_output_neuron}, 1, 1));
    put_int(&m, have_bias);
    put_int(&m, weight_col_is_in_neruon_num);
    message_call(p_bmcpl, &m);
}

void add_fc_weight_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    const int *weight_shape, int weight_shape_dim, const char *weight_name, int num_input_neuron,
    const float *bias, int have_bias, int weight_col_is_in_neruon_num) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_text(&m, layer_name);
    put_ints(&m, weight_shape, weight_shape_dim);
    put_int(&m, weight_shape_dim);
    put_text(&m, weight_name);
    put_int(&m, num_input_neuron);
    put_floats(&m, have_bias ? bias : NULL, product_of(&m, (int64_t[]){extents(weight_shape, weight_shape_dim, 0, -1)}, 1, num_input_neuron));
    put_int(&m, have_bias);
    put_int(&m, weight_col_is_in_neruon_num);
    message_call(p_bmcpl, &m);
}

void add_batch_matmul_layer(void *p_bmcpl, const char *input0_name, const int *input0_shape,
    int input0_shape_dim, int input0_is_const, const float *input0_data, const char *input1_name,
    const int *input1_shape, int input1_shape_dim, int input1_is_const, const float *input1_data,
    const char *output_name) {
    message m = message_begin(__func__);
    put_text(&m, input0_name);
    put_ints(&m, input0_shape, input0_shape_dim);
    put_int(&m, input0_shape_dim);
    put_int(&m, input0_is_const);
    put_floats(&m, input0_is_const ? input0_data : NULL, product_of(&m, (int64_t[]){extents(input0_shape, input0_shape_dim, 0, -1)}, 1, 1));
    put_text(&m, input1_name);
    put_ints(&m, input1_shape, input1_shape_dim);
    put_int(&m, input1_shape_dim);
    put_int(&m, input1_is_const);
    put_floats(&m, input1_is_const ? input1_data : NULL, product_of(&m, (int64_t[]){extents(input1_shape, input1_shape_dim, 0, -1)}, 1, 1));
    put_text(&m, output_name);
    message_call(p_bmcpl, &m);
}

void add_softmax_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int inner_num, int outer_num,
    int softmax_dim) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, inner_num);
    put_int(&m, outer_num);
    put_int(&m, softmax_dim);
    message_call(p_bmcpl, &m);
}

void add_log_softmax_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int inner_num, int outer_num,
    int softmax_dim) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, inner_num);
    put_int(&m, outer_num);
    put_int(&m, softmax_dim);
    message_call(p_bmcpl, &m);
}

void add_reduce_full_layer(void *p_bmcpl, const char *input_name, const char *output_name,
    const int *input_shape, int input_dims, const int *axis_list, int axis_num, int reduce_method,
    int need_keep_dims) {
    message m = message_begin(__func__);
    put_text(&m, input_name);
    put_text(&m, output_name);
    put_ints(&m, input_shape, input_dims);
    put_int(&m, input_dims);
    put_ints(&m, axis_list, axis_num);
    put_int(&m, axis_num);
    put_int(&m, reduce_method);
    put_int(&m, need_keep_dims);
    message_call(p_bmcpl, &m);
}

void add_reduce_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int reduce_method) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, reduce_method);
    message_call(p_bmcpl, &m);
}

void add_arg_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int axis, int method) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_int(&m, axis);
    put_int(&m, method);
    message_call(p_bmcpl, &m);
}

void add_topk_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name, int k,
    int dim, const int *const *output_shape, const int *output_shape_dim, const char *const *output_name) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_int(&m, k);
    put_int(&m, dim);
    put_shapes(&m, output_shape, output_shape_dim, 2);
    put_ints(&m, output_shape_dim, 2);
    put_texts(&m, output_name, 2);
    message_call(p_bmcpl, &m);
}

void add_lrn_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, float alpha_, int size_,
    float beta_, float k_) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_float(&m, alpha_);
    put_int(&m, size_);
    put_float(&m, beta_);
    put_float(&m, k_);
    message_call(p_bmcpl, &m);
}

void add_normalize_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    int across_spatial, int channel_shared, const float *scale_data, float eps) {
    message m = message_begin(__func__);
    put_ints(&m, input_shape, input_shape_dim);
    put_int(&m, input_shape_dim);
    put_text(&m, input_name);
    put_ints(&m, output_shape, output_shape_dim);
    put_int(&m, output_shape_dim);
    put_text(&m, output_name);
    put_text(&m, layer_name);
    put_int(&m, across_spatial);
    put_int(&m, channel_shared);
    put_floats(&m, scale_data, channel_shared ? 1 : product_of(&m, (int64_t[]){extents(input_shape, input_shape_dim, 1, 1)}, 1, 1));
    put_float(&m, eps);
    message_call(p_bmcpl, &m);
}
