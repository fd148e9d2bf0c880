"""What is evaluated: a folder that `compile --int8` wrote, and the model that it was made of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from firmware_sim.errors import UsageError
from user_layers.bmodel.directory import BMODEL, QUANTISED
from user_layers.formats import in_onnx
from user_layers.net.nodes import called
from user_layers.onnx.build import build
from user_layers.onnx.int8 import Record
from user_layers.onnx.load import Source, read_proto
from user_layers.onnx.model import Model
from user_layers.onnx.preprocess import with_pictures

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
        try:
            content = found.read_bytes()
        except OSError as error:
            raise UsageError(f"{found} cannot be read: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != record.sha256:
            raise UsageError(f"{found} is not what {folder} was compiled from", hint="compile it again")
        return Job(folder, found, record)

    def packed(self, metric: str = "") -> Packed:
        """For another machine. metric: FILE.py:FUNCTION, whose file goes with it. Errors: UsageError for a
        file that cannot be read."""
        file, _, function = metric.rpartition(":")
        try:
            files = {str(path.relative_to(self.model.parent)): path.read_bytes() for path in self._files()}
            code = Path(file).read_bytes() if metric else b""
            bmodel = (self.folder / BMODEL).read_bytes()
        except OSError as error:
            raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error
        return Packed(self.model.name, files, bmodel, self.record, (Path(file).name, function, code))

    def _files(self) -> Iterator[Path]:
        """The model's, with its weights beside it."""
        if self.model.suffix.lower() != ".onnx":
            yield from (path for path in self.model.parent.glob(f"{self.model.stem}.*") if path.is_file())
            return
        import onnx

        yield self.model
        told = onnx.load(str(self.model), load_external_data=False).graph.initializer
        places = {entry.value for one in told for entry in one.external_data if entry.key == "location"}
        yield from (self.model.parent / place for place in sorted(places))

    def input_shapes(self, toolkit: Toolkit) -> dict[str, tuple[int, ...]]:
        """The float net's inputs, without building it. Errors: those of loading a model."""
        model, _ = self._loaded(toolkit)
        return {value.name: value.fixed or () for value in model.inputs}

    def _loaded(self, toolkit: Toolkit) -> tuple[Model, Source]:
        proto, source = in_onnx(self.model, shapes=self.record.shapes, toolkit=toolkit)
        proto, source = with_pictures(proto, source or Source.of(self.model), self.record.pictures)
        return source.load(read_proto(proto), dict(self.record.shapes)), source

    def graph(self, toolkit: Toolkit) -> GraphBuilder:
        """The float net. Errors: those of `graph_from_onnx`."""
        model, source = self._loaded(toolkit)
        with called(source.short):
            custom = source.mapped(dict(self.record.custom))
            return build(model, source.name, custom=custom, toolkit=toolkit, integers=False).graph


@dataclass(frozen=True)
class Packed:
    """A job and its files. model: the name of the one of `files` that is read; metric: a file's name, the
    function in it, and its content, or nothing."""

    model: str
    files: Mapping[str, bytes]
    bmodel: bytes
    record: Record
    metric: tuple[str, str, bytes]

    @contextmanager
    def unpacked(self) -> Iterator[tuple[Job, str]]:
        """The job and FILE.py:FUNCTION of its metric, in a folder that is removed at the end."""
        with TemporaryDirectory(prefix="tpulayer-evaluate-") as place:
            folder, model = Path(place) / "net", Path(place) / "model"
            name, function, code = self.metric
            for path, content in {
                **{model / name: content for name, content in self.files.items()},
                folder / BMODEL: self.bmodel,
                **({folder / name: code} if name else {}),
            }.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            metric = f"{folder / name}:{function}" if name else ""
            yield Job(folder, model / self.model, self.record), metric
