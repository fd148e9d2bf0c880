"""The report of a compile: what it says agrees with the recorded commands and with the emulator."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from firmware_sim.chip import LOCAL_BYTES
from firmware_sim.device.client import Device
from firmware_sim.errors import CompileError
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.footprint import Space
from firmware_sim.wire import CommandGroup, Program, Recorded
from tests.paths import ROOT
from tests.support.compiler_fakes import FakeToolkit, global_layer
from tests.support.examples import examples
from tests.support.onnx_models import make_model
from tests.support.report_sample import ALIAS, sample
from tpulayer import Graph
from user_layers import __version__
from user_layers.bmodel.directory import REPORT_JSON, REPORT_PICTURE, REPORT_TEXT
from user_layers.graph import BINARY_ADD, BINARY_MUL
from user_layers.net.compiled import CompiledNet, StaticBody
from user_layers.product import compile_stages
from user_layers.report.document import report_document, report_json
from user_layers.report.model import (
    GroupReport,
    NetReport,
    Role,
    Runs,
    StageReport,
    Traffic,
    launch_cycles,
    total,
)
from user_layers.report.picture import report_picture
from user_layers.report.text import WIDTH, report_text
from user_layers.toolkit import Toolkit

RNG = np.random.default_rng(7)


def slices(toolkit: Toolkit) -> Graph:
    """Element-wise layers on more than local memory holds, with a branch."""
    g = Graph(name="slices", toolkit=toolkit)
    g.add_input("x", (8, 130, 150, 40))
    g.add_const_binary_layer("x", 2.0, "a", BINARY_MUL)
    g.add_const_binary_layer("a", 1.0, "b", BINARY_ADD)
    g.add_tpu_layer("TPU_BINARY", ["b", "a"], {"binary_op": BINARY_ADD}, ["y"])
    return g


def convolutions(toolkit: Toolkit) -> Graph:
    """Convolutions with constants, layers that only reshape, and some without a local function."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "w2"], ["c2"]),
        helper.make_node("Concat", ["p", "c2"], ["both"], axis=1),
        helper.make_node("Flatten", ["both"], ["flat"]),
        helper.make_node("MatMul", ["flat", "m"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"]),
    ]
    constants = {"w1": (20, 3, 3, 3), "w2": (9, 20, 1, 1), "m": (29 * 36, 5)}
    arrays = {n: RNG.standard_normal(s).astype(np.float32) for n, s in constants.items()}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "convolutions.onnx"
        onnx.save(make_model(nodes, {"x": (2, 3, 12, 12)}, ["y"], arrays), str(path))
        return Graph.from_onnx(path, toolkit=toolkit, name="convolutions")


NETS = {"slices": slices, "convolutions": convolutions}


@pytest.fixture(
    scope="module", params=[(n, o) for n in NETS for o in (0, 1, 2)], ids=lambda p: f"{p[0]}-{p[1]}"
)
def compiled(request: pytest.FixtureRequest, toolkit: Toolkit) -> tuple[Graph, CompiledNet]:
    name, opt = request.param
    graph = NETS[name](toolkit)
    return graph, graph.compile(opt=opt, report=True)


def stage_of(net: CompiledNet) -> StageReport:
    (stage,) = net.report
    return stage


def groups_of(stage: StageReport) -> list[GroupReport]:
    return [group for part in stage.parts for group in part.groups]


def ddr_bytes(net: CompiledNet) -> tuple[int, int]:
    """Bytes read from and written to DDR, by the footprint of each command."""
    read = written = 0
    for subnet in net.stages[0].subnets:
        assert isinstance(subnet.body, StaticBody)
        for group in subnet.body.groups:
            for engine, data in ((Engine.BD, group.bd), (Engine.GDMA, group.gdma)):
                columns = LAYOUTS[engine].columns(np.frombuffer(data, np.uint32).reshape(-1, 32))
                for row in map(columns.row, range(len(columns))):
                    found = lookup(engine, row).footprint(row)
                    read += sum(b.count * b.itemsize for b in found.reads if b.space is Space.DDR)
                    written += sum(b.count * b.itemsize for b in found.writes if b.space is Space.DDR)
    return read, written


def test_every_node_is_there_once(compiled: tuple[Graph, CompiledNet]) -> None:
    graph, net = compiled
    stage = stage_of(net)
    assert [node.name for node in stage.nodes] == [node.name for node in graph.nodes]
    order = [
        names
        for part in stage.parts
        for item in part.order
        for names in (item.nodes if isinstance(item, GroupReport) else [part.nodes[item].name])
    ]
    assert sorted(order) == sorted(node.name for node in graph.nodes)
    for group in groups_of(stage):
        inside = [node for node in stage.nodes if node.group == group.index]
        assert {node.name for node in inside} == set(group.nodes) and len(inside) == len(group.nodes)
        assert all(node.runs is Runs.GROUP for node in inside)
    assert all(node.reason for node in stage.nodes if node.runs is Runs.ALONE)


def test_bytes_and_commands_are_those_of_the_descriptors(compiled: tuple[Graph, CompiledNet]) -> None:
    check_bytes(compiled[1])
    stage = stage_of(compiled[1])
    known = {t.name for t in stage.inputs} | {t.name for node in stage.nodes for t in node.outputs}
    for node in stage.nodes:
        if node.op in ("TPU_CONV", "TPU_MATMUL", "TPU_CONST_BINARY"):
            constants = [t for t in node.inputs if t.name not in known]
            assert node.work is not None
            assert node.work.traffic.constants_read == sum(4 * math.prod(t.shape) for t in constants)
            assert bool(constants) == (node.op != "TPU_CONST_BINARY")


def check_bytes(net: CompiledNet) -> None:
    stage = stage_of(net)
    whole = total(stage.recorded)
    works = [node.work for node in stage.nodes if node.work is not None]
    assert sum((w.traffic for w in works), Traffic()) == whole.traffic
    assert (whole.traffic.read, whole.traffic.written) == ddr_bytes(net)
    for engine in ("bd", "gdma"):
        issued = sum(getattr(g, f"{engine}_num") for s in net.stages[0].subnets for g in s.body.groups)  # type: ignore[union-attr]
        assert sum(getattr(w, f"{engine}_commands") for w in works) == issued


def test_cycles_are_those_of_the_emulator(compiled: tuple[Graph, CompiledNet], toolkit: Toolkit) -> None:
    graph, net = compiled
    device = toolkit.device
    assert isinstance(device, Device)
    before = device.cycles
    graph.run({name: np.zeros(graph.shape(name), np.float32) for name in graph.inputs})
    stage = stage_of(net)
    assert total(stage.recorded).cycles + launch_cycles(stage) == pytest.approx(device.cycles - before)


def test_no_engine_is_busier_than_time_allows(compiled: tuple[Graph, CompiledNet]) -> None:
    stage = stage_of(compiled[1])
    parts = [part.work for part in stage.parts if part.work is not None]
    inner = [g.work for g in groups_of(stage)] + [n.work for n in stage.nodes if n.work is not None]
    for work in [*parts, *inner]:
        assert max(work.bd_cycles, work.gdma_cycles) <= work.cycles * (1 + 1e-9)
        assert 0 <= work.start <= work.end <= parts[0].end
    for engine in ("bd_cycles", "gdma_cycles"):
        nodes = sum(getattr(n.work, engine) for n in stage.nodes if n.work is not None)
        assert nodes == pytest.approx(sum(getattr(w, engine) for w in parts))


def test_what_is_in_local_memory_at_one_time_does_not_overlap(compiled: tuple[Graph, CompiledNet]) -> None:
    check_local_memory(stage_of(compiled[1]))


def check_local_memory(stage: StageReport) -> None:
    for group in groups_of(stage):
        assert group.stays and group.bars
        assert max(s.offset + s.nbytes for s in group.stays) <= group.local_bytes <= LOCAL_BYTES
        for a, b in itertools.combinations(group.stays, 2):
            apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
            assert apart or a.end <= b.start or b.end <= a.start, (a, b)
        for node in stage.nodes:
            if node.group == group.index:
                made = [
                    s for s in group.stays if s.name == node.outputs[0].name and s.role is not Role.LOADED
                ]
                assert len(made) == group.tiles


@examples(25)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 130), st.integers(1, 150), st.integers(1, 90)),
    sources=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), min_size=1, max_size=7),
    opt=st.integers(0, 2),
)
def test_random_nets(
    shape: tuple[int, ...], sources: list[tuple[int, int, bool]], opt: int, toolkit: Toolkit
) -> None:
    """Element-wise layers that take any tensors made before."""
    g = Graph(name="random", toolkit=toolkit)
    names = [g.add_input("x", shape)]
    for i, (a, b, two) in enumerate(sources):
        first, second = names[a % len(names)], names[b % len(names)]
        if two:
            g.add_tpu_layer("TPU_BINARY", [first, second], {"binary_op": BINARY_ADD}, [f"t{i}"])
        else:
            g.add_const_binary_layer(first, 2.0, f"t{i}", BINARY_MUL)
        names.append(f"t{i}")
    net = g.compile(opt=opt, report=True)
    stage = stage_of(net)
    check_local_memory(stage)
    check_bytes(net)
    text = report_text([NetReport(net.name, net.report)])
    assert max(map(len, text.splitlines())) <= WIDTH
    ElementTree.fromstring(report_picture([NetReport(net.name, net.report)]))


