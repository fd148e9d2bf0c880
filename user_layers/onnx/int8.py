"""`tpulayer calibrate`; a model's graph in 8-bit integers as `tpulayer compile --int8` makes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmware_sim.errors import ModelError, UsageError
from firmware_sim.shown import count
from user_layers.net.nodes import called
from user_layers.onnx.build import FOLDED, Built, build
from user_layers.onnx.custom import parse_map
from user_layers.onnx.load import Source, read_proto
from user_layers.onnx.model import Model
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.data import batches
from user_layers.quantize.pictures import Preprocess
from user_layers.quantize.report import some
from user_layers.quantize.rewrite import Int8, QuantiseOptions
from user_layers.quantize.table import (
    Table,
    parse_table,
    read_table,
    table_text,
    write_table,
    write_vendor_table,
)
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    import onnx

    from user_layers.onnx.compile import Shapes


_RECORD = "tpulayer int8"


@dataclass(frozen=True)
class CalibrateOptions:
    """The options of the command. method: of thresholds; vendor: the vendor's text format; shapes, custom: as
    of CompileOptions; pictures: how they become the input."""

    model: Path
    data: Path
    out: Path
    method: str = "mse"
    vendor: bool = False
    shapes: Sequence[str] = ()
    custom: Sequence[str] = ()
    pictures: Preprocess | None = None


def int8_of(
    table: Path | None,
    fp32: Sequence[str] = (),
    quant_input: bool = False,
    quant_output: bool = False,
    equalise: bool = True,
    asked: str = "",
) -> Int8:
    """By the command's words; --fp32 takes several names with commas between. Without a table the model must
    be a quantised one; asked: the option that wants this. Errors: as of `read_table`."""
    names = [name for words in fp32 for name in words.split(",") if name]
    options = QuantiseOptions(tuple(names), quant_input, quant_output, equalise)
    return Int8(Table({}) if table is None else read_table(table), options, asked)


@dataclass(frozen=True)
class Record:
    """What a folder with a net in integers keeps of its making (int8.json), so that `evaluate` can make the
    float net and the same net again. model: the file, absolute; sha256: of its bytes; pictures: how they
    become the input."""

    model: str
    sha256: str
    shapes: Mapping[str, Sequence[int]]
    custom: Mapping[str, str]
    int8: Int8
    pictures: Preprocess | None = None

    @staticmethod
    def of(source: Source, shapes: Shapes | None, custom: Mapping[str, Any] | None, int8: Int8) -> Record:
        """For a model that has a file; for one in memory `model` is empty."""
        file = source.file or source.path
        path = "" if file is None else str(file.resolve())
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""
        words = {name: target for name, target in (custom or {}).items() if isinstance(target, str)}
        given = {name: [*map(int, shape)] for name, shape in (shapes or {}).items()}
        return Record(path, digest, given, words, int8, source.pictures)

    def text(self) -> str:
        """As JSON."""
        options = self.int8.options
        return json.dumps(
            {
                "format": _RECORD,
                "model": self.model,
                "sha256": self.sha256,
                "shapes": self.shapes,
                "map": self.custom,
                "fp32": list(options.fp32),
                "quant_input": options.quant_input,
                "quant_output": options.quant_output,
                "equalise": options.equalise,
                "pictures": None if self.pictures is None else self.pictures.as_json(),
                "table": json.loads(table_text(self.int8.table)),
            },
            indent=1,
        )

    @staticmethod
    def read(path: Path) -> Record:
        """From a folder's int8.json. Errors: UsageError where there is none, ModelError for a damaged one."""
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as e:
            raise UsageError(
                f"{path.parent} has no {path.name}", hint="`tpulayer compile --int8` writes such a folder"
            ) from e
        try:
            found = json.loads(text)
            if found["format"] != _RECORD:
                raise ValueError(f"no {_RECORD}")
            options = QuantiseOptions(
                tuple(found["fp32"]),
                found["quant_input"],
                found["quant_output"],
                found.get("equalise", False),
            )  # folders are older than the last of them
            table = parse_table(path, json.dumps(found["table"]))
            told = found.get("pictures")
            pictures = None if told is None else Preprocess.of_json(told)
            return Record(
                found["model"], found["sha256"], found["shapes"], found["map"], Int8(table, options), pictures
            )
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise ModelError(f"{path} is damaged: {type(e).__name__}: {e}", hint="compile again") from e


