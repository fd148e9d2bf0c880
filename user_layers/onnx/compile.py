"""`compile_onnx`: a model into a folder with a bmodel, compared with onnxruntime."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.device.findings import together
from firmware_sim.errors import CompileError, TpulayerError
from firmware_sim.shown import count
from user_layers.bmodel.directory import BMODEL, REPORT_JSON, REPORT_PICTURE, REPORT_TEXT, References
from user_layers.layer_nets import layer_nets
from user_layers.net.nodes import called
from user_layers.onnx.build import Built, build, mark_mapped
from user_layers.onnx.custom import MapFunction
from user_layers.onnx.explain import explain
from user_layers.onnx.fitting import check_shapes
from user_layers.onnx.flexible import Fixed, fixed_extents_of, restricted
from user_layers.onnx.fold import fold_constants
from user_layers.onnx.int8 import Record
from user_layers.onnx.kept import not_kept
from user_layers.onnx.load import Source, overridden, read_proto
from user_layers.onnx.model import Model, Value, shown
from user_layers.onnx.own import FindGoldens
from user_layers.onnx.precision import described
from user_layers.onnx.spectra import has_spectra
from user_layers.onnx.steps_first import with_steps_first
from user_layers.onnx.trial import compared, run_random
from user_layers.product import combine_stages, compile_net, write_directory
from user_layers.quantize.rewrite import Int8

if TYPE_CHECKING:
    import onnx

    from user_layers.net.compiled import CompiledNet
    from user_layers.toolkit import Toolkit

Shapes = Mapping[str, Sequence[int]]
_SHOWN = 4  # observed shapes that are named; an attention written out has twenty


@together()
def compile_onnx(
    model: str | Path | onnx.ModelProto,
    directory: str | Path,
    *,
    dynamic: bool = False,
    shapes: Shapes | None = None,
    stages: Sequence[Shapes] = (),
    opt: int = 2,
    custom: Mapping[str, str | MapFunction] | None = None,
    cpu: bool = True,
    check: bool = True,
    report: bool = False,
    name: str | None = None,
    layers: bool = False,
    int8: Int8 | None = None,
    toolkit: Toolkit | None = None,
    log: Callable[[str], None] | None = None,
    source: Source | None = None,
) -> CompiledNet:
    """Compile an ONNX model into a folder: compilation.bmodel and its reference data; returns the net.

    model: a file, or an onnx.ModelProto in memory, which is not changed.
    directory: made if it is not there. Nothing is written when another error than CheckError is raised.
    dynamic: the net takes any input shapes up to those compiled; otherwise exactly those.
    shapes: of inputs, {"x": (1, 3, 224, 224)}: needed where the model leaves extents free.
    stages: further sets of such shapes, each for a stage of its own; what one leaves out is as in `shapes`.
    opt: 0 runs every layer by itself in DDR, 1 keeps as many layers as fit together in local memory, 2
    chooses what is kept there by modelled cycles.
    custom: what nodes become, by their names or operations: a layer ("TPU_CROP"), "FILE.py:FUNCTION", or a
    function of a Graph and a MappedNode.
    cpu: what no layer computes runs on onnxruntime; otherwise it is a CompileError.
    check: run the net on random inputs and compare it with onnxruntime; an output that differs by more than
    1e-4 of its largest value is a CompileError. Layers of the user's compute alone there, and the rest is
    compared with what onnxruntime makes of their results.
    report: also write what became of every layer: report.txt, report.json, local_memory.svg.
    name: of the net; by default the file's, or that of the ModelProto's graph.
    layers: also write a net for each layer (of the first stage) to the folder layers/, for `tpulayer pack`.
    int8: a calibration table, which may be empty for a quantised model, and what else is known of the net in
    8-bit integers that shall be made; then
    outputs are told with their distance to onnxruntime's, and none is an error.
    toolkit: where the layers come from, by default the workspace around the current folder; one given stays
    open. log: gets each line that `tpulayer compile` prints. source: what messages call a ModelProto that
    stands for a file of another kind.
    Errors: ModelError for what is not a valid model, CompileError naming the nodes that cannot be had,
    UsageError for shapes or names that do not fit, DeviceError when a layer's function fails, MissingError
    without the extra `onnx`; CheckError when all is written, and checks found something while the net ran.
    """
    made = compile_model(
        model,
        dynamic=dynamic,
        shapes=shapes,
        stages=stages,
        opt=opt,
        custom=custom,
        cpu=cpu,
        check=check,
        report=report,
        name=name,
        layers=layers,
        int8=int8,
        toolkit=toolkit,
        source=source,
    )
    if made.different:
        raise CompileError(
            f"{made.place}: {'; '.join(made.different)}", hint="check=False writes the net all the same"
        )
    made.write(Path(directory), log or (lambda _: None))
    return made.net


@dataclass(frozen=True)
class CompiledModel:
    """A net, its reference data stage by stage, and what to tell about it. summary: how many layers it has,
    lines: the rest; different: those of the lines that name an output which is not onnxruntime's; apart: its
    layers as nets of their own, if they were asked for; record: what int8.json holds."""

    place: str
    net: CompiledNet
    references: Sequence[References]
    summary: str
    lines: Sequence[str]
    different: Sequence[str]
    apart: tuple[Sequence[CompiledNet], Sequence[References]] | None = None
    record: str | None = None

    def write(self, directory: Path, say: Callable[[str], None]) -> None:
        """Write the folder, then say what was made. Errors: UsageError."""
        write_directory(directory, [self.net], self.references, self.apart, self.record)
        say(f"{self.place} -> {directory / BMODEL}: {self.summary}")
        if self.net.report:
            say(f"report: {directory / REPORT_TEXT}, {REPORT_JSON}, {REPORT_PICTURE}")
        for line in self.lines:
            say(line)


def compile_model(
    model: str | Path | onnx.ModelProto,
    *,
    dynamic: bool,
    shapes: Shapes | None,
    stages: Sequence[Shapes],
    opt: int,
    custom: Mapping[str, str | MapFunction] | None,
    cpu: bool,
    check: bool,
    report: bool,
    name: str | None,
    layers: bool,
    int8: Int8 | None,
    toolkit: Toolkit | None,
    source: Source | None = None,
    step: Callable[[str], None] = lambda _: None,
    goldens: FindGoldens | None = None,
) -> CompiledModel:
    """Compile and compare; see `compile_onnx`, which also says what the arguments are. step: gets a text when
    each step begins. goldens: finds the golden functions of a workspace, with which its layers are compared.

    The net runs once for each stage: what it gives is compared, and is the reference data.
    """
    proto, source = read_proto(model), source or Source.of(model)
    custom = source.mapped(custom)
    step(f"reading {source.short}")
    sets = [dict(shapes or {}), *({**(shapes or {}), **stage} for stage in stages)]
    models = [source.load(proto, given) for given in sets]
    head = list(source.notes)
    if source.reread is None:
        head += [line for given in sets for line in overridden(proto, given)]
    head += dict.fromkeys(line for one in models for line in one.notes)
    if not dynamic:
        proto = None  # with its constants
    nets: list[CompiledNet] = []
    data: list[References] = []
    lines: list[str] = []
    notes: list[str] = []
    different: list[str] = []
    summary, shared, apart = "", toolkit, None
    for one in models[1:]:  # the first is built before anything is compiled
        _check_stage(one, custom, toolkit, cpu)
    with called(source.short):  # what messages call the place where a layer was added
        for number in range(len(models)):  # enumerate would hold on to each
            one = models[number]
            at = f", stage {number}" if len(models) > 1 else ""
            step(f"looking for layers{at}")
            built = build(one, name or source.name, custom=custom, toolkit=shared, cpu=cpu, int8=int8)
            shared, done = built.graph.toolkit, built.quantised
            warned = explain(built).warning(source.place)
            as_stored = source.path is not None and not sets[number] and with_steps_first(one) is one
            original = source.path if source.path is not None and as_stored else one
            own = bool(custom) or any(node.is_own for node in one.nodes)
            unread = not (dynamic or own or done)  # weights, by what comes behind the compiler
            if unread and not (built.narrow or has_spectra(one) or original is one):
                one, built = _without_weights(one), replace(built, model=_without_weights(built.model))
                models[number] = one
                gc.collect()  # weights in rings, too
            step(f"compiling{at}")
            net = compile_net(built.graph, dynamic, opt=opt, report=report)
            if unread and not layers:
                built.graph.drop_constants()
                gc.collect()
            about = [*described(built.narrow), *([warned] if warned else []), *(done.lines() if done else [])]
            kept = (
                not_kept(mark_mapped(one, dict.fromkeys(custom or ())), built) if int8 is None else ([], [])
            )
            about += kept[0]
            net = _with_notes(net, about, kept[1])
            if dynamic:
                fixed = fixed_extents_of(built, one, lambda given: source.load(proto, given), custom, cpu)
                net = restricted(net, fixed)
                notes += _fixed_lines(fixed)
            step(f"running on the emulator{at}")
            inputs, fed, ran = run_random(one, built, net, done)
            got = ran.outputs
            net = _with_host_times(net, ran.subnets_s)
            nets.append(net)
            data.append(References.of(fed.values(), got))
            if number == 0:
                summary = _summary(built)
                apart = layer_nets(built.graph, fed) if layers else None
                head += about
                head += [f"on the CPU: {line}" for line in built.on_cpu]
                head += _observed_line(built.observed)
                head += [
                    f"output {shown(name)} is at most {list(shape)}: its shape is known when the net has run"
                    for name, shape in built.varying.items()
                ]
            which = f"stage {number}: " if len(models) > 1 else ""
            lines += [f"{which}{stage.summary}" for stage in net.report]
            if check:
                step(f"comparing with onnxruntime{at}")
                known = goldens(shared.workspace) if goldens and shared.workspace else None
                varying = {t.name for t in net.stages[0].outputs if t.varies}
                found, wrong = compared(one, built, custom, original, inputs, got, known, varying, done)
                lines += [f"{which}{line}" for line in found]
                different += [f"{which}{line}" for line in wrong]
        if toolkit is None and shared is not None:
            shared.close()
    told = (*head, *lines, *dict.fromkeys(notes))
    record = None
    if done is not None:
        made = replace(int8, table=done.table) if int8 is not None else Int8(done.table)
        record = Record.of(source, shapes, custom, made).text()
    return CompiledModel(source.place, combine_stages(nets), data, summary, told, different, apart, record)


def _check_stage(
    model: Model, custom: Mapping[str, str | MapFunction], toolkit: Toolkit | None, cpu: bool
) -> None:
    """Errors: of a stage whose shapes contradict the model, before another one is compiled for long."""
    try:
        check_shapes(fold_constants(mark_mapped(model, custom)))
    except TpulayerError:
        # These are not all passes: what is built is what counts.
        built = build(model, "stage", custom=custom, toolkit=toolkit, cpu=cpu)
        if toolkit is None:
            built.graph.toolkit.close()


def _without_weights(model: Model) -> Model:
    """For what asks for nodes, values and single numbers alone: weights are large."""
    return replace(model, constants={name: one for name, one in model.constants.items() if one.size == 1})


def _with_notes(net: CompiledNet, lines: Sequence[str], more: Sequence[str]) -> CompiledNet:
    """The net with lines in its log and its report that are not about one layer; more: the report's alone."""
    report = tuple(replace(stage, reasons=(*lines, *more, *stage.reasons)) for stage in net.report)
    return replace(net, log=(*lines, *net.log), report=report)


