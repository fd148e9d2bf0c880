"""Calls of the kernel API at the limits of their arguments: the last value taken, the first refused.

From the prototypes (addresses, shapes, strides: every function that has some) and the limits in the table of
the kernel API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from firmware_sim.chip import LOCAL_BYTES, NPU_NUM
from tests.support.golden_vectors import lines
from user_layers.kernel_api.entry import Level, Limit
from user_layers.kernel_api.prototypes import functions
from user_layers.kernel_api.reference import ENTRIES

LOCAL_END = NPU_NUM * LOCAL_BYTES
SYSTEM_END = 1 << 40
INT_MAX = (1 << 31) - 1
LAST_NPU = (NPU_NUM - 1) * LOCAL_BYTES


@dataclass(frozen=True)
class Call:
    """says: what the refusal says, as a regular expression; "" where the call is taken. warns: the same of a
    warning."""

    function: str
    args: dict[str, Any]
    what: str
    says: str
    warns: str = ""


# ---- calls that are taken ----

# What makes an argument count, and leaves room for the others.
_PLAIN: dict[str, Any] = {
    "using_bias": True,
    "kernel_h": 1,
    "kernel_w": 1,
    "padding": [0] * 4,
    "pad": [0] * 4,
    "dilation": [1, 1],
    "input_shape": [1, 2, 3, 4],
    "op_type": 31,
    "rshift": 0,
    "lshift": 0,
    "left_rows": 2,
    "left_cols": 1000,
    "right_cols": 1000,
    "left_cols_per_channel": 8,
    "right_cols_per_channel": 8,
    "l_tensor_w": 8,
    "cols": 8,
    "cols_per_channel": 8,
    "row_stride": 8,
    "format": 0,
}
_OF_OUR_OWN: dict[str, dict[str, Any]] = {  # without golden encodings
    "bm_atomic_sort": {
        **dict.fromkeys(("input_data_addr", "input_index_addr"), SYSTEM_END - 4096),
        **dict.fromkeys(("output_data_addr", "output_index_addr"), SYSTEM_END - 8192),
        "input_len": 4,
        "output_len": 4,
        "order": 0,
        "index_enable": True,
        "index_auto": False,
    },
    "bm_local_exp": {"src_addr": LAST_NPU, "imm_addr": LAST_NPU + 4096, "shape": [1, 64, 1, 1]},
    "bm_local_act": {
        "src_addr": LAST_NPU,
        "dst_addr": LAST_NPU + 4096,
        "imm_addr": LAST_NPU + 8192,
        "shape": [1, 64, 1, 1],
        "act_type": 4,
    },
    "bm_atomic_gather_data": {
        **dict.fromkeys(("data_addr", "index_addr", "output_addr"), 0),
        "length": 4,
        "type": 2,
    },
}


def _plain(name: str, ctype: str, value: Any, place: int) -> Any:
    """A value that leaves room for the other arguments; local addresses on the last NPU."""
    if ctype == "local_addr_t" or (ctype == "struct" and name.endswith("_addr") and value < LOCAL_END):
        return LAST_NPU + value % LOCAL_BYTES
    if ctype.endswith("_or_addr_t *"):
        return {"is_addr": True, "bits": f"{LAST_NPU + 4096 * place:x}"}
    if (name == "stride" and ctype == "const dim2 *") or name == "shape":
        return [1, 1] if name == "stride" else [1, 64, 1, 1]
    if name.startswith(("stride_", "dilate_")):
        return 1
    if name.startswith("ins_"):
        return 0
    if name.endswith("_is_const"):
        return False
    return 0 if name == "C" and isinstance(value, int) else _PLAIN.get(name, value)


@cache
def usual_calls() -> dict[str, dict[str, Any]]:
    """A call of every function that issues commands."""
    found = dict(_OF_OUR_OWN)
    for line in (*lines("okk_encode"), *lines("bm_atomic")):
        name, given = line["fn"], line["args"]
        if name in found:
            continue
        function = functions()[name]
        if function.struct is None:
            types = {parameter: ctype for ctype, parameter in function.parameters}
            given = dict(zip(types, given.values(), strict=True))
        else:
            types = dict.fromkeys(given, "struct")
        placed = any(key.endswith("_idx") for key in given)  # addresses count from an NPU's memory
        found[name] = {
            key: given[key] if placed and key.endswith("_addr") else _plain(key, types[key], given[key], i)
            for i, key in enumerate(given)
        }
    for name in ("okk_gdma_compact_S2L", "okk_gdma_32bit_matrix_S2L", "okk_gdma_32bit_matrix_L2S"):
        local = "src_addr" if name.endswith("L2S") else "dst_addr"
        found[name][local] = 4096  # on NPU 0
    return found


# ---- addresses ----

_NOT_CHECKED = re.compile(
    "bm_atomic_table_lookup table_addr|bm_atomic_md_sfu taylor_coef_addr|bm_atomic_gather_data"
)


def unit_of(function: str, argument: str) -> int:
    """What an address is a multiple of, in bytes, in a call without strides."""
    named = {operand.name: operand for operand in ENTRIES[function].operands}
    operand = named[argument.removesuffix("_addr")]
    return operand.unit_without_strides or operand.unit


def _index_of(key: str, usual: dict[str, Any]) -> int | None:
    """The NPU that an address counts from; None where it counts from NPU 0's memory."""
    for name in (key.replace("_addr", "_local_idx"), "local_mem_idx", "local_idx"):
        if name in usual and name != key:
            return int(usual[name])
    return None


