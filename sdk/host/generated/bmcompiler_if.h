/* Generated with the toolkit from user_layers/bmcompiler; changes here are lost. */
/* bmcompiler's functions: a graph of layers, compiled into a bmodel. Link with -lbmcompiler; the library
 * hands the graph to the compiler in a process of its own, one for each p_bmcpl.
 *
 * A tensor that no layer made is an input of the net, of the shape given where it is first used, and fp32
 * where no type is given; tensors that no layer uses are its outputs. Each compile call ends one net; the
 * next layer begins another. Shapes are arrays of as many numbers as the parameter beside them says. Data
 * is copied before a function returns.
 *
 * A call that fails says why on stderr, with its function and what it was about. create_bmcompiler and
 * create_bmcompiler_dir then return NULL; after any other, p_bmcpl takes no further layers and
 * finish_bmcompiler writes nothing. bmcompiler_errors counts the calls that failed in this program.
 *
 * p_bmcpl is for one thread at a time. TPULAYER_WORKSPACE names the workspace whose layers there are;
 * without it, it is the one that the library is installed in, else the one around the current folder.
 */

#ifndef BMCOMPILER_IF_H_
#define BMCOMPILER_IF_H_

#include <stdbool.h>

#ifdef __cplusplus
#define BMCOMPILER_DEFAULT(value) = value
extern "C" {
#else
#define BMCOMPILER_DEFAULT(value)
#endif

/* A compiler that writes into ./compilation. */
void *create_bmcompiler(const char *chip_name);

/* A compiler that writes compilation.bmodel, input_ref_data.dat and output_ref_data.dat into dir. */
void *create_bmcompiler_dir(const char *chip_name, const char *dir);

/* Write the directory and end the compiler. */
void finish_bmcompiler(void *p_bmcpl);

/* End the compiler and give the bmodel instead of writing it; in C in memory that free() takes. */
void finish_bmcompiler_data(void *p_bmcpl, void **bmodel_data, unsigned int *size);

/* End the compiler without writing anything. */
void delete_bmcompiler(void *p_bmcpl);

/* The number of the layer added last to the net under construction, from 0; -1 without layers.
 * A function may add several layers. In C also -1 where the call fails. */
int get_max_layer_id(void *p_bmcpl);

/* A name for a layer, by its number (see get_max_layer_id); logs and reports call it so. */
void add_layer_name(void *p_bmcpl, int layer_id, const char *layer_name);

/* Compile statically, at the default optimisation level, 2. */
void __bmcompile(void *p_bmcpl, const char *net_name);

/* Compile statically.
 * opt_level 0: every layer by itself in DDR, 1: groups of layers, 2: also single ones. */
void __bmcompile_opt(void *p_bmcpl, const char *net_name, int opt_level);

/* Compile dynamically: any shapes up to the ones given. */
void __bmcompile_ir(void *p_bmcpl, const char *net_name);

/* Compile dynamically; the firmware interprets the net, so every opt_level gives the same. */
void __bmcompile_ir_opt(void *p_bmcpl, const char *net_name, int opt_level);

/* The same: a net has one stage. */
void __bmcompile_ir_opt_no_multistage(void *p_bmcpl, const char *net_name, int opt_level);

/* Compile statically, with data of inputs and outputs for the two .dat files, by their names. */
void compile_with_result_check(void *p_bmcpl, char **input_name, float **input_data, int input_num,
    char **refer_name, float **refer_data, int refer_num, const char *net_name);

/* Compile dynamically, with data of inputs and outputs for the two .dat files, by their names. */
void compile_ir_with_result_check(void *p_bmcpl, char **input_name, float **input_data, int input_num,
    char **refer_name, float **refer_data, int refer_num, const char *net_name);

/* A OP B for each element, fp32, with broadcasting; an operand marked as coeff is the data given.
 * binary_op: BmBinaryType of bmcompiler_op_code.h. Comparisons give 1.0 and 0.0. */
void add_binary_layer_v2(void *p_bmcpl, const char *input_A_name, const int *input_A_shape, int input_A_dim,
    int A_is_coeff, const float *A_data, const char *input_B_name, const int *input_B_shape, int input_B_dim,
    int B_is_coeff, const float *B_data, const char *output_name, int binary_op);

/* The same as add_binary_layer_v2. */
void add_broadcast_binary_layer_v2(void *p_bmcpl, const char *input_A_name, const int *input_A_shape,
    int input_A_dim, int A_is_coeff, const float *A_data, const char *input_B_name, const int *input_B_shape,
    int input_B_dim, int B_is_coeff, const float *B_data, const char *output_name, int binary_op);

/* add_binary_layer_v2 for operands with the same number of dimensions. */
void add_binary_layer(void *p_bmcpl, const char *input_A_name, const int *input_A_shape, int A_is_coeff,
    const float *A_data, const char *input_B_name, const int *input_B_shape, int B_is_coeff,
    const float *B_data, int input_dim, const char *output_name, int binary_op);

/* The same as add_binary_layer. */
void add_broadcast_binary_layer(void *p_bmcpl, const char *input_A_name, const int *input_A_shape,
    int A_is_coeff, const float *A_data, const char *input_B_name, const int *input_B_shape, int B_is_coeff,
    const float *B_data, int input_dim, const char *output_name, int binary_op);

/* add_binary_layer_v2 for operands of the same shape. */
void add_eltwise_binary_layer(void *p_bmcpl, const char *input_A_name, int A_is_coeff, const float *A_data,
    const char *input_B_name, int B_is_coeff, const float *B_data, const int *input_shape, int input_dim,
    const char *output_name, int binary_op);

/* A OP B_value for each element (inversed: B_value OP A), fp32. */
void add_const_binary_layer(void *p_bmcpl, const char *input_A_name, const int *input_A_shape,
    int input_A_dim, float B_value, const char *output_name, int binary_op, int inversed);

/* The product, the sum or the maximum of all inputs.
 * op_code 0: product, 1: sum of the inputs times their coefficients (NULL: 1), 2: maximum. */
void add_eltwise_layer(void *p_bmcpl, int input_num, const int *const *input_shape,
    const int *input_shape_dim, const char *const *input_name, const int *output_shape, int output_shape_dim,
    const char *output_name, int op_code, const float *coefficients);

/* A function of each element, fp32.
 * active_type_id: BmActiveType of bmcompiler_op_code.h, but not ACTIVE_SIN, ACTIVE_COS and ACTIVE_IS_FINITE. */
void add_active_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int active_type_id);