def test_groups_say_how_they_are_cut(toolkit: Toolkit) -> None:
    graph = slices(toolkit)
    (group,) = groups_of(stage_of(graph.compile(report=True)))
    assert group.nodes == tuple(node.name for node in graph.nodes)
    assert group.tiles > 1 and group.overlapped
    roles = {v.name: v.role.value for v in group.values}
    assert roles == {"x": "loaded", "a": "made", "b": "made", "y": "stored"}
    assert group.work.traffic.activations_read == group.work.traffic.activations_written
    assert group.work.traffic.activations_read == 8 * 130 * 150 * 40 * 4


def test_layers_that_share_memory_and_dynamic_nets(toolkit: Toolkit) -> None:
    static = stage_of(convolutions(toolkit).compile(report=True))
    (flat,) = [node for node in static.nodes if node.runs is Runs.SHARES]
    assert flat.op == "TPU_RESHAPE" and flat.work is None
    net = convolutions(toolkit).compile(dynamic=True, opt=0, report=True)
    stage = stage_of(net)
    assert stage.dynamic and not stage.recorded and {n.runs for n in stage.nodes} == {Runs.FIRMWARE}
    assert [n.op for n in stage.nodes if n.reason == ALIAS] == ["TPU_RESHAPE"]
    document = report_document([NetReport(net.name, net.report)])["nets"][0]["stages"][0]
    assert document["work"] is None and all(node["work"] is None for node in document["subnets"][0]["nodes"])
    text = report_text([NetReport(net.name, net.report)])
    assert "time      not known here" in text and " cycles" not in text
    assert "nothing is known" in report_picture([NetReport(net.name, net.report)])


