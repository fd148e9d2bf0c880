"""Nets of static, dynamic and CPU subnets, and of several stages, on the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from firmware_sim.errors import DeviceError, ModelError, TpulayerError, UsageError
from tests.support.workspaces import layers_toolkit
from tpulayer import Graph
from user_layers.bmodel import read, save
from user_layers.bmodel.directory import BMODEL
from user_layers.bmrt.bmrt_test import BmrtTestOptions
from user_layers.bmrt.bmrt_test import run as bmrt_test
from user_layers.graph import BINARY_ADD, BINARY_MUL
from user_layers.net.compiled import CpuBody, DynamicBody, StaticBody
from user_layers.product import combine_stages, compile_stages
from user_layers.runtime import BModelRuntime
from user_layers.toolkit import Toolkit

onnx = pytest.importorskip("onnx", reason="parts on the host are ONNX models")
pytest.importorskip("onnxruntime", reason="parts on the host run on onnxruntime")

SHAPE = (2, 3, 9, 8)


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    with layers_toolkit(tmp_path_factory, "method_layers") as toolkit:
        yield toolkit


def sample(shape: tuple[int, ...] = SHAPE) -> NDArray[np.float32]:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def model(
    op: str, inputs: int = 1, *, dtype: int = 1, out: int = 1, rank: int = 4, **attributes: object
) -> bytes:
    """One ONNX operation; its inputs have any extents."""
    names = [f"i{k}" for k in range(inputs)]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, names, ["o"], **attributes)],
        "part",
        [onnx.helper.make_tensor_value_info(n, dtype, [None] * rank) for n in names],
        [onnx.helper.make_tensor_value_info("o", out, None)],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def mixed(toolkit: Toolkit, says_so: int = 1) -> Graph:
    """static -> host -> dynamic -> static, with a shortcut from the first to the last."""
    g = Graph(name="net", toolkit=toolkit)
    g.add_input("x", SHAPE)
    g.add_const_binary_layer("x", 2.0, "a", BINARY_MUL)
    g.add_cpu_layer(model("Floor"), ["a"], ["b"], [SHAPE], ["float32"], name="floor", reason="a test")
    g.add_tpu_layer("TPU_READER", ["b"], {"says_so": says_so}, ["c"])
    g.add_tpu_layer("TPU_BINARY", ["c", "a"], {"binary_op": BINARY_ADD}, ["y"])
    return g


def compared(toolkit: Toolkit, folder: Path) -> bool:
    """Whether bmrt_test finds the outputs that the compiler wrote beside the bmodel."""
    device = toolkit.device
    options = BmrtTestOptions(context_dir=folder, subnet_time=True)
    return bmrt_test(options, device=lambda *_: nullcontext(device), say=lambda _: None) == 0


def expected(x: NDArray[np.float32]) -> NDArray[np.float32]:
    b = np.floor(x * np.float32(2))
    y: NDArray[np.float32] = (b + b.flat[0]) + x * np.float32(2)
    return y


@pytest.mark.parametrize("opt", [0, 2])
def test_all_three_kinds_in_one_net(toolkit: Toolkit, tmp_path: Path, opt: int) -> None:
    g = mixed(toolkit)
    net = g.compile(directory=tmp_path, opt=opt)
    (stage,) = net.stages
    assert [type(s.body) for s in stage.subnets] == [StaticBody, CpuBody, DynamicBody, StaticBody]
    assert any("on the host, subnet 1 (a test)" in line for line in net.log)
    x = sample()
    (y,) = g.run({"x": x})
    assert np.array_equal(y, expected(x))
    model_read = read(tmp_path / BMODEL)
    assert [s.mode for s in model_read.nets[0].stages[0].subnets] == [0, 1, 0, 0]
    assert compared(toolkit, tmp_path)


def test_dynamic_with_parts_on_the_host(toolkit: Toolkit) -> None:
    g = mixed(toolkit)
    (stage,) = g.compile(dynamic=True).stages
    assert [type(s.body) for s in stage.subnets] == [DynamicBody, CpuBody, DynamicBody]
    for shape in (SHAPE, (1, 3, 4, 8), (2, 3, 1, 1)):
        x = sample(shape)
        (y,) = g.run({"x": x})
        assert np.array_equal(y, expected(x))


def test_a_static_subnet_refuses_another_shape(toolkit: Toolkit) -> None:
    """A model on the host that was said to keep its shape, and does not."""
    g = Graph(name="net", toolkit=toolkit)
    g.add_input("x", SHAPE)
    g.add_cpu_layer(model("ReduceMax", axes=[1]), ["x"], ["a"], [SHAPE], ["float32"])
    g.add_const_binary_layer("a", 1.0, "y", BINARY_ADD)
    g.compile()
    with pytest.raises(
        DeviceError, match=r"'a' of the shape \[2, 3, 9, 8\], which came out as \[2, 1, 9, 8\]"
    ):
        g.run({"x": sample()})


def test_a_varying_shape_runs_on_dynamically(toolkit: Toolkit) -> None:
    g = Graph(name="net", toolkit=toolkit)
    g.add_input("x", SHAPE)
    g.add_cpu_layer(model("ReduceMax", axes=[1]), ["x"], ["a"], [SHAPE], ["float32"], shape_varies=True)
    g.add_const_binary_layer("a", 1.0, "y", BINARY_ADD)
    g.compile()
    x = sample()
    (y,) = g.run({"x": x})
    assert np.array_equal(y, x.max(1, keepdims=True) + np.float32(1))


def test_types_that_the_device_has_not(toolkit: Toolkit) -> None:
    """int64 is int32 on the device, bool fp32; a value that does not fit is an error."""
    g = Graph(name="net", toolkit=toolkit)
    g.add_input("x", (4,), "int32")
    g.add_cpu_layer(model("Mul", 2, dtype=7, out=7, rank=1), ["x", "x"], ["y"], [(4,)], ["int32"])
    g.compile()
    (y,) = g.run({"x": np.array([1, -2, 3, 1 << 15], np.int32)})
    assert y.dtype == np.int32 and y.tolist() == [1, 4, 9, 1 << 30]
    with pytest.raises(DeviceError, match="o has values beyond the device's 32 bits"):
        g.run({"x": np.full(4, 1 << 20, np.int32)})
    g = Graph(name="net", toolkit=toolkit)
    g.add_input("x", (4,))
    g.add_cpu_layer(model("Not", dtype=9, out=9, rank=1), ["x"], ["y"], [(4,)], ["float32"])
    g.compile()
    (y,) = g.run({"x": np.array([0, 1, 1, 0], np.float32)})
    assert y.tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("part", "dtype", "error", "message"),
    [
        (b"no model", "float32", ModelError, "onnxruntime refuses its model"),
        (model("Floor", dtype=11, out=11), "float32", ModelError, "the inputs .'float64'., the net gives"),
        (model("Shape", out=7), "float32", ModelError, "the outputs .'int64'."),
        (model("Identity", dtype=8, out=8, rank=1), "float32", ModelError, r"tensor\(string\)"),
        (model("Add", 2), "float32", ModelError, "the inputs .'float32', 'float32'., the net gives"),
        (model("Floor", rank=2), "float32", DeviceError, r"i0 came out as .2, 3, 9, 8., its model declares"),
        (model("Floor", rank=0), "float32", DeviceError, r"its model declares \[\]"),
    ],
    ids=["no model", "double", "shape", "text", "two inputs", "other rank", "no dimensions"],
)
def test_models_that_do_not_fit(
    toolkit: Toolkit, part: bytes, dtype: str, error: type[TpulayerError], message: str
) -> None:
    g = Graph(name="net", toolkit=toolkit)
    g.add_input("x", SHAPE, dtype)
    g.add_cpu_layer(part, ["x"], ["y"], [SHAPE], [dtype])
    g.compile()
    with pytest.raises(error, match=message):
        g.run({"x": sample()})


def test_a_part_on_the_host_that_fails(toolkit: Toolkit) -> None:
    g = Graph(name="net", toolkit=toolkit)
    g.add_input("x", (2, 3))
    g.add_input("z", (4, 5))
    g.add_cpu_layer(model("MatMul", 2, rank=2), ["x", "z"], ["y"], [(2, 5)], ["float32"])
    g.compile()
    with pytest.raises(DeviceError, match="net 'net' stage 0 subnet 0: onnxruntime: "):
        g.run({"x": sample((2, 3)), "z": sample((4, 5))})


# ---- stages ----


def staged(toolkit: Toolkit, shape: tuple[int, ...], name: str = "net") -> Graph:
    g = Graph(name=name, toolkit=toolkit)
    g.add_input("x", shape)
    g.add_const("k", np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1))
    g.add_tpu_layer("TPU_BINARY", ["x", "k"], {"binary_op": BINARY_ADD}, ["y"])
    return g


@pytest.mark.parametrize("dynamic", [False, True])
def test_stages_are_chosen_by_shape(toolkit: Toolkit, tmp_path: Path, dynamic: bool) -> None:
    shapes = [(1, 3, 4, 4), (4, 3, 4, 4), (1, 3, 20, 20)]
    net = compile_stages([staged(toolkit, s) for s in shapes], dynamic=dynamic, directory=tmp_path)
    assert [s.inputs[0].shape for s in net.stages] == shapes
    assert compared(toolkit, tmp_path)
    with BModelRuntime(toolkit.device) as runtime:
        runtime.load(tmp_path / BMODEL)
        for i, shape in enumerate(shapes):
            x = sample(shape)
            ran = runtime.run("net", {"x": x})
            assert ran.stage == i
            assert np.array_equal(ran.outputs[0], x + np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1))
        if dynamic:
            ran = runtime.run("net", {"x": sample((2, 3, 3, 3))})
            assert ran.stage == 1
        else:
            with pytest.raises(UsageError, match=r"stage 0: input 'x' has the shape \[2, 3, 4, 4\]"):
                runtime.run("net", {"x": sample((2, 3, 4, 4))})


def test_stages_that_do_not_fit_together(toolkit: Toolkit, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="given are none"):
        combine_stages([])
    nets = [staged(toolkit, (1, 3, 4, 4), name).compile() for name in ("a", "b")]
    with pytest.raises(UsageError, match="given are 'a', 'b'"):
        combine_stages(nets)
    with pytest.raises(ModelError, match="the same input shapes"):
        save(tmp_path / "a.bmodel", combine_stages([nets[0], nets[0]]))
    assert not list(tmp_path.iterdir())


def test_a_folder_is_replaced_as_a_whole(toolkit: Toolkit, tmp_path: Path) -> None:
    graph = staged(toolkit, (1, 3, 4, 4))
    graph.compile(directory=tmp_path, report=True)
    assert (tmp_path / "report.json").exists()
    graph.compile(directory=tmp_path)
    names = {p.name for p in tmp_path.iterdir()}
    assert names - {"compilation.sites.npz"} == {
        "compilation.bmodel",
        "input_ref_data.dat",
        "output_ref_data.dat",
    }
    (tmp_path / BMODEL).unlink()
    (tmp_path / BMODEL).mkdir()  # cannot be replaced by a file
    with pytest.raises(UsageError, match="cannot write"):
        graph.compile(directory=tmp_path)
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".tmp")]
