"""Programs that PT2E quantised: float operations between quantize and dequantize.

ONNX has these two with the same meaning, and user_layers/onnx/quantised.py makes 8-bit layers of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from firmware_sim.shown import count
from user_layers.spelling.foreign import Array, ForeignModel, Operation
from user_layers.spelling.speller import Unspelled
from user_layers.torch.call import Call, aten

_NAMESPACE = "quantized_decomposed."
_QUANTIZE = f"{_NAMESPACE}quantize_per_"
_DEQUANTIZE = f"{_NAMESPACE}dequantize_per_"
_CHOOSE = f"{_NAMESPACE}choose_qparams"
_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_SUMS = np.dtype(np.int32)  # of biases


def without_dynamic(model: ForeignModel) -> ForeignModel:
    """The program in float where it finds scales while it runs, for a net's are those of its compiling. A
    note says so, and how many tensors have scales."""
    sources = _dynamic(model)
    operations = []
    for op in model.operations:
        if op.outputs[0] in sources:
            continue
        if op.inputs and op.inputs[0] in sources:
            op = Operation("aten.alias.default", op.name, (sources[op.inputs[0]],), op.outputs)
        operations.append(op)
    read = {name for op in operations for name in op.inputs} | {*model.outputs}
    kept = [op for op in operations if not op.kind.startswith(_CHOOSE) or read & {*op.outputs}]
    return replace(model, operations=tuple(kept), notes=(*model.notes, *_notes(model, kept, bool(sources))))


def _dynamic(model: ForeignModel) -> dict[str | None, str]:
    """Integers with computed scales which nothing but their own dequantize reads, and the floats that these
    were."""
    found: dict[str | None, str] = {}
    scales: dict[str | None, tuple[str | None, ...]] = {}
    for op in model.operations:
        scaled = op.kind.startswith(_QUANTIZE) and not all(_is_known(model, name) for name in op.inputs[1:])
        if scaled and op.inputs[0] is not None and op.outputs[0] not in model.outputs:
            found[op.outputs[0]], scales[op.outputs[0]] = op.inputs[0], op.inputs[1:]
    for op in model.operations:
        for name in op.inputs:
            if name not in found:
                continue
            undone = op.kind.startswith(_DEQUANTIZE) and op.inputs[1:] == scales[name]
            if not undone or model.tensors[op.outputs[0]].dtype != model.tensors[found[name]].dtype:
                del found[name]
    return found


def _is_known(model: ForeignModel, name: str | None) -> bool:
    return name is None or model.tensors[name].data is not None


def _notes(model: ForeignModel, operations: Sequence[Operation], dynamic: bool) -> Iterator[str]:
    made = [op for op in operations if op.kind.startswith(_QUANTIZE) and not _is_known(model, op.inputs[0])]
    if made:
        yield f"quantized model: {count(len(made), 'tensor')} in 8 bits"
    if dynamic:
        yield "what the model quantizes by scales found while it runs is computed in float"
    elif not made and any(op.kind.startswith(_DEQUANTIZE) for op in operations):
        yield "quantized weights are computed with in float: the model has no scales of what it computes"


def _number(c: Call, name: str, at: int) -> Array:
    """A scale, a zero point or an end, which is an argument or a constant."""
    if name in c.op.attributes:
        return np.asarray(c.get(name))
    return c.known(at, name.replace("_", " ")).reshape(-1)[:1].reshape(())


def _tensor_grid(c: Call) -> tuple[Array, Array]:
    return _number(c, "scale", 1), _number(c, "zero_point", 2)


def _channel_grid(c: Call) -> tuple[Array, Array]:
    scales = c.known(1, "scales")
    return scales, c.known(2, "zero points") if c.has(2) else np.zeros(scales.size, np.int64)


def _ends(c: Call, dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the greatest integer."""
    whole = np.iinfo(dtype)
    low, high = int(_number(c, "quant_min", 3)), int(_number(c, "quant_max", 4))
    return max(low, whole.min), min(high, whole.max)


def _quantized(c: Call, scale: Array, zero: Array, **axis: int) -> str:
    dtype = c.out_dtype
    if dtype not in _BYTES:
        raise Unspelled(f"it quantizes in {dtype}; 8-bit integers are computed here, and float32")
    value, ends = c.x(0, np.dtype(np.float32)), _ends(c, dtype)
    if ends != (np.iinfo(dtype).min, np.iinfo(dtype).max):  # fewer than the type has
        shape = [1] * c.rank()
        if axis:
            shape[axis["axis"]] = -1
        for op, end in zip(("Max", "Min"), ends, strict=True):
            value = c.one(op, value, c.const(((end - zero) * scale).reshape(shape), np.float32))
    return c.one("QuantizeLinear", value, c.const(scale, np.float32), c.const(zero, dtype), **axis)


def _dequantized(c: Call, scale: Array, zero: Array, **axis: int) -> str:
    dtype = c.dtype()
    if dtype not in (*_BYTES, _SUMS):
        raise Unspelled(f"it is quantized in {dtype}; 8-bit integers are computed here, and float32")
    if dtype == _SUMS and zero.any():
        raise Unspelled("its 32-bit integers have a zero point")
    points = () if dtype == _SUMS else (c.const(zero, dtype),)
    made = c.one("DequantizeLinear", c.x(), c.const(scale, np.float32), *points, **axis)
    return made if c.out_dtype == np.float32 else c.cast(made, c.out_dtype)


def _variants(name: str) -> tuple[str, ...]:
    return tuple(f"{_NAMESPACE}{name}.{variant}" for variant in ("default", "tensor", "tensor2"))


@aten(*_variants("quantize_per_tensor"))
def _quantize(c: Call) -> str:
    return _quantized(c, *_tensor_grid(c))


@aten(*_variants("dequantize_per_tensor"))
def _dequantize(c: Call) -> str:
    return _dequantized(c, *_tensor_grid(c))


@aten(f"{_NAMESPACE}quantize_per_channel.default")
def _quantize_channels(c: Call) -> str:
    return _quantized(c, *_channel_grid(c), axis=c.axis("axis"))


@aten(f"{_NAMESPACE}dequantize_per_channel.default")
def _dequantize_channels(c: Call) -> str:
    return _dequantized(c, *_channel_grid(c), axis=c.axis("axis"))