/* x where it is positive, else negative_slope times x; at most upper_limit, unless that is negative. */
void add_relu_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, float negative_slope,
    float upper_limit);

/* x where it is positive, else its slope times x; one slope for each channel (dimension 1) or for all. */
void add_prelu_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    int channel_shared, const float *slope_);

/* x * scale + bias, both with the extents of num_axes dimensions of x from axis_ on (-1: all the rest).
 * Numbers given as NULL are further inputs instead, scale before bias; their shapes are these extents, too. */
void add_scale_layer(void *p_bmcpl, int input_num, const int *const *input_shape, const int *input_shape_dim,
    const char *const *input_name, const int *output_shape, int output_shape_dim, const char *output_name,
    const char *layer_name, const float *scale_factor, const float *bias_factor, int num_axes, int axis_,
    int have_bias);

/* A number for each channel (dimension 1) added. */
void add_biasadd_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    int num_output_neuron, const float *bias, bool bIsCoefInt8);

/* (x - mean) / sqrt(variance + epsilon) for each channel; mean and variance are times scale_val first.
 * Only NormMethod 0 and is_var_need_calc 1: what the others mean is not public. */
void add_batchnorm_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    const float *mean_param, const float *variance_param, float scale_val, float epsilon, int NormMethod,
    int is_var_need_calc BMCOMPILER_DEFAULT(1));

/* s0 where cond is not 0, else s1; each a tensor of this shape or a number. */
void add_select_layer(void *p_bmcpl, const char *cond_name, const char *s0_name, int s0_is_scalar,
    float s0_scalar, const char *s1_name, int s1_is_scalar, float s1_scalar, const char *output_name,
    const int *shape, int dims);

/* The numbers in another type; both are codes of bmcompiler_defs.h: 0 fp32, 6 int32, ... */
void add_dtype_convert_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim,
    const char *input_name, const char *output_name, int src_dtype, int dst_dtype);

