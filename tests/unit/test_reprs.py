"""What objects show at a prompt: one line, exact, and never the data."""

from __future__ import annotations

import html as html_module
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.checks.text import told
from firmware_sim.device.client import Device
from firmware_sim.errors import UsageError
from firmware_sim.firmware.image import FirmwareImage
from firmware_sim.shown import brief
from firmware_sim.wire import CommandGroup, DType, Program, Recorded, Step, StepOp, TensorRecord
from tests.support.bmodel_samples import COEFF, dynamic_net, static_net, static_stage
from tests.support.fake_device import FakeDevice
from tests.support.findings_sample import RACE
from tests.support.report_sample import dynamic, mixed
from tpulayer import Graph
from user_layers.bmodel import read, write
from user_layers.bmodel.directory import References
from user_layers.bmodel.model import Coeff, CpuLayer, Module
from user_layers.graph import BINARY_ADD
from user_layers.kernels.run_kernel import KernelResult
from user_layers.net.compiled import CompiledNet, CpuBody, LayerUse, StaticBody, Subnet
from user_layers.net.net import NetTensorInfo
from user_layers.net.nodes import CpuPart
from user_layers.onnx.custom import MappedNode
from user_layers.report import html
from user_layers.runtime import BModelRuntime, Ran
from user_layers.toolkit import Toolkit
from user_layers.workspace import Workspace

BIG = bytes(1 << 20)
LONG = 400  # letters of a line that is still easy to read


# ---- graphs and what compiling gives ----


def test_a_graph_before_and_after_compiling(toolkit: Toolkit) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    assert repr(graph) == "<Graph 'net', open, not compiled: (none) -> (none); 0 layers>"
    graph.add_input("x", (2, 3))
    graph.add_const("w", np.ones((2, 300), np.float32))
    graph.add_const_binary_layer("x", 1.0, "y", BINARY_ADD)
    assert repr(graph) == "<Graph 'net', open, not compiled: x [2, 3] float32 -> y; 1 layer>"
    assert repr(graph.tensors["x"]) == "<Tensor x [2, 3] float32, input>"
    assert repr(graph.tensors["w"]) == "<Tensor w [2, 300] float32, constant of 2400 bytes>"
    where = graph.nodes[0].where
    assert repr(graph.nodes) == f"[<LayerNode const_binary_0 (TPU_CONST_BINARY, {where}): x -> y>]"
    static = graph.compile()
    text = "x [2, 3] float32 -> y [2, 3] float32; 1 layer"
    assert repr(static) == f"<CompiledNet 'net', static: {text}: 1 BD and 2 GDMA commands>"
    assert repr(static.stages[0].subnets) == f"(<Subnet, static: {text}, 1 BD and 2 GDMA commands>,)"
    assert repr(graph) == f"<Graph 'net', open, compiled static: {text}>"
    graph.compile(dynamic=True)
    assert repr(graph) == f"<Graph 'net', open, compiled dynamic: {text}>"


def test_a_graph_with_many_inputs_stays_on_a_line(toolkit: Toolkit) -> None:
    graph = Graph(toolkit=toolkit)
    for i in range(10):
        graph.add_input(f"x{i}", (1,))
    edges = "x0 [1] float32, x1 [1] float32, x2 [1] float32, x3 [1] float32, and 6 more -> (none)"
    assert repr(graph) == f"<Graph 'net', open, not compiled: {edges}; 0 layers>"


def test_toolkits(tmp_path: Path) -> None:
    with Toolkit() as toolkit:
        assert repr(toolkit) == "<Toolkit of the workspace around the current folder, open>"
    assert repr(toolkit) == "<Toolkit of the workspace around the current folder, closed>"
    graph = Graph(toolkit=toolkit)
    assert repr(graph) == "<Graph 'net', closed, not compiled: (none) -> (none); 0 layers>"
    assert repr(Toolkit(tmp_path)) == f"<Toolkit of {tmp_path}, open>"
    known = Toolkit(Workspace(tmp_path))
    assert known.workspace is not None
    assert repr(known) == f"<Toolkit of {tmp_path}, open>"


def test_a_toolkit_at_work(toolkit: Toolkit) -> None:
    assert toolkit.device is not None
    assert repr(toolkit) == "<Toolkit without a workspace, open; running: device, plugins>"


