"""ONNX models as this compiler sees them: nodes with plain attributes, constants, typed values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

STANDARD = ("", "ai.onnx")  # both names of ONNX's own domain
ARITHMETIC = ("Add", "Sub", "Mul", "Div")  # of two tensors, element by element
CUSTOM_DOMAIN = "tpulayer"
DOMAIN = "tpulayer.internal"  # operations of this compiler alone
NARROW = ("float16", "bfloat16")  # floating-point types of 16 bits; numpy knows the second as no number


def shown(name: str) -> str:
    """A name as messages show it, on one line."""
    return name if name.isprintable() else repr(name)


@dataclass(frozen=True)
class Value:
    """A value of the model. shape: None where nothing is known; a text is a free dimension.

    kind: "tensor", or what it is instead (then it has neither shape nor dtype). observed: its shape was seen
    when the model ran, nothing infers it.
    """

    name: str
    shape: tuple[int | str, ...] | None
    dtype: np.dtype[Any] | None
    kind: str = "tensor"
    observed: bool = False

    @property
    def fixed(self) -> tuple[int, ...] | None:
        """The shape where every extent is known."""
        if self.shape is None or any(isinstance(extent, str) for extent in self.shape):
            return None
        return tuple(int(extent) for extent in self.shape)

    @property
    def is_float(self) -> bool:
        """Whether its elements are floating-point numbers of any size."""
        return self.dtype is not None and (self.dtype.kind == "f" or self.dtype.name in NARROW)

    @property
    def what(self) -> str:
        """Its type for messages: `float64`, `a sequence`."""
        if self.kind != "tensor":
            return f"a{'n' if self.kind[0] in 'aeiou' else ''} {self.kind}"
        if self.dtype is None:
            return "of unknown type"
        return "text" if self.dtype == object else str(self.dtype)


@dataclass(frozen=True)
class Node:
    """One operation. inputs: "" for one that is left out. attributes: numbers, texts, lists, arrays.

    captured: values that its subgraphs read from outside. proto: the onnx.NodeProto that it came from,
    None for one that this compiler made; inputs and outputs may have been renamed since. mapped: the user
    says what becomes of it, so that nothing else may. origin: for a piece of a node that was written
    out, what that is remembered by (see expand.py).
    """

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    captured: tuple[str, ...] = ()
    mapped: bool = False
    origin: str = ""
    proto: Any = field(default=None, compare=False, repr=False)

    @property
    def title(self) -> str:
        """How messages call it: `Conv conv_1` or `Conv with the output y`."""
        kind = self.op if self.domain in STANDARD else f"{self.domain}.{self.op}"
        if self.name:
            return f"{shown(kind)} {shown(self.name)}"
        return f"{shown(kind)} with the output {shown(next(iter(self.makes), '(none)'))}"

    @property
    def is_plain(self) -> bool:
        """Whether it is an operation of ONNX's own, and stays one."""
        return self.domain in STANDARD and not self.mapped

    def is_a(self, *ops: str) -> bool:
        """Whether it is plain, and one of these."""
        return self.op in ops and self.is_plain

    @property
    def is_known(self) -> bool:
        """Whether it is plain, or one of this compiler's own."""
        return self.domain in (*STANDARD, DOMAIN) and not self.mapped

    @property
    def is_own(self) -> bool:
        """Whether it becomes what the user says: mapped, or a layer of the user's by its domain."""
        return self.mapped or self.domain == CUSTOM_DOMAIN

    @property
    def reads(self) -> tuple[str, ...]:
        """Every value that it needs, each once."""
        return tuple(dict.fromkeys(name for name in (*self.inputs, *self.captured) if name))

    @property
    def makes(self) -> tuple[str, ...]:
        """Its outputs but those left out."""
        return tuple(name for name in self.outputs if name)


@dataclass(frozen=True)
class Model:
    """Nodes in an order in which they can run; constants by name (also those that nodes made).

    opset: of ONNX's own operations; opsets: of all domains ("" is ONNX's). given: shapes of inputs that the
    user gave; notes: what was read otherwise than it is written for these.
    """

    name: str
    opset: int
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: Mapping[str, Array]
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    opsets: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @cached_property
    def consumers(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that read a value, in order; outputs of the model are not among them."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.reads:
                found.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def makers(self) -> dict[str, Node]:
        """The node that makes a value; inputs and constants are absent."""
        return {name: node for node in self.nodes for name in node.makes}

    def only_reader(self, name: str) -> Node | None:
        """The node that alone reads a value; None where others do, or it is an output."""
        readers = self.consumers.get(name, ())
        return readers[0] if len(readers) == 1 and name not in self.results else None

    @cached_property
    def results(self) -> frozenset[str]:
        """Names of the model's outputs."""
        return frozenset(value.name for value in self.outputs)

    @property
    def observed(self) -> tuple[Value, ...]:
        """The values that nodes make whose shapes were observed, in order."""
        made = (self.value(name) for node in self.nodes for name in node.makes)
        return tuple(value for value in made if value.observed)

    def with_instead(
        self,
        instead: Mapping[str, Sequence[Node]],
        constants: Mapping[str, Array],
        values: Mapping[str, Value],
    ) -> Model:
        """The model with other nodes, or none, in the place of those whose first outputs are named."""
        nodes = (
            one
            for node in self.nodes
            for one in (instead.get(node.outputs[0], (node,)) if node.outputs else (node,))
        )
        return replace(self, nodes=tuple(nodes), constants=constants, values=values) if instead else self

    def value(self, name: str) -> Value:
        """A value by name; constants too."""
        if name in self.constants:
            array = self.constants[name]
            return Value(name, array.shape, array.dtype)
        return self.values.get(name, Value(name, None, None))

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)


def reduced_axes(node: Node, constants: Mapping[str, Array], rank: int) -> frozenset[int] | None:
    """The dimensions, counted from 0, that a reduction of so many names; None where it names none or computes
    them."""
    axes = node.attributes.get("axes")
    if axes is None and len(node.inputs) > 1:
        axes = constants.get(node.inputs[1])
    return None if axes is None else frozenset(int(axis) % rank for axis in np.ravel(axes))


@dataclass
class Rewriting:
    """A model while a pass goes through it. constants, values: what is new; instead: what is put in the place
    of a node, by its first output."""

    model: Model
    constants: dict[str, Array] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    instead: dict[str, list[Node]] = field(default_factory=dict)

    def rewritten(self) -> Model:
        """The model with all that."""
        constants = {**self.model.constants, **self.constants}
        return self.model.with_instead(self.instead, constants, {**self.model.values, **self.values})
