"""Integers that are made at run time, packed weights, and integers of 16 bits: computed in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper

from tpulayer import Graph
from user_layers.onnx.build import build
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.load import from_proto
from user_layers.onnx.unrounded import AT_RUN_TIME, PACKED, SIXTEEN
from user_layers.quantize.quality import compared
from user_layers.quantize.rewrite import Int8
from user_layers.quantize.table import Range, Table
from user_layers.runtime.onnx_session import open_session
from user_layers.toolkit import Toolkit

ROWS, INNER, COLUMNS = 6, 40, 24
Array = npt.NDArray[Any]
make = helper.make_node


def model(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Any], shape: Sequence[int], outputs: str = "y"
) -> onnx.ModelProto:
    """From x to the outputs, of which nobody says the shapes."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    x = helper.make_tensor_value_info("x", 1, shape)
    made = [helper.make_tensor_value_info(name, 1, None) for name in outputs.split()]
    graph = helper.make_graph(list(nodes), "net", [x], made, tensors)
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=sets)


def ran(
    proto: onnx.ModelProto, toolkit: Toolkit, shape: Sequence[int]
) -> tuple[Array, list[Array], list[Array]]:
    """Random numbers, what onnxruntime makes of them, and the net, which is layers only."""
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    want = open_session(proto.SerializeToString()).run(None, {"x": x})
    made = Graph.from_onnx(proto, toolkit=toolkit)
    made.compile()
    return x, want, made.run({"x": x})


def told(proto: onnx.ModelProto, toolkit: Toolkit) -> tuple[tuple[str, ...], list[str]]:
    """What was integers, and the operations on the host."""
    built = build(from_proto(proto), "net", toolkit=toolkit)
    return built.narrow, [node.op for part in built.parts if part.on_cpu for node in part.nodes]


def scaled(name: str, product: str, factor: str, made: str) -> list[onnx.NodeProto]:
    """A product of integers in float, as onnxruntime's quantiser writes it."""
    return [
        make("Mul", ["s", factor], [f"{name}_scale"]),
        make("Cast", [product], [f"{name}_float"], to=1),
        make("Mul", [f"{name}_float", f"{name}_scale"], [made]),
    ]


DYNAMIC = make("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])


@pytest.mark.parametrize("zero", [None, 3, list(range(COLUMNS))])
def test_products_with_scales_of_run_time(toolkit: Toolkit, zero: Any) -> None:
    """Three read the same integers, as attention's do; weights with one zero point, several or none."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {"zw": np.asarray(zero or 0, np.int8)}
    nodes = [DYNAMIC]
    for name in "abc":
        # Of 7 bits: onnxruntime saturates sums of two products with zero points on processors without VNNI.
        constants[f"w{name}"] = rng.integers(-63, 64, (INNER, COLUMNS)).astype(np.int8)
        constants[f"f{name}"] = rng.uniform(0.01, 0.02, COLUMNS).astype(np.float32)
        inputs = ["q", f"w{name}", "z", *(["zw"] if zero is not None else [])]
        nodes += [
            make("MatMulInteger", inputs, [f"p{name}"]),
            *scaled(name, f"p{name}", f"f{name}", f"y{name}"),
        ]
    proto = model(nodes, constants, [2, ROWS, INNER], "ya yb yc")
    x, want, got = ran(proto, toolkit, [2, ROWS, INNER])
    for name, theirs, mine in zip("abc", want, got, strict=True):
        weights = (constants[f"w{name}"] - constants["zw"].astype(np.float64)) * constants[f"f{name}"]
        np.testing.assert_allclose(
            mine, x.astype(np.float64) @ weights, rtol=0, atol=2e-6 * np.abs(mine).max()
        )
        assert 30 < compared(theirs, mine).sqnr < 60  # their rounding
    assert told(proto, toolkit) == ((AT_RUN_TIME,), [])


def test_convolutions_with_scales_of_run_time(toolkit: Toolkit) -> None:
    """Pads count from the zero point; a scale for each channel of the weights."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "w": rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8),
        "f": rng.uniform(0.01, 0.02, (1, 8, 1, 1)).astype(np.float32),
        "b": rng.standard_normal((1, 8, 1, 1)).astype(np.float32),
    }
    nodes = [
        DYNAMIC,
        make("ConvInteger", ["q", "w", "z"], ["p"], pads=[1] * 4, strides=[2, 2]),
        *scaled("c", "p", "f", "c"),
        make("Add", ["c", "b"], ["y"]),
    ]
    proto = model(nodes, constants, [1, 3, 12, 12])
    _, (want,), (got,) = ran(proto, toolkit, [1, 3, 12, 12])
    assert compared(want, got).sqnr > 30
    plain = model(
        [make("Conv", ["x", "v"], ["c"], pads=[1] * 4, strides=[2, 2]), make("Add", ["c", "b"], ["y"])],
        {"v": constants["w"] * constants["f"].reshape(8, 1, 1, 1), "b": constants["b"]},
        [1, 3, 12, 12],
    )
    np.testing.assert_allclose(got, ran(plain, toolkit, [1, 3, 12, 12])[1][0], atol=1e-5)
    assert told(proto, toolkit) == ((AT_RUN_TIME,), [])


