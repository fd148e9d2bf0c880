"""Rows of the table: convolutions, pools and matrix products of bm_atomic.h, one command each."""

from __future__ import annotations

from dataclasses import replace

from user_layers.kernel_api import costs
from user_layers.kernel_api.entry import FIELDS, Cost, Entry, Extents, Family, Layout, Limit, Operand, aligned

_SUMS = 1e-5
_INPUT = Extents(FIELDS.most, argument="input_shape")
_WINDOW = "n, output_c, oh, ow"
_PAD = Limit("pad", 0, 15, "each pad 0..15")
_STEPS = (
    Limit("stride_h", 1, 15, "stride_h, stride_w 1..15"),
    Limit("stride_w", 1, 15, hidden=True),
    Limit("dilate_h", 1, 16, "dilate_h, dilate_w 1..16"),
    Limit("dilate_w", 1, 16, hidden=True),
)
_KERNEL = (
    Limit("kernel_h", 1, 3, "kernel_h, kernel_w, with dilation, from 1 to the padded input"),
    Limit("kernel_w", 1, 4, hidden=True),
)
_INSERT = Limit("ins_h", 0, 15, "ins_h, ins_w 0..15")
_RSHIFT = Limit("rshift_bit", 0, 31)
_CHANNELS = Limit("output_c", 1, 4095)


_FIXED_SIGN = (
    "Rounds half up and saturates to -128..127; to 0..255 with if_relu, which makes negative sums 0, or "
    "where no operand "
    "is signed."
)
_POOL_INS = (
    "ins_h is the number of zeros between columns and ins_w between rows; they do not count in oh and ow."
)


def _convolutions() -> tuple[Entry, ...]:
    strided = Operand("input", "fp32", Layout.EXPLICIT, extent="input_shape", note="may start on another NPU")
    packed = Operand(
        "input", "8-bit 4N", Layout.EXPLICIT, extent="input_shape", note="may start on another NPU"
    )
    weights = "by kernel_stride, in {}: [between them, between slots of output channels, h, w]"
    return (
        Entry(
            "bm_atomic_conv",
            "okk_bdc_conv2d with constant weights, inserted zeros and a flipped kernel.",
            'einsum("nihwab,oiab->nohw", windows(input, 0), weight) + using_bias * bias + result_add * old',
            _SUMS,
            (
                aligned("output", "fp32", "result, its old value is read with result_add", _WINDOW),
                strided,
                Operand(
                    "weight",
                    "fp32, pairs of input channels (2IC)",
                    Layout.WEIGHTS,
                    extent="output_c, c, kernel_h, kernel_w",
                    note=f"of 8 when it runs; {weights.format('pairs of input channels')}; kernel_val "
                    "with kernel_is_const",
                ),
                Operand(
                    "bias",
                    "fp32",
                    Layout.CHANNEL,
                    unit=1,
                    extent="output_c elements",
                    note="only with using_bias",
                ),
            ),
            _INPUT,
            (*_KERNEL, *_STEPS, _PAD, _INSERT, _CHANNELS),
            (Cost(("conv.fp32",), "as okk_bdc_conv2d"),),
        ),
        Entry(
            "bm_atomic_conv_quantized",
            "An 8-bit convolution with a 16-bit bias.",
            'saturated(half_up(einsum("nihwab,oiab->nohw", windows(input, 0), weight) + using_bias * '
            "bias, rshift_bit))",
            0.0,
            (
                aligned("output", "8-bit 4N", "result", _WINDOW),
                packed,
                Operand(
                    "weight",
                    "8-bit, groups of four input channels (4IC)",
                    Layout.WEIGHTS,
                    extent="output_c, c, kernel_h, kernel_w",
                    note=f"{weights.format('groups of four input channels')}; kernel_val with "
                    "kernel_is_const",
                ),
                Operand(
                    "bias",
                    "16-bit",
                    Layout.CHANNEL,
                    unit=2,
                    extent="output_c elements",
                    note="only with using_bias",
                ),
            ),
            _INPUT,
            (*_KERNEL, *_STEPS, _PAD, _INSERT, _CHANNELS, _RSHIFT),
            (
                Cost(
                    ("conv.int8",),
                    "ceil(n / 4) * L * ceil(oh * ow / 16)"
                    " * (kernel_h * kernel_w * ceil(c / 4) + 8 + 2 * using_bias)",
                ),
            ),
            notes=(_FIXED_SIGN, "result_add does not count: the unit cannot add to an 8-bit result."),
        ),
        Entry(
            "bm_atomic_winograd_quantized",
            "An 8-bit 3x3 convolution with stride 1 on transformed weights, F(2x2, 3x3).",
            operands=(
                aligned("output", "8-bit 4N", "result", _WINDOW),
                packed,
                Operand(
                    "weight",
                    "8-bit, groups of four input channels (4IC)",
                    Layout.WEIGHTS,
                    unit=128,
                    extent="output_c, c, 4, 4",
                    note="the transformed 4x4 tiles, [group of input channels][output channel][4][4][4], "
                    "signed",
                ),
                Operand(
                    "bias",
                    "16-bit",
                    Layout.CHANNEL,
                    unit=1,
                    extent="output_c elements",
                    note="only with using_bias",
                ),
            ),
            extents=_INPUT,
            limits=(_PAD, _INSERT, _CHANNELS, _RSHIFT),
            costs=(
                Cost(
                    ("conv.winograd_int8",),
                    "ceil(n / 4) * L * ceil(oh * ow / 16) * (4 * ceil(c / 4) + 8 + 2 * using_bias)",
                ),
            ),
            notes=(
                _FIXED_SIGN,
                "The sum over all transformed tiles is exact; rounding comes after the bias.",
            ),
        ),
    )


