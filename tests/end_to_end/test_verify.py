"""`tpulayer verify`: what holds for correct layers, and the smallest case and the line of eleven mistakes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest
from onnx import TensorProto, helper

from firmware_sim.errors import MissingError
from tests.end_to_end.test_int8_nets import convolutions
from tests.support.dask_cluster import cluster
from tests.support.shared import made_once
from tests.support.verify_builtins import targets
from tests.support.verify_faults import FAULTS, Fault, add_layer, line_of
from tests.support.workspaces import built_copy, environment, make_workspace, tpulayer
from user_layers.api import Graph
from user_layers.cases.hand_out import Where, hand_out
from user_layers.compiler.pipeline import compile_graph
from user_layers.compiler.tiling import Ends
from user_layers.onnx import check
from user_layers.testing.run import open_toolkits
from user_layers.toolchain.targets import build_layers
from user_layers.verify import nets
from user_layers.verify.command import Budget, Report, lines, verify_all
from user_layers.verify.work import Job, Packed, Ticket, worker_anywhere
from user_layers.workspace import Workspace

pytestmark = pytest.mark.thorough  # a workspace with twelve layers, and random cases of all of them


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A built workspace with the correct layer, `rows`, and one for each mistake."""

    def make(root: Path) -> None:
        made = make_workspace(root, layers=())
        for fault in (None, *FAULTS):
            add_layer(root, fault)
        build_layers(made)

    return Workspace(made_once(tmp_path_factory, "verify_layers", make))


@pytest.fixture(scope="module")
def report(ws: Workspace) -> Report:
    """Of all mistakes, in one run."""
    return verify_all(Job(ws.root, tuple(fault.name for fault in FAULTS)), Budget(30, 0.0))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.name))
def test_a_mistake(fault: Fault, ws: Workspace, report: Report) -> None:
    """Found, by the property that says most of it, with the smallest case; the line where a line is wrong."""
    layer = report.layers[fault.name]
    first = layer.found[0]
    assert first.failure.property == fault.property
    assert first.case.startswith(fault.case) and first.smallest
    if fault.line:
        text = "\n".join(line for one in layer.found for line in (one.failure.problem, *one.lines))
        assert f"bm_device_{fault.name}.c:{line_of(ws.root, fault)}" in text
    assert layer.code == (5 if fault.property == "checks" else 1)
    assert layer.cases <= 10


def test_a_correct_layer(ws: Workspace) -> None:
    """Every property is tried; cases that the layer refuses are counted."""
    found = verify_all(Job(ws.root, ("rows",), seed=3), Budget(12, 0.0))
    layer = found.layers["rows"]
    assert found.code == 0 and not layer.found and layer.cases == 12
    assert {name: layer.held[name] for name in ("golden", "local", "window", "arm")} == dict.fromkeys(
        ("golden", "local", "window", "arm"), 12
    )
    assert layer.held["dynamic"] == 24
    text = "\n".join(lines(found))
    assert "rows: 12 cases, " in text and "verify: everything holds; 12 cases" in text


def test_cut_where_it_is_told(ws: Workspace) -> None:
    """Slices end where they are to; the last one reaches to the end."""
    with open_toolkits(ws) as toolkits, Graph(toolkit=toolkits["native"]) as graph:
        graph.add_input("x", (3, 2, 19, 7))
        graph.add_tpu_layer("TPU_ROWS", ["x"], {"factor": 1.0}, ["y"])
        compiled = compile_graph(graph, opt=1, ends=Ends((1, 3), (4, 5, 17), (6, 7)))
        assert "slices: 2 over n x 3 over h x 2 over w" in "\n".join(compiled.log)