def test_groups_of_dynamic_nets(toolkit: Toolkit) -> None:
    """Their times are known for the largest shapes, and no time of the net's is."""
    net = convolutions(toolkit).compile(dynamic=True, report=True)
    stage = stage_of(net)
    (group,) = stage.parts[0].groups
    assert not stage.recorded and {n.runs for n in stage.nodes} == {Runs.GROUP, Runs.FIRMWARE}
    text = report_text([NetReport(net.name, net.report)])
    assert f"; {round(group.work.cycles):,} cycles for the largest shapes, efficiency" in text
    assert "time      not known here" in text and "By operation" not in text
    assert "nothing is known" in report_picture([NetReport(net.name, net.report)])
    document = report_document([NetReport(net.name, net.report)])["nets"][0]["stages"][0]
    assert document["work"] is None and document["operations"] == []
    assert document["subnets"][0]["groups"][0]["work"]["end"] == round(group.work.end, 1)


def test_a_refused_command_names_its_layer() -> None:
    toolkit = FakeToolkit(global_layer())
    bad = LAYOUTS[Engine.GDMA].encode(cmd_id=1)  # pio_gdma_enable is 0
    made = Recorded((CommandGroup(b"", bad),), ((0, 1), (0, 1)))

    def record(program: Program, *, checked: bool = True) -> Recorded:
        return made

    toolkit.fake_device.record = record  # type: ignore[method-assign]
    g = Graph(name="net", toolkit=toolkit)
    g.add_input("x", (1, 3, 8, 8))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["t"], name="guilty")
    g.add_tpu_layer("TPU_GLOB", ["t"], None, ["y"], name="innocent")
    g.compile()
    with pytest.raises(CompileError, match=r"^guilty \(TPU_GLOB, .*\): its time is not known, .* refuses"):
        g.compile(report=True)


def test_stages(toolkit: Toolkit, tmp_path: Path) -> None:
    def graph(n: int) -> Graph:
        g = Graph(name="net", toolkit=toolkit)
        g.add_input("x", (n, 64, 20, 20))
        g.add_const_binary_layer("x", 2.0, "y", BINARY_MUL)
        return g

    net = compile_stages([graph(1), graph(3)], directory=tmp_path, report=True)
    assert [stage.inputs[0].shape[0] for stage in net.report] == [1, 3]
    text = (tmp_path / REPORT_TEXT).read_text()
    assert "net net, stage 0 of 2: static" in text and "net net, stage 1 of 2: static" in text
    root = ElementTree.parse(tmp_path / REPORT_PICTURE).getroot()
    places = [e.get("id") for e in root.iter() if e.get("id")]
    targets = {e.get("href") for e in root.iter() if e.get("href")}
    assert len(places) == len(set(places)) and targets <= {f"#{place}" for place in places}


