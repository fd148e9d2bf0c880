"""Writes the operations of one model as ONNX nodes, and keeps the order of axes that costs no transposes.

Frameworks that put channels last are read in their own order; ONNX puts them first. A tensor of such a model
is an ONNX value in either order, or in both: whoever asks for an order that is not there gets a Transpose in
between, once. Operations that do not care take the order that their operands have. What is left at the edge
of the model is a permutation of an input or an output, which whoever copies the data can do (see `Border`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from user_layers.onnx.model import CUSTOM_DOMAIN
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor

OPSET = 20  # of the nodes that are written


class Unspelled(Exception):
    """ONNX has no words for what an operation asks for; the text says what."""


def to_first(rank: int) -> tuple[int, ...]:
    """The axes of a tensor with channels last, in the order that has them first: (0, 3, 1, 2) for rank 4."""
    return (0, rank - 1, *range(1, rank - 1))


def to_last(rank: int) -> tuple[int, ...]:
    """The same back: (0, 2, 3, 1) for rank 4."""
    return (0, *range(2, rank), 1)


def axis_of(axis: int, rank: int) -> int:
    """An axis, which may count from the end, from the first one on. Raises Unspelled where there is none."""
    if not -rank <= axis < rank:
        raise Unspelled(f"there is no axis {axis} among {rank}")
    return axis % rank


def edge_value(name: str, first: bool) -> str:
    """What an input of the model is called until the end, when it gets its name."""
    return f"{name}@first" if first else name


class Speller:
    """What spellings use. `own` is a tensor's value in the framework's order of axes, `first` that with
    channels first (of three or more dimensions); results are told by `put` in the order in which they are.

    free_borders: inputs and outputs may have channels first; otherwise they are in the framework's order.
    """

    def __init__(self, model: ForeignModel, *, free_borders: bool) -> None:
        self.model = model
        self.nodes: list[Any] = []  # onnx.NodeProto
        self.constants: dict[str, Array] = {}
        self.sources: dict[str, int] = {}  # index of the operation that each node comes from
        self.declared: dict[str, Tensor] = {}  # shapes and types of values that ONNX cannot infer
        self.inputs: dict[str, bool] = {}  # those that were asked for, and whether channels come first
        self._free_borders = free_borders
        self._values: dict[tuple[str, bool], str] = {}
        self._taken = set(model.tensors)
        self._operation: tuple[int, Operation] | None = None

    # ---- what spellings ask ----

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of a tensor in the framework's order."""
        return self.model.tensors[name].shape

    def rank(self, name: str) -> int:
        """How many dimensions a tensor has."""
        return len(self.shape(name))

    def dtype(self, name: str) -> np.dtype[Any]:
        """The type of a tensor's elements. Raises Unspelled where it has none."""
        found = self.model.tensors[name]
        if found.dtype is None:
            raise Unspelled(f"{name!r} {found.odd}")
        return found.dtype

    def constant(self, name: str | None) -> Array | None:
        """The elements of a constant; None for what is computed or left out."""
        return None if name is None else self.model.tensors[name].data

    def known(self, name: str | None, what: str) -> Array:
        """The elements of an input that must be a constant. Raises Unspelled, which calls it `what`."""
        found = self.constant(name)
        if found is None:
            raise Unspelled(f"its {what} is {'left out' if name is None else 'computed, not a constant'}")
        return found

    def own(self, name: str) -> str:
        """The value of a tensor in the framework's order of axes."""
        return self._value(name, False)

    def first(self, name: str) -> str:
        """The value of a tensor with its last axis moved behind the first one."""
        return self._value(name, True) if self.rank(name) > 2 else self._value(name, False)

    def alike(self, names: Sequence[str], out: str) -> tuple[list[str], bool]:
        """Values that may be broadcast with each other as the tensors may, all in the order that most of them
        have; and whether that is the one with channels first. out: the tensor that is made of them."""
        rank = self.rank(out)
        full = [name for name in names if self.rank(name) == rank and self.constant(name) is None]
        there = [name for name in full if (name, True) in self._values]
        lacking = [name for name in full if (name, False) not in self._values]
        if rank < 3 or not there or not lacking:
            return [self.own(name) for name in names], False
        return [self._widened(name, rank) for name in names], True

    # ---- what spellings make ----

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: int = 1,
        domain: str = "",
    ) -> list[str]:
        """Add a node with so many outputs; returns their values."""
        import onnx

        index, operation = self._operation or (-1, None)
        stem = f"{operation.name or operation.kind}" if operation else "edge"
        name = self._free(stem, "/" + op)
        made = [self._free(f"{name}:{i}" if outputs > 1 else f"{name}:") for i in range(outputs)]
        given = {key: value for key, value in (attributes or {}).items() if value is not None}
        self.nodes.append(onnx.helper.make_node(op, list(inputs), made, name=name, domain=domain, **given))
        self.sources[name] = index
        return made

    def one(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; returns its value."""
        return self.node(op, inputs, attributes)[0]

    def const(self, array: Any, dtype: Any = None) -> str:
        """The value of a new constant."""
        name = self._free("const")
        self.constants[name] = np.asarray(array, dtype)
        return name

    def own_layer(
        self, operation: Operation, inputs: Sequence[str], attributes: Mapping[str, Any]
    ) -> list[str]:
        """Add a layer of the user's, called as the operation; its parameters by name."""
        return self.node(
            operation.kind, inputs, attributes, outputs=len(operation.outputs), domain=CUSTOM_DOMAIN
        )

    def declare(self, value: str, shape: Sequence[int], dtype: Any = np.float32) -> None:
        """Tell shape and type of what a node makes that ONNX does not know."""
        self.declared[value] = Tensor(tuple(shape), np.dtype(dtype))

    def put(self, name: str, value: str, *, first: bool = False) -> None:
        """Tell that `value` is the tensor `name`; first: with channels first."""
        first = first and self.rank(name) > 2
        self._values[name, first] = value

    # ---- what `spell` does ----

    def begin(self, index: int, operation: Operation) -> None:
        """Nodes that are added from here on come from this operation."""
        self._operation = index, operation

    def output(self, name: str) -> tuple[str, bool]:
        """The value of an output of the model, and whether it has channels first."""
        self._operation = None
        if name in self.model.inputs:  # one value with one name, so in one order
            self._value(name, self.inputs.setdefault(name, False))
            return edge_value(name, self.inputs[name]), self.inputs[name]
        first = self._free_borders and (name, False) not in self._values and (name, True) in self._values
        return self._value(name, first), first

    def _value(self, name: str, first: bool) -> str:
        found = self._values.get((name, first))
        if found is None:
            found = self._made(name, first)
            self._values[name, first] = found
        return found

    def _made(self, name: str, first: bool) -> str:
        tensor = self.model.tensors[name]
        order = to_first(len(tensor.shape))
        if tensor.data is not None:
            return self.const(tensor.data.transpose(order) if first else tensor.data)
        if (name, not first) in self._values:
            return self._transposed(self._values[name, not first], tensor, first)
        if name not in self.model.inputs:
            why = "is not known: nothing makes it" if tensor.dtype is not None else tensor.odd
            raise Unspelled(f"{name!r} {why}")
        if first and not self._free_borders:
            return self._transposed(self._value(name, False), tensor, True)
        self.inputs[name] = first
        return edge_value(name, first)

    def _transposed(self, value: str, tensor: Tensor, first: bool) -> str:
        rank = len(tensor.shape)
        order = to_first(rank)
        target = tuple(tensor.shape[axis] for axis in order) if first else tensor.shape
        moved = [axis for axis in order if tensor.shape[axis] != 1]
        if moved == sorted(moved):  # only axes of one element move
            return self.one("Reshape", value, self.const(target, np.int64))
        return self.one("Transpose", value, perm=list(order if first else to_last(rank)))

    def _widened(self, name: str, rank: int) -> str:
        """A tensor with ones put before its extents, with channels first."""
        tensor = self.model.tensors[name]
        if len(tensor.shape) == rank and tensor.data is None:
            return self.first(name)
        wide = Tensor((1,) * (rank - len(tensor.shape)) + tensor.shape, tensor.dtype)
        if tensor.data is not None:
            return self.const(tensor.data.reshape(wide.shape).transpose(to_first(rank)))
        if max(wide.shape, default=1) == 1:
            return self.own(name)
        return self._transposed(
            self.one("Reshape", self.own(name), self.const(wide.shape, np.int64)), wide, True
        )

    def _free(self, stem: str, tail: str = "") -> str:
        name, count = stem + tail, 0
        while name in self._taken:
            count += 1
            name = f"{stem}{tail}{count}"
        self._taken.add(name)
        return name
