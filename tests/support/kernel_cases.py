"""Calls of the functions of okk.h that the table of the kernel API gives a formula for, on random operands.

What is not said here of a call comes from the table: the operands, their layouts and their elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import DDR_BASE, LOCAL_BYTES
from tests.support import kernel_formulas, kernel_tensors
from tests.support.bursts import counted_side
from tests.support.kernel_tensors import Placed
from user_layers.kernel_api.entry import Entry, Layout, Operand
from user_layers.kernel_api.prototypes import arguments, functions
from user_layers.kernel_api.reference import ENTRIES

Array = npt.NDArray[Any]
START = 61  # the first NPU: channels go around
_STEP = 16384  # between operands in local memory
_SHAPE = (3, 70, 3, 5)
_OP_TYPES = (
    31,
    27,
    23,
    22,
    30,
    9,
    8,
)  # s8 s8 s8, s8 u8 s8, s8 s8 s16, s16 s16 s16, s16 s16 s8, u8 u8 u8, u16
_WORDS = {"rshift": 3, "lshift": 2, "num_series": 20, "is_origin_dst_signed": True, "is_aligned_layout": True}


@dataclass
class Case:
    """One call: arguments, operands by name (the result first), their data, what formulas see besides."""

    entry: Entry
    args: dict[str, Any]
    operands: dict[str, Placed]
    data: dict[str, Array]
    seen: dict[str, Any]
    extents: dict[str, Any]
    form: int = 0
    """Which of the entry's costs."""
    windowed: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    """What costs see besides."""
    matrices: Mapping[str, int] = field(default_factory=dict)
    """Columns of operands that are matrices: formulas see them as such."""

    @property
    def result(self) -> str:
        """The operand that comes out."""
        return self.entry.operands[0].name

    def expected(self) -> Array:
        """The formula of what lies in the operands."""
        real = np.float64 if self.entry.within else np.float32
        wide = {k: v.astype(real if v.dtype.kind == "f" else np.int64) for k, v in self.data.items()}
        wide |= {k: self.as_matrix(k, v) for k, v in wide.items() if k in self.matrices}
        if "weight" in wide:
            wide["weight"] = self._weights(wide["weight"])
        bits = {"int16": 16, "uint16": 16}.get(self.operands[self.result].dtype, 32)
        known = {**kernel_formulas.names(bits), **self.seen, **wide, "old": wide[self.result]}
        known["windows"] = lambda x, pad: kernel_formulas.windows(x, pad, self.windowed)
        known["saturated"] = known["lowest"] = None
        if self.operands[self.result].dtype != "float32":
            known["saturated"] = self._saturated
            known["lowest"] = np.iinfo(self.operands[self.result].dtype).min
        known["saturated_to_zero"] = lambda x, r: np.clip(
            np.sign(x) * known["half_up"](abs(x), r), -32767, 32767
        )
        with np.errstate(all="ignore"):
            found: Array = np.asarray(eval(self.entry.formula, known))
        return found[:, :, : self.more["oh"], : self.more["ow"]] if self.windowed else found

    def as_matrix(self, name: str, data: Array) -> Array:
        """[rows, columns] of what lies in channels."""
        return data.reshape(len(data), -1)[:, : self.matrices[name]]

    def _weights(self, weight: Array) -> Array:
        """[output channel, input channel, kh, kw], or [channel, kh, kw]."""
        channels = self.operands["input"].shape[1]
        found: Array = weight[0] if len(weight) == 1 else np.swapaxes(weight, 0, 1)[:, :channels]
        return found

    def _saturated(self, x: Array) -> Array:
        info = np.iinfo(self.operands[self.result].dtype)
        return np.clip(x, info.min, info.max)

    def value_of(self, expression: str) -> float:
        """A cost of the entry."""
        known = {**kernel_formulas.costs(start=START, **self.extents), **self.seen, **self.more}
        return float(eval(expression, known))


# ---- elements ----


def _packed(function: str, element: str, name: str, op_type: int) -> tuple[str, int] | None:
    """dtype and elements to a word of what the table calls packed; None for 32-bit words."""
    if "4N" not in element and "2N" not in element and "four pixels" not in element:
        return None
    bits = 8 if "8-bit" in element else 16
    second = name == "src1" or (name == "src" and "_C_sub" in function)
    signed = op_type & (4 if second else 2)
    if "by op_type" in element:
        bits = 8 if op_type & (8 if name == "dst" else 1) else 16
    if name == "dst":
        signed = 1 if "_sub" in function else op_type & 6
    if "unsigned" in element:
        signed = 0
    elif "signed" in element:
        signed = 1
    return f"{'' if signed else 'u'}int{bits}", 32 // bits


