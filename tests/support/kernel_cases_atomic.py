"""Calls of those functions of bm_atomic.h that the table of the kernel API gives a formula for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from firmware_sim.chip import LOCAL_BYTES
from tests.support import kernel_tensors
from tests.support.kernel_cases import START, Case, matrix
from tests.support.kernel_tensors import Array, Placed
from user_layers.kernel_api.entry import Entry
from user_layers.kernel_api.prototypes import arguments, functions
from user_layers.kernel_api.reference import ENTRIES

_STEP = 32768
_PADS = [1, 0, 2, 1]
_SHIFT = {
    "bm_atomic_conv_quantized": 12,
    "bm_atomic_depthwise_quantized": 8,
    "bm_atomic_max_pool_quantized": 0,
}


def _random(placed: Placed, rng: np.random.Generator) -> Array:
    if placed.dtype == "float32":
        return rng.normal(size=placed.shape).astype(np.float32)
    info = np.iinfo(placed.dtype)
    return rng.integers(info.min, info.max + 1, placed.shape).astype(placed.dtype)


def _four(placed: Placed) -> Placed:
    """The same tensor as 8-bit 4N."""
    return replace(placed, dtype="int8", per_word=4)


def _operands(
    entry: Entry, shape: tuple[int, int, int, int], out: tuple[int, int, int, int]
) -> dict[str, Placed]:
    base, fixed = START * LOCAL_BYTES, "quantized" in entry.name
    (_, c, _, _), (_, out_c, _, _) = shape, out
    found = {}
    for i, (name, extents) in enumerate((("output", out), ("input", shape))):
        placed = Placed(base + i * _STEP, extents, tuple(kernel_tensors.aligned(START, extents)))
        found[name] = _four(placed) if fixed else placed
    taken = arguments(functions()[entry.name])
    if "weight_addr" in taken and "conv" in entry.name:
        per = 4 if fixed else 2
        groups = -(-c // per)
        dtype, bytes_each = ("int8", 4) if fixed else ("float32", 8)
        strides = (6, 6 * groups, 2, 1)
        weight = Placed(base + 2 * _STEP, (per * groups, out_c, 3, 2), strides, dtype, bytes_each, per)
        found["weight"] = weight
    elif "weight_addr" in taken:
        taps = (1, c, 3, 2)
        dtype, size = ("int8", 1) if fixed else ("float32", 4)
        found["weight"] = Placed(
            base + 2 * _STEP, taps, tuple(kernel_tensors.compact(START, taps)), dtype, size
        )
    if "bias_addr" in taken:
        row = (1, out_c, 1, 1)
        dtype, size = ("int16", 2) if fixed else ("float32", 4)
        found["bias"] = Placed(base + 3 * _STEP, row, tuple(kernel_tensors.compact(START, row)), dtype, size)
    return found


def window(entry: Entry, rng: np.random.Generator) -> Case:
    """A call of a convolution or a pool."""
    taken = arguments(functions()[entry.name])
    n, c, h, w = shape = (6, 67, 7, 9)
    out_c = 70 if "output_c" in taken else c
    dilation = [1, 2] if "dilate_h" in taken else [1, 1]
    pads = [0] * 4 if entry.name.endswith("max_pool_quantized") else _PADS
    oh = (h + pads[0] + pads[1] - dilation[0] * 2 - 1) // 2 + 1
    ow = w + pads[2] + pads[3] - dilation[1]
    operands = _operands(entry, shape, (n, out_c, oh, ow))
    data = {name: _random(placed, rng) for name, placed in operands.items()}
    if "conv" in entry.name:
        data["weight"][c:] = 0  # beside the last channel
    fixed = "quantized" in entry.name
    args: dict[str, Any] = {f"{name}_addr": placed.addr for name, placed in operands.items()}
    args |= {
        "input_shape": list(shape),
        "output_c": out_c,
        "kernel_h": 3,
        "kernel_w": 2,
        "stride_h": 2,
        "stride_w": 1,
    }
    args |= {"input_stride": list(operands["input"].strides), "pad": pads, "ins_h": 0, "ins_w": 0}
    args |= {"dilate_h": dilation[0], "dilate_w": dilation[1], "kernel_is_const": False, "kernel_val": 0}
    args |= {
        "using_bias": True,
        "kernel_flip": False,
        "result_add": not fixed,
        "coeff": 0.25,
        "if_relu": False,
    }
    args |= dict.fromkeys(("input_sign", "weight_sign", "bias_sign"), True)
    args["rshift_bit"] = _SHIFT.get(entry.name, 0)
    if "weight" in operands:
        args["kernel_stride"] = list(operands["weight"].strides)
    seen = {k: args[k] for k in taken if not k.endswith("_addr") and k != "dilate_h"}
    if entry.name.endswith("max_pool_quantized"):  # its taps are neighbours, whatever the result's size
        dilation = [1, 1]
    windowed = {"padding": pads, "stride": [2, 1], "dilation": dilation, "kernel": (3, 2)}
    case = Case(
        entry, {k: args[k] for k in taken}, operands, data, seen, {"n": n, "c": out_c, "h": h, "w": w}
    )
    case.windowed = windowed
    case.more = {"c": c, "oh": oh, "ow": ow}
    return case


def product(name: str, rng: np.random.Generator) -> Case:
    """A call of a matrix product: 5 x 41 by 41 x 37, 6 columns of the left, 4 of the right to a channel."""
    entry = ENTRIES[name]
    rows, inner, columns, per_left, per_right = 5, 41, 37, 6, 4
    fixed = "quantized" in name
    kinds = ("int16", "int8", "int8", "int16") if fixed else ("float32",) * 4
    places = {}
    for i, (operand, r, k, per) in enumerate(
        (
            ("output", rows, columns, per_right),
            ("input_l", rows, inner, per_left),
            ("input_r", inner, columns, per_right),
            ("bias", 1, columns, per_right),
        )
    ):
        places[operand] = matrix(START * LOCAL_BYTES + i * _STEP, r, k, per, kinds[i])
    data = {operand: _random(p, rng) for operand, p in places.items()}
    args: dict[str, Any] = {f"{operand}_addr": p.addr for operand, p in places.items()}
    args |= {"l_row": rows, "l_col": inner, "l_tensor_w": per_left, "l_tensor_c": -(-inner // per_left)}
    args |= {"r_tensor_w": per_right, "r_tensor_c": -(-columns // per_right), "l_trans": False}
    args |= {"using_bias": True, "result_add": True, "lshfit_bit": 2, "rshift_bit": 3, "if_relu": False}
    args |= dict.fromkeys(
        ("result_add_sign", "input_l_sign", "input_r_sign", "bias_sign", "output_16bit"), True
    )
    taken = arguments(functions()[name])
    seen = {k: args[k] for k in taken if not k.endswith("_addr")}
    case = Case(entry, {k: args[k] for k in taken}, places, data, seen, {"n": rows, "c": 1, "h": 1, "w": 1})
    case.matrices = {"output": columns, "input_l": inner, "input_r": columns, "bias": columns}
    return case