def test_parts_on_the_host(toolkit: Toolkit) -> None:
    node = helper.make_node("Floor", ["a"], ["b"])
    model = make_model([node], {"a": (2, 3)}, ["b"]).SerializeToString()
    g = Graph(name="net", toolkit=toolkit)
    g.add_input("x", (2, 3))
    g.add_const_binary_layer("x", 2.0, "a", BINARY_MUL)
    g.add_cpu_layer(model, ["a"], ["b"], [(2, 3)], ["float32"], name="floor", reason="nobody wrote one")
    g.add_const_binary_layer("b", 1.0, "y", BINARY_ADD)
    net = g.compile(report=True)
    stage = stage_of(net)
    assert [part.kind for part in stage.parts] == ["static", "cpu", "static"]
    assert [node.runs is Runs.HOST for node in stage.nodes] == [False, True, False]
    assert [part.work is None for part in stage.parts] == [False, True, False] and not stage.complete
    assert total(stage.recorded).traffic.read == 48
    nets = [NetReport(net.name, net.report)]
    assert "subnet 1, on the host with onnxruntime: nobody wrote one" in report_text(nets)
    assert "on the host" in report_picture(nets)


def test_a_directory_gets_the_report_if_it_is_asked_for(toolkit: Toolkit, tmp_path: Path) -> None:
    graph = convolutions(toolkit)
    graph.compile(directory=tmp_path / "without")
    assert not [p for p in (tmp_path / "without").iterdir() if p.name.startswith(("report", "local"))]
    net = graph.compile(directory=tmp_path / "with", report=True)
    nets = [NetReport(net.name, net.report)]
    assert (tmp_path / "with" / REPORT_TEXT).read_text() == report_text(nets)
    assert json.loads((tmp_path / "with" / REPORT_JSON).read_text()) == report_document(nets)
    assert (tmp_path / "with" / REPORT_PICTURE).read_text() == report_picture(nets)


def test_text_fits_and_names_every_node(compiled: tuple[Graph, CompiledNet]) -> None:
    graph, net = compiled
    lines = report_text([NetReport(net.name, net.report)]).splitlines()
    assert max(map(len, lines)) <= WIDTH
    rows = [line for line in lines if line[:5].strip().isdecimal()]
    assert [row.split()[1] for row in rows] == [node.name for node in graph.nodes]


def test_the_picture_is_whole_and_alone(compiled: tuple[Graph, CompiledNet]) -> None:
    _, net = compiled
    picture = report_picture([NetReport(net.name, net.report)])
    root = ElementTree.fromstring(picture)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert picture.count("http") == 1  # its name space: nothing is fetched
    words = {e.text for e in root.iter() if e.text}
    for group in groups_of(stage_of(net)):
        if len(group.nodes) > 1:
            assert any(w.startswith(f"group {group.index}: ") for w in words)
            for value in group.values:
                assert any(w.startswith(f"{value.name}: ") for w in words)
    assert len(groups_of(stage_of(net))) == 0 or "bank 0" in words


def _shapes(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    return (e for e in root.iter() if e.tag.endswith("rect"))


def test_many_slices_make_no_large_picture(toolkit: Toolkit) -> None:
    def count(n: int) -> int:
        g = Graph(name="many", toolkit=toolkit)
        g.add_input("x", (n, 64, 300, 300))
        g.add_const_binary_layer("x", 2.0, "y", BINARY_MUL)
        net = g.compile(report=True)
        (group,) = groups_of(stage_of(net))
        assert group.tiles >= n
        return len(list(_shapes(ElementTree.fromstring(report_picture([NetReport(net.name, net.report)])))))

    assert count(30) <= count(10) + 2  # of "more tiles"


def test_many_layers_get_several_rows(toolkit: Toolkit) -> None:
    g = Graph(name="many", toolkit=toolkit)
    last = g.add_input("x", (1, 64, 30, 30))
    for i in range(100):
        last = g.add_const_binary_layer(last, 2.0, f"t{i}", BINARY_MUL, name=f"l{i}")
    net = g.compile(report=True)
    (group,) = groups_of(stage_of(net))
    picture = report_picture([NetReport(net.name, net.report)])
    assert picture.count(">DMA engine<") >= 1 + 100 * min(group.tiles, 4) / 40
    assert all(f"<title>{node}" in picture for node in group.nodes)


@pytest.mark.parametrize(
    ("name", "write"),
    [(REPORT_TEXT, report_text), (REPORT_JSON, report_json), (REPORT_PICTURE, report_picture)],
)
def test_golden_files(
    name: str, write: Callable[[Sequence[NetReport]], str], golden: Callable[[str, str], None]
) -> None:
    golden(f"report/{name}", write(sample()).replace(f'"tpulayer": "{__version__}"', '"tpulayer": "VERSION"'))


def test_the_documentation_has_the_sample_and_every_key() -> None:
    page = (ROOT / "docs" / "report.md").read_text()
    first = report_text(sample()).partition("\nnet dynamic")[0]
    assert f"```text\n{first}```" in page

    def keys(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            yield from value
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from keys(inner)

    document = report_document(sample())
    missing = [key for key in sorted(set(keys(document))) if f"`{key}`" not in page]
    assert not missing
    for name in [r.value for r in Runs] + [r.value for r in Role]:
        assert f'"{name}"' in page