def test_demo_layers(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    """As the command line: all hold, and the report is the same for two processes."""
    demo = built_copy(tmp_path_factory, tmp_path / "demo", ("crop", "double"))
    tests = Path(__file__).parents[1]
    (demo.root / "tests").mkdir(exist_ok=True)
    for name in ("crop", "double"):
        (demo.root / "tests" / f"test_{name}.py").write_bytes((tests / f"test_{name}.py").read_bytes())
    found = [
        json.loads(
            tpulayer("verify", "--budget", "4", "--seed", "5", "--jobs", jobs, "--json", cwd=demo.root).stdout
        )
        for jobs in ("1", "2")
    ]
    assert found[0]["ok"] and set(found[0]["layers"]) == {"crop", "double"}
    for one in found:
        for layer in (one, *one["layers"].values()):
            del layer["seconds"]
    assert found[0] == found[1]


def test_built_in_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without golden functions: in local memory and dynamically as by themselves."""
    monkeypatch.chdir(tmp_path)
    names = tuple(target.name for target in targets())
    job = Job(None, names, seed=1, targets="tests.support.verify_builtins:targets")
    found = verify_all(job, Budget(3, 0.0))
    assert found.code == 0, "\n".join(lines(found))
    held = {name: layer.held for name, layer in found.layers.items()}
    assert all(one["golden"] == one["dynamic"] == 3 for one in held.values())
    assert held["conv"]["local"] and held["pool"]["window"] and not held["reduce"]["local"]


def test_kept_and_shown_again(ws: Workspace, tmp_path: Path) -> None:
    """A folder, a report in JUnit's XML, and the command's exit codes."""
    words = ("verify", "ignored", "beyond", "--budget", "3", "--junit", "r.xml", "--save-repro", "kept")
    done = tpulayer(*words, cwd=tmp_path, env=_inside(ws), code=1)
    assert "ignored: local FAILED" in done.stdout and "beyond: checks FAILED" in done.stdout
    suites = {suite.get("name"): suite for suite in ElementTree.parse(tmp_path / "r.xml").getroot()}
    (failure,) = suites["ignored"].iter("failure")
    assert "DIFFERS in 1 of 1 elements" in str(failure.get("message"))
    assert [case.get("name") for case in suites["beyond"] if len(case)] == ["checks"]
    kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert kept == ["beyond-checks", "ignored-local"]
    again = tpulayer("repro", "kept/beyond-checks", cwd=tmp_path, code=5)
    assert "exit code 5, as when it was kept" in again.stderr and "beyond: checks FAILED" in again.stdout
    source = tmp_path / "kept" / "ignored-local" / "files" / "device" / "bm_device_ignored.c"
    wrong = next(fault for fault in FAULTS if fault.name == "ignored")
    source.write_text(source.read_text().replace(wrong.new, wrong.old))
    mended = tpulayer("repro", "kept/ignored-local", cwd=tmp_path, code=0)
    assert "exit code 0; it was 1 when it was kept" in mended.stderr


def _inside(ws: Workspace) -> dict[str, str]:
    return environment(TPULAYER_WORKSPACE=str(ws.root))


def test_refused(ws: Workspace, tmp_path: Path) -> None:
    for words, told in (
        (("verify", "row"), "there is no layer row"),
        (("verify", "rows", "--budget", "soon"), "--budget soon"),
        (("verify", "net.onnx"), "net.onnx is not there"),
        (("verify", "net.onnx", "rows"), "net.onnx beside others"),
        (("verify", "rows", "--shapes", "x=1x3"), "--shapes without a model's file"),
        (("verify", "rows", "--jobs", "2", "--dask", "tcp://127.0.0.1:9"), "--jobs and --dask together"),
    ):
        assert told in tpulayer(*words, cwd=tmp_path, env=_inside(ws), code=2).stderr


def test_a_net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside onnxruntime, compiled in every way; where it differs, the command and the node."""
    monkeypatch.chdir(tmp_path)
    onnx.save(convolutions(3, 8), str(tmp_path / "net.onnx"))
    job = Job(None, ("net.onnx",), model=tmp_path / "net.onnx")
    found = verify_all(job, Budget(4, 0.0))
    held = found.layers["net.onnx"].held
    assert found.code == 0 and held["golden"] == 4 and held["local"] == 8, "\n".join(lines(found))
    assert held["dynamic"] == 8  # also with a smaller batch
    monkeypatch.setattr(nets, "tolerance", lambda dtype: check.TOLERANCE * 1e-9)
    strict = verify_all(job, Budget(4, 0.0))
    (first, *_) = strict.layers["net.onnx"].found
    assert first.failure.property == "golden"
    assert "of its largest value off onnxruntime's" in first.failure.problem
    assert "node " in first.lines[0] and strict.code == 1


def test_a_net_with_a_part_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The element's command is found in the part that made it."""
    monkeypatch.chdir(tmp_path)
    nodes = [
        helper.make_node(op, *ends)
        for op, *ends in (
            ("Exp", ["x"], ["a"]),
            ("Det", ["a"], ["d"]),
            ("Sigmoid", ["a"], ["y"]),
            ("Exp", ["d"], ["e"]),
        )
    ]
    shapes = {"x": [2, 3, 3], "y": [2, 3, 3], "e": [2]}
    x, *ys = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(helper.make_graph(nodes, "net", [x], ys), opset_imports=opsets, ir_version=8)
    onnx.save(model, str(tmp_path / "host.onnx"))
    job = Job(None, ("host.onnx",), model=tmp_path / "host.onnx")
    assert verify_all(job, Budget(2, 0.0)).code == 0
    monkeypatch.setattr(nets, "tolerance", lambda dtype: 1e-12)
    (first, *_) = verify_all(job, Budget(2, 0.0)).layers["host.onnx"].found
    assert "TPU_UNARY, node unary_1" in first.lines[0]


def test_a_net_with_a_layer_of_the_workspaces_own(ws: Workspace, tmp_path: Path) -> None:
    """onnxruntime computes the rest, the layer's golden function the layer; the layer's source is named."""
    node = helper.make_node("TPU_IGNORED", ["x"], ["y"], domain="tpulayer", factor=2.0)
    more = helper.make_node("Relu", ["y"], ["z"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in ("x",)]
    out = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 3, 6, 8])]
    graph = helper.make_graph([node, more], "net", ends, out)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("tpulayer", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(tmp_path / "own.onnx"))
    found = verify_all(Job(ws.root, ("own.onnx",), model=tmp_path / "own.onnx"), Budget(2, 0.0))
    first = found.layers["own.onnx"].found[0]
    assert found.code == 1 and (first.failure.property, first.failure.where) == ("local", "opt 1")
    assert "bm_device_ignored.c:" in "\n".join(first.lines)


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[int]]]:
    """The address of a real scheduler, and its three workers' processes."""
    with cluster(tmp_path_factory.mktemp("dask")) as made:
        yield made.address, [process.pid for process in made.processes[1:]]