/* A layer of the workspace: input_num tensors with input_dims[i] dimensions each, the same for outputs.
 * output_shapes, output_dims and output_dtypes may each be NULL (None): the layer's shape function knows them.
 * Those that are given are compared with what it says when the net is compiled. In C, shapes without output_dims
 * have as many numbers as it says that there are dimensions.
 * dtypes are codes of bmcompiler_defs.h: 0 fp32, ... layer_param: the bytes of the parameter struct in bmtpu.h,
 * of which param_size are used. In Python op_type may be "TPU_CROP", and layer_param the struct's fields by name
 * (param_size is its size then). */
void add_tpu_layer(void *p_bmcpl, int input_num, const char *const *input_names,
    const int *const *input_shapes, const int *input_dims, const int *input_dtypes, int output_num,
    const char *const *output_names, const int *const *output_shapes, const int *output_dims,
    const int *output_dtypes, int op_type, const void *layer_param, int param_size);

/* The same elements as output_shape. raw_param is not read.
 * In a dynamic net extents that stand where the input has the same follow it; the first other one is what the
 * elements leave. */
void add_reshape_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const int *raw_param);

/* The same as add_reshape_layer. */
void add_flatten_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const int *raw_param);

/* The same elements as new_shape.
 * Codes in new_shape: 0 is the input's extent at that place, -1, once, what the others leave, -2 all the rest of
 * the input's extents, -3 the product of the next two; -4 splits the next one into the two numbers that follow
 * it, one of which may be -1. */
void add_reshape_layer_v2(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    const char *output_name, const int *new_shape, int new_dims);

/* Dimensions begin_dim up to, and without, end_dim become one; a negative end_dim counts from the end. */
void add_flatten_layer_v2(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    const char *output_name, int begin_dim, int end_dim);

/* Without the dimensions axis_list, whose extents are 1; axis_num 0: without all of extent 1. */
void add_squeeze_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    const int *axis_list, int axis_num, const char *output_name);

/* A dimension of extent 1 in front of dimension `axis` (-1: at the end); fp32 when input_name is new. */
void add_expand_dims_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    int axis, const char *output_name);

/* ndims dimensions of extent 1 in front of dimension `axis` (-1: at the end).
 * input_data: the values of a constant, or NULL. */
void add_expand_ndims_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    const float *input_data, int axis, int ndims, const char *output_name);

/* Dimension d of the output is dimension permute_order[d] of the input. */
void add_permute_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const int *permute_order);

/* Dimension d of the output is dimension permute_order[d] of the input. */
void add_transpose_layer(void *p_bmcpl, const char *input_name, const char *output_name, const int *shape,
    const int *permute_order, int dims);

/* add_transpose_layer for any type. order_name must be NULL: the order is known when compiling. */
void add_transpose_layer_v2(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dims,
    int input_dtype, const char *output_name, const char *order_name, const int *permute_order);

/* Dimension `axis` in reverse order. */
void add_reverse_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int axis);

/* Channels c of group g go to place c * groups + g. */
void add_shufflechannel_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim,
    const char *input_name, const int *output_shape, int output_shape_dim, const char *output_name,
    int group_);

/* The inputs one after the other along concat_axis. */
void add_concat_layer(void *p_bmcpl, int input_num, const int *const *input_shape, const int *input_shape_dim,
    const char *const *input_name, const int *output_shape, int output_shape_dim, const char *output_name,
    int concat_axis);

/* Caffe's Split: every output is the input. */
void add_split_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    int output_num, const int *const *output_shape, const int *output_shape_dim,
    const char *const *output_name);

/* Pieces along an axis, of the extents split_size; a single one is the number of equal pieces instead. */
void add_tf_split_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    int output_num, const int *const *output_shape, const int *output_shape_dim,
    const char *const *output_name, int shape_dim, int axis, const int *split_size, int split_num);

/* output_shape elements from offsets on. shape_name must be NULL: the shape is known when compiling. */
void add_crop_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const char *shape_name, const int *output_shape, int output_shape_dim, const char *output_name,
    const int *offsets);

/* Of each dimension d the elements begin_index[d], begin_index[d] + stride[d], ... before end_index[d].
 * Negative ones count from the end. Bit d of begin_mask or end_mask: from the first, or to the last element. */
void add_stride_slice_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim,
    const char *input_name, const int *output_shape, int output_shape_dim, const char *output_name,
    int shape_size, int begin_mask, int end_mask, const int *begin_index, const int *end_index,
    const int *stride);

/* add_stride_slice_layer with more masks.
 * Bit d of shrink_axis_mask: element begin_index[d] alone, without its dimension. Bit d of ellipsis_mask: the
 * whole dimension. new_axis_mask must be 0. */