def test_two_that_are_made_at_run_time(toolkit: Toolkit) -> None:
    nodes = [
        make("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        DYNAMIC,
        make("DynamicQuantizeLinear", ["t"], ["qt", "st", "zt"]),
        make("MatMulInteger", ["q", "qt", "z", "zt"], ["p"]),
        *scaled("p", "p", "st", "y"),
    ]
    proto = model(nodes, {}, [2, ROWS, INNER])
    x, (want,), (got,) = ran(proto, toolkit, [2, ROWS, INNER])
    np.testing.assert_allclose(got, x @ x.transpose(0, 2, 1), rtol=0, atol=1e-4)
    assert compared(want, got).sqnr > 30
    assert told(proto, toolkit) == ((AT_RUN_TIME,), [])


LOOKED_AT = {
    "the integers": [make("Cast", ["q"], ["o"], to=1)],
    "the scale": [make("Identity", ["s"], ["o"])],
    "the zero point": [make("Cast", ["z"], ["o"], to=1)],
    "the product": [make("Cast", ["p"], ["o"], to=1)],
    "the factor": [make("Neg", ["c_scale"], ["o"])],
}


@pytest.mark.parametrize("what", LOOKED_AT)
def test_what_others_look_at_stays(toolkit: Toolkit, what: str) -> None:
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "w": rng.integers(-127, 128, (INNER, COLUMNS)).astype(np.int8),
        "f": rng.uniform(0.01, 0.02, COLUMNS).astype(np.float32),
    }
    product = make("MatMulInteger", ["q", "w", "z"], ["p"])
    proto = model(
        [DYNAMIC, product, *scaled("c", "p", "f", "y"), *LOOKED_AT[what]], constants, [ROWS, INNER], "y o"
    )
    _, want, got = ran(proto, toolkit, [ROWS, INNER])
    for theirs, mine in zip(want, got, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
    narrow, host = told(proto, toolkit)
    assert narrow == () and "DynamicQuantizeLinear" in host


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("op", ["MatMulIntegerToFloat", "DynamicQuantizeMatMul"])
def test_onnxruntimes_own_products(toolkit: Toolkit, op: str, bias: bool) -> None:
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "w": rng.integers(0, 256, (INNER, COLUMNS)).astype(np.uint8),
        "f": np.float32(0.01), "o": np.uint8(130), "b": rng.standard_normal(COLUMNS).astype(np.float32),
    }  # fmt: skip
    last = ["b"] if bias else []
    if op == "DynamicQuantizeMatMul":
        nodes = [make(op, ["x", "w", "f", "o", *last], ["y"], domain="com.microsoft")]
    else:
        inputs = ["q", "w", "s", "f", "z", "o", *last]
        nodes = [DYNAMIC, make(op, inputs, ["y"], domain="com.microsoft")]
    proto = model(nodes, constants, [ROWS, INNER])
    x, (want,), (got,) = ran(proto, toolkit, [ROWS, INNER])
    weights = (constants["w"].astype(np.float64) - 130) * 0.01
    np.testing.assert_allclose(got, x @ weights + (constants["b"] if bias else 0), rtol=0, atol=1e-4)
    assert compared(want, got).sqnr > 30
    assert told(proto, toolkit) == ((AT_RUN_TIME,), [])