def test_compiled_nets() -> None:
    one = static_net(2)
    text = "x [2, 4] float32 -> y [4, 4] float32; 0 layers: 0 BD and 2 GDMA commands; 32 bytes of constants"
    assert repr(one.stages[0]) == f"<Stage, static: {text}>"
    assert repr(one) == f"<CompiledNet 'twice', static: {text}; with TPU_TWICE>"
    assert repr(one.stages[0].inputs) == "(<NetTensor x [2, 4] float32 at 0x105101000>,)"
    three = text.replace("[2, 4]", "[3, 4]").replace("[4, 4]", "[5, 4]")
    assert repr(static_net(2, 3)) == (
        f"<CompiledNet 'twice', static, 2 stages: {text} | {three}; with TPU_TWICE>"
    )
    assert repr(CompiledNet("none", ())) == "<CompiledNet 'none', without stages: (none)>"


def test_what_of_a_dynamic_net_may_vary() -> None:
    for n, c, h_w, mode in (
        (True, True, True, "dynamic"),
        (False, True, True, "dynamic (n fixed)"),
        (True, False, True, "dynamic (c fixed)"),
        (True, True, False, "dynamic (h, w fixed)"),
        (False, False, False, "dynamic (n, c, h, w fixed)"),
    ):
        stage = dynamic_net(n_dynamic=n, c_dynamic=c, h_w_dynamic=h_w).stages[0]
        assert repr(stage).startswith(f"<Stage, {mode}: x [4, 3, 5] float32 -> y [4, 3, 5] float32; ")
    (subnet,) = stage.subnets
    edges = "x [4, 3, 5] float32 -> y [4, 3, 5] float32"
    assert repr(subnet) == f"<Subnet, dynamic: {edges}; 0 layers, a program of 49 bytes>"
    assert repr(subnet.body) == "DynamicBody(program=<49 bytes>, arena_addr=4379906048, arena_bytes=4096)"
    assert not repr(subnet.inputs[0]).count("at 0x")


def test_parts_of_a_stage() -> None:
    stage = static_stage(2, split=True)
    (subnet,) = stage.subnets
    assert repr(subnet.body) == "<StaticBody: 0 BD and 2 GDMA commands in 2 groups>"
    host = Subnet(stage.inputs, stage.outputs, CpuBody(BIG), 3)
    edges = "x [2, 4] float32 -> y [4, 4] float32"
    assert repr(host) == f"<Subnet, host: {edges}; 3 layers, a model of 1048576 bytes>"
    assert repr(host.body) == "CpuBody(model=<1048576 bytes>)"
    both = replace(stage, subnets=(replace(subnet, nodes=1), host), coeff=b"")
    assert repr(both) == (
        f"<Stage, static: {edges}; 4 layers in 2 subnets: 0 BD and 2 GDMA commands, a model of 1048576 bytes>"
    )


def test_many_layers_are_counted() -> None:
    uses = tuple(LayerUse(f"TPU_{letter}", i, 0, 0) for i, letter in enumerate("ABCDEF"))
    assert repr(CompiledNet("n", (), uses)).endswith("; with TPU_A, TPU_B, TPU_C, TPU_D, and 2 more>")


# ---- reports ----


def test_reports_are_a_line() -> None:
    stage = mixed()
    assert repr(stage) == (
        "<StageReport, static: 7 layers: 2 in 1 group, 2 alone, 1 only share memory, 1 in the firmware, "
        "1 on the host; 144,060 cycles (0.262 ms) in static subnets (modelled, median error 5.4 %), "
        "DDR 5.259 MB read, 5.243 MB written>"
    )
    assert repr(stage.parts[0]) == "<PartReport 0, static: 4 layers, 1 group>"
    assert repr(stage.parts[0].groups) == "(<GroupReport 0: conv1, relu1; 6 tiles>,)"
    assert repr(dynamic()) == "<StageReport, dynamic: 2 layers: 2 in the firmware>"