void add_stride_slice_layer_v2(void *p_bmcpl, const char *input_name, const int *input_shape,
    int input_shape_dim, const char *output_name, const int *begin_index, const int *end_index,
    const int *strides, int index_size, int begin_mask, int end_mask, int shrink_axis_mask, int new_axis_mask,
    int ellipsis_mask);

/* More elements at the ends: paddings_ has, for each dimension, how many before and behind.
 * pad_mode 0: pad_val, 1: mirrored without the edge. The vendor's 2, mirrored with the edge, is not computed. */
void add_pad_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const int *paddings_, int pad_dim,
    float pad_val, int pad_mode);

/* Dimension d tile_coeff[d] times.
 * type 0: 1 2 becomes 1 2 1 2, type 1: 1 1 2 2. coeff_is_fixed must be 1. */
void add_tile_layer_v2(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    int input_is_coeff, const float *input_data, int coeff_is_fixed, const char *coeff_name,
    const int *tile_coeff, const char *output_name, int type);

/* Each element of dimension d tile_coeff[d] times: 1 2 becomes 1 1 2 2. */
void add_repeat_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int is_coeff,
    const float *data, const int *tile_coeff, int input_dim, const char *output_name);

/* Broadcast to output_shape. output_shape_is_fixed must be 1. */
void add_expand_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dim,
    int input_is_coeff, const float *input_data, int output_shape_is_fixed, const char *output_shape_name,
    const int *output_shape, int output_dim, const char *output_name);

/* The input. */
void add_identity_layer(void *p_bmcpl, const char *input_name, const int *input_shape, int input_dims,
    const char *output_name);

/* The input: nothing is left out when a net is used. */
void add_dropout_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name);

/* A constant tensor, fp32. */
void add_coeff_layer(void *p_bmcpl, const char *name, const int *shape, const float *data, int dims);

/* A constant tensor, fp32, called output_name; input_name is not needed here. */
void add_const_data_layer(void *p_bmcpl, const char *input_name, const char *output_name, const int *shape,
    const float *data, int dims);

/* Make a layer's output an output of the net; without such calls all that no layer uses are. */
void add_output_layer_v2(void *p_bmcpl, const char *name);

/* Make a tensor an output of the net, under another name when that differs. */
void add_output_layer(void *p_bmcpl, const int *io_shape, int io_shape_dim, const char *input_name,
    const char *output_name);

/* A convolution of [N, C, H, W].
 * weight: [output channels, channels / groups, kh, kw]; dh, dw: dilation, 1 is none. */
void add_conv_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    const float *weight, const float *bias, int kh, int kw, int groups, int pad_h_up, int pad_h_down,
    int pad_w_left, int pad_w_right, int stride_h, int stride_w, int dh, int dw, int have_bias);

/* add_conv_layer, with names for the constants. */
void add_conv_layer_v2(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *weight_name,
    const float *weight, const char *bias_name, const float *bias, int kh, int kw, int groups, int pad_h_up,
    int pad_h_down, int pad_w_left, int pad_w_right, int stride_h, int stride_w, int dh, int dw,
    int have_bias);

/* A transposed convolution of [N, C, H, W].
 * weight: [channels, output channels / groups, kh, kw]; rows and columns of output_shape beyond what the windows
 * reach follow at the end. */
void add_deconv_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    const float *weight, const float *bias, int kh, int kw, int groups, int pad_h_up, int pad_h_down,
    int pad_w_left, int pad_w_right, int stride_h, int stride_w, int dh, int dw, int have_bias);

/* The maximum, or the average, of windows of [N, C, H, W].
 * avg_pooling_mode 0: pads count, 1: they do not. is_global_pooling: the window is the whole plane. Whether a
 * last window that is not complete counts (out_ceil_mode) is seen from output_shape. output_number is 1: indices
 * of the maxima are not computed. */
void add_pooling_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    int output_number, const int *const *output_shape, const int *output_shape_dim,
    const char *const *output_name, int kh, int kw, int up_pad_h, int down_pad_h, int left_pad_w,
    int right_pad_w, int stride_h, int stride_w, int is_avg_pooling, int avg_pooling_mode,
    int is_global_pooling, int out_ceil_mode, const char *layer_name, const float *coeff_mask);