def _pools() -> tuple[Entry, ...]:
    size = "n, c, oh, ow"
    data, result = aligned("input", "fp32", extent="input_shape"), aligned("output", "fp32", "result", size)
    packed = aligned("input", "8-bit 4N", extent="input_shape")
    packed_result = aligned("output", "8-bit 4N", "result", size)
    limits = (
        *_KERNEL,
        Limit("stride_h", 1, 15, "stride_h, stride_w 1..15"),
        Limit("stride_w", 1, 15, hidden=True),
        _PAD,
        _INSERT,
    )
    more = (*_KERNEL, *_STEPS, _PAD, _INSERT, _RSHIFT)
    packed_cycles, packed_biased = (
        cycles.replace("n * L", "ceil(n / 4) * L") for cycles in (costs.POOL, costs.DEPTHWISE)
    )

    def weight(element: str, bytes_each: str, unit: int = 4) -> Operand:
        return Operand(
            "weight",
            element,
            Layout.WEIGHTS,
            unit=unit,
            extent="c, kernel_h, kernel_w",
            note=f"compact: kernel_h * kernel_w {bytes_each} for each channel",
        )

    return (
        Entry(
            "bm_atomic_avg_pool",
            "okk_bdc_avg_pool2d.",
            "windows(input, 0).sum((4, 5)) / (kernel_h * kernel_w)",
            _SUMS,
            (result, data),
            _INPUT,
            limits,
            (Cost(("depthwise.fp32",), costs.POOL),),
            notes=("Divides by kernel_h * kernel_w everywhere: pads count as 0.", _POOL_INS),
        ),
        Entry(
            "bm_atomic_sum_pool",
            "The sum of each window times coeff.",
            "windows(input, 0).sum((4, 5)) * coeff",
            _SUMS,
            (result, data),
            _INPUT,
            limits,
            (Cost(("depthwise.fp32",), costs.POOL),),
            notes=(_POOL_INS,),
        ),
        Entry(
            "bm_atomic_max_pool",
            "okk_bdc_max_pool2d.",
            "windows(input, -3.4028235e38).max((4, 5))",
            0.0,
            (result, data),
            _INPUT,
            limits,
            (Cost(("max_pool.fp32",), costs.POOL),),
            notes=("Pads are -3.4028235e38.", _POOL_INS),
        ),
        Entry(
            "bm_atomic_avg_pool_quantized",
            "An 8-bit average, by a weight of at most 8 bits and a shift.",
            operands=(packed_result, packed),
            extents=_INPUT,
            limits=(
                *more,
                Limit(
                    "kernel_h",
                    1,
                    256,
                    "kernel_h * kernel_w 1..256",
                    {"kernel_w": 1, "input_shape": [1, 2, 300, 4]},
                ),
            ),
            costs=(Cost(("depthwise.int8",), packed_cycles),),
            notes=(
                "The sum times m, shifted right by s + rshift_bit: m is the odd 8-bit weight of kernel_h "
                "* kernel_w, s the "
                "shift of one element fewer, as in the vendor's encoder. So 2x2 gives sum / 512; 3x3 "
                "gives sum * 57 / 8, "
                "and with rshift_bit 6 the average.",
                _FIXED_SIGN,
                _POOL_INS,
            ),
        ),
        Entry(
            "bm_atomic_max_pool_quantized",
            "The greatest of each window.",
            "windows(input, lowest).max((4, 5))",
            0.0,
            (packed_result, packed),
            _INPUT,
            more,
            (Cost(("max_pool.int8",), packed_cycles),),
            notes=(
                "lowest is -128 with input_sign, else 0. rshift_bit is 0. Dilations count for oh and ow "
                "only: taps are neighbours.",
                _POOL_INS,
            ),
        ),
        Entry(
            "bm_atomic_depthwise",
            "okk_bdc_depthwise2d.",
            'einsum("nchwab,cab->nchw", windows(input, 0), weight) + using_bias * bias',
            _SUMS,
            (
                result,
                data,
                weight("fp32", "words"),
                Operand("bias", "fp32", Layout.CHANNEL, extent="c elements", note="only with using_bias"),
            ),
            _INPUT,
            (*_KERNEL, *_STEPS, _PAD, _INSERT),
            (Cost(("depthwise.fp32",), costs.DEPTHWISE),),
            notes=(_POOL_INS,),
        ),
        Entry(
            "bm_atomic_depthwise_quantized",
            "An 8-bit depthwise convolution with a 16-bit bias.",
            'saturated(half_up(einsum("nchwab,cab->nchw", windows(input, 0), weight) + using_bias * '
            "bias, rshift_bit))",
            0.0,
            (
                packed_result,
                packed,
                weight("8-bit", "bytes", 1),
                Operand(
                    "bias", "16-bit", Layout.CHANNEL, unit=1, extent="c elements", note="only with using_bias"
                ),
            ),
            _INPUT,
            more,
            (Cost(("depthwise.int8",), packed_biased),),
            notes=(_FIXED_SIGN, _POOL_INS),
        ),
    )