@pytest.mark.parametrize(
    ("bits", "points"), [(4, "none"), (4, "packed"), (4, "float"), (8, "none"), (8, "packed")]
)
@pytest.mark.parametrize("inner", [64, 72])
def test_packed_weights(toolkit: Toolkit, bits: int, points: str, inner: int) -> None:
    """Blocks of 32 rows, the last one perhaps not full. By plain loops here."""
    rng = np.random.default_rng(0)
    block, blocks, most = 32, -(-inner // 32), (1 << bits) - 1
    numbers = rng.integers(0, most + 1, (COLUMNS, blocks, block))
    zeros = rng.integers(0, most + 1, (COLUMNS, blocks))
    steps = rng.uniform(0.01, 0.02, (COLUMNS, blocks)).astype(np.float32)

    def packed(values: Array) -> Any:
        row = values.reshape(len(values), -1)
        if bits == 8:
            return row.astype(np.uint8)
        row = np.pad(row, ((0, 0), (0, row.shape[1] % 2)))
        return (row[:, ::2] | row[:, 1::2] << 4).astype(np.uint8)

    constants: dict[str, Any] = {"w": packed(numbers).reshape(COLUMNS, blocks, -1), "s": steps.reshape(-1)}
    base = np.full((COLUMNS, blocks), 1 << (bits - 1), np.float64)
    if points == "packed":
        constants["z"], base = packed(zeros).reshape(-1), zeros.astype(np.float64)
    elif points == "float":
        constants["z"], base = zeros.astype(np.float32), zeros.astype(np.float64)
    matrix = np.zeros((inner, COLUMNS))
    for column in range(COLUMNS):
        for row in range(inner):
            at = column, row // block
            matrix[row, column] = (numbers[column, row // block, row % block] - base[at]) * steps[at]
    inputs = ["x", "w", "s", *(["z"] if points != "none" else [])]
    sizes = {"K": inner, "N": COLUMNS, "bits": bits, "block_size": block}
    proto = model(
        [make("MatMulNBits", inputs, ["y"], domain="com.microsoft", **sizes)], constants, [1, ROWS, inner]
    )
    x, (want,), (got,) = ran(proto, toolkit, [1, ROWS, inner])
    np.testing.assert_allclose(got, x @ matrix, rtol=0, atol=1e-4)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)
    assert told(proto, toolkit) == ((PACKED,), [])


def test_packed_weights_of_a_model_in_float16(toolkit: Toolkit) -> None:
    """As language models are published; a clip that integers made stands beside."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "w": rng.integers(0, 256, (COLUMNS, 2, 16)).astype(np.uint8),
        "s": rng.uniform(0.01, 0.02, COLUMNS * 2).astype(np.float16),
        "ys": np.float16(6 / 255), "yz": np.uint8(0),
    }  # fmt: skip
    sizes = {"K": 64, "N": COLUMNS, "bits": 4, "block_size": 32}
    nodes = [
        make("MatMulNBits", ["x", "w", "s"], ["p"], domain="com.microsoft", **sizes),
        make("QuantizeLinear", ["p", "ys", "yz"], ["q"]),
        make("DequantizeLinear", ["q", "ys", "yz"], ["y"]),
    ]
    proto = model(nodes, constants, [1, ROWS, 64])
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    x = rng.standard_normal((1, ROWS, 64)).astype(np.float16)
    numbers = np.stack([constants["w"] & 15, constants["w"] >> 4], -1).reshape(COLUMNS, 2, 32)
    matrix = (numbers - 8.0) * constants["s"].astype(float).reshape(COLUMNS, 2, 1)
    want = np.clip(x.astype(float) @ matrix.reshape(COLUMNS, 64).T, 0, 6)
    made = Graph.from_onnx(proto, toolkit=toolkit)
    made.compile()
    (got,) = made.run({"x": x})
    assert got.dtype == np.float16
    assert compared(want, got).sqnr > 28


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize(
    ("zero", "scale", "ends"),
    [
        (np.uint16(0), 6 / 65535, (0, 6)),
        (np.int16(-32768), 1 / 65535, (0, 1)),
        (np.uint16(32768), 2 / 65535, (-1, 1)),
        (np.uint16(0), 0.0001234, (0, np.inf)),
        (np.int16(5), 0.0003, (-np.inf, np.inf)),
    ],
)
def test_sixteen_bits(
    toolkit: Toolkit, domain: str, zero: Any, scale: float, ends: tuple[float, float]
) -> None:
    """What such integers cut, because a quantiser left it to them, is cut in float too."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "w": rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8), "ws": np.full(8, 0.01, np.float32),
        "wz": np.zeros(8, np.int8), "s": np.float32(scale), "z": zero,
        "xs": np.float32(0.0002), "xz": np.uint16(32768),
    }  # fmt: skip
    nodes = [
        make("QuantizeLinear", ["x", "xs", "xz"], ["xq"], domain=domain),
        make("DequantizeLinear", ["xq", "xs", "xz"], ["xd"], domain=domain),
        make("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        make("Conv", ["xd", "wd"], ["c"], pads=[1] * 4),
        make("QuantizeLinear", ["c", "s", "z"], ["cq"], domain=domain),
        make("DequantizeLinear", ["cq", "s", "z"], ["y"], domain=domain),
    ]
    proto = model(nodes, constants, [1, 3, 10, 10])
    x, (want,), (got,) = ran(proto, toolkit, [1, 3, 10, 10])
    plain = model(
        [make("Conv", ["x", "v"], ["y"], pads=[1] * 4)], {"v": constants["w"] * np.float32(0.01)}, x.shape
    )
    wide = ran(plain, toolkit, x.shape)[1][0]
    np.testing.assert_allclose(got, np.clip(wide, *ends), rtol=0, atol=1e-5)
    seen = np.abs(wide) < 8
    np.testing.assert_allclose(got[seen], want[seen], rtol=0, atol=0.02)
    assert told(proto, toolkit) == ((SIXTEEN,), [])


def test_weights_alone_with_a_scale_for_each_channel(toolkit: Toolkit) -> None:
    """Without a zero point, along either axis; these are no rounding of anything that is computed."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "w": rng.integers(-127, 128, (INNER, COLUMNS)).astype(np.int8),
        "s0": rng.uniform(0.01, 0.02, INNER).astype(np.float32),
        "s1": rng.uniform(0.01, 0.02, COLUMNS).astype(np.float32),
    }
    nodes = [
        make("DequantizeLinear", ["w", "s0"], ["a"], axis=0),
        make("DequantizeLinear", ["w", "s1"], ["b"], axis=-1),
        make("MatMul", ["x", "a"], ["y"]),
        make("MatMul", ["x", "b"], ["o"]),
    ]
    proto = model(nodes, constants, [ROWS, INNER], "y o")
    x, _, got = ran(proto, toolkit, [ROWS, INNER])
    np.testing.assert_allclose(got[0], x @ (constants["w"] * constants["s0"][:, None]), atol=1e-4)
    np.testing.assert_allclose(got[1], x @ (constants["w"] * constants["s1"]), atol=1e-4)
    assert told(proto, toolkit) == ((), [])


def test_what_is_said(toolkit: Toolkit, tmp_path: Path) -> None:
    """The net is right beside the model in float32; how far the model's own rounding is away is told."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "w": rng.integers(-127, 128, (INNER, COLUMNS)).astype(np.int8),
        "f": rng.uniform(0.01, 0.02, COLUMNS).astype(np.float32),
    }
    nodes = [DYNAMIC, make("MatMulInteger", ["q", "w", "z"], ["p"]), *scaled("c", "p", "f", "y")]
    onnx.save(model(nodes, constants, [ROWS, INNER]), tmp_path / "net.onnx")
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "net.onnx", tmp_path / "out"), lines.append, toolkit)
    assert f"{AT_RUN_TIME} in the model: all of it is computed in float32" in lines
    (equal,) = (line for line in lines if line.startswith("y equals onnxruntime's within "))
    assert float(equal.split()[4]) < 1e-6
    (own,) = (line for line in lines if line.startswith("onnxruntime in the model's own types is "))
    assert 1e-4 < float(own.split()[7]) < 0.1
    table = Table({"x": Range(-4, 4, 4), "y": Range(-5, 5, 5)})
    told_of: list[str] = []
    options = CompileOptions(tmp_path / "net.onnx", tmp_path / "int8", int8=Int8(table))
    assert run(options, told_of.append, toolkit)
    (own,) = (line for line in told_of if line.startswith("onnxruntime in the model's own types is "))
    assert 1e-4 < float(own.split()[7]) < 0.1
    assert any("dB of signal over what 8 bits add" in line for line in told_of)