def test_a_dask_worker_that_is_killed(ws: Workspace, dask: tuple[str, list[int]]) -> None:
    """Three workers, one killed in the middle: no case is lost or counted twice, and what came of each is
    what comes of it here."""
    address, pids = dask
    job = Job(ws.root, ("rows", "ignored"))
    tickets = [Ticket(name, number) for number in range(9) for name in job.names]
    results = hand_out(worker_anywhere, (Packed.of(job),), tickets, Where(dask=address))
    found = [next(results), next(results)]
    os.kill(pids[0], signal.SIGKILL)
    found += list(results)
    assert [(one.layer, one.number) for one in found] == [(one.layer, one.number) for one in tickets]
    assert len(repr(Packed.of(job))) < 100
    with worker_anywhere(Packed.of(job)) as do:
        for here, there in zip((do(tickets[0]), do(tickets[5])), (found[0], found[5]), strict=True):
            assert replace(here, seconds=0) == replace(there, seconds=0)
    reported = verify_all(Job(ws.root, ("ignored",)), Budget(2, 0.0), Where(dask=address))
    assert reported.layers["ignored"].found[0].case.startswith("[1, 1, 3, 1]")


def test_packed_needs_a_build(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="is not built"):
        Packed.of(Job(make_workspace(tmp_path).root, ("double",)))