def _products() -> tuple[Entry, ...]:
    layout = (
        "input_l is [l_row, l_col], stored transposed with l_trans; tensor_w columns lie in a channel, "
        "tensor_c channels "
        "hold a row."
    )
    limits = (
        Limit("l_row", 1, None, "l_row, l_col from 1"),
        Limit("l_col", 1, None, hidden=True),
        Limit("l_tensor_c", 1, 4095, "l_tensor_c, r_tensor_c 1..4095"),
        Limit("r_tensor_c", 1, 4095, hidden=True),
        Limit("l_tensor_w", 1, None),
    )

    def matrices(element: str, bias: str) -> tuple[Operand, ...]:
        return (
            Operand(
                "output",
                element,
                Layout.MATRIX,
                "result, its old value is read with result_add",
                128,
                "l_row x columns",
            ),
            Operand("input_l", element, Layout.MATRIX, unit=128, extent="l_row x l_col"),
            Operand("input_r", element, Layout.MATRIX, unit=128, extent="l_col x columns"),
            Operand("bias", bias, Layout.MATRIX, unit=128, extent="1 x columns", note="only with using_bias"),
        )

    return (
        Entry(
            "bm_atomic_matmul",
            "okk_bdc_matmul, also of a left matrix that is stored transposed.",
            "input_l @ input_r + using_bias * bias + result_add * old",
            _SUMS,
            matrices("fp32", "fp32"),
            None,
            (*limits, Limit("r_tensor_w", 1, 65535)),
            (
                Cost(
                    ("matmul.fp32",),
                    costs.product("l_row", "r_tensor_c", "r_tensor_w", "l_col"),
                ),
            ),
            notes=(layout,),
        ),
        Entry(
            "bm_atomic_matmul_quantized",
            "An 8-bit matrix product with an 8-bit or 16-bit result (output_16bit).",
            "saturated(half_up(input_l @ input_r + using_bias * bias + result_add * (old << lshfit_bit), "
            "rshift_bit))",
            0.0,
            matrices("8-bit, one batch to a byte (1N)", "16-bit"),
            None,
            (
                *limits,
                Limit("r_tensor_w", 1, 128),
                _RSHIFT,
                Limit("lshfit_bit", 0, 31),
            ),
            (
                Cost(
                    ("matmul.int8",),
                    "l_row * slots(r_tensor_c) * ceil(r_tensor_w / 64)"
                    " * (l_col + 5 + 2 * using_bias + 2 * result_add)",
                ),
            ),
            notes=(
                layout,
                _FIXED_SIGN.replace("-128..127; to 0..255", "its signed range; to the unsigned one"),
                "The old output is 16-bit, signed with result_add_sign.",
            ),
        ),
    )


def _of_largest(*entries: Entry) -> tuple[Entry, ...]:
    """Sums: how near they are depends on the largest."""
    return tuple(replace(entry, within_of="the largest result") for entry in entries)


FAMILIES = (
    Family(
        "bm_atomic: convolution, pools, depthwise convolution",
        "Each function takes a struct and issues one command. pad is [top, bottom, left, right]; "
        "dilations of 1 mean none; "
        "ins_h and ins_w zeros are inserted between rows and columns. `oh` and `ow` are those of "
        "okk_bdc_conv2d.",
        _of_largest(*_convolutions(), *_pools()),
    ),
    Family("bm_atomic: matrix products", "Everything in the matrix layout.", _of_largest(*_products())),
)