_DOMAINS: tuple[tuple[str, float, float], ...] = (
    ("okk_bdc_(r?sqrt)", 0.001, 1e4),
    ("okk_bdc_exp.*", -85.0, 85.0),
    ("okk_bdc_sigmoid.*", -85.0, 85.0),
    ("okk_bdc_tanh.*", -20.0, 20.0),
    ("okk_bdc_taylor_exp", -1.0, 1.0),
    ("okk_bdc_fp32_to_.*", -400.0, 400.0),
    ("okk_bdc_lookup_exp", -87, 89),
    ("okk_bdc_lookup_int32_to_fp32", -128, 128),
    (".*_shift_C", -(1 << 30), 1 << 30),
)


def _random(entry: Entry, operand: Operand, placed: Placed, rng: np.random.Generator) -> Array:
    kind = np.dtype(placed.dtype)
    if "shift" in entry.name and operand.name in ("src1", "src") and not entry.name.endswith("shift_C"):
        most = 16 if kind.itemsize == 2 else 31
        return rng.integers(-most, most + 1, placed.shape).astype(kind)
    for pattern, low, high in _DOMAINS:
        if re.fullmatch(pattern, entry.name) and kind.itemsize == 4:
            made = rng.uniform(low, high, placed.shape)
            return (
                made.astype(kind)
                if kind.kind == "f"
                else rng.integers(int(low), int(high), placed.shape, kind)
            )
    if kind.kind == "f":
        made = rng.normal(size=placed.shape).astype(kind)
        if "select" in entry.name or "max" in entry.name or "min" in entry.name:
            made = np.round(made)  # some are equal
        return np.where(made == 0, kind.type(1), made) if "div" in entry.name else made
    info = np.iinfo(kind)
    return rng.integers(info.min, int(info.max) + 1, placed.shape, np.int64).astype(kind)


# ---- calls on [n, c, h, w] ----


def _is_elementwise(entry: Entry) -> bool:
    return (
        bool(entry.formula)
        and entry.name.startswith("okk_bdc")
        and "shape" in arguments(functions()[entry.name])
    )


def _strides(operand: Operand, shape: tuple[int, int, int, int], given: bool) -> list[int] | None:
    """Those that a strided call gives: rows further apart, the channels aligned."""
    if not given:
        return None
    n, c, h, w = shape
    wider = kernel_tensors.aligned(START, (n, c, h, w + 2 + len(operand.name)))
    return [*wider[:3], 1]


def elementwise(entry: Entry, form: int, op_type: int, is_signed: bool, rng: np.random.Generator) -> Case:
    """A call of a function on tensors of one shape. form 1: with strides."""
    function = functions()[entry.name]
    taken = arguments(function)
    words = any(o.element.startswith("fp32") for o in entry.operands)
    args: dict[str, Any] = {}
    operands, data = {}, {}
    for i, operand in enumerate(entry.operands):
        shape = _SHAPE
        if operand.layout is Layout.CHANNEL:
            shape = (1, _SHAPE[1], 1, 1)
        kind = _packed(entry.name, operand.element, operand.name, op_type)
        per_word = 1
        if kind is not None:
            dtype, per_word = kind
            if "is_signed" in taken:
                dtype = ("" if is_signed else "u") + "int8"
        elif operand.element == "32-bit":
            dtype = "float32" if words else "int32"
        else:
            dtype = {"fp32": "float32", "int32": "int32"}[operand.element]
        given = None
        if f"{operand.name}_stride" in taken:
            given = _strides(operand, shape, form == 1)
            args[f"{operand.name}_stride"] = given
        addr = START * LOCAL_BYTES + i * _STEP
        strides = given or kernel_tensors.aligned(START, shape)
        if operand.layout is Layout.CHANNEL:
            strides = kernel_tensors.compact(START, shape)
        placed = Placed(addr, shape, tuple(strides), dtype, 4, per_word)
        if "four pixels" in operand.element:
            placed = _pixels(placed)
        operands[operand.name] = placed
        data[operand.name] = _random(entry, operand, placed, rng)
        args[f"{operand.name}_addr"] = addr
    seen = {k: v for k, v in {**_WORDS, "op_type": op_type, "is_signed": is_signed}.items() if k in taken}
    args |= seen
    _constants(entry, args, seen, data, operands, taken)
    for key in taken:
        if {name: ctype for ctype, name in function.parameters}[key].endswith("_or_addr_t *"):
            args[key] = {"is_addr": True, "bits": f"{args.pop(key + '_addr'):x}"}
    args["shape"] = list(_SHAPE)
    ordered = {key: args[key] for key in taken}
    n, c, h, w = _SHAPE
    per_word = operands["dst"].per_word
    return Case(
        entry, ordered, operands, data, seen, {"n": n, "c": c, "h": h, "w": w, "per_word": per_word}, form
    )


