"""Which operations of a framework's model become TPU layers: asked before a model is divided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import numpy as np

from firmware_sim.errors import CompileError, ModelError, UsageError
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
    found: list[str | None] = []
    for index, operation in enumerate(model.operations):
        behind = {i for name in operation.inputs if name in makers for i in makers[name]}
        chosen = (*sorted(behind), index)
        key = tuple(_signature(model, model.operations[i]) for i in chosen)
        if key not in known:
            known[key] = _verdict(model.part(chosen), spellings, toolkit)
        found.append(known[key])
        if known[key] == _CONSTANT and len(operation.outputs) == 1:
            (made,) = operation.outputs
            if readers[made] == 1 and made not in model.outputs:
                makers[made] = chosen
    reader = {name: i for i, operation in enumerate(model.operations) for name in operation.inputs if name}
    for chosen in reversed(makers.values()):
        if found[reader[model.operations[chosen[-1]].outputs[0]]] is None:
            found[chosen[-1]] = None
    return tuple(found)


def _verdict(alone: ForeignModel, spellings: Spellings, toolkit: Toolkit) -> str | None:
    operation = alone.operations[-1]
    # All it makes, whether or not anything reads it: the partition may need it.
    alone = ForeignModel(
        alone.what,
        alone.name,
        alone.tensors,
        alone.inputs,
        tuple(name for name in operation.outputs if alone.tensors[name].dtype is not None),
        alone.operations,
    )
    needed = (*alone.inputs, *(alone.outputs or operation.outputs))
    odd = next((name for name in needed if alone.tensors[name].dtype is None), None)
    if odd is not None:
        return f"{odd!r} {alone.tensors[odd].odd}"
    if not needed:
        return "it reads and makes nothing"
    try:
        spelled = spell(alone, spellings, free_borders=True)
        if not {value.name for value in spelled.proto.graph.input} & _read(spelled.proto.graph):
            return _CONSTANT
        loaded = from_proto(spelled.proto, {}, alone.what)
        build(loaded, "alone", toolkit=toolkit, cpu=False, allow_empty=True)
    except (CompileError, ModelError, UsageError) as error:  # others are not about this operation
        return reasons(error.message)
    return None


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
        tuple(None if name is None else _tensor(model.tensors[name]) for name in operation.inputs),
        tuple(_tensor(model.tensors[name]) for name in operation.outputs),
        _hashable(operation.attributes),
    )


def _tensor(tensor: Tensor) -> Hashable:
    data = tensor.data
    values: Any = None
    if data is not None:
        values = data.tobytes() if data.size <= _SMALL else "many"
    return tensor.shape, str(tensor.dtype), values


def _hashable(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes()
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(one) for one in value)
    if hasattr(value, "items"):
        return tuple(sorted((key, _hashable(one)) for key, one in value.items()))
    return value if isinstance(value, Hashable) else repr(value)
