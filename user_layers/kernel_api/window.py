"""Rows of the table: convolution, pools and the matrix product on fp32."""

from __future__ import annotations

from dataclasses import replace

from user_layers.kernel_api import costs
from user_layers.kernel_api.entry import Cost, Entry, Extents, Family, Layout, Level, Limit, Operand

_SUMS = 1e-5
_RESULT = "n, output_c, oh, ow"
_PAD = Limit("padding", 0, 15, "each pad 0..15")
_STRIDE = Limit("stride", 1, 15, "strides 1..15")
_WIDE = {"input_shape": [1, 2, 40, 40]}
_DILATION = (
    Limit("dilation", 1, 16, "dilations 1..16", _WIDE),
    Limit("dilation", None, 15, "dilations up to 15", _WIDE, Level.WARNING),
)
_KERNEL = (
    Limit("kernel_h", 1, 3, "kernel_h, kernel_w, with dilation, from 1 to the padded input"),
    Limit("kernel_w", 1, 4, hidden=True),
    Limit("kernel_h", 1, 33, given={"padding": [15, 15, 0, 0]}, hidden=True),
)
_CHANNELS = Limit("output_c", 1, 4095)
_SIDES = Extents({"n": 65535, "c": 4095, "h": 65535, "w": 65535}, argument="input_shape")
_POOL_SIDES = Extents(_SIDES.most, "c", argument="input_shape")
_PADDED = "h and w with their pads are at most 2047 together (else a warning)."
_SIZE = (
    "oh = (h + top + bottom - dilation.h * (kernel_h - 1) - 1) // stride.h + 1, ow likewise; "
    "padding, stride and dilation NULL: 0, 1 and 1."
)


def _input(unit: int = 128) -> Operand:
    return Operand("input", "fp32", Layout.ALIGNED, unit=unit, extent="input_shape")


def _output(extent: str = _RESULT) -> Operand:
    return Operand("output", "fp32", Layout.ALIGNED, "result", 128, extent)


_ADDED = Operand(
    "output", "fp32", Layout.ALIGNED, "result, its old value is read with result_add", 128, _RESULT
)
_BIAS = Operand("bias", "fp32", Layout.CHANNEL, extent="output_c elements", note="only read with using_bias")
_CHAINS = (
    "Products are rounded, then added in four chains by the parity of the input channel and of the tap "
    "((kh * kernel_w + kw) * pairs + pair); the chains are added pairwise, then bias, then the old output."
)


def _conv_costs() -> tuple[Cost, ...]:
    return tuple(Cost(("conv.fp32",), cycles, when) for when, cycles in costs.CONVOLUTION.items())


def _convolutions() -> tuple[Entry, ...]:
    strided = Operand(
        "input",
        "fp32",
        Layout.STRIDED,
        extent="input_shape",
        note="may start on another NPU than output",
        unit_without_strides=128,
    )
    limits = (*_KERNEL, _CHANNELS, _PAD, _STRIDE)
    return (
        Entry(
            "okk_bdc_conv2d",
            "",
            'einsum("nihwab,oiab->nohw", windows(input, 0), weight) + using_bias * bias + result_add * old',
            _SUMS,
            (
                _ADDED,
                strided,
                Operand(
                    "weight",
                    "fp32, pairs of input channels (2IC)",
                    Layout.WEIGHTS,
                    extent="output_c, c, kernel_h, kernel_w",
                    note="of 8 when it runs; by kernel_stride, in pairs: [between pairs of input "
                    "channels, between slots of "
                    "output channels, "
                    "h, w]; output channel o on NPU (NPU + o) % 64, a zero beside the last of an odd "
                    "number of channels",
                ),
                _BIAS,
            ),
            _SIDES,
            (*limits, *_DILATION, Limit("kernel_w", 1, 2, given={"dilation": [1, 3]}, hidden=True)),
            _conv_costs(),
            notes=(
                _SIZE,
                _PADDED,
                "kernel_stride has no default: NULL is refused. [kernel_h * kernel_w, pairs * kernel_h * "
                "kernel_w, "
                "kernel_w, 1] is the order [oc][pair][kh][kw].",
                _CHAINS,
                "The kernel is not flipped: a correlation, as in ONNX.",
            ),
        ),
        Entry(
            "okk_bdc_conv2d_kernel_const",
            "A convolution whose weights are all kernel_val.",
            "kernel_val * windows(input, 0).sum((1, 4, 5))[:, None] + using_bias * bias + result_add * old",
            _SUMS,
            (
                _ADDED,
                strided,
                _BIAS,
            ),
            _SIDES,
            limits,
            _conv_costs(),
            notes=(_SIZE, _PADDED, _CHAINS),
        ),
        Entry(
            "okk_bdc_npu_bcast",
            "Gives every channel of dst channel 0 of src.",
            "src[:, :1] + 0 * old",
            0.0,
            (
                Operand("dst", "fp32", Layout.ALIGNED, "result", 128),
                Operand(
                    "src",
                    "fp32",
                    Layout.STRIDED,
                    note="one channel; may start on another NPU than dst; without "
                    "strides at multiples of 128",
                ),
            ),
            Extents(_SIDES.most),
            costs=(Cost(("conv.fp32",), costs.BROADCAST),),
            notes=("A 1x1 convolution of one channel with the weight 1: denormals become 0.",),
        ),
        Entry(
            "okk_bdc_depthwise2d",
            "",
            'einsum("nchwab,cab->nchw", windows(input, 0), weight) + using_bias * bias',
            _SUMS,
            (
                _output("n, c, oh, ow"),
                _input(),
                Operand(
                    "weight",
                    "fp32",
                    Layout.WEIGHTS,
                    extent="c, kernel_h, kernel_w",
                    note="compact: kernel_h * kernel_w words for each channel, channel c on NPU (NPU + "
                    "c) % 64",
                ),
                Operand(
                    "bias", "fp32", Layout.CHANNEL, extent="c elements", note="only read with using_bias"
                ),
            ),
            _SIDES,
            (*_KERNEL, _PAD, _STRIDE, *_DILATION),
            (Cost(("depthwise.fp32",), costs.DEPTHWISE),),
            notes=(
                _SIZE,
                _PADDED,
                "Taps are added in two chains by their parity, then the chains, then the bias.",
            ),
        ),
    )


