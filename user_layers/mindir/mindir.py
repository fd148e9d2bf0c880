"""Reading `.mindir` files as MindSpore Lite's converter writes them: protobuf, message ModelProto of mind_ir.

A value there is a single tensor or a tuple; tuples are taken apart here (MakeTuple, TupleGetItem), so that
operations have as many outputs as they make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from firmware_sim.errors import ModelError
from user_layers.mindir.primitives import Field, primitives
from user_layers.mindir.types import WHAT, constant
from user_layers.mindir.wire import Message
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor

_TYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    9: np.dtype(bool),
    10: np.dtype(np.float16),
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
    17: np.dtype(np.float64),
}
_REFERENCE = "REF::"
_FLOAT, _STRING, _BOOL, _DOUBLE, _TUPLE, _LIST = 1, 8, 9, 11, 20, 21
_NUMBERS = range(2, 8)
_NESTED = 8  # how deep tuples may hold tuples
_PARTS = 1 << 20  # values that all operations read, those in tuples counted each time
_FIELDS = {row.name: row.fields for row in primitives()}


def read_mindir(data: bytes) -> ForeignModel:
    """The model of a file's bytes. Errors: ModelError without the file's name."""
    model = Message(memoryview(data))
    graph = model.message(7)
    if graph is None or not model.text(1):
        raise ModelError("it is not a .mindir model: it has no graph")
    if model.has(8):
        raise ModelError("it has control flow (several graphs), which is not read")
    return _Reader(model, graph).model()


class _Reader:
    def __init__(self, model: Message, graph: Message) -> None:
        self.graph = graph
        self.primitives = {primitive.text(1): primitive for primitive in model.messages(12)}
        self.tensors: dict[str, Tensor] = {}
        self.tuples: dict[str, Sequence[str]] = {}  # values that are tuples: their parts
        self.scalars: dict[str, Any] = {}  # values that nodes of the kind Constant hold
        self.names: dict[str, str] = {}  # what inputs and outputs are called
        self.operations: list[Operation] = []
        self.read = 0

    def model(self) -> ForeignModel:
        inputs = [self.edge(info) for info in self.graph.messages(5)]
        for tensor in self.graph.messages(3):
            name = tensor.text(7)
            self.tensors[name] = _constant(tensor, name)
        ends = [info.text(1) for info in self.graph.messages(6)]
        for node in self.graph.messages(1):
            self.node(node)
        outputs = [self.names.get(part, part) for end in ends for part in self.parts(end)]
        name = self.graph.text(2) or "net"
        return ForeignModel(WHAT, name, self.tensors, tuple(inputs), tuple(outputs), tuple(self.operations))

    def edge(self, info: Message) -> str:
        tensor = info.message(2)
        if tensor is None:
            raise ModelError(f"the input {info.text(1)} is not a tensor")
        shown = self.rename(info.text(1), tensor.text(7))
        self.tensors[shown] = Tensor(_shape(tensor), _TYPES.get(tensor.number(2)))
        return shown

    def rename(self, name: str, shown: str) -> str:
        """Call a value as the model's user does, if no other has that name."""
        if shown and shown not in self.names.values():
            self.names[name] = shown
        return self.names.get(name, name)

    def parts(self, value: str, depth: int = 0) -> list[str]:
        """The tensors of a value."""
        self.read += 1
        if self.read > _PARTS:  # tuples that hold the same tuple many times, and so on
            raise ModelError(f"its operations read more than {_PARTS} values")
        if value not in self.tuples or depth > _NESTED:
            return [value]
        return [part for inner in self.tuples[value] for part in self.parts(inner, depth + 1)]

    def node(self, node: Message) -> None:
        kind = node.text(4)
        inputs, outputs = node.texts(1), node.texts(2)
        name = node.text(7) or node.text(3)
        if len(outputs) != 1:
            raise ModelError(f"node {name} has {len(outputs)} values, not one")
        attributes = {}
        if kind.startswith(_REFERENCE):
            reference = self.primitives.get(kind[len(_REFERENCE) :])
            if reference is None:
                raise ModelError(f"node {name} names the primitive {kind}, which is not there")
            kind = reference.text(2)
            attributes = {item.text(1): _attribute(item) for item in reference.messages(3)}
        own = {item.text(1): item for item in node.messages(5)}
        if kind == "Constant":
            self.constant_node(outputs[0], own)
        elif kind == "MakeTuple":
            self.tuples[outputs[0]] = inputs
        elif kind == "TupleGetItem":
            self.item(name, inputs, outputs[0])
        elif kind in ("Depend", "Load", "UpdateState", "Return"):
            self.tuples[outputs[0]] = inputs[:1]
        else:
            self.operation(kind, name, inputs, outputs[0], own, attributes)

    def constant_node(self, output: str, own: dict[str, Message]) -> None:
        value = _attribute(own["value"]) if "value" in own else None
        self.scalars[output] = value
        array: Array | None = None
        if isinstance(value, (bool, int, float)) or (value and isinstance(value, tuple)):
            array = np.asarray(value)
            array = array.astype({"i": np.int64, "f": np.float32}.get(array.dtype.kind, array.dtype))
        if array is not None and array.dtype.kind in "bif":
            self.tensors[output] = Tensor(array.shape, array.dtype, array)

    def item(self, name: str, inputs: Sequence[str], output: str) -> None:
        if len(inputs) != 2 or not isinstance(self.scalars.get(inputs[1]), int):
            raise ModelError(f"node {name} does not say which part of a tuple it takes")
        parts = self.tuples.get(inputs[0], [inputs[0]])
        index = self.scalars[inputs[1]]
        if not 0 <= index < len(parts):
            raise ModelError(f"node {name} takes part {index} of {len(parts)}")
        self.tuples[output] = [parts[index]]

    def operation(
        self,
        kind: str,
        name: str,
        inputs: Sequence[str],
        output: str,
        own: dict[str, Message],
        attributes: dict[str, Any],
    ) -> None:
        made = _tensors(own["shape"]) if "shape" in own else []
        outputs = [output] if len(made) <= 1 else [f"{output}:{index}" for index in range(len(made))]
        if len(outputs) > 1:
            self.tuples[output] = outputs
        called = [tensor.text(7) for tensor in made] or [""]
        outputs = [self.rename(one, shown) for one, shown in zip(outputs, called, strict=True)]
        told = [Tensor(_shape(tensor), _TYPES.get(tensor.number(2))) for tensor in made] or [Tensor((), None)]
        self.tensors.update(zip(outputs, told, strict=True))
        read = [self.names.get(part, part) for value in inputs for part in self.parts(value)]
        unknown = [one for one in read if one not in self.tensors]
        if unknown:
            raise ModelError(f"node {name} reads {unknown[0]}, which nothing before it makes")
        fields = _FIELDS.get(kind, ())
        known = {field.name: attributes.get(field.name, _usual(field)) for field in fields}
        if kind == "Custom":
            known = _custom(attributes)
        self.operations.append(Operation(kind, name, tuple(read), tuple(outputs), known))


