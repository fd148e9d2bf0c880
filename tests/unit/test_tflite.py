"""TFLite files: what is read, composites and own layers, damage; spelled models run by onnxruntime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError, ModelError, UsageError
from tests.support.tflite_models import Net, tflite, to_bytes
from user_layers.bmrt.reference_data import load_npz
from user_layers.delegates import litert_command
from user_layers.onnx.model import CUSTOM_DOMAIN
from user_layers.spelling.foreign import Array, ForeignModel
from user_layers.spelling.page import page_path
from user_layers.spelling.spell import spell
from user_layers.tflite.page import PAGE, with_operations
from user_layers.tflite.read import custom_options, read_tflite
from user_layers.tflite.spellings import TFLITE, from_message
from user_layers.tflite.stored import stored as stored_by_plugin

_ONES = {"stride_h": 1, "stride_w": 1, "padding": 1}
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")


def _random(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _pair() -> Net:
    """A convolution, and the mean of what it makes."""
    net = Net()
    x = net.input((1, 4, 4, 2), name="serving_x:0")
    weights, bias = net.const(_random(3, 1, 1, 2)), net.const(_random(3))
    told: Any = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1, "padding": 1}
    y = net.op("CONV_2D", [x, weights, bias], (1, 4, 4, 3), **told, fused_activation_function=1)
    net.outputs = [net.op("MEAN", [y, net.const([1, 2], "int32")], (1, 3), keep_dims=False)]
    return net


def _run(model: ForeignModel, *inputs: Array) -> list[Array]:
    """The outputs of a spelled model whose borders are the framework's."""
    session = onnxruntime.InferenceSession(spell(model, TFLITE).proto.SerializeToString())
    found: list[Array] = session.run(None, dict(zip(model.inputs, inputs, strict=True)))
    return found


def test_a_model_is_read_with_the_names_of_its_signature(tmp_path: Path) -> None:
    net = _pair()
    path = tmp_path / "pair.tflite"
    path.write_bytes(to_bytes(net, signature={"image": net.inputs[0], "mean": net.outputs[0]}))
    model = read_tflite(path)
    assert (model.what, model.name, model.inputs, model.outputs) == ("TFLite", "pair", ("image",), ("mean",))
    conv, mean = model.operations
    assert (conv.kind, conv.inputs, conv.name) == ("CONV_2D", ("image", "t1", "t2"), "t3")
    assert conv.attributes["fused_activation_function"] == 1 and conv.attributes["stride_w"] == 1
    assert mean.outputs == ("mean",)
    weights = model.tensors["t1"]
    assert weights.shape == (3, 1, 1, 2) and weights.dtype == np.float32
    np.testing.assert_array_equal(weights.data, _random(3, 1, 1, 2))
    given = _random(1, 4, 4, 2)
    want = np.maximum(given @ _random(3, 1, 1, 2)[:, 0, 0].T + _random(3), 0).mean((1, 2))
    np.testing.assert_allclose(_run(model, given)[0], want, rtol=1e-5)


def test_without_a_signature_tensors_keep_their_names_and_twins_are_told_apart() -> None:
    net = Net()
    x = net.input((2,), name="x")
    y = net.input((2,), name="x")
    net.outputs = [net.op("SUB", [x, y], (2,))]
    model = read_tflite(to_bytes(net))
    assert (model.inputs, model.outputs, model.name) == (("x", "x#1"), ("t2",), "net")


def test_a_composite_is_what_it_is_made_of() -> None:
    inner = Net("inner")
    a, b = inner.input((2, 3)), inner.input((3,))
    inner.outputs = [inner.op("RELU", [inner.op("MUL", [a, b], (2, 3))], (2, 3))]
    outer = Net()
    x = outer.input((2, 3), name="x")
    made = outer.op(
        "STABLEHLO_COMPOSITE",
        [x, outer.const(_random(3))],
        (2, 3),
        name="odml.something",
        decomposition_subgraph_index=1,
    )
    outer.outputs = [outer.op("NEG", [made], (2, 3))]
    model = read_tflite(to_bytes(outer, inner))
    assert [operation.kind for operation in model.operations] == ["MUL", "RELU", "NEG"]
    given = _random(2, 3)
    np.testing.assert_array_equal(_run(model, given)[0], -np.maximum(given * _random(3), 0))


