"""Files of other frameworks, by their endings: compiled, run and refused as ONNX files are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import user_layers.formats as formats
from firmware_sim.errors import CompileError
from tests.support import toy_framework
from tests.support.toy_framework import random, small_net, toy
from user_layers.api import Graph
from user_layers.cli.models import compile as compile_command
from user_layers.spelling.foreign import ForeignModel
from user_layers.toolkit import Toolkit

pytest.importorskip("onnxruntime", reason="needs onnxruntime")


def read_toy(path: Path) -> ForeignModel:
    """The toy's file says which of two models it is."""
    if path.read_text() == "small":
        return small_net()
    return toy({"x": (2,), "y": (2,)}, [("NEW", ["x"], "y")], ["x"], ["y"])


@pytest.fixture(autouse=True)
def _a_toy_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = formats.Format("Toy", f"{__name__}:read_toy", f"{toy_framework.__name__}:TOY")
    monkeypatch.setitem(formats.FORMATS, ".toy", row)
    monkeypatch.chdir(tmp_path)
    Path("small.toy").write_text("small")
    Path("new.TOY").write_text("new")


def test_a_file_becomes_a_graph_with_the_frameworks_own_edges(toolkit: Toolkit) -> None:
    graph = Graph.from_file("small.toy", toolkit=toolkit)
    assert graph.inputs == ("image",) and graph.outputs == ("y",)
    graph.compile()
    (y,) = graph.run({"image": random(1, 9, 11, 3)})
    assert y.shape == (1, 10) and abs(float(y.sum()) - 1) < 1e-5


def test_compile_file_compares_and_writes_a_folder(toolkit: Toolkit, tmp_path: Path) -> None:
    lines: list[str] = []
    net = formats.compile_file("small.toy", tmp_path / "net", toolkit=toolkit, log=lines.append)
    assert net.name == "small"
    assert (tmp_path / "net" / "compilation.bmodel").is_file()
    assert lines[0].startswith("small.toy -> ") and any("equals onnxruntime's" in line for line in lines)


def test_the_command_takes_it_as_it_takes_onnx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_command(Path("small.toy"), tmp_path / "net", report=True) == 0
    told = capsys.readouterr().out
    assert told.startswith("small.toy -> ") and "y equals onnxruntime's within" in told
    data = np.fromfile(tmp_path / "net" / "output_ref_data.dat", np.float32)
    assert data.shape == (10,)


def test_what_onnx_cannot_say_is_named(toolkit: Toolkit, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="Toy NEW y: there is no such operation here"):
        formats.compile_file("new.TOY", tmp_path / "net", toolkit=toolkit)
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize("ending", sorted(formats.FORMATS))
def test_every_row_of_the_table_names_what_is_there(ending: str) -> None:
    row = formats.FORMATS[ending]
    assert callable(formats.find(row.reader))
    assert len(formats.find(row.spellings)) > 10
