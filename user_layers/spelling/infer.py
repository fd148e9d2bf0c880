"""Shapes that a model does not tell: of one operation after the other, from those of its inputs.

Files leave out what depends on values (a Reshape to a computed shape), and a delegate knows no shapes behind
its inputs when these change. Each operation is spelled by itself and ONNX's inference asked; what can be
computed from constants and shapes is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from firmware_sim.errors import CompileError, ModelError
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor
from user_layers.spelling.spell import SMALL, Spellings, spell, title

_STAND_IN = -1  # the extent of what is not known yet; spellings only count the axes


def with_shapes(model: ForeignModel, spellings: Spellings) -> ForeignModel:
    """The model with the shapes of all that its operations make. Errors: ModelError that names an operation
    whose result's shape is not known, CompileError where one cannot be spelled."""
    tensors = dict(model.tensors)
    for operation in model.operations:
        tensors.update(inferred(model.what, operation, tensors, spellings))
    computed = {name for operation in model.operations for name in operation.outputs}
    shapes = {
        name: replace(tensor, data=None if name in computed else model.tensors[name].data)
        for name, tensor in tensors.items()
    }
    # What was computed here is a constant for those who ask, except where the model gives it away.
    kept = {name: t for name, t in tensors.items() if name in computed and name not in model.outputs}
    return _without_computed(replace(model, tensors={**shapes, **kept}))


def _without_computed(model: ForeignModel) -> ForeignModel:
    """The model without operations all of whose results are constants by now."""
    left = tuple(
        op for op in model.operations if any(model.tensors[name].data is None for name in op.outputs)
    )
    return replace(model, operations=left)


def inferred(
    what: str, operation: Operation, tensors: Mapping[str, Tensor], spellings: Spellings
) -> dict[str, Tensor]:
    """What one operation makes, with shapes, and with elements where they can be computed now. what: the
    framework's name. tensors: those that it reads as they are, and those that it makes with their types.
    Errors: as of `with_shapes`."""
    read = {name: tensors[name] for name in operation.inputs if name is not None}
    rank = max((len(tensor.shape) for tensor in read.values()), default=0)
    made = {name: replace(tensors[name], shape=(_STAND_IN,) * rank) for name in operation.outputs}
    alone = ForeignModel(
        what,
        "alone",
        {**read, **made},
        tuple(name for name, tensor in read.items() if tensor.data is None),
        tuple(name for name, tensor in made.items() if tensor.dtype is not None),
        (operation,),
    )
    proto = spell(alone, spellings, light=True).proto
    values = _computed(proto, alone, operation)
    found = _inferred(proto) if values is None else {name: a.shape for name, a in values.items()}
    for name in alone.outputs:
        if name not in found:
            raise ModelError(f"the shape of {name} is not known, which {title(alone, operation)} makes")
    data = values or {}
    return {name: replace(made[name], shape=found[name], data=data.get(name)) for name in alone.outputs}


def _computed(proto: Any, alone: ForeignModel, operation: Operation) -> dict[str, Array] | None:
    """Values of the results where all inputs are constants, or only their shapes count."""
    sizes = [int(np.prod(alone.tensors[name].shape, dtype=np.int64)) for name in alone.inputs]
    if (alone.inputs and operation.kind not in ("Shape", "Size")) or max(sizes, default=0) > 1 << 24:
        return None
    if any(tensor.data is not None and tensor.data.size > SMALL for tensor in alone.tensors.values()):
        return None
    from onnx.reference import ReferenceEvaluator

    feeds = {name: np.zeros(alone.tensors[name].shape, alone.tensors[name].dtype) for name in alone.inputs}
    try:
        got = ReferenceEvaluator(proto).run(None, feeds)
    except Exception as error:  # of many kinds; the reference may lack an operation
        raise CompileError(f"{operation.kind} {operation.name} cannot be computed: {error}") from None
    return {name: np.asarray(array) for name, array in zip(alone.outputs, got, strict=True)}


def _inferred(proto: Any) -> dict[str, tuple[int, ...]]:
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph
    except onnx.shape_inference.InferenceError:
        return {}
    found = {}
    for value in graph.output:
        kind = value.type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim]
        if kind.HasField("shape") and min(dims, default=0) >= 0:
            found[value.name] = tuple(dims)
    return found