def test_a_composite_in_itself_is_refused() -> None:
    inner = Net("inner")
    told: Any = {"name": "endless", "decomposition_subgraph_index": 1}
    inner.outputs = [inner.op("STABLEHLO_COMPOSITE", [inner.input((2,))], (2,), **told)]
    outer = Net()
    outer.outputs = [outer.op("STABLEHLO_COMPOSITE", [outer.input((2,))], (2,), **told)]
    with pytest.raises(ModelError, match="has no decomposition of its own"):
        read_tflite(to_bytes(outer, inner))


def test_a_custom_operation_is_a_layer_with_its_parameters_by_name() -> None:
    net = Net()
    x = net.input((1, 2, 3, 4), name="x")
    net.outputs = [net.op("TPU_CROP", [x], (1, 1, 3, 4), custom=True, before=[0, 1, 0, 0], factor=2.5)]
    model = read_tflite(to_bytes(net))
    (crop,) = model.operations
    assert (crop.kind, crop.own) == ("TPU_CROP", True)
    assert crop.attributes == {"before": (0, 1, 0, 0), "factor": 2.5}
    (node,) = spell(model, TFLITE).proto.graph.node
    assert (node.op_type, node.domain, list(node.input)) == ("TPU_CROP", CUSTOM_DOMAIN, ["x"])


def test_parameters_in_a_message_are_decoded() -> None:
    from flatbuffers import flexbuffers

    net = Net()
    net.outputs = [net.op("TPU_X", [net.input((2,))], (2,), custom=True, scale=3)]
    model = read_tflite(to_bytes(net))
    (operation,) = model.operations
    sent = replace(operation, attributes={"custom_options": bytes(flexbuffers.Dumps({"scale": 3}))})
    assert from_message(replace(model, operations=(sent,))) == model
    assert custom_options(b"") == {}
    with pytest.raises(ValueError, match="not a map"):
        custom_options(bytes(flexbuffers.Dumps([1, 2])))


def test_parameters_in_a_format_of_their_own_only_keep_that_operation_from_being_a_layer() -> None:
    net = Net()
    x = net.op("NEG", [net.input((2,))], (2,))
    net.outputs = [net.op("TheirOp", [x], (2,), custom=True)]
    net.ops[-1].raw = raw = b"\1\0\0\0\xff\0\0\0"
    model = read_tflite(to_bytes(net))
    negative, theirs = model.operations
    assert (theirs.own, theirs.attributes) == (True, {"custom_options": raw})
    assert _run(model.part((0,)), np.ones(2, np.float32))[0].tolist() == [-1, -1]
    assert from_message(replace(model, operations=(negative, replace(theirs, odd="")))) == model
    with pytest.raises(CompileError, match="TFLite TheirOp t2: its parameters are not "):
        spell(model, TFLITE)


def test_sparse_tensors_are_no_numbers() -> None:
    """Their buffers hold fewer elements than their shapes say, or other ones."""
    net = Net()
    for elements in (np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int8)):
        weights = net.const(elements)
        net.tensors[weights].sparse, net.tensors[weights].data = True, elements.tobytes()[:2]
        net.outputs.append(net.op("DENSIFY", [weights], (2, 3), dtype=str(elements.dtype)))
    net.tensors[weights].scale = 0.5
    model = read_tflite(to_bytes(net))
    assert [model.tensors[op.inputs[0] or ""].odd for op in model.operations] == [
        "is stored sparsely, which is not read"
    ] * 2
    net.outputs = [net.op("DEQUANTIZE", [weights], (2, 3))]
    with pytest.raises(CompileError, match="DEQUANTIZE t4: 't2' is stored sparsely"):
        spell(read_tflite(to_bytes(net)), TFLITE)


def test_quantized_tensors_are_no_numbers() -> None:
    net = Net()
    x = net.input((2,), "int8", name="x")
    net.tensors[x].scale = 0.5
    net.outputs = [net.op("RELU", [x], (2,), dtype="int8")]
    model = read_tflite(to_bytes(net))
    assert model.tensors["x"].dtype is None
    net.tensors[x].scales, net.tensors[x].zeros = (0.5, 0.25), (0, 0)
    net.outputs = [net.op("SQUEEZE", [x], (2,))]
    with pytest.raises(CompileError, match="TFLite net: 'x' is quantized with several scales"):
        spell(read_tflite(to_bytes(net)), TFLITE)


