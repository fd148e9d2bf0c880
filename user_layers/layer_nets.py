"""A graph taken apart: each layer as a net of its own, with the inputs that it gets in the whole net.

A machine whose results differ then shows which layers differ, each of them by itself: no difference travels
from one to the next. All are static and compiled at level 0, so that they need nothing but the two engines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from user_layers.bmodel.directory import BMODEL, LAYERS, LAYERS_OF, References
from user_layers.compiler.pipeline import compile_graph
from user_layers.files import write_atomic
from user_layers.graph import GraphBuilder
from user_layers.runtime.references import run_net

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from user_layers.net.compiled import CompiledNet

WHOLE = "whole"
"""Begins the name of the net that is the whole graph, at level 0."""


def layer_nets(
    graph: GraphBuilder, given: Mapping[str, NDArray[np.generic]]
) -> tuple[list[CompiledNet], list[References]]:
    """The nets `000 NAME (OP)` in the order of the layers, then `whole NET`, each with its reference data.

    given: the net's inputs by name; the emulator computes all else. Layers that run on the host, that have
    no input but constants or that no output needs are left out, and the whole where a part runs on the host.
    Errors: those of compiling and running.
    """
    net = graph.resolve()
    known = dict(given)
    made: list[tuple[CompiledNet, dict[str, NDArray[np.generic]], list[NDArray[np.generic]]]] = []
    for number, node in enumerate(graph.nodes):
        if any(name not in net.tensors for name in node.outputs):
            continue
        one = graph.part(f"{number:03d} {node.name} ({node.op.op})", [node], node.outputs, net)
        compiled = compile_graph(one, opt=0)
        fed = {name: known[name] for name in one.inputs}
        got = run_net(compiled, graph.toolkit, fed)
        known.update(zip(node.outputs, got, strict=True))
        if node.cpu is None and fed:
            made.append((compiled, fed, got))
    if all(node.cpu is None for node in graph.nodes):
        whole = graph.part(f"{WHOLE} {graph.name}", graph.nodes, graph.outputs, net)
        compiled = compile_graph(whole, opt=0)
        fed = {name: known[name] for name in whole.inputs}
        made.append((compiled, fed, run_net(compiled, graph.toolkit, fed)))
    references = [References.of((fed[t.name] for t in nets.stages[0].inputs), got) for nets, fed, got in made]
    return [nets for nets, _, _ in made], references


def mark_layers(directory: Path) -> None:
    """Note beside the layers' nets of which bmodel they are. OSError."""
    write_atomic(directory / LAYERS / LAYERS_OF, layers_mark(directory))


def layers_mark(directory: Path) -> str:
    """What `mark_layers` notes: the SHA-256 of the folder's bmodel."""
    return hashlib.sha256((directory / BMODEL).read_bytes()).hexdigest() + "\n"
