"""The float net on the emulator with every tensor seen: what calibrating and comparing are made of.

A net gives back at most MAX_TENSORS outputs, so the graph is cut into runs of layers, each a net of its own
that the host feeds with what the ones before gave. A layer of the user's that takes integers where the graph
has no scale gets that of the first inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import MAX_TENSORS
from firmware_sim.errors import UsageError
from firmware_sim.wire import DType
from user_layers.bmodel import as_read
from user_layers.compiler.pipeline import compile_graph
from user_layers.graph import GraphBuilder
from user_layers.net.nodes import LayerNode, check_scale
from user_layers.quantize.channels import channels_last
from user_layers.quantize.report import in_float
from user_layers.runtime import BModelRuntime

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class _Run:
    """Layers that run as one net, and the tensors that they give."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Observer:
    """A graph that runs with all tensors kept; a context manager that ends what it loaded. Errors: those of
    compiling and running."""

    def __init__(self, graph: GraphBuilder) -> None:
        own = {name for node in graph.nodes if not node.op.is_builtin for name in node.inputs}
        asked = {name for name in own if name not in graph.scales and _is_made(graph, name)}
        # A shape depends on no scale.
        made = graph.with_scales(dict.fromkeys(asked, 1.0)).resolve().tensors
        # What comes as integers has the scale of the layer that makes it.
        self._unknown = {name for name in asked if name in made and not made[name].format.quantised}
        self._graph = graph.with_scales(dict.fromkeys(self._unknown, 1.0))
        self._net = self._graph.resolve()
        needed = [node for node in graph.nodes if node.outputs[0] in self._net.tensors]
        self._cut = list(_cut(needed, graph))
        self._runs: list[_Run] = []
        self._runtime = BModelRuntime(graph.toolkit.device)

    def __enter__(self) -> Observer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runtime.close()

    def channels_last(self) -> frozenset[str]:
        """The tensors of tokens (channels.py)."""
        nodes = [node for run in self._cut for node in run]
        return channels_last(nodes, {**self._net.tensors, **self._graph.tensors}, self._graph.toolkit)

    def tensors(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Every tensor for these inputs: those of the net and what all layers make. Integers with a scale are
        multiplied by it. Inputs of the model that the net does not have, since no output needs them, may be
        given too. UsageError where one is missing."""
        missing = [name for name in self._graph.inputs if name not in inputs]
        if missing:
            raise UsageError(
                f"net {self._graph.name!r} needs the input {missing[0]!r}; given are "
                f"{', '.join(map(repr, inputs)) or 'none'}"
            )
        known: dict[str, Array] = {name: np.asarray(inputs[name]) for name in self._graph.inputs}
        for number in range(len(self._cut)):
            run = self._loaded(number, known)
            results = self._runtime.launch(run.name, {name: known[name] for name in run.inputs})
            known.update(zip(run.outputs, results, strict=True))
        return {name: in_float(values, self._net.tensors[name].format) for name, values in known.items()}

    def _loaded(self, number: int, known: Mapping[str, Array]) -> _Run:
        """A run, which is compiled when it is needed first: then the values are known of which scales are
        made."""
        if number < len(self._runs):
            return self._runs[number]
        nodes = self._cut[number]
        found = self._unknown & known.keys()
        for name in found:
            largest = float(np.abs(known[name]).max(initial=0.0)) or 1.0
            self._graph.scales[name] = check_scale(largest / 127, f"the tensor {name!r}")
        if found:
            self._unknown -= found
            self._net = self._graph.resolve()  # the scales of results follow from those of inputs
        outputs = [output for node in nodes for output in node.outputs]
        part = self._graph.part(f"run{number}", nodes, outputs, self._net)
        self._runtime.load(as_read(compile_graph(part, opt=0)))
        self._runs.append(_Run(part.name, part.inputs, tuple(outputs)))
        return self._runs[-1]


def _is_made(graph: GraphBuilder, name: str) -> bool:
    """Whether a tensor is float and no constant, so that a scale matters."""
    tensor = graph.tensors.get(name)
    return tensor is None or (tensor.data is None and not tensor.scale and tensor.dtype is DType.FP32)


def _cut(nodes: Sequence[LayerNode], graph: GraphBuilder) -> Iterator[list[LayerNode]]:
    """Runs of layers with at most MAX_TENSORS inputs and outputs; a layer of the user's begins one, so that
    what it reads is known before."""
    now: list[LayerNode] = []
    for node in nodes:
        if now and (not node.op.is_builtin or not _fits([*now, node], graph)):
            yield now
            now = []
        now.append(node)
    if now:
        yield now


def _fits(nodes: Sequence[LayerNode], graph: GraphBuilder) -> bool:
    made = {output for node in nodes for output in node.outputs}
    read = {name for node in nodes for name in node.inputs if name not in made}
    given = {name for name in read if name not in graph.tensors or graph.tensors[name].data is None}
    return len(made) <= MAX_TENSORS and len(given) <= MAX_TENSORS