@pytest.mark.parametrize(("scales", "zeros", "axis"), [((0.5,), (3,), 0), ((0.5, 2.0, 0.25), (0, 1, 2), 1)])
def test_stored_weights_are_numbers_for_their_dequantize_alone(
    scales: tuple[float, ...], zeros: tuple[int, ...], axis: int
) -> None:
    net, elements = Net(), np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    x = net.input((2, 3))
    stored = net.const(elements)
    told = net.tensors[stored]
    told.scales, told.zeros, told.axis = scales, zeros, axis
    weights = net.op("DEQUANTIZE", [stored], (4, 3))
    net.outputs = [net.op("FULLY_CONNECTED", [x, weights], (2, 4), fused_activation_function=0)]
    model = read_tflite(to_bytes(net))
    assert model.tensors["t1"].dtype is None and model.tensors["t1"].odd.startswith("is quantized")
    want = (elements - np.array(zeros, np.float32)) * np.array(scales, np.float32)
    (got,) = _run(model, _random(2, 3))
    np.testing.assert_allclose(got, _random(2, 3) @ want.T, rtol=1e-5)
    sent = stored_by_plugin(elements, np.array(scales, np.float32), np.array(zeros), axis)
    dequantize = replace(model.operations[0], inputs=(), attributes=sent)
    message = replace(model, operations=(dequantize, model.operations[1]))
    np.testing.assert_array_equal(_run(from_message(message), _random(2, 3))[0], got)


def test_scales_that_do_not_fit_are_damage() -> None:
    net = Net()
    stored = net.const(np.zeros((4, 3), np.int8))
    net.tensors[stored].scales = (0.5, 0.5, 0.5)
    net.outputs = [net.op("DEQUANTIZE", [stored], (4, 3))]
    with pytest.raises(ModelError, match=r"3 scales and 3 zero points for axis 0 of \[4, 3\]"):
        read_tflite(to_bytes(net))


def test_a_transpose_to_channels_last_costs_nothing() -> None:
    """As in models that were converted from a framework with channels first."""
    net = Net()
    x = net.input((1, 2, 4, 4), name="x")
    last = net.op("TRANSPOSE", [x, net.const([0, 2, 3, 1], "int32")], (1, 4, 4, 2))
    told: Any = {"filter_height": 2, "filter_width": 2, "stride_h": 2, "stride_w": 2, "padding": 1}
    pooled = net.op("MAX_POOL_2D", [last], (1, 2, 2, 2), **told)
    net.outputs = [net.op("TRANSPOSE", [pooled, net.const([0, 3, 1, 2], "int32")], (1, 2, 2, 2))]
    model = read_tflite(to_bytes(net))
    assert [node.op_type for node in spell(model, TFLITE).proto.graph.node] == ["MaxPool"]
    given = _random(1, 2, 4, 4)
    np.testing.assert_array_equal(_run(model, given)[0], given.reshape(1, 2, 2, 2, 2, 2).max((3, 5)))


