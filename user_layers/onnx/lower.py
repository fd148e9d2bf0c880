"""ONNX nodes into layers of a graph: what every converter needs, and the walk over the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from firmware_sim.errors import CompileError, UsageError
from user_layers.graph import Graph
from user_layers.onnx.fuse import DOMAIN
from user_layers.onnx.load import CUSTOM_DOMAIN
from user_layers.onnx.model import Array, Model, Node

Converter = Callable[["Lowering", Node], None]
CONVERTERS: dict[str, Converter] = {}


class Unsupported(Exception):
    """No layer does what a node asks for; the text says what."""


def converts(*ops: str) -> Callable[[Converter], Converter]:
    """Register the converter of ONNX operations."""

    def register(function: Converter) -> Converter:
        for op in ops:
            CONVERTERS[op] = function
        return function

    return register


def load_converters() -> None:
    """Import the modules that register converters."""
    for name in ("elementwise", "matrix", "movement", "resize", "window"):
        import_module(f"user_layers.onnx.convert_{name}")


class Lowering:
    """A model on its way into a graph.

    Values of the model are tensors of the graph under the same name, unless a converter says that one lies
    under another (`alias`). custom: layers for nodes, by their names or operations.
    """

    def __init__(self, model: Model, graph: Graph, custom: Mapping[str, str] | None = None) -> None:
        self.model = model
        self.graph = graph
        self._custom = dict(custom or {})
        self._names: dict[str, str] = {}
        self._count = 0
        for value in model.inputs:
            shape = value.fixed
            if shape is None or value.dtype is None:
                raise CompileError(f"input {value.name!r} has no known shape or type")
            self._names[value.name] = graph.add_input(
                value.name, shape, _device_dtype(value.dtype, value.name)
            )

    # ---- what converters ask ----

    def constant(self, name: str) -> Array | None:
        """The values of a constant of the model, None for anything else and for an input left out."""
        return self.model.constants.get(name) if name else None

    def known(self, node: Node, index: int) -> Array | None:
        """The values of an input that must be known when compiling; None when it is left out."""
        if index >= len(node.inputs) or not node.inputs[index]:
            return None
        values = self.constant(node.inputs[index])
        if values is None:
            raise Unsupported(f"its input {node.inputs[index]!r} is computed; it must be a constant")
        return values

    def option(self, node: Node, attribute: str, index: int) -> Array | None:
        """What is an attribute in old opsets and an input in newer ones."""
        if attribute in node.attributes:
            return np.asarray(node.attributes[attribute])
        return self.known(node, index)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value. Raises Unsupported when it is not known."""
        found = self.model.value(name).fixed
        if found is None:
            raise Unsupported(f"the shape of {name!r} is not known")
        return found

    def is_used(self, name: str) -> bool:
        """Whether a node reads a value or the model gives it out."""
        return name in self.model.consumers or any(value.name == name for value in self.model.outputs)

    def is_float(self, name: str) -> bool:
        return self.model.value(name).dtype == np.float32

    def need_float(self, *names: str) -> None:
        """Raises Unsupported unless these values are float32."""
        for name in names:
            if name and not self.is_float(name):
                raise Unsupported(f"{name!r} is {self.model.value(name).dtype}; only float32 is computed")

    # ---- what converters make ----

    def tensor(self, name: str) -> str:
        """The graph's tensor of a value; a constant is added when it is first used."""
        if name not in self._names:
            values = self.constant(name)
            if values is None:
                raise CompileError(f"nothing made {name!r}")
            self._names[name] = self.add_const(values, name)
        return self._names[name]

    def add_const(self, values: Array, stem: str) -> str:
        """A constant of the graph under a free name."""
        values = np.asarray(values)
        if values.dtype == np.int64 and values.size and np.abs(values).max() > np.iinfo(np.int32).max:
            raise Unsupported(f"{stem!r} has values beyond 32 bits")
        return self.graph.add_const(self.fresh(stem), values.astype(_device_dtype(values.dtype, stem)))

    def fresh(self, stem: str) -> str:
        """A free name for a tensor."""
        name = stem or "value"
        while self.graph.has_tensor(name):
            self._count += 1
            name = f"{stem}:{self._count}"
        return name

    def layer(
        self,
        op: str,
        node: Node,
        inputs: Sequence[str],
        param: Mapping[str, Any] | None,
        outputs: Sequence[str],
    ) -> None:
        """A layer; inputs and outputs are names of the graph. It is called as the node is."""
        taken = {other.name for other in self.graph.nodes}
        name = node.name if node.name and node.name not in taken else None
        self.graph.add_tpu_layer(op, inputs, param, outputs, name=name)

    def simple(self, op: str, node: Node, inputs: Sequence[str], param: Mapping[str, Any] | None) -> None:
        """A layer that makes the node's first output from graph tensors."""
        self.layer(op, node, inputs, param, [self.output(node)])

    def between(self, op: str, node: Node, inputs: Sequence[str], param: Mapping[str, Any] | None) -> str:
        """A layer in the middle of what a node becomes; the name of its output."""
        name = self.fresh(f"{node.outputs[0]}:{op.removeprefix('TPU_').lower()}")
        self.graph.add_tpu_layer(op, inputs, param, [name])
        return name

    def output(self, node: Node, index: int = 0) -> str:
        """The graph's name for an output of the node."""
        name = node.outputs[index]
        self._names[name] = name
        return name

    def alias(self, name: str, tensor: str) -> None:
        """A value of the model that is a tensor of the graph already."""
        self._names[name] = tensor

    # ---- the walk ----

    def run(self) -> None:
        """Convert every node and name the outputs. CompileError names the nodes that have no layer."""
        load_converters()
        failed: list[str] = []
        for node in self.model.nodes:
            if failed and any(
                name and name not in self._names and self.constant(name) is None for name in node.inputs
            ):
                continue  # it follows one that failed
            try:
                self._convert(node)
            except Unsupported as error:
                failed.append(f"{node.title}: {error}")
        if failed:
            raise CompileError("no layer does this:\n  " + "\n  ".join(failed))
        for value in self.model.outputs:
            self._finish(value.name)

    def _convert(self, node: Node) -> None:
        custom = self._custom.get(node.name) or self._custom.get(node.op)
        if custom is None and node.domain == CUSTOM_DOMAIN:
            custom = node.op
        if custom is not None:
            inputs = [self.tensor(name) for name in node.inputs]
            self.layer(
                custom,
                node,
                inputs,
                dict(node.attributes),
                [self.output(node, i) for i in range(len(node.outputs))],
            )
            return
        converter = CONVERTERS.get(node.op) if node.domain in ("", "ai.onnx", DOMAIN) else None
        if converter is None:
            raise Unsupported("there is no layer for this operation")
        converter(self, node)

    def _finish(self, name: str) -> None:
        if self.constant(name) is not None or any(v.name == name for v in self.model.inputs):
            raise CompileError(
                f"output {name!r} is a constant or an input of the model: there is nothing to run"
            )
        self.graph.add_output(self._names[name])


def parse_map(words: Sequence[str]) -> dict[str, str]:
    """--map NODE=TPU_OP, by the node's name or its operation."""
    found = {}
    for word in words:
        node, sign, op = word.partition("=")
        if not sign or not node or not op:
            raise UsageError(f"--map {word}: expected NODE=TPU_OP")
        found[node] = op
    return found


def _device_dtype(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """What the device computes with: float32, whole numbers as int32, booleans as float32 0 and 1."""
    if dtype == np.float32:
        return np.dtype(np.float32)
    if dtype in (np.int64, np.int32):
        return np.dtype(np.int32)
    if dtype == np.bool_:
        return np.dtype(np.float32)
    raise CompileError(f"{name!r} is {dtype}; the device takes float32, int32, int64 (as int32) and bool")
