"""Quantized TFLite models: in ONNX's words with the file's scales, and in 8-bit layers of the chip."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError, ModelError
from tests.support.tflite_models import Net, to_bytes
from tests.support.tflite_nets import mobilenet_v2, resnet
from tests.support.tflite_quantised import (
    images,
    in_integers,
    in_numbers,
    quantised,
    up_to_scores,
    without_optimizer,
)
from tests.support.tflite_zoo import ZOO
from tests.support.workspaces import tpulayer
from user_layers.delegates.compile import compile_partition
from user_layers.formats import in_onnx
from user_layers.onnx.check import random_inputs, reference
from user_layers.onnx.compile import CompiledModel, compile_model
from user_layers.quantize.quality import Sums, compared
from user_layers.runtime.references import load_net
from user_layers.spelling.spell import spell
from user_layers.tflite.integers import read_model
from user_layers.tflite.read import read_tflite
from user_layers.tflite.spellings import TFLITE
from user_layers.toolkit import Toolkit

NETS: dict[str, Callable[[], bytes]] = {
    "resnet": lambda: resnet(32, 8, 10)[0],
    "mobilenet_v2": lambda: mobilenet_v2(32, 0.25, 10)[0],
    "mobilenet_v3": ZOO["mobilenet_v3"],
    "efficientnet": ZOO["efficientnet"],
    "keywords": ZOO["keywords"],
}


def compiled(path: Path, toolkit: Toolkit, dynamic: bool = False) -> CompiledModel:
    proto, source = in_onnx(path)
    return compile_model(
        proto, dynamic=dynamic, shapes=None, stages=(), opt=2, custom=None, cpu=True, check=True,
        report=False, name="net", layers=False, int8=None, toolkit=toolkit, source=source,
    )  # fmt: skip


@pytest.mark.parametrize("how", ["float edges", "int8", "uint8"])
@pytest.mark.parametrize("kind", NETS)
def test_a_model_in_integers(kind: str, how: str, tmp_path: Path, toolkit: Toolkit) -> None:
    """All that multiplies is in 8 bits, near to what the file's own integers and the float model give."""
    model = up_to_scores(NETS[kind]())
    data = quantised(model, images(model, 4), edges=how != "float edges", unsigned=how == "uint8")
    path = tmp_path / "net.tflite"
    path.write_bytes(data)
    made = compiled(path, toolkit, how == "uint8")
    assert not any(line.startswith("on the CPU") for line in made.lines)
    assert any("100.0% of the MACs" in line for line in made.lines)
    file, floats, whole = Sums(), Sums(), Sums()
    with load_net(made.net, toolkit) as runtime:
        for given in images(model, 8, 9):
            fed = in_integers(data, given)
            (got,) = in_numbers(data, runtime.launch("net", fed))
            (own,) = in_numbers(data, without_optimizer(in_onnx(path)[0], fed))
            (want,) = without_optimizer(spell(model, TFLITE).proto, given)
            file.add(want, own)
            floats.add(want, got)
            whole.add(own, got)
    lost = min(file.sqnr, 30)
    assert floats.sqnr > lost - 4 and whole.sqnr > min(lost, 27) - 4


def conv(dtype: str = "int8", scales: tuple[float, ...] = (0.5,), kind: str = "CONV_2D") -> Net:
    """A convolution of one tap with relu between tensors of a type."""
    net = Net()
    x = net.input((1, 4, 4, 2), dtype, "x")
    weights = net.const(np.arange(-3, 3, dtype=np.int8).reshape(3, 1, 1, 2))
    told: Any = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1, "padding": 1}
    y = net.op(kind, [x, weights], (1, 4, 4, 3), dtype=dtype, **told, fused_activation_function=1)
    net.tensors[weights].scales, net.tensors[weights].zeros = (0.1, 0.2, 0.3), (0, 0, 0)
    if dtype != "float32":
        net.tensors[x].scales, net.tensors[x].zeros = scales, (3,) * len(scales)
        net.tensors[y].scales, net.tensors[y].zeros = (0.25,), (-128,)
    net.outputs = [y]
    return net


def read(net: Net, folder: Path) -> Any:
    (folder / "net.tflite").write_bytes(to_bytes(net))
    return read_model(folder / "net.tflite")


def test_the_files_scales_in_onnxs_words(tmp_path: Path) -> None:
    model = read(conv(), tmp_path)
    assert [op.kind for op in model.operations] == ["DEQUANTIZE", "CONV_2D", "QUANTIZE"]
    assert model.notes == ("quantized model: 2 tensors in 8 bits",)
    proto = spell(model, TFLITE).proto
    ops = [node.op_type for node in proto.graph.node]
    assert [op for op in ops if op not in ("Transpose", "Identity")] == [
        "DequantizeLinear", "Conv", "Relu", "QuantizeLinear",
    ]  # fmt: skip
    x = np.random.default_rng(0).integers(-128, 128, (1, 4, 4, 2)).astype(np.int8)
    (got,) = without_optimizer(proto, {"x": x})
    w = np.arange(-3, 3).reshape(3, 2) * np.array([[0.1], [0.2], [0.3]])
    want = np.clip(np.rint(np.maximum((x - 3.0) * 0.5 @ w.T, 0) / 0.25) - 128, -128, 127)
    assert got.dtype == np.int8 and np.abs(got - want).max() <= 1


