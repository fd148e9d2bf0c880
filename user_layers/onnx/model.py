"""ONNX models as this compiler sees them: nodes with plain attributes, constants, typed values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Value:
    """A tensor of the model. shape: None where nothing is known; a text is a free dimension."""

    name: str
    shape: tuple[int | str, ...] | None
    dtype: np.dtype[Any] | None

    @property
    def fixed(self) -> tuple[int, ...] | None:
        """The shape where every extent is known."""
        if self.shape is None or any(isinstance(extent, str) for extent in self.shape):
            return None
        return tuple(int(extent) for extent in self.shape)


@dataclass(frozen=True)
class Node:
    """One operation. inputs: "" for one that is left out. attributes: numbers, texts, lists, arrays."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """How messages call it: `Conv conv_1` or `Conv with the output y`."""
        kind = self.op if self.domain in ("", "ai.onnx") else f"{self.domain}.{self.op}"
        return f"{kind} {self.name}" if self.name else f"{kind} with the output {self.outputs[0]}"


@dataclass(frozen=True)
class Model:
    """Nodes in an order in which they can run; constants by name (also those that nodes made)."""

    name: str
    opset: int
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: Mapping[str, Array]
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]

    @cached_property
    def consumers(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that read a value, in order; outputs of the model are not among them."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(n for n in node.inputs if n):
                found.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    def value(self, name: str) -> Value:
        """A value by name; constants too."""
        if name in self.constants:
            array = self.constants[name]
            return Value(name, array.shape, array.dtype)
        return self.values.get(name, Value(name, None, None))

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)
