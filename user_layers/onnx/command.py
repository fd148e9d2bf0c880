"""`tpulayer compile`: a model file into a folder with a bmodel, compared with onnxruntime. `tpulayer
explain`: what of it would run where."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.errors import UsageError
from user_layers.onnx.build import build
from user_layers.onnx.compile import compile_model
from user_layers.onnx.custom import parse_map
from user_layers.onnx.explain import explain
from user_layers.onnx.load import Source, read_proto
from user_layers.quantize.rewrite import Int8

if TYPE_CHECKING:
    import onnx

    from user_layers.onnx.own import FindGoldens
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
    layers: bool = False
    int8: Int8 | None = None
    proto: onnx.ModelProto | None = None  # what the file means, where it is not ONNX's
    source: Source | None = None  # and where that comes from


@dataclass(frozen=True)
class ExplainOptions:
    """The options of `tpulayer explain`, as those of `CompileOptions`; json: one object. int8: what of the
    net would be in 8-bit integers is said too."""

    model: Path
    shapes: Sequence[str] = ()
    custom: Sequence[str] = ()
    json: bool = False
    int8: Int8 | None = None


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


def run(
    options: CompileOptions,
    say: Callable[[str], None],
    toolkit: Toolkit | None = None,
    step: Callable[[str], None] = lambda _: None,
    goldens: FindGoldens | None = None,
) -> bool:
    """Compile, write the folder, compare; False when an output differs by more than the tolerance. step: gets
    a text when each step begins; goldens: as of `compile_model`.

    Errors: those of `compile_onnx` but for the differences; nothing is written then.
    """
    made = compile_model(
        options.model if options.proto is None else options.proto,
        dynamic=options.dynamic,
        shapes=parse_shapes(options.shapes),
        stages=[parse_shapes([word], "--stage") for word in options.stages],
        opt=options.opt,
        custom=parse_map(options.custom),
        cpu=options.cpu,
        check=options.check,
        report=options.report,
        name=options.name or None,
        layers=options.layers,
        int8=options.int8,
        toolkit=toolkit,
        source=options.source,
        step=step,
        goldens=goldens,
    )
    made.write(options.directory, say)
    return not made.different


def explain_model(
    options: ExplainOptions,
    proto: Path | onnx.ModelProto,
    source: Source | None,
    say: Callable[[str], None],
    toolkit: Toolkit | None = None,
) -> None:
    """Say what of a model would run where; proto and source: what `in_onnx` gives for the file.

    Errors: those of `graph_from_onnx`.
    """
    source = source or Source.of(options.model)
    model = source.load(read_proto(proto), parse_shapes(options.shapes))
    custom = source.mapped(parse_map(options.custom))
    built = build(model, source.name, custom=custom, toolkit=toolkit, int8=options.int8)
    try:
        found = explain(built)
    finally:
        if toolkit is None:
            built.graph.toolkit.close()
    say(json.dumps(found.as_json(source.place), indent=2) if options.json else found.as_text(source.place))