def _pools() -> tuple[Entry, ...]:
    size = (
        "oh = (h + top + bottom - kernel_h) // stride.h + 1, ow likewise; padding and stride NULL: 0 and 1."
    )
    out = []
    for name, formula, within, instruction, note in (
        (
            "avg_pool2d",
            "windows(input, 0).sum((4, 5)) / (kernel_h * kernel_w)",
            _SUMS,
            "depthwise.fp32",
            "Divides by kernel_h * kernel_w everywhere: pads count as elements that are 0 "
            "(count_include_pad).",
        ),
        (
            "avg_pool2d_v2",
            "windows(input, 0).sum((4, 5)) * factor",
            _SUMS,
            "depthwise.fp32",
            "Not in the vendor's guide. okk_bdc_avg_pool2d is this with 1 / (kernel_h * kernel_w) for "
            "factor.",
        ),
        (
            "max_pool2d",
            "windows(input, -3.4028235e38).max((4, 5))",
            0.0,
            "max_pool.fp32",
            "Pads are the lowest finite number, -3.4028235e38: a window of pads alone gives it, and it "
            "wins against -inf.",
        ),
    ):
        out.append(
            Entry(
                f"okk_bdc_{name}",
                "",
                formula,
                within,
                (_output("n, c, oh, ow"), _input()),
                _POOL_SIDES,
                (*_KERNEL, _PAD, _STRIDE),
                (Cost((instruction,), costs.POOL),),
                notes=(note, size, _PADDED),
            )
        )
    return tuple(out)


def _product() -> Entry:
    return Entry(
        "okk_bdc_matmul",
        "",
        "left @ right + using_bias * bias + result_add * old",
        _SUMS,
        (
            Operand(
                "output",
                "fp32",
                Layout.MATRIX,
                "result, its old value is read with result_add",
                128,
                "left_rows x right_cols",
            ),
            Operand(
                "left",
                "fp32",
                Layout.MATRIX,
                unit=128,
                extent="left_rows x left_cols",
                note="may start on another NPU than output",
            ),
            Operand("right", "fp32", Layout.MATRIX, unit=128, extent="left_cols x right_cols"),
            Operand(
                "bias",
                "fp32",
                Layout.MATRIX,
                unit=128,
                extent="1 x right_cols",
                note="only read with using_bias",
            ),
        ),
        None,
        (
            Limit("left_rows", 1, 65535),
            Limit("left_cols", 1, None, "left_cols, right_cols from 1"),
            Limit("right_cols", 1, None, hidden=True),
            *(
                Limit(f"{side}_cols_per_channel", 1, 65535, hidden=side == "right")
                for side in ("left", "right")
            ),
            Limit(
                "left_cols_per_channel",
                None,
                128,
                "left_cols_per_channel and right_cols_per_channel up to 128 and to the columns of their "
                "matrix",
                level=Level.WARNING,
            ),
            Limit("right_cols_per_channel", None, 128, level=Level.WARNING, hidden=True),
            Limit("left_cols_per_channel", None, 7, "", {"left_cols": 7}, Level.WARNING, True),
            Limit("right_cols_per_channel", None, 7, "", {"right_cols": 7}, Level.WARNING, True),
        ),
        (
            Cost(
                ("matmul.fp32",),
                costs.product(
                    "left_rows",
                    "ceil(right_cols / right_cols_per_channel)",
                    "right_cols_per_channel",
                    "left_cols",
                ),
            ),
        ),
        notes=(
            "Matrix layout: row r is batch r, column k lies in channel k // cols_per_channel at k % "
            "cols_per_channel, "
            "the last channel may be short; output has right_cols_per_channel. At most 4095 channels.",
            "Products are added in two chains, of even and of odd k; then the chains, the bias and the "
            "old output.",
        ),
    )


FAMILIES = (
    Family(
        "Convolution, pools and the matrix product",
        "`windows(x, pad)` are the windows of x with pads of that value, [n, c, oh, ow, kernel_h, "
        "kernel_w]. output is in "
        "the aligned layout; weight and bias start on its NPU. `slots(channels)` is L for so many "
        "channels, L that of the "
        "output's. None of these may write over its input.",
        tuple(
            replace(entry, within_of="the largest result")
            for entry in (*_convolutions(), *_pools(), _product())
        ),
    ),
)