def _addresses() -> Iterator[Call]:
    for name, usual in usual_calls().items():
        function = functions()[name]
        types = {parameter: ctype for ctype, parameter in function.parameters}
        for key, value in usual.items():
            if _NOT_CHECKED.match(f"{name} {key}"):
                continue
            ctype = types.get(key, "")
            operand = isinstance(value, dict)
            if ctype == "system_addr_t" or (key.endswith("_addr") and not operand and value > LOCAL_END):
                unit = unit_of(name, key)
                yield from _limits(name, {key: (SYSTEM_END - unit, SYSTEM_END)}, "has more than 40 bits")
            elif operand or (key.endswith("_addr")):
                end, says = LOCAL_END, "over the 32 MiB|NPU 63 and the output on NPU 64"
                if (idx := _index_of(key, usual)) is not None:
                    end = LOCAL_BYTES if key.startswith("mask") else LOCAL_END - idx * LOCAL_BYTES
                    says = f"0x{end:x} of NPU {idx}|is not a multiple"
                if name == "okk_gdma_compact_S2L":
                    end, says = LOCAL_BYTES, "starts on NPU 1"
                unit = unit_of(name, key)

                def at(address: int, operand: bool = operand) -> Any:
                    return {"is_addr": True, "bits": f"{address:x}"} if operand else address

                yield from _limits(name, {key: (at(end - unit), at(end))}, says)
                if unit > 1:
                    yield Call(
                        name, {**usual, key: at(end - unit // 2)}, f"{key} between units", "not a multiple of"
                    )
        for key in ("local_mem_idx", "src_local_idx", "dst_local_idx", "local_idx"):
            if key in usual:
                changes = {"is_local_mem": True, "start_addr": 0} if key == "local_idx" else {}
                if name == "bm_atomic_memcpy_4D":  # direction 2 is within local memory
                    changes = {"direction": 3, "src_addr": 0, "dst_addr": 0, "src_local_idx": 0}
                yield from _limits(name, {key: (NPU_NUM - 1, NPU_NUM)}, "of NPU 64; there are 64", changes)


def _limits(
    function: str, values: dict[str, tuple[Any, Any]], says: str, changes: dict[str, Any] | None = None
) -> Iterator[Call]:
    """Of one argument the last value that is taken, and the first that is refused."""
    ((key, (last, beyond)),) = values.items()
    base = {**usual_calls()[function], **(changes or {})}
    yield Call(function, {**base, key: last}, f"{key} {last}", "")
    yield Call(function, {**base, key: beyond}, f"{key} {beyond}", says)


# ---- shapes and strides ----


def _with(values: Sequence[Any], index: int, value: Any) -> list[Any]:
    return [value if i == index else old for i, old in enumerate(values)]


def _below_zero(argument: str, axis: int, *, gdma: bool) -> str:
    """What is said of a stride of -1: rows and columns of words may lead backwards."""
    if gdma:
        return "w-stride is -1" if axis == 3 else "negative"
    packed = "fixed_point" in argument and not argument.endswith("split_low_8bit src_stride")
    return "negative" if axis < 2 or packed else ""


def _shapes_and_strides() -> Iterator[Call]:
    for name, usual in usual_calls().items():
        gdma = name.startswith("okk_gdma") or "mem" in name
        for key, value in usual.items():
            if key in ("shape", "input_shape"):
                for axis in range(4):
                    for size, says in ((1, ""), (0, r"has an extent below 1")):
                        changed = {**usual, key: _with(value, axis, size)}
                        if key == "input_shape" and says == "":
                            changed |= {k: 1 for k in ("kernel_h", "kernel_w") if k in usual}
                        if name == "bm_atomic_winograd_quantized":
                            changed["pad"] = [1] * 4
                        yield Call(name, changed, f"{key}[{axis}] {size}", says)
            elif key.endswith("_stride") and key not in ("row_stride", "src_c_stride", "dst_c_stride"):
                unsigned = functions()[name].struct is not None
                for axis in range(4):
                    least = 1 if gdma and axis == 3 else 0
                    base = [1, 1, 1, 1]
                    yield Call(name, {**usual, key: _with(base, axis, least)}, f"{key}[{axis}] {least}", "")
                    if not unsigned:
                        yield Call(
                            name,
                            {**usual, key: _with(base, axis, -1)},
                            f"{key}[{axis}] -1",
                            _below_zero(f"{name} {key}", axis, gdma=gdma),
                        )
                    if gdma and axis == 3 and not unsigned:
                        for wrong in (0, 2):
                            changed = {**usual, "shape": [1, 1, 1, 2], key: _with(base, axis, wrong)}
                            yield Call(name, changed, f"{key}[3] {wrong}", f"w-stride is {wrong}")
                            yield Call(name, {**changed, "shape": [1, 1, 1, 1]}, f"{key}[3] {wrong}", "")
                    if gdma and axis < 2 and not unsigned:
                        for stride, says in ((INT_MAX - 1, ""), (INT_MAX, "too many elements")):
                            changed = {**usual, key: _with(base, axis, stride)}
                            yield Call(name, changed, f"{key}[{axis}] {stride}", says)


# ---- numbers ----


def _numbers() -> Iterator[Call]:
    for name, usual in usual_calls().items():
        for limit in ENTRIES[name].limits:
            changes = {key: value for key, value in limit.given.items() if key in usual}
            yield from _range_calls(name, limit.argument, limit, {**usual, **changes})


def _range_calls(name: str, key: str, limit: Limit, base: dict[str, Any]) -> Iterator[Call]:
    tried = []
    unsigned = functions()[name].struct is not None
    if limit.low is not None:
        tried += [limit.low, limit.low + 1]
        if limit.low > 0 or not unsigned:
            tried.append(limit.low - 1)
    if limit.high is not None:
        tried += [limit.high, limit.high + 1]
        if limit.high - 1 not in tried and limit.low is not None:
            tried.append(limit.high - 1)
    for number in tried:
        inside = (limit.low is None or number >= limit.low) and (limit.high is None or number <= limit.high)
        shown = number - 1 if number == 17 and key.startswith("dilate_") else number  # the field counts zeros
        said = "" if inside else rf"(?<!\d){shown}(?!\d)"
        says, warns = ("", said) if limit.level is Level.WARNING else (said, "")
        value = base[key]
        if isinstance(value, list):
            for i in range(len(value)):
                yield Call(name, {**base, key: _with(value, i, number)}, f"{key}[{i}] {number}", says, warns)
        else:
            yield Call(name, {**base, key: number}, f"{key} {number}", says, warns)


# ---- numbers of which only some exist ----


def _choices() -> Iterator[Call]:
    for name, usual in usual_calls().items():
        for key, taken in ENTRIES[name].values.items():
            for number in range(34):
                changed = {**usual, "result_add": False, key: number}
                args = {k: v for k, v in changed.items() if k in usual}
                says = "" if number in taken else rf"(?<!\d){number}(?!\d)"
                yield Call(name, args, f"{key} {number}", says)


def _columns_of_copies() -> Iterator[Call]:
    """The w-stride is 1, but for a single column."""
    for name, sides in (
        ("bm_atomic_memcpy_4D", ("src_", "dst_")),
        ("bm_atomic_memset_4D", ("",)),
    ):
        for side in sides:
            for width, stride in ((1, 0), (1, 2), (2, 0), (2, 1), (2, 2)):
                shapes = {f"{s}shape": [1, 1, 1, width] for s in sides}
                strides = {f"{s}stride": [1, 1, 1, 1] for s in sides} | {f"{side}stride": [1, 1, 1, stride]}
                says = f"w-stride is {stride}" if width > 1 and stride != 1 else ""
                args = {**usual_calls()[name], **shapes, **strides}
                yield Call(name, args, f"{side}stride {stride} of {width} columns", says)


def calls() -> Iterator[Call]:
    """All of them."""
    yield from _addresses()
    yield from _shapes_and_strides()
    yield from _numbers()
    yield from _choices()
    yield from _columns_of_copies()
