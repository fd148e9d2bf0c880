"""Models in float16 or bfloat16, computed in float32: the TPU's units have no shorter floating-point type.

Constants are widened, types in attributes and subgraphs too. At the edge of the model and around layers of
the user's float16 stays float16, with a Cast between; of bfloat16 the device has no tensors: it is float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from user_layers.graph.prepared import free_name
from user_layers.onnx.load import node_of
from user_layers.onnx.model import NARROW, Model, Node, Value
from user_layers.onnx.proto import element_type
from user_layers.onnx.widen import wide_node

_FLOAT, _HALF = np.dtype(np.float32), np.dtype(np.float16)
_OLDEST_OPSET = 6
_CONVERSIONS = ("Cast", "CastLike")


def is_narrow(dtype: np.dtype[Any] | None) -> bool:
    """Whether this is a floating-point type of 16 bits."""
    return dtype is not None and dtype.name in NARROW


def narrow_types(model: Model) -> list[str]:
    """Those of NARROW in which values of the model are; none where it only converts, to float16 among them,
    which the host does to the last bit (the device has no NaN in float16)."""
    halves = any(value.dtype == _HALF for value in model.outputs)
    if halves and all(node.op in _CONVERSIONS for node in model.nodes if _touches(model, node)):
        return []
    values = (*model.values.values(), *(model.value(name) for name in model.constants))
    found = {value.dtype.name for value in values if value.dtype is not None}
    return [name for name in NARROW if name in found]


def _touches(model: Model, node: Node) -> bool:
    return any(is_narrow(model.value(name).dtype) for name in (*node.reads, *node.makes))


def described(narrow: Sequence[str]) -> list[str]:
    """A line for the user about what `narrow_types` found, where it found some."""
    if not narrow:
        return []
    edge = ", as are bfloat16 inputs and outputs" if "bfloat16" in narrow else ""
    return [f"{' and '.join(narrow)} in the model: all of it is computed in float32{edge}"]


def in_float32(model: Model) -> Model:
    """The model with all that is float16 or bfloat16 in float32; its inputs and outputs as the device holds
    them. Nodes that the user maps and layers of the user's get and make float16, as they were written to.

    Models of opsets under 6, which name types by texts, stay as they are.
    """
    if not narrow_types(model) or model.opset < _OLDEST_OPSET:
        return model
    return _Widening(model).widened()


class _Widening:
    """The float16 of an input, an output and what a layer of the user's makes keeps its name, and its float32
    gets another one; everything else is float32 under its own name."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._nodes: list[Node] = []
        self._constants = {
            name: array.astype(_FLOAT) if is_narrow(array.dtype) else array
            for name, array in model.constants.items()
        }
        self._values = {name: _widened(value) for name, value in model.values.items()}
        kept = [value.name for value in (*model.inputs, *model.outputs)]
        kept += [name for node in model.nodes if node.is_own for name in node.makes]
        self._wide = {name: self._new(name, _FLOAT) for name in dict.fromkeys(kept) if self._is_half(name)}
        self._half: dict[str, str] = {}  # the same for what layers of the user's read

    def widened(self) -> Model:
        model = self._model
        for name, wide in self._wide.items():
            self._values[name] = model.value(name)
            if name in model.constants:
                self._constants[wide] = self._constants[name]
                self._constants[name] = model.constants[name]
        for value in model.inputs:
            if value.name in self._wide:
                self._cast(value.name, self._wide[value.name], _FLOAT)
        for node in model.nodes:
            (self._own if node.is_own else self._node)(node)
        return replace(
            model,
            inputs=tuple(self._values[value.name] for value in model.inputs),
            outputs=tuple(self._values.get(value.name, value) for value in model.outputs),
            constants=self._constants,
            nodes=tuple(self._nodes),
            values=self._values,
        )

    def _node(self, node: Node) -> None:
        made = [name for name in node.makes if name in self._wide]
        if node.proto is None:  # of a pass before this one, in float32 but for what it reads and makes
            inputs, outputs = (
                tuple(self._wide.get(name, name) for name in names) for names in (node.inputs, node.outputs)
            )
            self._nodes.append(replace(node, inputs=inputs, outputs=outputs))
        else:
            self._nodes.append(node_of(wide_node(node.proto, self._wide), node.title))
        for name in made:
            self._cast(self._wide[name], name, _HALF)

    def _own(self, node: Node) -> None:
        inputs = []
        for name in node.inputs:
            if name and name not in self._wide and self._is_half(name):
                if name not in self._half:
                    self._half[name] = self._new(name, _HALF)
                    self._cast(name, self._half[name], _HALF)
                name = self._half[name]
            inputs.append(name)
        self._nodes.append(replace(node, inputs=tuple(inputs)))
        for name in node.makes:
            if name in self._wide:
                self._cast(name, self._wide[name], _FLOAT)

    def _is_half(self, name: str) -> bool:
        return self._model.value(name).dtype == _HALF

    def _cast(self, source: str, target: str, dtype: np.dtype[Any]) -> None:
        attributes = {"to": element_type(dtype)}
        self._nodes.append(Node("Cast", "", "", (source,), (target,), attributes))

    def _new(self, name: str, dtype: np.dtype[Any]) -> str:
        """A free name for a value in another type."""
        free = free_name(f"{name}:{dtype}", self._values, self._constants)
        self._values[free] = Value(free, self._model.value(name).shape, dtype)
        return free


def _widened(value: Value) -> Value:
    return replace(value, dtype=_FLOAT) if is_narrow(value.dtype) else value