def _custom(attributes: dict[str, Any]) -> dict[str, Any]:
    """The type and the texts of a Custom primitive: `attr` has names and bytes in turn; what stands beside it
    is the framework's own."""
    if "attr" not in attributes:
        return attributes
    pairs = attributes["attr"] or ()
    try:
        texts = {str(name): bytes(text) for name, text in zip(pairs[::2], pairs[1::2], strict=True)}
    except (TypeError, ValueError):
        raise ModelError("the attributes of a Custom primitive are not names with bytes") from None
    return {"type": attributes.get("type", ""), **texts}


def _usual(field: Field) -> Any:
    return {"text": "", "attributes": {}}.get(field.kind, () if field.kind.endswith("s") else field.default)


def _attribute(item: Message, depth: int = 0) -> Any:
    """The value of an attribute; None for one of a kind that no spelling asks for."""
    kind = item.number(16)
    if depth > _NESTED:
        raise ModelError(f"the attribute {item.text(1)} holds tuples in tuples in tuples")
    if kind in (_TUPLE, _LIST):
        return tuple(_attribute(one, depth + 1) for one in item.messages(17))
    found: list[Any]
    if kind in _NUMBERS or kind == _BOOL:
        values = item.numbers(10) or item.numbers(3)
        found = [bool(value) for value in values] if kind == _BOOL else values
    elif kind in (_FLOAT, _DOUBLE):
        found = item.floats(8) or item.floats(9, "d") or item.floats(2) or item.floats(4, "d")
    elif kind == _STRING:
        found = item.texts(11) or item.texts(5)
    else:
        return None
    return found[0] if len(found) == 1 else tuple(found)


def _tensors(item: Message, depth: int = 0) -> list[Message]:
    """The tensors of a `shape` attribute, which has one for each output."""
    if item.has(17) and depth < _NESTED:
        return [tensor for one in item.messages(17) for tensor in _tensors(one, depth + 1)]
    return item.messages(12)


def _shape(tensor: Message) -> tuple[int, ...]:
    return tuple(tensor.numbers(1))


def _constant(tensor: Message, name: str) -> Tensor:
    shape, dtype = _shape(tensor), _TYPES.get(tensor.number(2))
    if tensor.has(12):
        raise ModelError(f"the constant {name} is in a file of its own, which is not read")
    raw = tensor.bytes_(9)
    if dtype is None or not tensor.has(9):
        return Tensor(shape, None)
    return Tensor(shape, dtype, constant(bytes(raw), dtype, shape, name))
