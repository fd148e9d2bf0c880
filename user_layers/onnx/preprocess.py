"""A model that takes pictures as they are: what `Preprocess` says as nodes in front of it.

Nothing else knows of them: onnxruntime runs them, and they become layers as any nodes do (see pixels.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from firmware_sim.errors import UsageError
from user_layers.onnx.load import Source, read_proto
from user_layers.onnx.model import STANDARD
from user_layers.onnx.proto import tensor_proto
from user_layers.quantize.pictures import Preprocess, middle

if TYPE_CHECKING:
    from pathlib import Path

    import onnx

_OLDEST_OPSET = 10  # that says Slice and Sub as they are said here
_OLDEST_IR = 4  # whose constants are no inputs
_NCHW, _NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def with_pictures(
    proto: Path | onnx.ModelProto, source: Source, pictures: Preprocess | None
) -> tuple[Path | onnx.ModelProto, Source]:
    """A model with what becomes of pictures before it, in front of it where the net is to do that. source:
    where it comes from. Errors: UsageError for a model that takes no pictures, or several inputs."""
    if pictures is None or not pictures.fuse:
        return proto, replace(source, pictures=pictures)
    whole = read_proto(proto)
    (name, first), place = _shape_of(whole, source.place), source.place

    def reread(given: Mapping[str, Sequence[int]]) -> Any:
        shape = first
        for key, extents in given.items():
            if key not in (name, raw_name(name)):
                raise UsageError(f"{place} has no input {key!r}", hint=f"its input is {name}")
            shape = list(extents) if key == name else _model_shape(pictures, first, extents)
        base = whole if source.reread is None or not given else source.reread({name: shape})
        return _fused(base, pictures, name, shape, place)

    notes = (*source.notes, *pictures.lines())
    # Without a path, for onnxruntime is to run the nodes too.
    made = replace(source, path=None, notes=notes, reread=reread, pictures=pictures)
    made = replace(made, file=source.file or source.path)
    return reread({}) if _known(first) else whole, made


def raw_name(name: str) -> str:
    """What the input for pictures is called, as the vendor's tools call it."""
    return f"{name}_raw"


def _shape_of(proto: Any, place: str) -> tuple[str, list[int]]:
    """Name and shape of the only input; free extents are 0."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs)
        raise UsageError(
            f"--fuse-preprocess: {place} has {len(inputs)} inputs: {names}",
            hint="pictures are for models with one input; put the nodes into the model itself",
        )
    tensor = inputs[0].type.tensor_type
    if tensor.elem_type != 1:
        raise UsageError(
            f"--fuse-preprocess: the input {inputs[0].name!r} of {place} is not float32",
            hint="it takes whole numbers or halves already: leave --fuse-preprocess out",
        )
    return inputs[0].name, [max(dim.dim_value, 0) for dim in tensor.shape.dim]


def _known(shape: Sequence[int]) -> bool:
    return bool(shape) and 0 not in shape


def _model_shape(pictures: Preprocess, first: Sequence[int], given: Sequence[int]) -> list[int]:
    """The shape of the model's input for one of the pictures', whose channels are the model's own."""
    if len(given) != 4:
        raise UsageError(f"pictures have 4 dimensions, the shape given has {len(given)}")
    rows, columns = (given[2], given[3]) if pictures.planar else (given[1], given[2])
    if pictures.resize_dims is not None:
        _, rows, columns = pictures.layout(first)
    layout = pictures.channel_format or (
        "nhwc" if len(first) == 4 and first[3] == pictures.channels else "nchw"
    )
    c = pictures.channels
    return [given[0], c, rows, columns] if layout == "nchw" else [given[0], rows, columns, c]


def _fused(whole: Any, pictures: Preprocess, name: str, shape: Sequence[int], place: str) -> Any:
    """The model with nodes that make its input `name`, of this shape, from bytes."""
    import onnx

    if not _known(shape):
        raise UsageError(
            f"{place} has free dimensions: {name} {[n or '?' for n in shape]}",
            hint=f"give them with --shapes {name}=1x{pictures.channels}x224x224",
        )
    opset = max((e.version for e in whole.opset_import if e.domain in STANDARD), default=_OLDEST_OPSET)
    if opset < _OLDEST_OPSET:
        raise UsageError(
            f"--fuse-preprocess: {place} is of opset {opset}; it takes {_OLDEST_OPSET} or a newer one",
            hint="convert it with onnx.version_converter",
        )
    raw = pictures.fused_shape(shape, f"the input {name!r} of {place}")
    made = onnx.ModelProto()
    made.CopyFrom(whole)
    made.ir_version = max(made.ir_version, _OLDEST_IR)
    steps = _steps(pictures, shape, raw)
    nodes, last = [], raw_name(name)
    for number, (op, attributes, constants) in enumerate(steps):
        end = name if number == len(steps) - 1 else f"{name}/{op}"
        names = []
        for i, array in enumerate(constants):
            names.append(f"{name}/{op}:{i}")
            made.graph.initializer.append(tensor_proto(array, names[-1]))
        nodes.append(onnx.helper.make_node(op, [last, *names], [end], name=f"preprocess/{op}", **attributes))
        last = end
    kept = list(made.graph.node)
    del made.graph.node[:]
    made.graph.node.extend([*nodes, *kept])
    at = next(i for i, value in enumerate(made.graph.input) if value.name == name)
    if [dim.dim_value for dim in made.graph.input[at].type.tensor_type.shape.dim] != list(shape):
        del made.graph.value_info[:]  # they were those of the old shape
        for value in made.graph.output:
            value.type.tensor_type.ClearField("shape")
    del made.graph.input[at]
    made.graph.input.insert(
        at, onnx.helper.make_tensor_value_info(raw_name(name), onnx.TensorProto.UINT8, list(raw))
    )
    return made


_Step = tuple[str, dict[str, Any], list[Any]]


def _steps(pictures: Preprocess, shape: Sequence[int], raw: Sequence[int]) -> list[_Step]:
    """Operations, their attributes and their constants."""
    layout, rows, columns = pictures.layout(shape)
    axes = (2, 3) if pictures.planar else (1, 2)
    found: list[_Step] = []
    if (raw[axes[0]], raw[axes[1]]) != (rows, columns):
        starts = [middle(raw[axis], wanted) for axis, wanted in zip(axes, (rows, columns), strict=True)]
        ends = [starts[0] + rows, starts[1] + columns]
        found.append(("Slice", {}, [np.array(one, np.int64) for one in (starts, ends, axes)]))
    found.append(("Cast", {"to": 1}, []))
    if layout == "nchw" and not pictures.planar:
        found.append(("Transpose", {"perm": _NCHW}, []))
    if layout == "nhwc" and pictures.planar:
        found.append(("Transpose", {"perm": _NHWC}, []))
    axis = 1 if layout == "nchw" else 3
    if pictures.backwards:
        found.append(("Gather", {"axis": axis}, [np.arange(pictures.channels, dtype=np.int64)[::-1]]))
    wide = [1] * 4
    wide[axis] = pictures.channels
    if any(pictures.mean):
        found.append(("Sub", {}, [np.array(pictures.mean, np.float32).reshape(wide)]))
    if set(pictures.scale) != {1.0}:
        found.append(("Mul", {}, [np.array(pictures.scale, np.float32).reshape(wide)]))
    return found
