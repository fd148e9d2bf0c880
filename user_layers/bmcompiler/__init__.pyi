"""Generated with the toolkit from user_layers/bmcompiler; changes here are lost."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from user_layers.bmcompiler.codes import ACTIVE_ABSVAL
from user_layers.bmcompiler.codes import ACTIVE_CEIL
from user_layers.bmcompiler.codes import ACTIVE_COS
from user_layers.bmcompiler.codes import ACTIVE_ELU
from user_layers.bmcompiler.codes import ACTIVE_EXP
from user_layers.bmcompiler.codes import ACTIVE_FLOOR
from user_layers.bmcompiler.codes import ACTIVE_HSWISH
from user_layers.bmcompiler.codes import ACTIVE_IS_FINITE
from user_layers.bmcompiler.codes import ACTIVE_LN
from user_layers.bmcompiler.codes import ACTIVE_MISH
from user_layers.bmcompiler.codes import ACTIVE_RELU
from user_layers.bmcompiler.codes import ACTIVE_ROUND
from user_layers.bmcompiler.codes import ACTIVE_RSQRT
from user_layers.bmcompiler.codes import ACTIVE_SIGMOID
from user_layers.bmcompiler.codes import ACTIVE_SILU
from user_layers.bmcompiler.codes import ACTIVE_SIN
from user_layers.bmcompiler.codes import ACTIVE_SQRT
from user_layers.bmcompiler.codes import ACTIVE_SQUARE
from user_layers.bmcompiler.codes import ACTIVE_SWISH
from user_layers.bmcompiler.codes import ACTIVE_TANH
from user_layers.bmcompiler.codes import BINARY_ADD
from user_layers.bmcompiler.codes import BINARY_DIV
from user_layers.bmcompiler.codes import BINARY_EQ
from user_layers.bmcompiler.codes import BINARY_FLOOR_DIV
from user_layers.bmcompiler.codes import BINARY_FLOOR_MOD
from user_layers.bmcompiler.codes import BINARY_GE
from user_layers.bmcompiler.codes import BINARY_GT
from user_layers.bmcompiler.codes import BINARY_LE
from user_layers.bmcompiler.codes import BINARY_LT
from user_layers.bmcompiler.codes import BINARY_MAX
from user_layers.bmcompiler.codes import BINARY_MIN
from user_layers.bmcompiler.codes import BINARY_MUL
from user_layers.bmcompiler.codes import BINARY_NE
from user_layers.bmcompiler.codes import BINARY_SQUARED_DIFF
from user_layers.bmcompiler.codes import BINARY_SUB
from user_layers.bmcompiler.session import BMCompiler
from user_layers.bmcompiler.codes import REDUCE_ALL
from user_layers.bmcompiler.codes import REDUCE_ANY
from user_layers.bmcompiler.codes import REDUCE_MAX
from user_layers.bmcompiler.codes import REDUCE_MEAN
from user_layers.bmcompiler.codes import REDUCE_MIN
from user_layers.bmcompiler.codes import REDUCE_PROD
from user_layers.bmcompiler.codes import REDUCE_SUM
from user_layers.bmcompiler.session import __bmcompile
from user_layers.bmcompiler.session import __bmcompile_ir
from user_layers.bmcompiler.session import __bmcompile_ir_opt
from user_layers.bmcompiler.session import __bmcompile_ir_opt_no_multistage
from user_layers.bmcompiler.session import __bmcompile_opt
from user_layers.bmcompiler.session import __compile_ir_with_result_check
from user_layers.bmcompiler.session import __compile_with_result_check
from user_layers.bmcompiler.movement import add_coeff_layer
from user_layers.bmcompiler.arithmetic import add_const_binary_layer
from user_layers.bmcompiler.movement import add_const_data_layer
from user_layers.bmcompiler.shapes import add_expand_dims_layer
from user_layers.bmcompiler.movement import add_expand_layer
from user_layers.bmcompiler.shapes import add_expand_ndims_layer
from user_layers.bmcompiler.shapes import add_flatten_layer_v2
from user_layers.bmcompiler.movement import add_identity_layer
from user_layers.bmcompiler.session import add_layer_name
from user_layers.bmcompiler.movement import add_output_layer
from user_layers.bmcompiler.movement import add_output_layer_v2
from user_layers.bmcompiler.nets import add_reduce_full_layer
from user_layers.bmcompiler.movement import add_repeat_layer
from user_layers.bmcompiler.shapes import add_reshape_layer_v2
from user_layers.bmcompiler.arithmetic import add_select_layer
from user_layers.bmcompiler.shapes import add_squeeze_layer
from user_layers.bmcompiler.movement import add_stride_slice_layer_v2
from user_layers.bmcompiler.movement import add_tile_layer_v2
from user_layers.bmcompiler.custom import add_tpu_layer
from user_layers.bmcompiler.shapes import add_transpose_layer
from user_layers.bmcompiler.shapes import add_transpose_layer_v2
from user_layers.bmcompiler.session import create_bmcompiler
from user_layers.bmcompiler.session import create_bmcompiler_dir
from user_layers.bmcompiler.session import delete_bmcompiler
from user_layers.bmcompiler.session import finish_bmcompiler
from user_layers.bmcompiler.session import finish_bmcompiler_data
from user_layers.bmcompiler.session import get_max_layer_id

__all__ = [
    "ACTIVE_ABSVAL",
    "ACTIVE_CEIL",
    "ACTIVE_COS",
    "ACTIVE_ELU",
    "ACTIVE_EXP",
    "ACTIVE_FLOOR",
    "ACTIVE_HSWISH",
    "ACTIVE_IS_FINITE",
    "ACTIVE_LN",
    "ACTIVE_MISH",
    "ACTIVE_RELU",
    "ACTIVE_ROUND",
    "ACTIVE_RSQRT",
    "ACTIVE_SIGMOID",
    "ACTIVE_SILU",
    "ACTIVE_SIN",
    "ACTIVE_SQRT",
    "ACTIVE_SQUARE",
    "ACTIVE_SWISH",
    "ACTIVE_TANH",
    "BINARY_ADD",
    "BINARY_DIV",
    "BINARY_EQ",
    "BINARY_FLOOR_DIV",
    "BINARY_FLOOR_MOD",
    "BINARY_GE",
    "BINARY_GT",
    "BINARY_LE",
    "BINARY_LT",
    "BINARY_MAX",
    "BINARY_MIN",
    "BINARY_MUL",
    "BINARY_NE",
    "BINARY_SQUARED_DIFF",
    "BINARY_SUB",
    "REDUCE_ALL",
    "REDUCE_ANY",
    "REDUCE_MAX",
    "REDUCE_MEAN",
    "REDUCE_MIN",
    "REDUCE_PROD",
    "REDUCE_SUM",
    "BMCompiler",
    "__bmcompile",
    "__bmcompile_ir",
    "__bmcompile_ir_opt",
    "__bmcompile_ir_opt_no_multistage",
    "__bmcompile_opt",
    "__compile_ir_with_result_check",
    "__compile_with_result_check",
    "add_active_layer",
    "add_arg_layer",
    "add_batch_matmul_layer",
    "add_batchnorm_layer",
    "add_biasadd_layer",
    "add_binary_layer",
    "add_binary_layer_v2",
    "add_broadcast_binary_layer",
    "add_broadcast_binary_layer_v2",
    "add_coeff_layer",
    "add_concat_layer",
    "add_const_binary_layer",
    "add_const_data_layer",
    "add_conv_layer",
    "add_conv_layer_v2",
    "add_crop_layer",
    "add_deconv_layer",
    "add_dropout_layer",
    "add_dtype_convert_layer",
    "add_eltwise_binary_layer",
    "add_eltwise_layer",
    "add_expand_dims_layer",
    "add_expand_layer",
    "add_expand_ndims_layer",
    "add_fc_layer",
    "add_fc_weight_layer",
    "add_flatten_layer",
    "add_flatten_layer_v2",
    "add_identity_layer",
    "add_interp_layer",
    "add_interp_layer_v2",
    "add_layer_name",
    "add_log_softmax_layer",
    "add_lrn_layer",
    "add_normalize_layer",
    "add_output_layer",
    "add_output_layer_v2",
    "add_pad_layer",
    "add_permute_layer",
    "add_pooling_layer",
    "add_pooling_tf_layer",
    "add_prelu_layer",
    "add_reduce_full_layer",
    "add_reduce_layer",
    "add_relu_layer",
    "add_repeat_layer",
    "add_reshape_layer",
    "add_reshape_layer_v2",
    "add_reverse_layer",
    "add_scale_layer",
    "add_select_layer",
    "add_shufflechannel_layer",
    "add_softmax_layer",
    "add_split_layer",
    "add_squeeze_layer",
    "add_stride_slice_layer",
    "add_stride_slice_layer_v2",
    "add_tf_split_layer",
    "add_tile_layer_v2",
    "add_topk_layer",
    "add_tpu_layer",
    "add_transpose_layer",
    "add_transpose_layer_v2",
    "add_upsample_layer",
    "compile_ir_with_result_check",
    "compile_with_result_check",
    "create_bmcompiler",
    "create_bmcompiler_dir",
    "delete_bmcompiler",
    "finish_bmcompiler",
    "finish_bmcompiler_data",
    "get_max_layer_id",
]

def add_active_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    active_type_id: int,
) -> None: ...

def add_arg_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    axis: int,
    method: int,
) -> None: ...

def add_batch_matmul_layer(
    p_bmcpl: BMCompiler,
    input0_name: str | None,
    input0_shape: Sequence[int],
    input0_shape_dim: int,
    input0_is_const: int,
    input0_data: ArrayLike | None,
    input1_name: str | None,
    input1_shape: Sequence[int],
    input1_shape_dim: int,
    input1_is_const: int,
    input1_data: ArrayLike | None,
    output_name: str,
) -> None: ...

def add_batchnorm_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    layer_name: str | None,
    mean_param: ArrayLike,
    variance_param: ArrayLike,
    scale_val: float,
    epsilon: float,
    NormMethod: int,
    is_var_need_calc: int = ...,
) -> None: ...

def add_biasadd_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    layer_name: str | None,
    num_output_neuron: int,
    bias: ArrayLike,
    bIsCoefInt8: bool,
) -> None: ...

def add_binary_layer(
    p_bmcpl: BMCompiler,
    input_A_name: str | None,
    input_A_shape: Sequence[int],
    A_is_coeff: int,
    A_data: ArrayLike | None,
    input_B_name: str | None,
    input_B_shape: Sequence[int],
    B_is_coeff: int,
    B_data: ArrayLike | None,
    input_dim: int,
    output_name: str,
    binary_op: int,
) -> None: ...

def add_binary_layer_v2(
    p_bmcpl: BMCompiler,
    input_A_name: str | None,
    input_A_shape: Sequence[int],
    input_A_dim: int,
    A_is_coeff: int,
    A_data: ArrayLike | None,
    input_B_name: str | None,
    input_B_shape: Sequence[int],
    input_B_dim: int,
    B_is_coeff: int,
    B_data: ArrayLike | None,
    output_name: str,
    binary_op: int,
) -> None: ...

def add_broadcast_binary_layer(
    p_bmcpl: BMCompiler,
    input_A_name: str | None,
    input_A_shape: Sequence[int],
    A_is_coeff: int,
    A_data: ArrayLike | None,
    input_B_name: str | None,
    input_B_shape: Sequence[int],
    B_is_coeff: int,
    B_data: ArrayLike | None,
    input_dim: int,
    output_name: str,
    binary_op: int,
) -> None: ...

def add_broadcast_binary_layer_v2(
    p_bmcpl: BMCompiler,
    input_A_name: str | None,
    input_A_shape: Sequence[int],
    input_A_dim: int,
    A_is_coeff: int,
    A_data: ArrayLike | None,
    input_B_name: str | None,
    input_B_shape: Sequence[int],
    input_B_dim: int,
    B_is_coeff: int,
    B_data: ArrayLike | None,
    output_name: str,
    binary_op: int,
) -> None: ...

def add_concat_layer(
    p_bmcpl: BMCompiler,
    input_num: int,
    input_shape: Sequence[Sequence[int]],
    input_shape_dim: Sequence[int],
    input_name: Sequence[str],
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    concat_axis: int,
) -> None: ...

def add_conv_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    layer_name: str | None,
    weight: ArrayLike,
    bias: ArrayLike | None,
    kh: int,
    kw: int,
    groups: int,
    pad_h_up: int,
    pad_h_down: int,
    pad_w_left: int,
    pad_w_right: int,
    stride_h: int,
    stride_w: int,
    dh: int,
    dw: int,
    have_bias: int,
) -> None: ...

def add_conv_layer_v2(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    weight_name: str | None,
    weight: ArrayLike,
    bias_name: str | None,
    bias: ArrayLike | None,
    kh: int,
    kw: int,
    groups: int,
    pad_h_up: int,
    pad_h_down: int,
    pad_w_left: int,
    pad_w_right: int,
    stride_h: int,
    stride_w: int,
    dh: int,
    dw: int,
    have_bias: int,
) -> None: ...

def add_crop_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    shape_name: str | None,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    offsets: Sequence[int],
) -> None: ...

def add_deconv_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    layer_name: str | None,
    weight: ArrayLike,
    bias: ArrayLike | None,
    kh: int,
    kw: int,
    groups: int,
    pad_h_up: int,
    pad_h_down: int,
    pad_w_left: int,
    pad_w_right: int,
    stride_h: int,
    stride_w: int,
    dh: int,
    dw: int,
    have_bias: int,
) -> None: ...

def add_dropout_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
) -> None: ...

def add_dtype_convert_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_name: str,
    src_dtype: int,
    dst_dtype: int,
) -> None: ...

def add_eltwise_binary_layer(
    p_bmcpl: BMCompiler,
    input_A_name: str | None,
    A_is_coeff: int,
    A_data: ArrayLike | None,
    input_B_name: str | None,
    B_is_coeff: int,
    B_data: ArrayLike | None,
    input_shape: Sequence[int],
    input_dim: int,
    output_name: str,
    binary_op: int,
) -> None: ...

def add_eltwise_layer(
    p_bmcpl: BMCompiler,
    input_num: int,
    input_shape: Sequence[Sequence[int]],
    input_shape_dim: Sequence[int],
    input_name: Sequence[str],
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    op_code: int,
    coefficients: ArrayLike | None,
) -> None: ...

def add_fc_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    layer_name: str | None,
    num_input_neuron: int,
    num_output_neuron: int,
    weight: ArrayLike,
    bias: ArrayLike | None,
    have_bias: int,
    weight_col_is_in_neruon_num: int,
) -> None: ...

def add_fc_weight_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    layer_name: str | None,
    weight_shape: Sequence[int],
    weight_shape_dim: int,
    weight_name: str,
    num_input_neuron: int,
    bias: ArrayLike | None,
    have_bias: int,
    weight_col_is_in_neruon_num: int,
) -> None: ...

def add_flatten_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    raw_param: None,
) -> None: ...

def add_interp_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    pad_beg: int,
    pad_end: int,
    platform_sp: int,
) -> None: ...

def add_interp_layer_v2(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    shape_is_fixed: int,
    output_shape: Sequence[int] | None,
    output_shape_dim: int,
    output_shape_name: str | None,
    output_name: str,
    pad_beg: int,
    pad_end: int,
    align_corners: int,
    half_pixel_centers: int,
    platform_sp: int,
) -> None: ...

def add_log_softmax_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    inner_num: int,
    outer_num: int,
    softmax_dim: int,
) -> None: ...

def add_lrn_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    alpha_: float,
    size_: int,
    beta_: float,
    k_: float,
) -> None: ...

def add_normalize_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    layer_name: str | None,
    across_spatial: int,
    channel_shared: int,
    scale_data: ArrayLike,
    eps: float,
) -> None: ...

def add_pad_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    paddings_: Sequence[int],
    pad_dim: int,
    pad_val: float,
    pad_mode: int,
) -> None: ...

def add_permute_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    permute_order: Sequence[int],
) -> None: ...

def add_pooling_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_number: int,
    output_shape: Sequence[Sequence[int]],
    output_shape_dim: Sequence[int],
    output_name: Sequence[str],
    kh: int,
    kw: int,
    up_pad_h: int,
    down_pad_h: int,
    left_pad_w: int,
    right_pad_w: int,
    stride_h: int,
    stride_w: int,
    is_avg_pooling: int,
    avg_pooling_mode: int,
    is_global_pooling: int,
    out_ceil_mode: int,
    layer_name: str | None,
    coeff_mask: None,
) -> None: ...

def add_pooling_tf_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    kh: int,
    kw: int,
    up_pad_h: int,
    down_pad_h: int,
    left_pad_w: int,
    right_pad_w: int,
    stride_h: int,
    stride_w: int,
    is_avg_pooling: int,
) -> None: ...

def add_prelu_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    layer_name: str | None,
    channel_shared: int,
    slope_: ArrayLike,
) -> None: ...

def add_reduce_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    reduce_method: int,
) -> None: ...

def add_relu_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    negative_slope: float,
    upper_limit: float,
) -> None: ...

def add_reshape_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    raw_param: None,
) -> None: ...

def add_reverse_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    axis: int,
) -> None: ...

def add_scale_layer(
    p_bmcpl: BMCompiler,
    input_num: int,
    input_shape: Sequence[Sequence[int]],
    input_shape_dim: Sequence[int],
    input_name: Sequence[str],
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    layer_name: str | None,
    scale_factor: ArrayLike | None,
    bias_factor: ArrayLike | None,
    num_axes: int,
    axis_: int,
    have_bias: int,
) -> None: ...

def add_shufflechannel_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    group_: int,
) -> None: ...

def add_softmax_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    inner_num: int,
    outer_num: int,
    softmax_dim: int,
) -> None: ...

def add_split_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_num: int,
    output_shape: Sequence[Sequence[int]],
    output_shape_dim: Sequence[int],
    output_name: Sequence[str],
) -> None: ...

def add_stride_slice_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    shape_size: int,
    begin_mask: int,
    end_mask: int,
    begin_index: Sequence[int],
    end_index: Sequence[int],
    stride: Sequence[int],
) -> None: ...

def add_tf_split_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_num: int,
    output_shape: Sequence[Sequence[int]],
    output_shape_dim: Sequence[int],
    output_name: Sequence[str],
    shape_dim: int,
    axis: int,
    split_size: Sequence[int],
    split_num: int,
) -> None: ...

def add_topk_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    k: int,
    dim: int,
    output_shape: Sequence[Sequence[int]],
    output_shape_dim: Sequence[int],
    output_name: Sequence[str],
) -> None: ...

def add_upsample_layer(
    p_bmcpl: BMCompiler,
    input_shape: Sequence[int],
    input_shape_dim: int,
    input_name: str,
    output_shape: Sequence[int],
    output_shape_dim: int,
    output_name: str,
    size: int,
) -> None: ...

def compile_ir_with_result_check(
    p_bmcpl: BMCompiler,
    input_name: Sequence[str],
    input_data: Sequence[ArrayLike],
    input_num: int,
    refer_name: Sequence[str],
    refer_data: Sequence[ArrayLike],
    refer_num: int,
    net_name: str,
) -> None: ...

def compile_with_result_check(
    p_bmcpl: BMCompiler,
    input_name: Sequence[str],
    input_data: Sequence[ArrayLike],
    input_num: int,
    refer_name: Sequence[str],
    refer_data: Sequence[ArrayLike],
    refer_num: int,
    net_name: str,
) -> None: ...
