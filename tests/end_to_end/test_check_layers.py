"""Layers that use memory which they were not given, or leave outputs unwritten: what is found, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.checks.error import CheckError
from firmware_sim.checks.finding import Finding
from firmware_sim.device.findings import together
from tests.paths import SOURCES
from tests.support.workspaces import builtin_toolkit, layers_toolkit
from user_layers.api import Graph
from user_layers.net.functions import UNARY
from user_layers.toolkit import Toolkit

FOLDER = "wrong_memory_layers"
SOURCE = SOURCES / FOLDER / "bm_device_wrong.c"
RIGHT, WRITES_INPUT, HALF, NOTHING, TOO_MUCH = range(5)
BEHIND_INPUT, FAR_AWAY, BUFFER, LAST_COLUMN = range(5, 9)
GLOBAL = [
    (WRITES_INPUT, 0, "memory.read_only", "WRITES_INPUT", "writes input 0"),
    (HALF, 0, "memory.not_written", "HALF", "1280 of 2560 bytes, from element [0, 0, 2, 0] on"),
    (NOTHING, 0, "memory.not_written", "NOTHING", "output 0 is never written"),
    (TOO_MUCH, 0, "memory.too_much", "TOO_MUCH", "beyond the end of output 0 (2560 bytes)"),
    (BEHIND_INPUT, 0, "memory.beyond", "BEHIND_INPUT", "reads 1280 bytes beyond the end of input 0"),
    (FAR_AWAY, 0, "memory.foreign", "FAR_AWAY", "memory that the layer was not given"),
    (BUFFER, 512, "memory.beyond", "BUFFER", "writes 2048 bytes beyond the end of the work buffer"),
]
LOCAL = [
    (WRITES_INPUT, 0, "memory.read_only", "LOCAL WRITES_INPUT", "writes input 0"),
    (LAST_COLUMN, 0, "memory.not_written", "LAST_COLUMN", "output 0 is not written in part"),
    (NOTHING, 0, "memory.not_written", "LOCAL NOTHING", "output 0 is never written"),
    (TOO_MUCH, 0, "memory.too_much", "LOCAL TOO_MUCH", "beyond the end of output 0"),
    (FAR_AWAY, 0, "memory.foreign", "LOCAL FAR_AWAY", "local memory that the layer was not given"),
    (BUFFER, 64, "memory.beyond", "LOCAL BUFFER", "beyond the end of the work buffer (64 bytes)"),
]


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    with layers_toolkit(tmp_path_factory, FOLDER) as toolkit:
        yield toolkit


def line_of(mark: str) -> int:
    lines = [i for i, text in enumerate(SOURCE.read_text().splitlines(), 1) if text.endswith(f"// {mark}")]
    assert len(lines) == 1
    return lines[0]


def net(toolkit: Toolkit, mistake: int, buffer: int, *, local: bool = False) -> Graph:
    """The layer alone; in a group it stands between two others."""
    graph = Graph(name="wrong", toolkit=toolkit)
    graph.add_input("x", (2, 5, 4, 16))
    params = {"mistake": mistake, "buffer": buffer}
    if local:
        graph.add_const_binary_layer("x", 0.75, "a", 2)
        graph.add_tpu_layer("TPU_WRONG", ["a"], params, ["b"])
        graph.add_const_binary_layer("b", 0.75, "y", 2)
    else:
        graph.add_tpu_layer("TPU_WRONG", ["x"], params, ["y"])
    return graph


def found(graph: Graph, folder: Path, *, dynamic: bool = False, opt: int = 0) -> list[Finding]:
    x = np.arange(2 * 5 * 4 * 16, dtype=np.float32).reshape(2, 5, 4, 16)
    try:
        graph.compile(dynamic=dynamic, opt=opt)
        graph.run({"x": x})
    except CheckError as error:
        return [finding for finding in error.findings if finding.rule.startswith("memory")]
    return []


def check(findings: list[Finding], rule: str, mark: str, text: str) -> None:
    assert [finding.rule for finding in findings] == [rule]
    [finding] = findings
    assert text in finding.what
    assert finding.by is not None and finding.by.layer.endswith("(TPU_WRONG)")
    [*_, frame] = finding.by.frames
    assert re.search(r"bm_device_wrong\.c$", frame.file)
    assert finding.by.frames[0].line == line_of(mark)


@pytest.mark.parametrize(("mistake", "buffer", "rule", "mark", "text"), GLOBAL)
def test_a_global_function_is_found_when_it_is_compiled(
    toolkit: Toolkit, tmp_path: Path, mistake: int, buffer: int, rule: str, mark: str, text: str
) -> None:
    check(found(net(toolkit, mistake, buffer), tmp_path), rule, mark, text)


@pytest.mark.parametrize(("mistake", "buffer", "rule", "mark", "text"), LOCAL)
def test_a_local_function_is_found_when_it_is_compiled(
    toolkit: Toolkit, tmp_path: Path, mistake: int, buffer: int, rule: str, mark: str, text: str
) -> None:
    check(found(net(toolkit, mistake, buffer, local=True), tmp_path, opt=2), rule, mark, text)


@pytest.mark.parametrize(("mistake", "buffer", "rule", "mark", "text"), GLOBAL)
def test_a_global_function_is_found_in_a_dynamic_net(
    toolkit: Toolkit, tmp_path: Path, mistake: int, buffer: int, rule: str, mark: str, text: str
) -> None:
    check(found(net(toolkit, mistake, buffer), tmp_path, dynamic=True), rule, mark, text)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("local", [False, True])
def test_the_right_layer_gives_no_finding(
    toolkit: Toolkit, tmp_path: Path, dynamic: bool, local: bool
) -> None:
    graph = net(toolkit, RIGHT, 0 if local else 2560, local=local)
    assert found(graph, tmp_path, dynamic=dynamic, opt=2) == []


def test_numbers_that_only_fill_up_a_tile_are_nobodys() -> None:
    """Rows of 15 elements in lines of 32: 1/x of what nothing wrote is no infinity that anybody reads."""
    findings: list[Finding] = []
    x = np.linspace(0.5, 2, 2 * 70 * 3 * 5, dtype=np.float32).reshape(2, 70, 3, 5)
    with builtin_toolkit() as toolkit, together(check="all", on_findings=findings.extend):
        reciprocal = {"unary_op": UNARY["RECIPROCAL"], "a": 0.0, "b": 0.0}
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", x.shape)
        graph.add_tpu_layer("TPU_UNARY", ["x"], reciprocal, ["a"])
        graph.add_tpu_layer("TPU_UNARY", ["a"], reciprocal, ["y"])
        graph.compile(opt=1)
        [y] = graph.run({"x": x})
    assert np.allclose(np.asarray(y, np.float32), x, rtol=1e-5)
    assert findings == []