def test_a_notebook_shows_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    net = replace(static_net(2), report=(mixed(),))
    shown = net._repr_html_()
    assert shown is not None
    assert "TPU(SORT)" in shown
    assert shown.count("<iframe ") == 1
    assert "&lt;svg " in shown and "<svg " not in shown  # in the frame's attribute, quoted
    assert static_net(2)._repr_html_() is None  # without a report: the line
    monkeypatch.setattr(html, "_LARGEST", 1000)
    small = net._repr_html_()
    assert small is not None
    assert "too large for a notebook" in small and "iframe" not in small


def test_a_notebook_shows_results_and_findings() -> None:
    result = KernelResult({"<y>": np.arange(12, dtype=np.float32).reshape(3, 4)}, 5500.0, 0)
    shown = result._repr_html_()
    assert "<td>&lt;y&gt;</td><td>[3, 4]</td><td>float32</td><td>0.0</td><td>11.0</td>" in shown
    assert "6.0, 7.0</td>" in shown and "8.0" not in shown and "5,500 cycles, 10.0 us" in shown
    assert KernelResult({"y": np.zeros((0, 4), np.int8)}, 1.0, 0)._repr_html_().count("<tr>") == 2
    (text,) = re.findall(r"<pre>(.*)</pre>", RACE._repr_html_(), re.DOTALL)
    assert html_module.unescape(text) == told(RACE)


# ---- bmodels and running them ----


def test_bmodels() -> None:
    model = read(write(static_net(2, 3)))
    edges = "x [2, 4] float32 -> y [4, 4] float32"
    net = f"<Net 'twice', static: {edges} | x [3, 4] float32 -> y [5, 4] float32>"
    assert repr(model) == f"<BModel for BM1684 of {model.time}: {net}>"
    stage = model.nets[0].stages[0]
    assert repr(stage) == f"<Stage, static: {edges}; 1 subnet>"
    assert "groups=(<CommandGroup: 0 BD and 2 GDMA commands>,)" in repr(stage.subnets[0])
    assert repr(Coeff(1, COEFF, b"")) == "Coeff(addr=1, data=<32 bytes>, check_code=b'')"
    assert repr(CpuLayer(3, BIG)) == "CpuLayer(op_type=3, param=<1048576 bytes>)"
    assert repr(Module("f.so", BIG)) == "Module(file_name='f.so', data=<1048576 bytes>)"
    assert repr(stage.inputs[0]) == (
        "Tensor(name='x', shape=(2, 4), dtype=0, store_mode=0, addr=4379906048, size=32, scale=1, "
        "zero_point=0, pad_h=0, mem_type=1)"
    )


def test_the_runtime() -> None:
    class Named(FakeDevice):
        def __repr__(self) -> str:
            return "<device>"

    net = "<NetworkInfo 'twice', static: x [2, 4] float32 -> y [4, 4] float32>"
    with Named() as device, BModelRuntime(device) as runtime:
        assert repr(runtime) == "<BModelRuntime on <device>: (none)>"
        runtime.load(write(static_net(2)))
        runtime.load(write(static_net(2, 3, name="other")))
        other = (
            "<NetworkInfo 'other', static, 2 stages: x [2, 4] float32 -> y [4, 4] float32 | "
            "x [3, 4] float32 -> y [5, 4] float32>"
        )
        assert repr(runtime) == f"<BModelRuntime on <device>: {net}, {other}>"
        assert repr(runtime.networks) == f"({net}, {other})"
        ran = runtime.run("twice", [np.zeros((2, 4), np.float32)])
        assert repr(ran).startswith("Ran(outputs=[<[4, 4] float32>], stage=0, load_s=")


def test_ran() -> None:
    ran = Ran([np.zeros(9, np.int8)], 1, 0.5, 1 / 3, 0.0, (1 / 3,), 0.0)
    assert repr(ran) == (
        "Ran(outputs=[<[9] int8>], stage=1, load_s=0.5, calculate_s=0.333333, get_s=0, "
        "subnets_s=(0.333333,), host_s=0)"
    )


def test_results_of_kernels() -> None:
    found = KernelResult({"y": np.zeros((64, 100), np.float32), "n": np.zeros(1, np.int32)}, 1100.0, 0)
    error = "(modelled, median error 5.4 %)"
    arrays = "y [64, 100] float32, n [1] int32"
    assert repr(found) == f"<KernelResult {arrays}; 1100 cycles, 2.0 us at 550 MHz {error}>"
    assert repr(KernelResult({}, 0.0, 7)) == f"<KernelResult (none); 0 cycles, 0.0 us at 550 MHz {error}>"


