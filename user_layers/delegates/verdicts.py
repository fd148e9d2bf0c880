"""Which operations of a framework's model become TPU layers: asked before a model is divided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from firmware_sim.chip import MAX_TENSORS
from user_layers.delegates.together import REFUSED, build_together
from user_layers.net.nodes import called
from user_layers.onnx.build import build
from user_layers.onnx.load import from_proto
from user_layers.spelling.foreign import ForeignModel, Operation, Tensor
from user_layers.spelling.spell import Spellings, spell
from user_layers.toolkit import Toolkit

_CONSTANT = "its result is a constant"
_SMALL = 64  # elements of a constant that may be a shape, axes or a bound
Remembered = dict[Hashable, "str | None"]


def verdicts(
    model: ForeignModel,
    spellings: Spellings,
    toolkit: Toolkit,
    remembered: Remembered | None = None,
) -> tuple[str | None, ...]:
    """For each operation None where it becomes TPU layers, else why it does not.

    Each is spelled and built by itself, as the compiler does it, together with the operations that make
    constants for it alone (weights that are stored in fewer bits); these become layers if it does.
    remembered: filled with the answers for operations that are alike, by these spellings and this toolkit.
    """
    known = {} if remembered is None else remembered
    readers = Counter(name for operation in model.operations for name in operation.inputs if name is not None)
    makers: dict[str, tuple[int, ...]] = {}  # of a constant that one operation reads
    keys: list[Hashable] = []
    waiting: dict[Hashable, Any] = {}  # spelled, not built
    for index, operation in enumerate(model.operations):
        behind = {i for name in operation.inputs if name in makers for i in makers[name]}
        chosen = (*sorted(behind), index)
        key = tuple(_signature(model, model.operations[i]) for i in chosen)
        keys.append(key)
        if key not in known and key not in waiting:
            try:
                waiting[key] = _spelled(model.part(chosen), spellings)
            except _Not as why:
                known[key] = str(why)
        if known.get(key) == _CONSTANT and len(operation.outputs) == 1:
            (made,) = operation.outputs
            if readers[made] == 1 and made not in model.outputs:
                makers[made] = chosen
    known.update(_built(model.what, waiting, toolkit))
    found = [known[key] for key in keys]
    reader = {name: i for i, operation in enumerate(model.operations) for name in operation.inputs if name}
    for chosen in reversed(makers.values()):
        if found[reader[model.operations[chosen[-1]].outputs[0]]] is None:
            found[chosen[-1]] = None
    return tuple(found)


class _Not(Exception):
    """Why an operation becomes no layers, found while it was spelled."""


def _spelled(alone: ForeignModel, spellings: Spellings) -> Any:
    """The ONNX model of the last operation. Raises _Not."""
    operation = alone.operations[-1]
    try:
        # All it makes, whether or not anything reads it: the partition may need it.
        alone, _ = spellings.prepared(replace(alone, outputs=operation.outputs))
    except ValueError as error:
        raise _Not(str(error)) from None
    alone = replace(
        alone, outputs=tuple(name for name in operation.outputs if alone.tensors[name].dtype is not None)
    )
    needed = (*alone.inputs, *(alone.outputs or operation.outputs))
    odd = next((name for name in needed if alone.tensors[name].dtype is None), None)
    if odd is not None:
        raise _Not(f"{odd!r} {alone.tensors[odd].odd}")
    if not needed:
        raise _Not("it reads and makes nothing")
    for name in needed:
        if min(alone.tensors[name].shape, default=0) < 0:
            raise _Not(f"the shape of {name} is not known before the model runs")
    try:
        proto = spell(alone, spellings, free_borders=True).proto
    except REFUSED as error:
        raise _Not(reasons(error.message)) from None
    if not {value.name for value in proto.graph.input} & _read(proto.graph):
        raise _Not(_CONSTANT)
    return proto


def _built(what: str, protos: Mapping[Hashable, Any], toolkit: Toolkit) -> dict[Hashable, str | None]:
    """For each ONNX model of one operation None where there are layers for it, else why not."""

    def layers(proto: Any) -> None:
        with called(what):
            build(from_proto(proto, {}, what), "alone", toolkit=toolkit, cpu=False, allow_empty=True)

    keys = [key for key in protos if not _is_wide(protos[key])]
    good = build_together([protos[key] for key in keys], layers)
    # One with more tensors than a net has can be inside of a piece: `divide` tries that.
    found: dict[Hashable, str | None] = dict.fromkeys(protos.keys() - set(keys))
    found.update({keys[i]: None for i in good})
    for key in keys:
        if key not in found:
            try:
                layers(protos[key])
                found[key] = None
            except REFUSED as error:
                found[key] = reasons(error.message)
    return found


def _is_wide(proto: Any) -> bool:
    return max(len(proto.graph.input), len(proto.graph.output)) > MAX_TENSORS


def _read(graph: Any) -> set[str]:
    return {value for node in graph.node for value in node.input} | {value.name for value in graph.output}


def reasons(message: str) -> str:
    """Why operations have no layers, from the message of an error: without its heading and their names."""
    lines = [line.strip() for line in message.splitlines()]
    if len(lines) == 1:
        return lines[0]
    return "; ".join(dict.fromkeys(line.partition(": ")[2] or line for line in lines[1:]))


def _signature(model: ForeignModel, operation: Operation) -> Hashable:
    """What the verdict on an operation depends on."""
    return (
        operation.kind,
        operation.own,
        operation.odd,
        tuple(None if name is None else _tensor(model.tensors[name]) for name in operation.inputs),
        tuple(_tensor(model.tensors[name]) for name in operation.outputs),
        _hashable(operation.attributes),
    )


def _tensor(tensor: Tensor) -> Hashable:
    data = tensor.data
    values: Any = None
    if data is not None:
        values = data.tobytes() if data.size <= _SMALL else "many"
    kinds = tuple(map(type, tensor.shape))  # a free extent equals the number that is its bound
    told = tensor.scaled
    scaled = told and (str(told.dtype), told.scales.size, told.zero_points.size, told.axis, told.data is None)
    return tensor.shape, kinds, str(tensor.dtype), values, scaled


def _hashable(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes()
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(one) for one in value)
    if hasattr(value, "items"):
        return tuple(sorted((key, _hashable(one)) for key, one in value.items()))
    return value if isinstance(value, Hashable) else repr(value)