@contextmanager
def opened(
    proto: Path | onnx.ModelProto,
    source: Source,
    shapes: Sequence[str],
    custom: Sequence[str],
    toolkit: Toolkit | None = None,
    int8: Int8 | None = None,
) -> Iterator[Built]:
    """The graph of a model in float, also of one that is quantised, or with `int8` in integers; shapes,
    custom: as of CompileOptions. It is closed at the end, but for a toolkit that was given. Errors: those of
    `graph_from_onnx`."""
    with _opened(proto, source, shapes, custom, toolkit, int8) as (_, built):
        yield built


def vendor_names(model: Model, tensors: Collection[str]) -> dict[str, str]:
    """How the vendor's tables call tensors of a model: inputs as it does, what a node makes TENSOR_OPERATION.
    What became part of the node before has that one's name, where nobody else reads it."""
    found = {}
    for name in tensors:
        maker = model.makers.get(name)
        if maker is None:
            continue
        found[name] = f"{name}_{maker.op}"
        before = model.makers.get(maker.inputs[0]) if maker.inputs else None
        alone = before is not None and model.only_reader(maker.inputs[0]) is not None
        if before is None or not alone:
            continue
        if maker.op == "Relu" and before.op == "Concat":
            found[name] = f"{maker.inputs[0]}_Concat{FOLDED['Relu']}"
            found[maker.inputs[0]] = found[name]
        elif maker.op == "BatchNormalization" and maker.inputs[0] not in tensors:
            found[name] = f"{maker.inputs[0]}_{before.op}{FOLDED['BatchNormalization']}"
    return found


@contextmanager
def _opened(
    proto: Path | onnx.ModelProto,
    source: Source,
    shapes: Sequence[str],
    custom: Sequence[str],
    toolkit: Toolkit | None,
    int8: Int8 | None = None,
) -> Iterator[tuple[Model, Built]]:
    """The model as it was read, too."""
    from user_layers.onnx.command import parse_shapes

    model = source.load(read_proto(proto), parse_shapes(shapes))
    own = toolkit or Toolkit(check="off")  # numbers are wanted here, of a model that compiling checks
    try:
        with called(source.short):
            targets = source.mapped(parse_map(custom))
            integers = int8 is not None
            made = build(model, source.name, custom=targets, toolkit=own, int8=int8, integers=integers)
            yield model, made
    finally:
        if toolkit is None:
            own.close()


def run_calibrate(
    options: CalibrateOptions,
    proto: Path | onnx.ModelProto,
    source: Source | None,
    say: Callable[[str], None],
    step: Callable[[str], None] = lambda _: None,
    toolkit: Toolkit | None = None,
) -> Table:
    """Write the table. proto and source: what `in_onnx` gives for the file. Errors: those of
    `graph_from_onnx` and `calibrate`, UsageError for data that does not fit."""
    source = source or Source.of(options.model)
    step(f"reading {source.short}")
    samples = 0
    with _opened(proto, source, options.shapes, options.custom, toolkit) as (model, built):
        graph = built.graph

        def given() -> Iterator[Mapping[str, Any]]:
            nonlocal samples
            for batch in batches(options.data, graph.input_shapes, options.pictures):
                samples += batch.count
                yield batch.inputs

        table = calibrate(
            graph, given(), options.method, lambda done: step(f"calibrating, {count(done, 'run')}")
        )
    table = replace(table, pictures=options.pictures)
    if options.vendor:
        names = {} if source.file is not None else vendor_names(model, table.ranges)
        write_vendor_table(table, options.out, names)
    else:
        write_table(table, options.out)
    found = f"{count(len(table.ranges), 'tensor')}, {count(samples, 'sample')}, {options.method}"
    say(f"{source.place} -> {options.out}: {found}")
    if odd := table.about.get("not_finite"):
        say(f"NaN and infinities, which came in {some(odd)}, count for nothing")
    for line in options.pictures.lines() if options.pictures is not None else ():
        say(line)
    return table