@pytest.mark.parametrize("columns", [False, True])
def test_recurrent_layers(toolkit: Toolkit, columns: bool) -> None:
    """DynamicQuantizeLSTM has its matrices turned, one scale for each direction or each column."""
    rng = np.random.default_rng(0)
    hidden, steps, inner = 5, 4, 7
    around = (2, 4 * hidden) if columns else (2,)
    constants: dict[str, Any] = {"b": rng.standard_normal((2, 8 * hidden)).astype(np.float32)}
    for name, rows in (("w", inner), ("r", hidden)):
        kind: Any = np.int8 if columns else np.uint8  # onnxruntime has no zero points with several scales
        constants[name] = rng.integers(0, 256, (2, rows, 4 * hidden)).astype(kind)
        constants[f"{name}s"] = rng.uniform(0.003, 0.006, around).astype(np.float32)
        constants[f"{name}z"] = (rng.integers(120, 136, around) * (not columns)).astype(kind)
    last = ["b", "", "", "", "", "ws", "wz", "rs", "rz"]
    how = {"hidden_size": hidden, "direction": "bidirectional"}
    one = make("DynamicQuantizeLSTM", ["x", "w", "r", *last], ["y"], domain="com.microsoft", **how)
    shape = [steps, 2, inner]
    proto = model([one], constants, shape)
    _, (want,), (got,) = ran(proto, toolkit, shape)
    assert compared(want, got).sqnr > 30
    wide = {"b": constants["b"]}
    for name in "wr":
        step, zero = (constants[f"{name}{k}"].astype(np.float32).reshape(2, 1, -1) for k in "sz")
        wide[name] = ((constants[name] - zero) * step).transpose(0, 2, 1)
    plain = model([make("LSTM", ["x", "w", "r", "b"], ["y"], **how)], wide, shape)
    np.testing.assert_allclose(got, ran(plain, toolkit, shape)[1][0], rtol=0, atol=1e-5)
    assert told(proto, toolkit) == ((AT_RUN_TIME,), [])


def test_rows_of_a_table_of_integers(toolkit: Toolkit) -> None:
    """Embeddings, which are weights alone: nothing of the net is in 8 bits for them."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "t": rng.integers(0, 256, (50, INNER)).astype(np.uint8), "s": np.float32(0.01), "z": np.uint8(120),
    }  # fmt: skip
    nodes = [
        make("Cast", ["x"], ["i"], to=7),
        make("Gather", ["t", "i"], ["r"]),
        make("DequantizeLinear", ["r", "s", "z"], ["d"]),
        make("Softmax", ["d"], ["y"]),
    ]
    x = rng.integers(0, 50, (2, ROWS)).astype(np.float32)
    proto = model(nodes, constants, x.shape)
    built = build(from_proto(proto), "net", toolkit=toolkit)
    assert built.quantised is None and not built.on_cpu
    made = Graph.from_onnx(proto, toolkit=toolkit)
    made.compile()
    (want,) = open_session(proto.SerializeToString()).run(None, {"x": x})
    (got,) = made.run({"x": x})
    assert float(np.abs(got.astype(np.float64) - want).max()) < 1e-6