/* add_pooling_layer as TensorFlow has it: pads do not count in averages. */
void add_pooling_tf_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int kh, int kw, int up_pad_h,
    int down_pad_h, int left_pad_w, int right_pad_w, int stride_h, int stride_w, int is_avg_pooling);

/* [N, C, H, W] of another height and width.
 * platform_sp 0: linear, corners on corners (Caffe), 1: linear from x / scale (TensorFlow), 4: linear between
 * centres (PyTorch); 2, 3, 5: the element at x / scale rounded down. pad_beg and pad_end must be 0. */
void add_interp_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int pad_beg, int pad_end,
    int platform_sp);

/* add_interp_layer with coordinates of its own.
 * align_corners or half_pixel_centers, if not 0, replaces the coordinates of platform_sp. shape_is_fixed must be
 * 1. (Older versions of the vendor's header have neither align_corners nor half_pixel_centers.) */
void add_interp_layer_v2(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    int shape_is_fixed, const int *output_shape, int output_shape_dim, const char *output_shape_name,
    const char *output_name, int pad_beg, int pad_end, int align_corners, int half_pixel_centers,
    int platform_sp);

/* Each element of a plane size x size times. */
void add_upsample_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int size);

/* x * weight + bias, where x is seen as [M, num_input_neuron].
 * weight: [num_input_neuron, num_output_neuron], or transposed when weight_col_is_in_neruon_num is not 0. */
void add_fc_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    int num_input_neuron, int num_output_neuron, const float *weight, const float *bias, int have_bias,
    int weight_col_is_in_neruon_num);

/* add_fc_layer with a tensor [num_input_neuron, output neurons] (or transposed) as the weight. */
void add_fc_weight_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    const int *weight_shape, int weight_shape_dim, const char *weight_name, int num_input_neuron,
    const float *bias, int have_bias, int weight_col_is_in_neruon_num);

/* Products of the matrices in the last two dimensions; the dimensions before are broadcast. */
void add_batch_matmul_layer(void *p_bmcpl, const char *input0_name, const int *input0_shape,
    int input0_shape_dim, int input0_is_const, const float *input0_data, const char *input1_name,
    const int *input1_shape, int input1_shape_dim, int input1_is_const, const float *input1_data,
    const char *output_name);

/* Softmax of x seen as [outer_num, softmax_dim, inner_num], over the middle dimension. */
void add_softmax_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int inner_num, int outer_num,
    int softmax_dim);

/* The logarithm of add_softmax_layer. */
void add_log_softmax_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int inner_num, int outer_num,
    int softmax_dim);

/* Sum, mean, maximum, minimum or product over dimensions; axis_num 0: over all.
 * reduce_method: BmReduceType of bmcompiler_op_code.h, but not REDUCE_ALL and REDUCE_ANY. */
void add_reduce_full_layer(void *p_bmcpl, const char *input_name, const char *output_name,
    const int *input_shape, int input_dims, const int *axis_list, int axis_num, int reduce_method,
    int need_keep_dims);

/* Sum, mean, maximum, minimum or product of [N, C, H, W] over N, H and W, or over W.
 * reduce_method: the low 16 bits are BmReduceType, the others 0 for N, H and W, 1 for W. */
void add_reduce_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int reduce_method);

/* Where along an axis the largest (method 1: smallest) number stands, the first of equal ones; int32. */
void add_arg_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, int axis, int method);

/* The k largest numbers along a dimension, falling, and where they stand (int32): two outputs. */
void add_topk_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name, int k,
    int dim, const int *const *output_shape, const int *output_shape_dim, const char *const *output_name);

/* x / (k_ + alpha_ / size_ * the sum of squares of size_ channels around it) ^ beta_. */
void add_lrn_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, float alpha_, int size_,
    float beta_, float k_);

/* x / sqrt(the sum of its squares + eps) * scale.
 * The sum is over the channels, across_spatial: over everything but N. The scale is one number for each channel,
 * channel_shared: one for all. */
void add_normalize_layer(void *p_bmcpl, const int *input_shape, int input_shape_dim, const char *input_name,
    const int *output_shape, int output_shape_dim, const char *output_name, const char *layer_name,
    int across_spatial, int channel_shared, const float *scale_data, float eps);

/* How many calls have failed in this program so far. (An addition: the vendor's functions have no result.) */
int bmcompiler_errors(void);

#ifdef __cplusplus
}

