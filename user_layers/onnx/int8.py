"""`tpulayer calibrate`; a model's graph in 8-bit integers as `tpulayer compile --int8` makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmware_sim.shown import count
from user_layers.net.nodes import CALLER
from user_layers.onnx.build import build
from user_layers.onnx.custom import parse_map
from user_layers.onnx.load import Source, read_proto
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.data import batches
from user_layers.quantize.rewrite import QuantiseOptions
from user_layers.quantize.table import Table, read_table, write_table, write_vendor_table

if TYPE_CHECKING:
    import onnx

    from user_layers.toolkit import Toolkit


@dataclass(frozen=True)
class CalibrateOptions:
    """The options of the command. method: of thresholds; vendor: the vendor's text format; shapes, custom: as
    of CompileOptions."""

    model: Path
    data: Path
    out: Path
    method: str = "mse"
    vendor: bool = False
    shapes: Sequence[str] = ()
    custom: Sequence[str] = ()


@dataclass(frozen=True)
class Int8:
    """What `compile --int8` was asked for."""

    table: Table
    options: QuantiseOptions = field(default_factory=QuantiseOptions)

    @staticmethod
    def of(table: Path, fp32: Sequence[str], quant_input: bool, quant_output: bool) -> Int8:
        """By the command's words; --fp32 takes several names with commas between. Errors: those of
        `read_table`."""
        names = [name for words in fp32 for name in words.split(",") if name]
        return Int8(read_table(table), QuantiseOptions(tuple(names), quant_input, quant_output))


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
    from user_layers.onnx.command import parse_shapes

    source = source or Source.of(options.model)
    step(f"reading {source.short}")
    model = source.load(read_proto(proto), parse_shapes(options.shapes))
    caller = CALLER.set(source.short)
    built = build(model, source.name, custom=source.mapped(parse_map(options.custom)), toolkit=toolkit)
    try:
        samples = 0

        def given() -> Iterator[Mapping[str, Any]]:
            nonlocal samples
            for batch in batches(options.data, built.graph):
                samples += batch.count
                yield batch.inputs

        table = calibrate(
            built.graph, given(), options.method, lambda done: step(f"calibrating, {count(done, 'run')}")
        )
    finally:
        CALLER.reset(caller)
        if toolkit is None:
            built.graph.toolkit.close()
    (write_vendor_table if options.vendor else write_table)(table, options.out)
    found = f"{count(len(table.ranges), 'tensor')}, {count(samples, 'sample')}, {options.method}"
    say(f"{source.place} -> {options.out}: {found}")
    return table
