"""`tpulayer compile`: a model file into a folder with a bmodel, compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.errors import UsageError
from user_layers.onnx import graph_from_onnx
from user_layers.onnx.check import TOLERANCE, compare, random_inputs, reference
from user_layers.onnx.load import CUSTOM_DOMAIN, load_model
from user_layers.onnx.lower import parse_map
from user_layers.onnx.model import Array

if TYPE_CHECKING:
    from user_layers.toolkit import Toolkit


@dataclass(frozen=True)
class CompileOptions:
    """The options of the command. shapes: "x=1x3x224x224" texts; custom: "NODE=TPU_OP" texts."""

    model: Path
    directory: Path
    dynamic: bool = False
    shapes: Sequence[str] = ()
    opt: int = 2
    custom: Sequence[str] = ()
    check: bool = True
    report: bool = False


def parse_shapes(words: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """NAME=1x3x224x224 texts. Errors: UsageError."""
    found = {}
    for word in words:
        name, sign, text = word.partition("=")
        try:
            found[name] = tuple(int(extent) for extent in text.split("x"))
        except ValueError:
            sign = ""
        if not sign or not name:
            raise UsageError(f"--shapes {word}: expected NAME=1x3x224x224")
    return found


def run(options: CompileOptions, say: Callable[[str], None], toolkit: Toolkit | None = None) -> bool:
    """Compile, write the folder, compare; False when an output differs by more than the tolerance.

    Errors: those of `graph_from_onnx` and `Graph.compile`.
    """
    shapes = parse_shapes(options.shapes)
    custom = parse_map(options.custom)
    model = load_model(options.model, shapes)
    own = bool(custom) or any(node.domain == CUSTOM_DOMAIN for node in model.nodes)
    inputs = random_inputs(model)
    graph = graph_from_onnx(options.model, shapes=shapes, custom=custom, name="net", toolkit=toolkit)
    try:
        graph.compile(
            dynamic=options.dynamic,
            directory=options.directory,
            ref_inputs=inputs,
            opt=options.opt,
            log=say if options.report else None,
        )
        say(f"{options.model} -> {options.directory / 'compilation.bmodel'}: {len(graph.nodes)} layers")
        if not options.check:
            return True
        if own:
            say("not compared: onnxruntime does not know the model's own layers")
            return True
        return _same(options.model, list(graph.outputs), graph.run(inputs), inputs, say)
    finally:
        if toolkit is None:
            graph.close()


def _same(
    path: Path, names: list[str], got: list[Array], inputs: dict[str, Array], say: Callable[[str], None]
) -> bool:
    good = True
    for found in compare(names, got, reference(path, inputs)):
        wrong = found.relative > TOLERANCE
        good &= not wrong
        verdict = "DIFFERS from" if wrong else "equals"
        say(f"{found.output} {verdict} onnxruntime's within {found.relative:.1e} of its largest value")
    return good
