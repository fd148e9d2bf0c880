"""What compiling writes: a folder with the bmodel, reference data and a report; nets of several stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.device.findings import together
from firmware_sim.errors import UsageError
from user_layers.bmodel import write
from user_layers.bmodel.directory import (
    BMODEL,
    INPUT_REFERENCE,
    LAYERS,
    OUTPUT_REFERENCE,
    OUTPUT_SHAPES,
    QUANTISED,
    REPORT_JSON,
    REPORT_PICTURE,
    REPORT_TEXT,
    SITES,
    References,
    shapes_text,
)
from user_layers.compiler.pipeline import compile_graph
from user_layers.files import write_together
from user_layers.graph import GraphBuilder
from user_layers.layer_nets import layer_nets, mark_layers
from user_layers.net.command_map import command_maps, encoded
from user_layers.net.compiled import CompiledNet
from user_layers.report import NetReport
from user_layers.runtime.references import make_references, split_arrays

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def compile_net(
    graph: GraphBuilder,
    dynamic: bool = False,
    *,
    directory: str | Path | None = None,
    ref_inputs: Mapping[str, ArrayLike] | None = None,
    ref_outputs: Mapping[str, ArrayLike] | None = None,
    opt: int = 2,
    log: Callable[[str], None] | None = None,
    verbose: bool = False,
    report: bool = False,
    layers: bool = False,
) -> CompiledNet:
    """Compile a graph, and write what was made to a folder where one is given; see `Graph.compile`."""
    net = compile_graph(graph, dynamic=dynamic, opt=opt, log=log, verbose=verbose, report=report)
    if dynamic and graph.restrict is not None:
        net = graph.restrict(net)
    if directory is not None:
        with together():
            refs = make_references(net, graph.toolkit, ref_inputs, ref_outputs)
            apart = layer_nets(graph, split_arrays(net.stages[0].inputs, refs.inputs)) if layers else None
            write_directory(Path(directory), [net], [refs], apart)
    elif ref_inputs is not None or ref_outputs is not None or layers:
        what = "layers" if layers else "references"
        raise UsageError(f"{what} without a directory", hint=f"give directory=, or leave the {what} out")
    return net


def compile_stages(
    graphs: Sequence[GraphBuilder],
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
        [compile_net(graph, dynamic, opt=opt, log=log, report=report) for graph in graphs],
    )
    if directory is not None:
        with together():
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


def write_directory(
    directory: Path,
    nets: Sequence[CompiledNet],
    references: Sequence[References],
    layers: tuple[Sequence[CompiledNet], Sequence[References]] | None = None,
    quantised: str | None = None,
) -> None:
    """Write compilation.bmodel, input_ref_data.dat and output_ref_data.dat, replacing older ones; layers:
    what `layer_nets` made, into the folder layers/ in it; quantised: of a net in integers what int8.json
    holds.

    Of nets with outputs whose shapes are known only when they have run also output_ref_shapes.json, the
    shapes of the arrays; of nets that were compiled with a report also report.txt, report.json and
    local_memory.svg; of static nets compilation.sites.npz, who issued their commands; otherwise older ones
    are removed. Other files stay; nothing is replaced before all of it is written. Errors: UsageError when
    the folder cannot be written.
    """
    files: dict[Path, bytes | str] = {
        directory / INPUT_REFERENCE: b"".join(r.inputs for r in references),
        directory / OUTPUT_REFERENCE: b"".join(r.outputs for r in references),
        directory / BMODEL: write(nets),
    }
    reports = [NetReport(net.name, net.report) for net in nets if net.report]
    if reports:
        files |= {directory / name: data for name, data in report_files(reports).items()}
    stale = [] if reports else [directory / name for name in (REPORT_TEXT, REPORT_JSON, REPORT_PICTURE)]
    if any(tensor.varies for net in nets for stage in net.stages for tensor in stage.outputs):
        files[directory / OUTPUT_SHAPES] = shapes_text(s for r in references for s in r.output_shapes)
    else:
        stale.append(directory / OUTPUT_SHAPES)
    if maps := [one for net in nets for one in command_maps(net)]:
        files[directory / SITES] = encoded(maps)
    else:
        stale.append(directory / SITES)
    if quantised is not None:
        files[directory / QUANTISED] = quantised
    else:
        stale.append(directory / QUANTISED)
    try:
        write_together(files, stale)
        if layers is not None:
            write_directory(directory / LAYERS, *layers)
            mark_layers(directory)
    except OSError as e:
        raise UsageError(
            f"cannot write {e.filename or directory}: {e.strerror}", hint="give another directory"
        ) from e


def report_files(nets: Sequence[NetReport]) -> dict[str, bytes | str]:
    """The three files of a report by their names."""
    from user_layers.report.document import report_json
    from user_layers.report.picture import report_picture
    from user_layers.report.text import report_text

    return {
        REPORT_TEXT: report_text(nets),
        REPORT_JSON: report_json(nets),
        REPORT_PICTURE: report_picture(nets),
    }
