"""`tpulayer compile`: a model file into a folder with a bmodel, compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.errors import DeviceError, UsageError
from user_layers.graph.nodes import CALLER
from user_layers.onnx.build import Built, build
from user_layers.onnx.check import TOLERANCE, compare, random_inputs, reference
from user_layers.onnx.custom import parse_map
from user_layers.onnx.flexible import Fixed, fixed_extents_of, restricted
from user_layers.onnx.fold import is_random
from user_layers.onnx.load import from_proto, read_proto
from user_layers.onnx.model import CUSTOM_DOMAIN, Array, Model
from user_layers.onnx.types import from_net, to_net

if TYPE_CHECKING:
    from user_layers.compiler.result import CompiledNet
    from user_layers.toolkit import Toolkit


@dataclass(frozen=True)
class CompileOptions:
    """The options of the command. shapes: "x=1x3x224x224" texts; stages: further sets of shapes, each text
    "x=4x3x224x224" or "x=4x3,y=4x5"; custom: "NODE=TPU_OP" and "NODE=FILE.py:FUNCTION" texts; name: of
    the net, that of the file where it is empty."""

    model: Path
    directory: Path
    dynamic: bool = False
    shapes: Sequence[str] = ()
    opt: int = 2
    custom: Sequence[str] = ()
    check: bool = True
    report: bool = False
    cpu: bool = True
    stages: Sequence[str] = ()
    name: str = ""


def parse_shapes(words: Sequence[str], option: str = "--shapes") -> dict[str, tuple[int, ...]]:
    """NAME=1x3x224x224 texts; several may stand in one, with commas between. Errors: UsageError."""
    found = {}
    for word in (part for words_ in words for part in words_.split(",")):
        name, sign, text = word.rpartition("=")
        try:
            found[name] = tuple(int(extent) for extent in text.split("x"))
        except ValueError:
            sign = ""
        if not sign or not name:
            raise UsageError(f"{option} {word}: expected NAME=1x3x224x224")
    return found


def run(options: CompileOptions, say: Callable[[str], None], toolkit: Toolkit | None = None) -> bool:
    """Compile, write the folder, compare; False when an output differs by more than the tolerance.

    The net runs once for each stage: what it gives is compared, and is the reference data that is written.
    Errors: those of `graph_from_onnx` and `Graph.compile`; nothing is written then.
    """
    from user_layers.compiler import References, combine_stages, write_directory
    from user_layers.compiler.output import REPORT_JSON, REPORT_PICTURE, REPORT_TEXT
    from user_layers.compiler.report.text import summary

    shapes = parse_shapes(options.shapes)
    sets = [shapes, *({**shapes, **parse_shapes([word], "--stage")} for word in options.stages)]
    custom = parse_map(options.custom)
    name = options.name or options.model.stem
    proto = read_proto(options.model)
    models = [from_proto(proto, given, str(options.model)) for given in sets]
    if not options.dynamic:
        proto = None  # with its constants
    nets: list[CompiledNet] = []
    data: list[References] = []
    lines: list[str] = []
    notes: list[str] = []
    good, shared = True, toolkit
    caller = CALLER.set(options.model.name)  # what messages call the place where a layer was added
    try:
        for number, model in enumerate(models):
            built = build(model, name, custom=custom, toolkit=shared, cpu=options.cpu)
            shared = built.graph.toolkit
            net = built.graph.compile(options.dynamic, opt=options.opt, report=options.report)
            if options.dynamic:
                fixed = fixed_extents_of(
                    built, model, lambda given: from_proto(proto, given), custom, options.cpu
                )
                net = restricted(net, fixed)
                notes += _fixed_lines(fixed)
            nets.append(net)
            inputs, fed, got = _run(model, built)
            data.append(
                References(*(b"".join(a.tobytes() for a in arrays) for arrays in (fed.values(), got)))
            )
            if number == 0:
                lines.append(_summary(options, built))
                if options.report:
                    lines.append(
                        f"report: {options.directory / REPORT_TEXT}, {REPORT_JSON}, {REPORT_PICTURE}"
                    )
                lines += [f"on the CPU: {line}" for line in built.on_cpu]
            which = f"stage {number}: " if len(models) > 1 else ""
            lines += [f"{which}{summary(stage)}" for stage in nets[-1].report]
            if options.check:
                same, found = _compared(options, model, bool(sets[number]), inputs, got)
                good &= same
                lines += [f"{which}{line}" for line in found]
        write_directory(options.directory, [combine_stages(nets)], data)
    finally:
        CALLER.reset(caller)
        if toolkit is None and shared is not None:
            shared.close()
    for line in (*lines, *dict.fromkeys(notes)):
        say(line)
    return good


def _fixed_lines(fixed: Fixed) -> list[str]:
    kinds = (("first extent", fixed.n), ("height and width", fixed.h_w))
    return [f"inputs need the compiled {what}: layer {name} depends on it" for what, name in kinds if name]


def _run(model: Model, built: Built) -> tuple[dict[str, Array], dict[str, Array], list[Array]]:
    """Random inputs of the model, the same as the net takes them, and what it gives. Where the model fails
    with the whole numbers (it divides by them, or they are indices), others are tried."""
    refused: DeviceError | None = None
    for whole in (None, 1, 0):
        inputs = random_inputs(model, whole=whole)
        fed = {v.name: to_net(inputs[v.name], v) for v in model.inputs if v.name in built.graph.inputs}
        try:
            return inputs, fed, built.graph.run(fed)
        except DeviceError as error:
            refused = refused or error
            if all(value.dtype is not None and value.dtype.kind == "f" for value in model.inputs):
                break
    assert refused is not None
    raise refused


def _summary(options: CompileOptions, built: Built) -> str:
    parts = [part for part in built.parts if part.on_cpu]
    layers = len(built.graph.nodes) - len(parts)
    rest = (
        f", {_count(len(built.on_cpu), 'node')} on the CPU in {_count(len(parts), 'part')}" if parts else ""
    )
    return f"{options.model} -> {options.directory / 'compilation.bmodel'}: {_count(layers, 'layer')}{rest}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _compared(
    options: CompileOptions, model: Model, changed: bool, inputs: Mapping[str, Array], got: Sequence[Array]
) -> tuple[bool, list[str]]:
    """Whether the outputs equal onnxruntime's, and a line about each. changed: the inputs have other shapes
    than the file says, which onnxruntime would refuse."""
    if options.custom or any(node.domain == CUSTOM_DOMAIN for node in model.nodes):
        return True, ["not compared: onnxruntime does not know the model's own layers"]
    if any(is_random(node) for node in model.nodes):
        return True, ["not compared: the model makes random numbers"]
    want = reference(model if changed else options.model, inputs)
    mine = [from_net(array, value) for array, value in zip(got, model.outputs, strict=True)]
    good, lines = True, []
    for found in compare([value.name for value in model.outputs], mine, want):
        wrong = found.relative > TOLERANCE
        good &= not wrong
        verdict = "DIFFERS from" if wrong else "equals"
        lines.append(
            f"{found.output} {verdict} onnxruntime's within {found.relative:.1e} of its largest value"
        )
    return good, lines