def test_weights_alone_are_numbers(tmp_path: Path) -> None:
    model = read(conv("float32"), tmp_path)
    assert [op.kind for op in model.operations] == ["CONV_2D"]
    assert model.notes[0].startswith("quantized weights are computed with in float")
    assert model.tensors["t1"].data is not None and model.tensors["t1"].data.dtype == np.float32


def test_what_is_not_in_8_bits_says_so(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="is quantized in 16 bits; 8-bit integers are computed here"):
        spell(read(conv("int16"), tmp_path), TFLITE)
    with pytest.raises(CompileError, match="'x' is quantized with several scales"):
        spell(read(conv(scales=(0.5, 0.25)), tmp_path), TFLITE)
    net = conv()
    net.tensors[1].scales, net.tensors[1].zeros = (0.1, 0.2), (0, 0)
    with pytest.raises(ModelError, match="2 scales and 2 zero points for axis 0"):
        read(net, tmp_path)


def test_what_looks_at_integers_gets_them(tmp_path: Path) -> None:
    net = Net()
    x = net.input((2, 3), "int8", "x")
    net.tensors[x].scale = 0.5
    net.outputs = [net.op("CAST", [x], (2, 3)), net.op("NEG", [net.op("DEQUANTIZE", [x], (2, 3))], (2, 3))]
    model = read(net, tmp_path)
    values = np.arange(6, dtype=np.int8).reshape(2, 3)
    cast, negative = without_optimizer(spell(model, TFLITE).proto, {"x": values})
    assert np.array_equal(cast, values) and np.array_equal(negative, -0.5 * values)


def test_the_distance_that_is_told_is_from_the_files_own_numbers(tmp_path: Path, toolkit: Toolkit) -> None:
    """onnxruntime's optimizer would compute otherwise than the file says; zero points are no signal."""
    model = up_to_scores(NETS["mobilenet_v2"]())
    data = quantised(model, images(model, 4))
    path = tmp_path / "net.tflite"
    path.write_bytes(data)
    proto, source = in_onnx(path)
    assert source is not None
    given = random_inputs(source.load(proto))
    want = without_optimizer(proto, given)
    assert np.array_equal(reference(source.load(proto), given, plain=True)[0], want[0])
    made = compiled(path, toolkit)
    with load_net(made.net, toolkit) as runtime:
        got = runtime.launch("net", given)
    apart = compared(in_numbers(data, want)[0], in_numbers(data, got)[0]).sqnr
    (line,) = (line for line in made.lines if "dB of signal" in line)
    assert f": {apart:.1f} dB of signal" in line


def test_the_commands(tmp_path: Path) -> None:
    """A quantized file is compiled in integers without a table, and evaluated beside its float numbers."""
    model = up_to_scores(NETS["resnet"]())
    data = quantised(model, images(model, 4), edges=False)
    (tmp_path / "net.tflite").write_bytes(data)
    said = tpulayer("compile", "net.tflite", "-o", "out", cwd=tmp_path).stdout
    assert "quantized model: " in said and "100.0% of the MACs" in said
    ((name, given),) = images(model, 1, 5)[0].items()
    np.save(tmp_path / "data.npy", given)
    told = json.loads(tpulayer("evaluate", "out", "--data", "data.npy", "--json", cwd=tmp_path).stdout)
    (score,) = told["outputs"].values()
    (own,) = without_optimizer(in_onnx(tmp_path / "net.tflite")[0], {name: given})
    (want,) = without_optimizer(spell(model, TFLITE).proto, {name: given})
    assert score["sqnr"] > compared(want, own).sqnr - 4


def test_a_partition_in_strips_knows_its_operations(tmp_path: Path, toolkit: Toolkit) -> None:
    """Layers that only cut pictures into strips of rows belong to the operation beside them."""
    model = up_to_scores(NETS["mobilenet_v3"]())
    (tmp_path / "net.tflite").write_bytes(quantised(model, images(model, 4)))
    whole = read_tflite(tmp_path / "net.tflite")
    partition = compile_partition(whole, TFLITE, name="net", toolkit=toolkit)
    assert any(layer.name.startswith("strips_") for layer in partition.layers)
    assert all(layer.operations and layer.cycles >= 0 for layer in partition.layers)
    kinds = {whole.operations[index].kind for layer in partition.layers for index in layer.operations}
    assert {"CONV_2D", "DEPTHWISE_CONV_2D"} <= kinds
