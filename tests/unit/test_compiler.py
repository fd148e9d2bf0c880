"""Whole compiles with fake layers: modes, reshapes, DDR, dynamic programs, logs, errors."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.chip import DDR_BASE
from firmware_sim.errors import CompileError, UsageError
from firmware_sim.wire import NONE, DType, Program, StepOp, TensorKind, TensorRecord, TType
from tests.support.compiler_fakes import FakeLayer, FakeToolkit, global_layer, local_layer, reshape_layer
from tests.support.examples import examples
from tpulayer import Graph
from user_layers.compiler.aliases import find_aliases
from user_layers.compiler.attributes import DescribedNet, gather_attributes
from user_layers.compiler.ddr import DdrPlan, pack_constants
from user_layers.compiler.emit_dynamic import emit_dynamic
from user_layers.compiler.mode import Kind
from user_layers.compiler.partition import Part
from user_layers.compiler.pipeline import plan_net
from user_layers.graph.shapes import infer_shapes
from user_layers.net.compiled import CompiledNet, DynamicBody, StaticBody


def graph(*layers: FakeLayer, shape: tuple[int, ...] = (1, 3, 8, 8)) -> Graph:
    g = Graph(name="net", toolkit=FakeToolkit(*layers))
    g.add_input("x", shape)
    return g


def describe(g: Graph) -> DescribedNet:
    return gather_attributes(infer_shapes(g), g.toolkit)


def static(g: Graph, opt: int = 2) -> tuple[DdrPlan, Program]:
    plan = plan_net(describe(g), opt=opt)
    (program,) = plan.programs
    assert program is not None
    return plan.ddr, program


def calls(program: Program) -> list[str]:
    return [s.name for s in program.steps if s.opcode in (StepOp.GLOBAL, StepOp.LOCAL)]


def recorded(g: Graph) -> Program:
    assert isinstance(g.toolkit, FakeToolkit)
    return g.toolkit.fake_device.recorded[-1]


# ---- modes ----


def test_a_static_net() -> None:
    g = graph(local_layer(), global_layer())
    g.add_tpu_layer("TPU_LOC", ["x"], None, ["t"])
    g.add_tpu_layer("TPU_GLOB", ["t"], None, ["y"])
    net = g.compile()
    (stage,) = net.stages
    assert isinstance(stage.subnets[0].body, StaticBody)
    assert stage.ctx_addr == stage.coeff_addr == DDR_BASE + 0x510_0000
    assert [t.name for t in (*stage.inputs, *stage.outputs)] == ["x", "y"]
    spans = sorted((t.addr, t.addr + t.nbytes) for t in (*stage.inputs, *stage.outputs))
    assert spans[0][0] >= stage.ctx_addr and spans[-1][1] <= stage.ctx_addr + stage.ctx_bytes
    assert [(use.op, use.op_type) for use in net.layers] == [("TPU_LOC", 0), ("TPU_GLOB", 1)]


def test_layer_calls_carry_the_low_half_of_the_parameter_hash() -> None:
    layers = FakeLayer("TPU_A", 0, param_hash=0xFEDC_BA98_7654_3210), FakeLayer("TPU_B", 5, param_hash=7)
    programs = []
    for run in (static, dynamic):
        g = graph(*layers, FakeLayer("TPU_UNUSED", 6))
        g.add_tpu_layer("TPU_A", ["x"], None, ["t"])
        g.add_tpu_layer("TPU_B", ["t"], None, ["y"])
        made = run(g)
        programs.append(made[1] if isinstance(made, tuple) else made)
        layer_steps = [s for s in programs[-1].steps if s.op_type >= 0]
        assert {(s.op_type, s.param_check) for s in layer_steps} == {(0, 0x7654_3210), (5, 7)}
        assert [(u.op_type, u.param_hash) for u in g.compile().layers] == [(0, layers[0].param_hash), (5, 7)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtypes", [None, ["float32"]])
@pytest.mark.parametrize("shapes", [None, [(1, 3, 8, 8)]])
def test_each_of_shapes_and_types_may_be_left_out(shapes: Any, dtypes: Any, dynamic: bool) -> None:
    g = graph(local_layer())
    g.add_tpu_layer("TPU_LOC", ["x"], None, ["y"], shapes, dtypes)
    (output,) = g.compile(dynamic).stages[0].outputs
    assert (output.shape, output.dtype) == (g.tensors["x"].shape, g.tensors["x"].dtype)


@pytest.mark.parametrize("method", ["must_dynamic_run", "output_shape_is_dynamic"])
def test_a_layer_that_cannot_be_recorded_is_a_dynamic_subnet(method: str) -> None:
    g = graph(local_layer(), local_layer("TPU_DYN", 5, **{method: True}))
    g.add_tpu_layer("TPU_LOC", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_DYN", ["a"], None, ["b"])
    g.add_tpu_layer("TPU_LOC", ["b"], None, ["y"])
    net = g.compile()
    (stage,) = net.stages
    follows = StaticBody if method == "must_dynamic_run" else DynamicBody
    assert [type(s.body) for s in stage.subnets] == [StaticBody, DynamicBody, follows][: len(stage.subnets)]
    assert len(stage.subnets) == (3 if method == "must_dynamic_run" else 2)
    assert not stage.is_dynamic
    assert any(method in line and "TPU(DYN)" in line for line in net.log)
    assert any("whose shape varies" in line for line in net.log) == (follows is DynamicBody)


def test_a_net_of_dynamic_layers_only_is_dynamic() -> None:
    g = graph(local_layer("TPU_DYN", 5, must_dynamic_run=True))
    g.add_tpu_layer("TPU_DYN", ["x"], None, ["y"])
    assert g.compile().stages[0].is_dynamic
    assert not g.toolkit.fake_device.recorded  # type: ignore[attr-defined]


def test_a_dynamic_net() -> None:
    g = graph(global_layer(get_global_buffer_size=100))
    g.add_const("k", np.arange(5, dtype=np.float32))
    g.add_tpu_layer("TPU_GLOB", ["x", "k"], {"v": 3}, ["t"])
    g.add_tpu_layer("TPU_GLOB", ["t"], None, ["y"])
    net = g.compile(dynamic=True)
    (stage,) = net.stages
    (subnet,) = stage.subnets
    assert isinstance(subnet.body, DynamicBody)
    assert [t.addr for t in (*stage.inputs, *stage.outputs)] == [0, 0]
    assert stage.coeff == np.arange(5, dtype=np.float32).tobytes()
    # One neuron (t) and two work buffers, in pages.
    assert subnet.body.arena_bytes == stage.ctx_bytes == 3 * 4096


@pytest.mark.parametrize("fixed", [True, False])
def test_can_h_w_dynamic_is_stored(fixed: bool) -> None:
    g = graph(global_layer(can_h_w_dynamic=not fixed))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["y"])
    stage = g.compile(dynamic=True).stages[0]
    assert stage.is_dynamic and stage.n_dynamic and stage.h_w_dynamic is not fixed


def test_the_log_has_a_line_per_layer() -> None:
    g = graph(local_layer(), FakeLayer("TPU_CROP", 3, has_local=False, name="CROP"), reshape_layer((3, 64)))
    g.add_tpu_layer("TPU_CROP", ["x"], None, ["t"])
    g.add_tpu_layer("TPU_RESHAPE", ["t"], None, ["r"])
    g.add_tpu_layer("TPU_LOC", ["r"], None, ["y"])
    lines: list[str] = []
    net = g.compile(log=lines.append)
    assert list(net.log) == lines
    assert [line.split()[0] for line in lines] == ["TPU(CROP)", "RESHAPE", "TPU(LOC)"]
    assert "global (no local function)" in lines[0]
    assert "shares its input's memory" in lines[1]
    assert "local, group 0, whole" in lines[2] and "[3, 64] -> [3, 64]" in lines[2]


def test_get_name_is_the_name_in_the_log() -> None:
    g = graph(FakeLayer("TPU_CROP", 3, name="Trim"))
    g.add_tpu_layer("TPU_CROP", ["x"], None, ["y"])
    assert g.compile().log[0].startswith("TPU(Trim) crop_0: ")


def test_verbose_prints_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    g = graph(local_layer())
    g.add_tpu_layer("TPU_LOC", ["x"], None, ["y"])
    net = g.compile(verbose=True)
    captured = capsys.readouterr()
    assert captured.err.splitlines() == list(net.log) and not captured.out


def test_the_net_lists_its_user_layers_once() -> None:
    g = graph(local_layer(), global_layer(), reshape_layer((3, 64)))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_RESHAPE", ["a"], None, ["b"])
    g.add_tpu_layer("TPU_LOC", ["b"], None, ["c"])
    g.add_tpu_layer("TPU_LOC", ["c"], None, ["d"])
    net = g.compile()
    assert [(u.op, u.op_type, u.param_bytes) for u in net.layers] == [("TPU_LOC", 0, 4), ("TPU_GLOB", 1, 4)]


# ---- reshapes and shared memory ----


def test_just_reshape_runs_nothing() -> None:
    g = graph(global_layer(), reshape_layer((3, 64)))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_RESHAPE", ["a"], None, ["b"])
    g.add_tpu_layer("TPU_GLOB", ["b"], None, ["y"])
    ddr, program = static(g)
    assert calls(program) == ["glob_0", "glob_1"]
    assert ddr.address["a"] == ddr.address["b"]


def test_a_reshape_between_input_and_output_is_run() -> None:
    g = graph(reshape_layer((3, 64)))
    g.add_tpu_layer("TPU_RESHAPE", ["x"], None, ["y"])
    ddr, program = static(g)
    assert calls(program) == ["reshape_0"]
    assert ddr.address["x"] != ddr.address["y"]


def test_a_reshaped_output_is_computed_in_place() -> None:
    g = graph(global_layer(), reshape_layer((3, 64)))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_RESHAPE", ["a"], None, ["y"])
    ddr, program = static(g)
    assert calls(program) == ["glob_0"]
    assert ddr.address["a"] == ddr.address["y"]


def test_a_reshaped_constant_lies_where_the_constant_does() -> None:
    g = graph(global_layer(), reshape_layer((2, 2)))
    g.add_const("k", np.zeros(4, np.float32))
    g.add_tpu_layer("TPU_RESHAPE", ["k"], None, ["r"])
    g.add_tpu_layer("TPU_GLOB", ["x", "r"], None, ["y"])
    ddr, program = static(g)
    assert calls(program) == ["glob_0"]
    assert ddr.address["r"] == ddr.address["k"] == ddr.coeff_addr


def test_just_reshape_must_keep_the_bytes() -> None:
    g = graph(reshape_layer((3, 65)))
    g.add_tpu_layer("TPU_RESHAPE", ["x"], None, ["y"])
    with pytest.raises(CompileError, match=r"reshape_0 .*just_reshape\(\).* 768 bytes .*780"):
        static(g)


def shared() -> FakeLayer:
    return global_layer("TPU_SHARE", 2, is_share_mem_layer=True)


def test_is_share_mem_layer_writes_over_its_input() -> None:
    g = graph(global_layer(), shared())
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_SHARE", ["a"], None, ["b"])
    g.add_tpu_layer("TPU_GLOB", ["b"], None, ["y"])
    ddr, program = static(g)
    assert calls(program) == ["glob_0", "share_0", "glob_1"]
    assert ddr.address["a"] == ddr.address["b"]


def test_shared_memory_is_not_taken_from_inputs_nor_from_what_is_read_later() -> None:
    g = graph(global_layer(), shared())
    g.add_tpu_layer("TPU_SHARE", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_SHARE", ["a"], None, ["b"])
    g.add_tpu_layer("TPU_GLOB", ["a", "b"], None, ["y"])
    ddr, _ = static(g)
    assert len({ddr.address[n] for n in ("x", "a", "b")}) == 3


def test_a_reshape_keeps_what_is_read_later_from_being_overwritten() -> None:
    g = graph(global_layer(), shared(), reshape_layer((3, 64)))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_RESHAPE", ["a"], None, ["r"])
    g.add_tpu_layer("TPU_SHARE", ["r"], None, ["b"])
    g.add_tpu_layer("TPU_GLOB", ["a"], None, ["c"])
    g.add_tpu_layer("TPU_GLOB", ["b", "c"], None, ["y"])
    ddr, _ = static(g)
    assert ddr.address["a"] == ddr.address["r"] != ddr.address["b"]


def test_shared_memory_must_be_large_enough() -> None:
    g = graph(
        global_layer("TPU_SHARE", 2, is_share_mem_layer=True),
    )
    g.toolkit.fake_device._layers[2].shape = lambda ins, p: [TensorRecord((1, 3, 8, 9))]  # type: ignore[attr-defined]
    g.add_tpu_layer("TPU_SHARE", ["x"], None, ["y"])
    with pytest.raises(CompileError, match=r"is_share_mem_layer\(\).*864.*768"):
        static(g)


# ---- DDR ----


def test_constants_come_before_the_context() -> None:
    g = graph(global_layer())
    g.add_const("a", np.full(3, 7, np.int8))
    g.add_const("b", np.arange(40, dtype=np.float32))
    g.add_tpu_layer("TPU_GLOB", ["x", "a", "b"], None, ["y"])
    ddr, _ = static(g)
    assert ddr.coefficients.offsets == {"a": 0, "b": 128}
    assert ddr.coefficients.data[128:] == np.arange(40, dtype=np.float32).tobytes()
    assert ddr.ctx_addr == ddr.coeff_addr + 4096


def test_get_global_buffer_size_gives_the_layer_memory() -> None:
    g = graph(global_layer(get_global_buffer_size=10_000))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["y"])
    ddr, program = static(g)
    (step,) = program.steps
    assert step.buffer_bytes == 10_000
    start = step.buffer_addr
    for name in ("x", "y"):
        assert start + 10_000 <= ddr.address[name] or ddr.address[name] + 768 <= start
    assert start + 10_000 <= ddr.ctx_addr + ddr.ctx_bytes


def test_neurons_share_memory_over_time() -> None:
    g = graph(global_layer(), shape=(1, 64, 100, 100))
    name = "x"
    for i in range(6):
        (name,) = g.add_tpu_layer("TPU_GLOB", [name], None, [f"t{i}"])
    ddr, _ = static(g)
    assert len({ddr.address[f"t{i}"] for i in range(5)}) == 2


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), min_size=1, max_size=9))
def test_random_graphs_read_what_was_written(picks: list[tuple[int, int, bool]]) -> None:
    g = graph(local_layer(can_inplace=True), global_layer(), shared(), reshape_layer((1, 3, 8, 8)))
    names = ["x"]
    for i, (a, b, kind) in enumerate(picks):
        op = ("TPU_LOC", "TPU_GLOB", "TPU_SHARE", "TPU_RESHAPE")[(a + b) % 4]
        ins = [names[a % len(names)]]
        if kind and op != "TPU_RESHAPE":
            ins.append(names[b % len(names)])
        names += g.add_tpu_layer(op, ins, None, [f"t{i}"])
    static(g)


def test_a_net_that_needs_more_than_the_ddr() -> None:
    g = graph(global_layer(get_global_buffer_size=13 << 30))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["y"])
    with pytest.raises(CompileError, match="12 GB"):
        static(g)


# ---- dynamic programs ----


def dynamic(g: Graph) -> Program:
    described = describe(g)
    aliases = find_aliases(described, dynamic=True)
    net = described.net
    part = Part(Kind.DYNAMIC, range(len(net.nodes)), net.inputs, net.outputs)
    return emit_dynamic(described, part, aliases, pack_constants(described)).program


def test_dynamic_tensors_live_as_long_as_they_are_read() -> None:
    g = graph(global_layer())
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_GLOB", ["a"], None, ["b"])
    g.add_tpu_layer("TPU_GLOB", ["a", "b"], None, ["y"])
    program = dynamic(g)
    kinds = [(t.kind, t.index, t.last_step, t.alias_of) for t in program.tensors]
    assert kinds == [
        (TensorKind.INPUT, 0, 0, NONE),
        (TensorKind.NEURON, 0, 2, NONE),
        (TensorKind.NEURON, 0, 2, NONE),
        (TensorKind.OUTPUT, 0, NONE, NONE),
    ]
    assert [(s.inputs, s.outputs) for s in program.steps] == [((0,), (1,)), ((1,), (2,)), ((1, 2), (3,))]
    assert {t.max_bytes for t in program.tensors} == {768}
    assert (program.in_num, program.out_num) == (1, 1)


def test_dynamic_reshapes_share_memory_but_not_with_outputs() -> None:
    g = graph(global_layer(), reshape_layer((3, 64)))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_RESHAPE", ["a"], None, ["r"])
    g.add_tpu_layer("TPU_GLOB", ["r"], None, ["b"])
    g.add_tpu_layer("TPU_RESHAPE", ["b"], None, ["y"])
    program = dynamic(g)
    assert [t.alias_of for t in program.tensors] == [NONE, NONE, 1, NONE, NONE]
    assert program.tensors[1].last_step == 2  # the reshape of it is read there
    assert [s.opcode for s in program.steps] == [StepOp.GLOBAL] * 4


def test_dynamic_constants_have_an_entry_for_each_type_they_are_read_in() -> None:
    shape_input = global_layer("TPU_S", 4, input_type=lambda i: TType.NEURON_SHAPE if i else TType.NEURON)
    compact = global_layer("TPU_C", 5, input_type=lambda i: TType.COEFF if i else TType.NEURON)
    g = graph(shape_input, compact)
    g.add_const("pad", np.zeros(9, np.float32))
    g.add_const("k", np.array([1, 2], np.int32))
    g.add_tpu_layer("TPU_S", ["x", "k"], None, ["a"])
    g.add_tpu_layer("TPU_C", ["a", "k"], None, ["b"])
    g.add_tpu_layer("TPU_C", ["b", "pad"], None, ["y"])
    program = dynamic(g)
    coeff = [t for t in program.tensors if t.kind == TensorKind.COEFF]
    assert [(t.tensor.addr, t.tensor.ttype, t.tensor.host_data) for t in coeff] == [
        (128, TType.NEURON_SHAPE, (1, 2)),
        (128, TType.COEFF, None),
        (0, TType.COEFF, None),
    ]


# ---- errors ----


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ({"get_global_buffer_size": -1}, "get_global_buffer_size() of its descriptor returns -1"),
        ({"get_local_buffer_size": -5}, "get_local_buffer_size([1, 3, 8, 8]) of its descriptor returns -5"),
        ({"backward_hslice": lambda n: 0}, "backward_hslice(1) of its descriptor returns 0"),
        ({"input_type": TType.NEURON_ARRAY}, "input_type(0) of its descriptor returns BMNET_NEURON_ARRAY"),
    ],
)
def test_descriptors_that_return_nonsense(says: dict[str, Any], words: str) -> None:
    g = graph(local_layer(**says))
    g.add_tpu_layer("TPU_LOC", ["x"], None, ["y"])
    with pytest.raises(CompileError) as caught:
        g.compile()
    assert words in str(caught.value) and "loc_0 (TPU_LOC, test_compiler.py:" in str(caught.value)


def test_a_refused_recording_names_the_net() -> None:
    g = graph(local_layer())
    g.toolkit.fake_device.refuses = "layer loc_0 reads device memory"  # type: ignore[attr-defined]
    g.add_tpu_layer("TPU_LOC", ["x"], None, ["y"])
    with pytest.raises(
        CompileError, match="recording net 'net' failed: layer loc_0 reads device memory"
    ) as caught:
        g.compile()
    assert caught.value.hint == "do something"


def test_bad_options(tmp_path: Path) -> None:
    g = graph(local_layer())
    g.add_tpu_layer("TPU_LOC", ["x"], None, ["y"])
    with pytest.raises(UsageError, match="opt=3"):
        g.compile(opt=3)
    with pytest.raises(UsageError, match="without a directory"):
        g.compile(ref_inputs={"x": np.zeros((1, 3, 8, 8), np.float32)})
    with pytest.raises(UsageError, match="not compiled"):
        graph(local_layer()).run({})
    g.compile()
    x = np.zeros((1, 3, 8, 8), np.float32)
    for wrong, words in ((x, "given is an array"), ([x], "given is list")):
        with pytest.raises(UsageError, match=rf"test_compiler\.py:\d+: run\(\) takes .*{words}") as e:
            g.run(wrong)  # type: ignore[arg-type]
        assert e.value.hint == "run({'x': array})"
    directory = tmp_path / "out"
    x, y = (np.zeros((1, 3, 8, 8), np.float32) for _ in "xy")
    for refs, words in (
        ({"q": x}, "'q' is unknown"),
        ({"x": x[0]}, r"\[3, 8, 8\] float32; the net has \[1, 3, 8, 8\] float32"),
        ({"x": x.astype(np.float64)}, "float64"),
    ):
        with pytest.raises(UsageError, match=words):
            g.compile(dynamic=True, directory=directory, ref_inputs=refs, ref_outputs={"y": y})
    assert not directory.exists()


def test_the_output_directory(tmp_path: Path) -> None:
    g = graph(local_layer())
    g.add_tpu_layer("TPU_LOC", ["x"], None, ["y"])
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in "xy")
    (tmp_path / "mine.txt").write_text("kept")
    for _ in range(2):
        g.compile(dynamic=True, directory=tmp_path, ref_inputs={"x": x}, ref_outputs={"y": y})
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "compilation.bmodel",
        "input_ref_data.dat",
        "mine.txt",
        "output_ref_data.dat",
    ]
    assert (tmp_path / "input_ref_data.dat").read_bytes() == x.tobytes()
    assert (tmp_path / "output_ref_data.dat").read_bytes() == y.tobytes()
    blocked = tmp_path / "mine.txt"
    with pytest.raises(UsageError, match="cannot write"):
        g.compile(dynamic=True, directory=blocked, ref_inputs={"x": x}, ref_outputs={"y": y})


def test_compiling_twice_gives_the_same(tmp_path: Path) -> None:
    nets: list[CompiledNet] = []
    programs = []
    for _ in range(2):
        g = graph(local_layer(), global_layer(), shape=(2, 64, 300, 300))
        g.add_tpu_layer("TPU_LOC", ["x"], None, ["a"])
        g.add_tpu_layer("TPU_GLOB", ["a"], None, ["b"])
        g.add_tpu_layer("TPU_LOC", ["b", "a"], None, ["y"])
        nets.append(g.compile())
        programs.append(recorded(g).encode())
    assert nets[0] == nets[1]
    assert programs[0] == programs[1]
    for a, b in itertools.combinations((t.name for t in nets[0].stages[0].inputs), 2):
        assert a != b
    assert nets[0].stages[0].inputs[0].dtype == DType.FP32