def _pixels(placed: Placed) -> Placed:
    """Four neighbouring pixels to a word: bytes, each channel from a word on."""
    n, c, h, w = placed.shape
    words = kernel_tensors.aligned(START, (n, c, 1, -(-h * w // 4)))
    return replace(placed, strides=(4 * words[0], 4 * words[1], w, 1), itemsize=1, per_word=1)


def _constants(
    entry: Entry,
    args: dict[str, Any],
    seen: dict[str, Any],
    data: dict[str, Array],
    operands: dict[str, Placed],
    taken: tuple[str, ...],
) -> None:
    if "select_val" in taken:
        args["select_val"], seen["select_val"] = "40200000", np.float32(2.5)
    if "kernel_val" in taken:
        args["kernel_val"] = seen["kernel_val"] = 0.5
    if "mul_type" in taken:
        args["mul_type"] = seen["mul_type"] = 7  # s16 * s8
        for name in ("src0_high", "src1"):
            operands[name] = replace(operands[name], dtype="int8")
            data[name] = data[name].astype(np.int8)
        operands["dst"] = replace(operands["dst"], dtype="int16")
        data["dst"] = data["dst"].astype(np.int16)
    if "C" not in taken:
        return
    ctype = {name: t for t, name in functions()[entry.name].parameters}["C"]
    if ctype == "x32":
        args["C"], seen["C"] = "12345678", np.int32(0x12345678)
    elif "shift" in entry.name and entry.name.endswith("_C"):
        args["C"] = seen["C"] = -5
    elif ctype == "float":
        args["C"] = 1.0 if "select" in entry.name else 1.75
        seen["C"] = np.float32(args["C"])
    else:
        args["C"] = seen["C"] = 77
    if entry.name.endswith("set_C"):
        seen["C"] = np.full(_SHAPE, seen["C"], np.int32)


def _op_types(entry: Entry) -> tuple[int, ...]:
    """Those that the function takes."""
    if "op_type" not in arguments(functions()[entry.name]):
        return (31,)
    if re.search("mul|mac", entry.name):
        return tuple(t for t in _OP_TYPES if t & 1 and ("mac" not in entry.name or not t & 8))
    if re.search("max|min", entry.name):
        return tuple(t for t in _OP_TYPES if bool(t & 1) == bool(t & 8) and t != 27)
    return _OP_TYPES


def elementwise_cases() -> Iterator[tuple[str, Entry, int, int, bool]]:
    """(what, entry, form, op_type, is_signed) of all calls."""
    for entry in ENTRIES.values():
        if not _is_elementwise(entry) or entry.name == "okk_bdc_npu_bcast":
            continue
        taken = arguments(functions()[entry.name])
        forms = (0, 1) if "dst_stride" in taken else (0,)
        signs = (True, False) if "is_signed" in taken else (True,)
        for form in forms:
            for op_type in _op_types(entry):
                for sign in signs:
                    what = f"{entry.name} form {form} op_type {op_type} signed {sign}"
                    yield what, entry, form, op_type, sign


# ---- windows ----

_PADS = [1, 0, 2, 1]
_WINDOW: dict[str, Any] = {"kernel_h": 3, "kernel_w": 2, "padding": _PADS, "stride": [2, 1]}
_INPUT = (2, 67, 7, 9)
_CHANNELS = 70


def _output_side(size: int, kernel: int, pads: int, stride: int, dilation: int) -> int:
    return (size + pads - dilation * (kernel - 1) - 1) // stride + 1


def window(entry: Entry, strided: bool, channels: int, rng: np.random.Generator) -> Case:
    """A call of a convolution or a pool. strided: the input has strides of its own and starts elsewhere."""
    taken = arguments(functions()[entry.name])
    n, _, h, w = _INPUT
    c = channels
    dilation = [1, 2] if "dilation" in taken else [1, 1]
    out_c = _CHANNELS if "output_c" in taken else c
    top, bottom, left, right = _PADS
    oh = _output_side(h, 3, top + bottom, 2, dilation[0])
    ow = _output_side(w, 2, left + right, 1, dilation[1])
    base, shape = START * LOCAL_BYTES, (n, c, h, w)
    given = strided and "input_stride" in taken
    there = 7 if given else START
    in_strides = kernel_tensors.aligned(there, (n, c, h, w + given))
    operands = {
        "output": Placed(base, (n, out_c, oh, ow), tuple(kernel_tensors.aligned(START, (n, out_c, oh, ow)))),
        "input": Placed(there * LOCAL_BYTES + _STEP, shape, tuple(in_strides)),
    }
    data = {name: _random(entry, entry.operands[0], p, rng) for name, p in operands.items()}
    args: dict[str, Any] = {**_WINDOW, "input_shape": list(shape), "output_c": out_c, "dilation": dilation}
    args |= {
        "using_bias": True,
        "result_add": True,
        "kernel_val": 0.5,
        "input_stride": in_strides if given else None,
    }
    args["factor"] = 0.25
    if "weight_addr" in taken:
        operands |= _weights(entry, c, out_c, base + 2 * _STEP)
        args["kernel_stride"] = [6, 6 * -(-c // 2), 2, 1]
        weight = operands["weight"]
        data["weight"] = _random(entry, entry.operands[0], weight, rng)
        if "pairs" in entry.operands[2].element and c % 2:
            data["weight"][c:] = 0  # beside the last channel
    if "bias_addr" in taken:
        operands["bias"] = Placed(
            base + 7 * _STEP, (1, out_c, 1, 1), tuple(kernel_tensors.compact(START, (1, out_c, 1, 1)))
        )
        data["bias"] = _random(entry, entry.operands[0], operands["bias"], rng)
    args |= {f"{name}_addr": placed.addr for name, placed in operands.items()}
    if "bias_addr" not in taken:
        args.pop("bias_addr", None)
    seen = {
        "using_bias": True,
        "result_add": True,
        "kernel_h": 3,
        "kernel_w": 2,
        "kernel_val": np.float32(0.5),
    }
    seen |= {"stride_w": 1, "factor": args["factor"]}
    windowed = {
        "padding": _WINDOW["padding"],
        "stride": _WINDOW["stride"],
        "dilation": dilation,
        "kernel": (3, 2),
    }
    extents = {"n": n, "c": out_c, "h": h, "w": w}
    form = 0 if c >= 5 or len(entry.costs) == 1 else 1 if c >= 3 else 2
    case = Case(entry, {k: args[k] for k in taken}, operands, data, seen, extents, form, windowed)
    case.more = {"c": c, "oh": oh, "ow": ow, "L": kernel_tensors.slots(START, out_c)}
    return case


def _weights(entry: Entry, c: int, out_c: int, addr: int) -> dict[str, Placed]:
    """Where weights lie: of a convolution [input channel, output channel, kh, kw], pairs in a double word."""
    if "pairs" not in entry.operands[2].element:
        return {"weight": Placed(addr, (1, c, 3, 2), tuple(kernel_tensors.compact(START, (1, c, 3, 2))))}
    pairs = -(-c // 2)
    return {"weight": Placed(addr, (2 * pairs, out_c, 3, 2), (6, 6 * pairs, 2, 1), "float32", 8, 2)}


# ---- products and copies ----


def product(rng: np.random.Generator) -> Case:
    """A call of okk_bdc_matmul: 5 x 41 by 41 x 37, 6 columns of the left and 4 of the right to a channel."""
    entry = ENTRIES["okk_bdc_matmul"]
    rows, inner, columns, per_left, per_right = 5, 41, 37, 6, 4
    places = {}
    for i, (name, r, k, per, start) in enumerate(
        (
            ("output", rows, columns, per_right, START),
            ("left", rows, inner, per_left, 3),
            ("right", inner, columns, per_right, START),
            ("bias", 1, columns, per_right, START),
        )
    ):
        places[name] = matrix(start * LOCAL_BYTES + i * _STEP, r, k, per)
    data = {name: rng.normal(size=p.shape).astype(np.float32) for name, p in places.items()}
    args: dict[str, Any] = {f"{name}_addr": p.addr for name, p in places.items()}
    args |= {
        "left_rows": rows,
        "left_cols": inner,
        "right_cols": columns,
        "using_bias": True,
        "result_add": True,
    }
    args |= {"left_cols_per_channel": per_left, "right_cols_per_channel": per_right}
    taken = arguments(functions()[entry.name])
    seen = {k: args[k] for k in taken if not k.endswith("_addr")}
    extents = {"n": rows, "c": -(-columns // per_right), "h": 1, "w": per_right}
    case = Case(entry, {k: args[k] for k in taken}, places, data, seen, extents)
    case.matrices = {"output": columns, "left": inner, "right": columns, "bias": columns}
    return case


def matrix(addr: int, rows: int, columns: int, per_channel: int, dtype: str = "float32") -> Placed:
    """A matrix in local memory, rows on n."""
    shape = (rows, -(-columns // per_channel), 1, per_channel)
    size = np.dtype(dtype).itemsize
    return Placed(addr, shape, tuple(kernel_tensors.aligned(addr // LOCAL_BYTES, shape, size)), dtype, size)


def system_addr(i: int) -> int:
    """Where operand i lies in DDR."""
    return DDR_BASE + 0x20000 * (i + 1)


def copies() -> Iterator[tuple[str, Entry, bool]]:
    """(what, entry, strided) of the copies and fills with tensors."""
    for entry in ENTRIES.values():
        if re.match("okk_gdma_.*bit_(cpy|set)", entry.name):
            for strided in (False, True):
                yield f"{entry.name} {'with' if strided else 'without'} strides", entry, strided


def _met(operands: Mapping[str, Placed]) -> dict[str, float]:
    """How a copy or a fill meets system memory, by the words of the costs; with both sides there, by both."""
    offsets = {name: placed.offsets() for name, placed in operands.items()}
    outside = [name for name, placed in operands.items() if placed.addr >= DDR_BASE]
    found: dict[str, float] = {}
    for name in outside:
        others = [offsets[other] for other in operands if other != name]
        side = counted_side(offsets[name], others, operands[name].itemsize)
        words = {word: getattr(side, word) for word in ("pieces", "bursts", "jumps", "scattered")}
        found |= {f"{name}_{word}" if len(outside) > 1 else word: value for word, value in words.items()}
    return found


def copy(entry: Entry, strided: bool, rng: np.random.Generator) -> Case:
    """A call of a copy or a fill."""
    taken = arguments(functions()[entry.name])
    bits = int(entry.name.removeprefix("okk_gdma_").split("bit")[0])
    dtype, shape = f"uint{bits}", (2, 70, 3, 5)
    operands, data = {}, {}
    args: dict[str, Any] = {"shape": list(shape)}
    for i, operand in enumerate(entry.operands):
        local = operand.place == "local memory"
        start = (START, 9)[i]
        addr = start * LOCAL_BYTES + i * _STEP if local else system_addr(i)
        width = 4 if entry.name.endswith("set_C_local") else bits // 8  # the fills' default
        wide = (2, 70, 3, 7) if strided else shape
        strides = kernel_tensors.aligned(start, wide, width) if local else kernel_tensors.continuous(wide)
        operands[operand.name] = Placed(addr, shape, tuple(strides), dtype, bits // 8)
        args |= {f"{operand.name}_addr": addr, f"{operand.name}_stride": strides if strided else None}
        data[operand.name] = rng.integers(0, 1 << bits, shape, np.uint64).astype(dtype)
    constant = 0x9ABCDEF1 >> (32 - bits)
    args["C"] = f"{constant:x}"
    seen = {"C": np.full(shape, constant, dtype), "bytes": 2 * 70 * 3 * 5 * bits // 8, **_met(operands)}
    return Case(
        entry, {k: args[k] for k in taken}, operands, data, seen, dict(zip("nchw", shape, strict=True))
    )
