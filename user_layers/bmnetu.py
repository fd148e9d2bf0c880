"""`bmnetu`: Caffe's nets compiled as the vendor's tool of that name is called to do it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmware_sim.errors import CompileError, UsageError
from firmware_sim.shown import count
from firmware_sim.suggest import did_you_mean
from user_layers.bmodel.model import CHIP
from user_layers.bmrt.reference_data import parse_shapes
from user_layers.caffe.read import read_caffe
from user_layers.caffe.summary import as_json, as_text
from user_layers.compiler.log import numbered
from user_layers.formats import in_onnx
from user_layers.onnx.build import build
from user_layers.onnx.compile import compile_model
from user_layers.onnx.int8 import int8_of
from user_layers.onnx.load import Source, read_proto
from user_layers.toolkit import Toolkit

MODES = ("compile", "check", "summary")
PRECISIONS = ("FP32", "INT8")
_WORDS = {"true": True, "1": True, "false": False, "0": False}
_LAYERS_FROM = 4  # the level of --v that tells of each layer


@dataclass(frozen=True)
class BmnetuOptions:
    """The command's options as they are written. shapes: "[1,3,416,416],[1,10]", of the inputs in their
    order; dyn, cmp: "true" or "false"; max_n: the largest batch of a dynamic net; v: 0 to 4; table: which
    values tensors take, for 8-bit integers."""

    model: Path
    weight: Path | None = None
    target: str = CHIP
    shapes: str = ""
    net_name: str = ""
    opt: int = 2
    dyn: str = "false"
    mode: str = MODES[0]
    max_n: int | None = None
    v: int = 0
    outdir: Path = Path("compilation")
    cmp: str = "true"
    prec: str = PRECISIONS[0]
    table: Path | None = None
    json: bool = False


def run(options: BmnetuOptions, say: Callable[[str], None]) -> bool:
    """Do what `mode` says; False when an output differs from onnxruntime's by more than the tolerance.

    Errors: UsageError for what the options cannot mean; those of reading a net and of compiling it.
    """
    dynamic = _switch("dyn", options.dyn)
    compared = _switch("cmp", options.cmp)
    _check(options, dynamic)
    int8 = int8_of(options.table, (), False, False) if options.table is not None else None
    shapes = parse_shapes(options.shapes, "--shapes") if options.shapes else ()
    with Toolkit() as toolkit:
        if options.mode == "summary":
            _summarize(options, shapes, toolkit, say)
            return True
        proto, source = _read(options, shapes, toolkit)
        if options.mode == "check":
            _say_check(proto, source, toolkit, say)
            return True
        made = compile_model(
            proto,
            dynamic=dynamic,
            shapes=None,
            stages=(),
            opt=options.opt,
            custom=None,
            cpu=True,
            check=compared,
            report=False,
            name=options.net_name or None,
            layers=False,
            int8=int8,
            toolkit=toolkit,
            source=source,
        )
    if options.v >= _LAYERS_FROM:
        for line in numbered(made.net.log):
            say(line)
    made.write(options.outdir, say)
    return not made.different


def _check(options: BmnetuOptions, dynamic: bool) -> None:
    if options.target.upper() != CHIP:
        raise UsageError(f"--target {options.target}: the only chip here is the {CHIP}")
    if options.prec.upper() not in PRECISIONS:
        raise UsageError(f"--prec {options.prec}: nets are compiled with one of {', '.join(PRECISIONS)}")
    if options.prec.upper() == "INT8" and options.table is None:
        raise UsageError(
            "--prec INT8 needs --table: which values tensors take",
            hint="`tpulayer calibrate NET.prototxt --weight NET.caffemodel --data SAMPLES -o TABLE` makes it",
        )
    if options.table is not None and options.prec.upper() != "INT8":
        raise UsageError("--table is for --prec INT8", hint="--prec INT8, or leave out --table")
    for path in (options.model, options.weight):
        if path is not None and path.suffix.lower().endswith("umodel"):
            raise UsageError(
                f"{path} is a umodel, which the vendor's quantization tools write",
                hint="give the float net that it was made of: a .prototxt and a .caffemodel",
            )
    if options.model.suffix.lower() != ".prototxt":
        raise UsageError(
            f"--model {options.model}: bmnetu compiles Caffe's nets, a .prototxt",
            hint="`tpulayer compile` takes files of other frameworks",
        )
    if options.mode not in MODES:
        raise UsageError(
            f"--mode {options.mode} is none of {', '.join(MODES)}{did_you_mean(options.mode, MODES)}"
        )
    if options.max_n is not None and not dynamic:
        raise UsageError(
            "--max_n is the largest batch of a dynamic net, and this one is static",
            hint="--dyn true makes it dynamic; --shapes gives a static one its batch",
        )
    if options.json and options.mode != "summary":
        raise UsageError("--json is for --mode summary")


def _switch(name: str, word: str) -> bool:
    found = _WORDS.get(word.lower())
    if found is None:
        raise UsageError(f"--{name} {word}: expected true or false")
    return found


def _read(options: BmnetuOptions, shapes: Sequence[Sequence[int]], toolkit: Toolkit) -> tuple[Any, Source]:
    proto, source = in_onnx(options.model, weight=options.weight, shapes=shapes, toolkit=toolkit)
    assert source is not None and source.reread is not None
    if options.max_n is not None:
        batch = {
            value.name: (options.max_n, *(dim.dim_value for dim in value.type.tensor_type.shape.dim[1:]))
            for value in proto.graph.input
        }
        proto = source.reread(batch)
    return proto, source


def _summarize(
    options: BmnetuOptions, shapes: Sequence[Sequence[int]], toolkit: Toolkit, say: Callable[[str], None]
) -> None:
    model = read_caffe(options.model, options.weight, shapes=shapes, toolkit=toolkit)
    say(json.dumps(as_json(model)) if options.json else "\n".join([as_text(model), *model.notes]))


def _say_check(proto: Any, source: Source, toolkit: Toolkit, say: Callable[[str], None]) -> None:
    """What a compile would start with: the layers, and what no layer computes."""
    built = build(source.load(read_proto(proto)), source.name, custom=source.mapped(None), toolkit=toolkit)
    if not built.graph.nodes:
        raise CompileError(f"{source.place} has nothing to compute")
    on_cpu = built.on_cpu
    rest = f", {count(len(on_cpu), 'node')} on the CPU" if on_cpu else ""
    say(f"{source.place} can be compiled: {count(len(built.graph.nodes), 'layer')}{rest}")
    for line in (*source.notes, *(f"on the CPU: {line}" for line in on_cpu)):
        say(line)
