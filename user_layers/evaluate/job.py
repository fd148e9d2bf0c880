"""What is evaluated: a folder that `compile --int8` wrote, and the model that it was made of."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.errors import UsageError
from user_layers.bmodel.directory import QUANTISED
from user_layers.formats import in_onnx
from user_layers.net.nodes import CALLER
from user_layers.onnx.build import build
from user_layers.onnx.int8 import Record
from user_layers.onnx.load import Source, read_proto

if TYPE_CHECKING:
    from user_layers.graph import GraphBuilder
    from user_layers.toolkit import Toolkit


@dataclass(frozen=True)
class Job:
    """A folder with a net in integers. model: the file of the float net."""

    folder: Path
    model: Path
    record: Record

    @staticmethod
    def of(folder: Path, model: Path | None = None) -> Job:
        """Read a folder. model: where the model's file is now, if it was moved. Errors: those of
        `Record.read`; UsageError for a model that is not there or has changed."""
        record = Record.read(folder / QUANTISED)
        found = model or Path(record.model)
        if not found.is_file():
            raise UsageError(
                f"the model of {folder} is not there: {record.model or 'it was no file'}",
                hint="--model says where it is",
            )
        if hashlib.sha256(found.read_bytes()).hexdigest() != record.sha256:
            raise UsageError(f"{found} is not what {folder} was compiled from", hint="compile it again")
        return Job(folder, found, record)

    def graph(self, toolkit: Toolkit) -> GraphBuilder:
        """The float net. Errors: those of `graph_from_onnx`."""
        proto, source = in_onnx(self.model, shapes=self.record.shapes, toolkit=toolkit)
        source = source or Source.of(self.model)
        model = source.load(read_proto(proto), dict(self.record.shapes))
        caller = CALLER.set(source.short)
        try:
            custom = source.mapped(dict(self.record.custom))
            return build(model, source.name, custom=custom, toolkit=toolkit, integers=False).graph
        finally:
            CALLER.reset(caller)
