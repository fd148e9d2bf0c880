"""The float net on the emulator with every tensor seen: what calibrating and comparing are made of.

A net gives back at most MAX_TENSORS outputs, so the graph is cut into runs of layers, each a net of its own
that the host feeds with what the ones before gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import MAX_TENSORS
from user_layers.bmodel import write
from user_layers.compiler.pipeline import compile_graph
from user_layers.graph import GraphBuilder
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode
from user_layers.runtime import BModelRuntime

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class _Run:
    """Layers that run as one net, and the tensors that they give."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Observer:
    """A graph that runs with all tensors kept; a context manager that ends what it loaded.

    opt: of the compiler, for each run of layers.
    """

    def __init__(self, graph: GraphBuilder, opt: int = 0) -> None:
        self._graph = graph
        net = graph.resolve()
        self._runs: list[_Run] = []
        self._runtime = BModelRuntime(graph.toolkit.device)
        try:
            for number, nodes in enumerate(_cut(graph.nodes, net, graph)):
                name = f"run{number}"
                outputs = [output for node in nodes for output in node.outputs]
                part = graph.part(name, nodes, outputs, net)
                self._runtime.load(write(compile_graph(part, opt=opt)))
                self._runs.append(_Run(name, part.inputs, tuple(outputs)))
        except BaseException:
            self._runtime.close()
            raise

    def __enter__(self) -> Observer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runtime.close()

    def tensors(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Every tensor for these inputs: those of the net and what all layers make, as the net stores it."""
        known: dict[str, Array] = {name: np.asarray(value) for name, value in inputs.items()}
        for run in self._runs:
            results = self._runtime.launch(run.name, {name: known[name] for name in run.inputs})
            known.update(zip(run.outputs, results, strict=True))
        return known


def _cut(nodes: Sequence[LayerNode], net: Net, graph: GraphBuilder) -> Iterator[list[LayerNode]]:
    """Runs of layers with at most MAX_TENSORS inputs and outputs."""
    now: list[LayerNode] = []
    for node in nodes:
        if now and not _fits([*now, node], graph):
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