def _with_host_times(net: CompiledNet, seconds: Sequence[float]) -> CompiledNet:
    """The net of one stage with what its parts on the host took in a run, in its report."""
    report = tuple(
        replace(
            stage,
            parts=tuple(
                replace(part, host_s=taken) if part.kind == "cpu" else part
                for part, taken in zip(stage.parts, seconds, strict=True)
            ),
        )
        for stage in net.report
    )
    return replace(net, report=report)


def _observed_line(observed: Sequence[Value]) -> list[str]:
    """Which shapes hold for the runs that were seen but follow from no rule: a line, if there are any."""
    if not observed:
        return []
    first = ", ".join(f"{shown(value.name)} {list(value.fixed or ())}" for value in observed[:_SHOWN])
    more = f" and {len(observed) - _SHOWN} more" if len(observed) > _SHOWN else ""
    return [f"{count(len(observed), 'shape')} seen when the model ran, not inferred: {first}{more}"]


def _fixed_lines(fixed: Fixed) -> list[str]:
    kinds = (
        ("first extent", fixed.n),
        ("second extent", fixed.c),
        ("height and width", fixed.h_w),
    )
    return [f"inputs need the compiled {what}: layer {name} depends on it" for what, name in kinds if name]


def _summary(built: Built) -> str:
    parts = [part for part in built.parts if part.on_cpu]
    layers = len(built.graph.nodes) - len(parts)
    rest = f", {count(len(built.on_cpu), 'node')} on the CPU in {count(len(parts), 'part')}" if parts else ""
    return f"{count(layers, 'layer')}{rest}"