/* The vendor's newer headers have them in a namespace. */
namespace bmcompiler {
using ::create_bmcompiler;
using ::create_bmcompiler_dir;
using ::finish_bmcompiler;
using ::finish_bmcompiler_data;
using ::delete_bmcompiler;
using ::get_max_layer_id;
using ::add_layer_name;
using ::__bmcompile;
using ::__bmcompile_opt;
using ::__bmcompile_ir;
using ::__bmcompile_ir_opt;
using ::__bmcompile_ir_opt_no_multistage;
using ::compile_with_result_check;
using ::compile_ir_with_result_check;
using ::add_binary_layer_v2;
using ::add_broadcast_binary_layer_v2;
using ::add_binary_layer;
using ::add_broadcast_binary_layer;
using ::add_eltwise_binary_layer;
using ::add_const_binary_layer;
using ::add_eltwise_layer;
using ::add_active_layer;
using ::add_relu_layer;
using ::add_prelu_layer;
using ::add_scale_layer;
using ::add_biasadd_layer;
using ::add_batchnorm_layer;
using ::add_select_layer;
using ::add_dtype_convert_layer;
using ::add_tpu_layer;
using ::add_reshape_layer;
using ::add_flatten_layer;
using ::add_reshape_layer_v2;
using ::add_flatten_layer_v2;
using ::add_squeeze_layer;
using ::add_expand_dims_layer;
using ::add_expand_ndims_layer;
using ::add_permute_layer;
using ::add_transpose_layer;
using ::add_transpose_layer_v2;
using ::add_reverse_layer;
using ::add_shufflechannel_layer;
using ::add_concat_layer;
using ::add_split_layer;
using ::add_tf_split_layer;
using ::add_crop_layer;
using ::add_stride_slice_layer;
using ::add_stride_slice_layer_v2;
using ::add_pad_layer;
using ::add_tile_layer_v2;
using ::add_repeat_layer;
using ::add_expand_layer;
using ::add_identity_layer;
using ::add_dropout_layer;
using ::add_coeff_layer;
using ::add_const_data_layer;
using ::add_output_layer_v2;
using ::add_output_layer;
using ::add_conv_layer;
using ::add_conv_layer_v2;
using ::add_deconv_layer;
using ::add_pooling_layer;
using ::add_pooling_tf_layer;
using ::add_interp_layer;
using ::add_interp_layer_v2;
using ::add_upsample_layer;
using ::add_fc_layer;
using ::add_fc_weight_layer;
using ::add_batch_matmul_layer;
using ::add_softmax_layer;
using ::add_log_softmax_layer;
using ::add_reduce_full_layer;
using ::add_reduce_layer;
using ::add_arg_layer;
using ::add_topk_layer;
using ::add_lrn_layer;
using ::add_normalize_layer;
}
#endif

#ifdef __cplusplus
#include <map>
#include <string>
#include <vector>

/* compile_with_result_check and compile_ir_with_result_check with data by name. */
typedef std::map<std::string, float *> bmcompiler_data;

inline void bmcompiler_compile_checked(void *p_bmcpl, bmcompiler_data *input_data,
                                       bmcompiler_data *references, const char *net_name, bool dynamic) {
    std::vector<char *> names[2];
    std::vector<float *> data[2];
    bmcompiler_data *const maps[2] = {input_data, references};
    for (int i = 0; i < 2; i++) {
        for (bmcompiler_data::iterator it = maps[i]->begin(); it != maps[i]->end(); ++it) {
            names[i].push_back(const_cast<char *>(it->first.c_str()));
            data[i].push_back(it->second);
        }
    }
    (dynamic ? compile_ir_with_result_check : compile_with_result_check)(
        p_bmcpl, names[0].data(), data[0].data(), (int)names[0].size(), names[1].data(), data[1].data(),
        (int)names[1].size(), net_name);
}

inline void __compile_with_result_check(void *p_bmcpl, bmcompiler_data *input_data,
                                        bmcompiler_data *layer_top_references, const char *net_name) {
    bmcompiler_compile_checked(p_bmcpl, input_data, layer_top_references, net_name, false);
}

inline void __compile_ir_with_result_check(void *p_bmcpl, bmcompiler_data *input_data,
                                           bmcompiler_data *layer_top_references, const char *net_name) {
    bmcompiler_compile_checked(p_bmcpl, input_data, layer_top_references, net_name, true);
}
#endif

#endif
