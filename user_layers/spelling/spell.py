"""A whole model, or one operation of it, as an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from firmware_sim.errors import CompileError, MissingError
from user_layers.onnx.custom import MapFunction
from user_layers.onnx.model import CUSTOM_DOMAIN
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor
from user_layers.spelling.speller import OPSET, Speller, Unspelled, edge_value, to_first

IR_VERSION = 10
SMALL = 4096  # elements of a constant that inference of shapes may read
Spelling = Callable[[Speller, Operation], None]
# What spellings raise for shapes and attributes that no framework would run: they do not check all of them.
_MISFITS = (ArithmeticError, LookupError, TypeError, ValueError)


def _as_it_is(model: ForeignModel) -> tuple[ForeignModel, Sequence[int]]:
    return model, range(len(model.operations))


Prepare = Callable[[ForeignModel], tuple[ForeignModel, Sequence[int]]]


class Spellings(dict[str, Spelling]):
    """The operations of one framework that ONNX can say, each by its own name, and how.

    prepared: writes a model in operations that can be said, and tells for each from which of the model's it
    comes, -1 for the edge.
    """

    prepared: Prepare = staticmethod(_as_it_is)

    def of(self, *kinds: str) -> Callable[[Spelling], Spelling]:
        """Register how these operations are spelled."""

        def register(function: Spelling) -> Spelling:
            self.update(dict.fromkeys(kinds, function))
            return function

        return register


@dataclass(frozen=True)
class Border:
    """An input or an output at the edge of a model. shape, dtype: of the framework's buffer.

    order: the axes of that buffer in the order that the ONNX model has them (numpy's transpose takes it).
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: tuple[int, ...]

    @property
    def is_permuted(self) -> bool:
        """Whether the ONNX model has the axes in another order than the framework."""
        return self.order != tuple(range(len(self.order)))


@dataclass(frozen=True)
class Spelled:
    """A model in ONNX's words. proto: the onnx.ModelProto, with the framework's names of inputs and outputs.

    sources: for the name of each node the index of the operation that it comes from, -1 for the edge.
    calls: what adds the layers of nodes that are the user's own, by the node's name.
    """

    proto: Any
    inputs: tuple[Border, ...]
    outputs: tuple[Border, ...]
    sources: Mapping[str, int]
    calls: Mapping[str, MapFunction] = field(default_factory=dict)


def spell(
    model: ForeignModel, spellings: Spellings, *, free_borders: bool = False, light: bool = False
) -> Spelled:
    """Write a model in ONNX's words.

    free_borders: inputs and outputs may have their axes in another order than the framework's; see Border.
    light: for inferring shapes: large constants become inputs, whose elements nobody copies, and outputs
    have none.
    Errors: CompileError that names each operation that cannot be said; MissingError without the package onnx.
    """
    model, origins = spellings.prepared(model)
    speller = Speller(model, free_borders=free_borders)
    refused = []
    for index, operation in zip(origins, model.operations, strict=True):
        speller.begin(index, operation)
        try:
            spell_operation(speller, operation, spellings)
        except Unspelled as error:
            refused.append(f"{title(model, operation)}: {error}")
        except _MISFITS as error:
            told = f"{type(error).__name__}: {error}"
            refused.append(f"{title(model, operation)}: its parameters do not fit: {told}")
    if refused:
        raise CompileError("not every operation is known:\n  " + "\n  ".join(refused))
    calls = {
        index: operation.call
        for index, operation in zip(origins, model.operations, strict=True)
        if operation.call is not None
    }
    return _assembled(model, speller, calls, SMALL if light else None)


def spell_operation(speller: Speller, operation: Operation, spellings: Spellings) -> None:
    """Add the nodes of one operation. Raises Unspelled."""
    if operation.odd:
        raise Unspelled(operation.odd)
    if operation.own:
        values = [speller.own(name) for name in operation.inputs if name is not None]
        attributes = operation.attributes if operation.call is None else {}
        made = speller.own_layer(operation, values, attributes)
        for name, value in zip(operation.outputs, made, strict=True):
            speller.put(name, value)
            tensor = speller.model.tensors[name]
            if operation.call is not None and tensor.dtype is not None:
                speller.declare(value, tensor.shape, tensor.dtype)
    elif operation.kind in spellings:
        spellings[operation.kind](speller, operation)
    else:
        raise Unspelled("there is no such operation here")


def title(model: ForeignModel, operation: Operation) -> str:
    """How messages call an operation: `TFLite CONV_2D conv_1`."""
    return f"{model.what} {operation.kind} {operation.name}".rstrip()


def _assembled(
    model: ForeignModel, speller: Speller, own: Mapping[int, MapFunction], most: int | None
) -> Spelled:
    try:
        import onnx
    except ImportError:
        raise MissingError(
            f"{model.what} models are read by way of the package onnx, which is not installed",
            hint='pip install "tpulayer[onnx]"',
        ) from None
    names = {edge_value(name, first): name for name, first in speller.inputs.items()}
    outputs = []
    for name in dict.fromkeys(model.outputs):
        try:
            value, first = speller.output(name)
        except Unspelled as error:
            raise CompileError(f"{model.what} {model.name}: {error}") from None
        if names.get(value, name) != name or value in speller.constants:  # a value has one name
            value = speller.one("Identity", value)
        names[value] = name
        outputs.append(_border(model, name, first))
    inputs = [_border(model, name, speller.inputs.get(name, False)) for name in model.inputs]
    for node in speller.nodes:
        for values in (node.input, node.output):
            values[:] = [names.get(value, value) for value in values]
    declared = {names.get(value, value): tensor for value, tensor in speller.declared.items()}
    made = {border.name for border in outputs}
    used = {value for node in speller.nodes for value in node.input}
    constants = {name: array for name, array in speller.constants.items() if name in used}
    large = [name for name, array in constants.items() if most is not None and array.size > most]
    graph = onnx.helper.make_graph(
        speller.nodes,
        model.name or "net",
        [_declared(border) for border in inputs] + [_value(n, constants[n]) for n in large],
        [_output(border, declared, most is not None) for border in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items() if n not in large],
        value_info=[_value(n, t) for n, t in declared.items() if n not in made],
    )
    domains = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(CUSTOM_DOMAIN, 1)]
    proto = onnx.helper.make_model(graph, opset_imports=domains)
    proto.ir_version = IR_VERSION
    calls = {name: own[index] for name, index in speller.sources.items() if index in own}
    return Spelled(proto, tuple(inputs), tuple(outputs), dict(speller.sources), calls)


def _output(border: Border, declared: Mapping[str, Tensor], light: bool) -> Any:
    """An output's value info; light: its shape is not told but where nothing can infer it."""
    if light and border.name in declared:
        return _value(border.name, declared[border.name])
    info = _declared(border)
    if light:
        info.type.tensor_type.ClearField("shape")
    return info


def _value(name: str, like: Tensor | Array) -> Any:
    import onnx

    assert like.dtype is not None
    return onnx.helper.make_tensor_value_info(
        name, onnx.helper.np_dtype_to_tensor_dtype(like.dtype), like.shape
    )


def _border(model: ForeignModel, name: str, first: bool) -> Border:
    tensor = model.tensors[name]
    if tensor.dtype is None:
        raise CompileError(f"{model.what} {model.name}: {name!r} {tensor.odd}")
    rank = len(tensor.shape)
    return Border(name, tensor.shape, tensor.dtype, to_first(rank) if first else tuple(range(rank)))


def _declared(border: Border) -> Any:
    shape = tuple(border.shape[axis] for axis in border.order)
    return _value(border.name, Tensor(shape, border.dtype))