@pytest.mark.parametrize(
    ("kind", "told", "why"),
    [
        ("RESIZE_BILINEAR", {"align_corners": True, "half_pixel_centers": True}, "has both align_corners"),
        ("AVERAGE_POOL_2D", {**dict.fromkeys(("filter_height", "filter_width"), 9), **_ONES}, "larger"),
        ("RFFT2D", {}, "there is no such operation here"),
        ("LOCAL_RESPONSE_NORMALIZATION", {}, "its radius"),
        ("RELU6", {"unknown": None}, ""),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_named(kind: str, told: dict[str, Any], why: str) -> None:
    net = Net()
    x = net.input((1, 4, 4, 2), name="x")
    values = [x, net.const([8, 8], "int32")] if kind.startswith("RESIZE") else [x]
    net.outputs = [net.op(kind, values, (1, 4, 4, 2), **({} if None in told.values() else told))]
    model = read_tflite(to_bytes(net))
    if not why:
        assert len(spell(model, TFLITE).proto.graph.node) == 1
        return
    with pytest.raises(CompileError, match=f"TFLite {kind} t.: .*{why}"):
        spell(model, TFLITE)


@pytest.mark.parametrize(
    ("kind", "shapes", "constants", "told"),
    [
        ("FULLY_CONNECTED", [(2, 6)], [np.zeros((4, 2, 3), np.float32)], {}),
        ("ARG_MAX", [()], [np.zeros(1, np.int32)], {}),
        ("SLICE", [(2, 6)], [np.zeros(1, np.int32), np.ones(1, np.int32)], {}),
        ("GATHER", [()], [np.zeros(1, np.int32)], {"axis": 0}),
        ("PACK", [()], [], {"axis": 0}),
    ],
)
def test_parameters_that_do_not_fit_are_of_their_operation_alone(
    kind: str, shapes: list[tuple[int, ...]], constants: list[Array], told: dict[str, Any]
) -> None:
    net = Net()
    values = [net.input(shape) for shape in shapes] + [net.const(array) for array in constants]
    out = () if kind == "PACK" else (2, 6)
    bad = net.op(kind, values, out, **told)
    net.outputs = [bad, net.op("RFFT2D", [values[0]], (2, 6))]
    with pytest.raises(CompileError) as caught:
        spell(read_tflite(to_bytes(net)), TFLITE)
    _, first, second = caught.value.message.splitlines()
    assert f"TFLite {kind} t" in first and ": its parameters do not fit: " in first
    assert "there is no such operation here" in second


def _as_litert(kind: str, *values: Array, **told: Any) -> Array:
    """What one operation of a first operand and constants makes; the shape is found as it runs."""
    net = Net()
    x = net.input(values[0].shape)
    shape = told.pop("shape", values[0].shape)
    net.outputs = [net.op(kind, [x, *map(net.const, values[1:])], shape, **told)]
    (found,) = _run(read_tflite(to_bytes(net)), values[0])
    return found


@pytest.mark.parametrize(
    ("low", "high", "stride", "mask", "want"),
    [
        (1, 2, 1, {}, [1, 2]),
        (-3, 2, 1, {}, [3, 4]),
        (-3, 3, 1, {}, [3, 4, 5]),
        (-1, 1, 1, {}, [5]),
        (-9, 3, 1, {}, [0, 1, 2]),
        (2, 3, 2, {}, [2, 4]),
        (-2, -2, -1, {}, [4, 3]),
        (0, -1, -1, {}, [0]),
        (2, 2, 1, {"begin_mask": 1}, [0, 1]),
        (3, -3, -1, {"begin_mask": 1}, [5, 4, 3]),
        (2, 2, 1, {"end_mask": 1}, [2, 3]),
    ],
)
def test_ends_that_count_from_the_begin(
    low: int, high: int, stride: int, mask: dict[str, int], want: list[int]
) -> None:
    """The values are what LiteRT's kernel makes."""
    told = [np.array([n], np.int32) for n in (low, high, stride)]
    found = _as_litert(
        "STRIDED_SLICE", np.arange(6, dtype=np.float32), *told, shape=(len(want),), offset=True, **mask
    )
    assert found.tolist() == want


@pytest.mark.parametrize(("adj_x", "adj_y"), [(False, True), (True, False)])
def test_matrices_that_are_turned(adj_x: bool, adj_y: bool) -> None:
    x, y = (_random(2, *((4, 3) if turned else (3, 4))) for turned in (adj_x, not adj_y))
    found = _as_litert("BATCH_MATMUL", x, y, adj_x=adj_x, adj_y=adj_y, shape=(2, 3, 3))
    want = (x.swapaxes(1, 2) if adj_x else x) @ (y.swapaxes(1, 2) if adj_y else y)
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_a_window_as_large_as_its_input() -> None:
    x = _random(1, 4, 4, 2)
    found = _as_litert("MAX_POOL_2D", x, filter_height=4, filter_width=4, shape=(1, 1, 1, 2), **_ONES)
    np.testing.assert_array_equal(found, x.max((1, 2), keepdims=True))


def test_rests_and_rounded_quotients_are_those_of_litert() -> None:
    """The values are what LiteRT's kernels make, not those of x - floor(x / y) * y in single precision."""
    x = np.array([1, -1, 1, -1, 5.5, -7.3, 8, 1e8, 3, -1e-10, 0.3, np.inf, -5], np.float32)
    y = np.array([0.1, 0.1, -0.1, -0.1, 2, 3, 3, 3, np.inf, 3, 0.1, 2, np.inf], np.float32)
    rests = [0.099999987, 1.4901161e-08, -1.4901161e-08, -0.099999987, 1.5, 1.6999998, 2, 1, 3, 3]
    rests += [7.4505806e-09, np.nan, np.inf]
    np.testing.assert_array_equal(_as_litert("FLOOR_MOD", x, y), np.array(rests, np.float32))
    quotients = [9, -10, -10, 9, 2, -3, 2, 33333332, 0, -1, 3, np.inf, 0]
    np.testing.assert_allclose(_as_litert("FLOOR_DIV", x, y), quotients, rtol=1e-7)


def test_a_file_that_is_none_and_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_tflite(tmp_path / "nothing.tflite")
    (tmp_path / "text.tflite").write_text("not a model at all")
    with pytest.raises(ModelError, match="does not say TFL3"):
        read_tflite(tmp_path / "text.tflite")


def test_damage_is_a_model_error() -> None:
    data = to_bytes(_pair())
    rng = np.random.default_rng(0)
    read = 0
    for size in range(8, len(data), 7):
        with pytest.raises(ModelError):
            read_tflite(data[:size])
    for _ in range(300):
        broken = bytearray(data)
        for place in rng.integers(8, len(data), rng.integers(1, 4)):
            broken[place] = rng.integers(256)
        try:
            spell(read_tflite(bytes(broken)), TFLITE)
            read += 1
        except (ModelError, CompileError):
            pass
    assert read < 300  # of those that still are models some are read


class _Loaded:
    """What the command `litert run` asks of a loaded model."""

    said = ""

    def __init__(self, path: Path) -> None:
        assert path == Path("model.tflite")

    def __enter__(self) -> _Loaded:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        return {"file": inputs["x"], "none": np.zeros((0, 3), np.int32), "is": inputs["x"] > 0}


def test_a_run_keeps_outputs_of_any_name_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = SimpleNamespace(runs=0, commands=0, ns=0, bytes_in=0, bytes_out=0)
    monkeypatch.setattr(litert_command, "LiteRtModel", _Loaded)
    monkeypatch.setattr(litert_command, "counters", lambda: done)
    np.savez(tmp_path / "in.npz", x=np.array([-1, 2], np.float32))
    said: list[str] = []
    out = tmp_path / "out.npz"
    assert litert_command.run(Path("model.tflite"), tmp_path / "in.npz", out, said.append) == 1
    assert said[:3] == ["file float32 [2]: -1 to 2", "none int32 [0, 3]: no elements", "is bool [2]: 0 to 1"]
    made = load_npz(out, len)
    assert list(made) == ["file", "none", "is"] and made["none"].shape == (0, 3)
    (tmp_path / "in.npz").write_bytes(b"none of it")
    for given, why in (("in.npz", "is not a .npz file"), ("nothing.npz", "cannot read")):
        with pytest.raises(UsageError, match=why):
            litert_command.run(Path("model.tflite"), tmp_path / given, None, pytest.fail)


def test_a_model_that_is_compiled_but_not_read_here_has_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.tflite").write_bytes(b"only LiteRT knows")
    monkeypatch.setattr(litert_command, "compile_ahead", lambda *_, **__: "1 partition")
    said: list[str] = []
    assert litert_command.compile(tmp_path / "model.tflite", tmp_path / "out", True, said.append) == 0
    assert len(said) == 2 and said[1].startswith("no report: ") and "does not say TFL3" in said[1]


def test_the_schema_has_every_operation_that_is_spelled() -> None:
    assert set(TFLITE) <= set(vars(tflite.BuiltinOperator))


def test_the_page_names_every_operation() -> None:
    text = page_path(PAGE).read_text()
    assert with_operations(text) == text