def test_devices(firmware_library: Path) -> None:
    with Device(firmware_library) as device:
        assert repr(device) == f"<Device 0, open: native firmware {firmware_library}>"
    assert repr(device) == f"<Device 0, closed: native firmware {firmware_library}>"


def test_firmware_images() -> None:
    assert repr(FirmwareImage(Path("/w/firmware.so"))) == "<FirmwareImage native, /w/firmware.so>"
    pair = FirmwareImage(Path("/w/firmware_tcm.bin"), Path("/w/firmware_ddr.bin"))
    assert repr(pair) == "<FirmwareImage arm, /w/firmware_tcm.bin>"


# ---- data by its size ----


def test_data_is_shown_by_its_size() -> None:
    group = CommandGroup(bytes(256), bytes(128))
    assert repr(group) == "<CommandGroup: 2 BD and 1 GDMA commands>"
    steps = tuple((i, i) for i in range(1000))
    assert repr(Recorded((group,), steps)).endswith("(6, 6), (7, 7), and 992 more), sites=None)")
    text = "References(inputs=<1048576 bytes>, outputs=b'', output_shapes=())"
    assert repr(References(BIG, b"", ())) == text
    assert repr(CpuPart(BIG, "why", False)) == (
        "CpuPart(model=<1048576 bytes>, reason='why', shape_varies=False)"
    )
    constant = NetTensorInfo("w", (4, 3, 2, 1), DType.FP32, data=BIG)
    assert repr(constant) == (
        "NetTensorInfo(name='w', shape=(4, 3, 2, 1), dtype=DType.FP32, ttype=TType.NEURON, "
        "data=<1048576 bytes>, plain=None, holds={}, store_mode=StoreMode.N1, scale=0)"
    )
    shape = TensorRecord((1,) * 8, host_data=tuple(range(5000)))
    assert "shape=(1, 1, 1, 1, 1, 1, 1, 1), dtype=DType.FP32" in repr(shape)
    assert repr(shape).endswith("host_data=(0, 1, 2, 3, 4, 5, 6, 7, and 4992 more), scale=0)")
    step = Step(StepOp.GLOBAL, param=BIG, name="n" * 100)
    assert "name=<100 letters>, param=<1048576 bytes>" in repr(step)
    assert len(repr(Program(steps=[step] * 10_000))) < 10 * LONG
    array = np.zeros((500, 500), np.float32)
    node = MappedNode("Slice", "s", {"axes": [1], "k": array}, ("x",), ((1, 2),), (array,), ("y",))
    assert repr(node) == (
        "MappedNode(op='Slice', name='s', attributes={'axes': [1], 'k': <[500, 500] float32>}, "
        "inputs=('x',), shapes=((1, 2),), constants=(<[500, 500] float32>,), outputs=('y',))"
    )


def test_fields_that_are_not_shown_stay_so() -> None:
    from user_layers.onnx.model import Node

    node = Node("Relu", "", "r", ("x",), ("y",), proto=object())
    assert brief(node).endswith("mapped=False, origin='')")


def test_names_that_would_break_the_line() -> None:
    stage = static_stage(2)
    bad = replace(stage.inputs[0], name="x\ny")
    assert repr(bad).startswith("<NetTensor 'x\\ny' [2, 4] float32 at ")


@pytest.mark.parametrize("large", [StaticBody((CommandGroup(BIG, BIG),) * 50), static_net(*range(1, 300))])
def test_large_objects_stay_readable(large: object) -> None:
    assert len(repr(large)) < 3 * LONG
    assert "\n" not in repr(large)


def test_a_runtime_over_a_device_that_failed_still_closes() -> None:
    """What opened the device is told, even where unloading fails."""
    closed = []

    class Broken(FakeDevice):
        def free(self, addr: int) -> None:
            raise UsageError("gone")

    runtime = BModelRuntime(Broken(), lambda: closed.append(True))
    runtime.load(write(static_net(2)))
    with pytest.raises(UsageError, match="gone"):
        runtime.close()
    assert closed == [True]
