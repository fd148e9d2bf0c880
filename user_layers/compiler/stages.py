"""Several sets of input shapes of one net in one bmodel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.errors import UsageError
from user_layers.compiler.output import write_directory
from user_layers.compiler.references import make_references
from user_layers.compiler.result import CompiledNet

if TYPE_CHECKING:
    from user_layers.graph import Graph


def compile_stages(
    graphs: Sequence[Graph],
    *,
    dynamic: bool = False,
    directory: str | Path | None = None,
    opt: int = 2,
    log: Callable[[str], None] | None = None,
    report: bool = False,
) -> CompiledNet:
    """The same net built for several input shapes, as one net with a stage for each.

    The runtime takes the stage that fits the inputs. dynamic, opt, log: as in Graph.compile. directory: also
    write compilation.bmodel, the reference data of all stages and, if asked for, their report there. Errors:
    those of Graph.compile; UsageError without a graph, or for graphs of different names; ModelError for
    stages that differ in more than their shapes.
    """
    net = combine_stages(
        [graph.compile(dynamic, opt=opt, log=log, report=report) for graph in graphs],
    )
    if directory is not None:
        write_directory(Path(directory), [net], [make_references(net, graphs[0].toolkit, None, None)])
    return net


def combine_stages(nets: Sequence[CompiledNet]) -> CompiledNet:
    """Nets of one name as the stages of one net, in the order given. Errors: UsageError."""
    names = {net.name for net in nets}
    if len(names) != 1:
        listed = ", ".join(map(repr, sorted(names))) or "none"
        raise UsageError(f"stages are of one net; given are {listed}", hint="give the graphs the same name")
    layers = {use.op_type: use for net in nets for use in net.layers}
    return CompiledNet(
        nets[0].name,
        tuple(stage for net in nets for stage in net.stages),
        tuple(use for _, use in sorted(layers.items())),
        tuple(line for net in nets for line in net.log),
        tuple(stage for net in nets for stage in net.report),
    )
