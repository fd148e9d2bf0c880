"""Models of MindSpore Lite: both formats read, their primitives in ONNX's words, run by onnxruntime.

tests/sources/mindspore has small ONNX models and what the converter of MindSpore Lite 2.0.0 made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError, ModelError, UsageError
from tests.paths import ROOT
from user_layers.mindir import MINDSPORE, from_message, read_model
from user_layers.mindir import regenerate as table
from user_layers.mindir.mindir import read_mindir
from user_layers.mindir.ms import read_ms
from user_layers.mindir.primitives import primitives
from user_layers.mindir.wire import Message
from user_layers.mindir.write import write_ms
from user_layers.mindspore.command import difference
from user_layers.mindspore.layers import with_layers
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor
from user_layers.spelling.spell import spell

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
MODELS = ROOT / "tests" / "sources" / "mindspore"
FILES = sorted(path.name for path in MODELS.iterdir() if path.suffix in (".ms", ".mindir"))
RNG = np.random.default_rng(0)
X = RNG.uniform(0.2, 2, (2, 5, 6, 4)).astype(np.float32)
F32 = np.dtype(np.float32)


def _run(proto: Any, feeds: Mapping[str, Array]) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feeds)), strict=True))


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_a_converted_model_computes_what_its_onnx_model_does(name: str, free: bool) -> None:
    model = read_model(MODELS / name)
    session = onnxruntime.InferenceSession(str((MODELS / name).with_suffix(".onnx")))
    feeds = {value.name: RNG.uniform(-2, 2, value.shape).astype(np.float32) for value in session.get_inputs()}
    want = dict(zip((v.name for v in session.get_outputs()), session.run(None, feeds), strict=True))
    spelled = spell(model, MINDSPORE, free_borders=free)
    given = {}
    for border in spelled.inputs:
        array = feeds[border.name]
        if array.shape != border.shape:  # .ms: the converter puts channels last
            array = array.transpose(0, 2, 3, 1)
        given[border.name] = np.ascontiguousarray(array.transpose(border.order))
    got = _run(spelled.proto, given)
    assert set(got) == set(want)
    for border in spelled.outputs:
        found = got[border.name].transpose(np.argsort(border.order))
        np.testing.assert_allclose(found, want[border.name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FILES)
def test_shapes_that_a_delegate_leaves_open_are_found(name: str) -> None:
    model = read_model(MODELS / name)
    made = {one for operation in model.operations for one in operation.outputs}
    blank = {
        one: replace(tensor, shape=(-1,) * len(tensor.shape)) if one in made else tensor
        for one, tensor in model.tensors.items()
    }
    found = from_message(replace(model, tensors=blank))
    assert {one: found.tensors[one].shape for one in made} == {one: model.tensors[one].shape for one in made}


def test_a_file_that_leaves_shapes_out_gets_them_and_what_only_makes_them_goes() -> None:
    raw = read_ms((MODELS / "shapes.ms").read_bytes())
    read = read_model(MODELS / "shapes.ms")
    reshaped = next(op.outputs[0] for op in read.operations if op.kind == "Reshape")
    assert raw.tensors[reshaped].shape == () and read.tensors[reshaped].shape == (2, 160)
    assert "Shape" in {op.kind for op in raw.operations} - {op.kind for op in read.operations}


def test_both_formats_of_a_model_have_the_same_operations() -> None:
    def kinds(name: str) -> list[str]:
        return sorted(op.kind for op in read_model(MODELS / name).operations if op.kind != "Transpose")

    for stem in ("cnn", "shapes"):
        assert kinds(f"{stem}.ms") == kinds(f"{stem}.mindir")


@pytest.mark.parametrize("name", ["cnn.ms", "shapes.mindir"])
def test_damaged_files_are_told_and_nothing_else_happens(name: str, tmp_path: Path) -> None:
    data = (MODELS / name).read_bytes()
    read = read_ms if name.endswith(".ms") else read_mindir
    refused = 0
    for trial in range(300):
        rng = np.random.default_rng(trial)
        bad = bytearray(data[: rng.integers(8, len(data))] if trial % 3 == 0 else data)
        for _ in range(int(rng.integers(1, 6))):
            bad[int(rng.integers(0, len(bad)))] = int(rng.integers(0, 256))
        try:
            read(bytes(bad))
        except ModelError:
            refused += 1
    assert refused > 100
    (tmp_path / "x.ms").write_bytes(b"no model at all")
    with pytest.raises(ModelError, match=r"x\.ms is not a model of MindSpore Lite: "):
        read_model(tmp_path / "x.ms")
    with pytest.raises(UsageError, match="cannot be read"):
        read_model(tmp_path / "missing.ms")


def test_a_field_that_is_longer_than_its_message_is_damage() -> None:
    with pytest.raises(ModelError, match="field 1 has 5 bytes, 1 are left"):
        Message(memoryview(b"\x0a\x05\x01"))


def test_the_tables_for_c_and_in_the_page_are_up_to_date() -> None:
    for path, text in table.files().items():
        assert path.read_text() == text, "run python -m user_layers.mindir.regenerate"
    by_name = {row.name: row.tag for row in primitives()}
    assert (by_name["Activation"], by_name["AddFusion"], by_name["MulFusion"]) == (2, 5, 99)


def test_a_difference_is_of_numbers_and_of_what_is_none() -> None:
    want = np.array([1, -2, np.inf, np.nan], np.float32)
    assert difference({"y": want}, {"y": want.copy()}) == 0
    assert difference({"y": want}, {"y": want + np.array([1, 0, 0, 0], np.float32)}) == 0.5
    for place in range(4):
        other = want.copy()
        other[place] = np.nan if place < 3 else 0
        assert difference({"x": want, "y": want}, {"x": want, "y": other}) == np.inf
    assert difference({"y": want[:0]}, {"y": want[:0]}) == 0
    assert difference({"y": want}, {"y": want[:1]}) == np.inf


def test_every_spelling_is_of_a_primitive() -> None:
    assert set(MINDSPORE) <= {row.name for row in primitives()}


def _model(kind: str, inputs: list[Array], shapes: list[tuple[int, ...]], attributes: dict[str, Any]) -> Any:
    """One operation on X and constants; None: all outputs have X's type."""
    row = next(row for row in primitives() if row.name == kind)
    usual = {
        field.name: () if field.kind.endswith("s") else "" if field.kind == "text" else field.default
        for field in row.fields
        if field.kind != "attributes"
    }
    tensors = {"x": Tensor(X.shape, F32)}
    tensors |= {f"c{i}": Tensor(a.shape, a.dtype, a) for i, a in enumerate(inputs)}
    tensors |= {f"y{i}": Tensor(shape, F32) for i, shape in enumerate(shapes)}
    outputs = tuple(f"y{i}" for i in range(len(shapes)))
    names = ("x", *(f"c{i}" for i in range(len(inputs))))
    operation = Operation(kind, "one", names, outputs, {**usual, **attributes})
    return ForeignModel("MindSpore", "one", tensors, ("x",), outputs, (operation,))


def _i(*values: int) -> Array:
    return np.array(values, np.int32)


def _normal(*axes: int) -> Array:
    """X normalized over axes, as LayerNormFusion with an epsilon of 0.5 does."""
    normal: Array = (X - X.mean(axes, keepdims=True)) / np.sqrt(X.var(axes, keepdims=True) + 0.5)
    return normal


C = RNG.uniform(0.5, 1.5, 4).astype(np.float32)
W = RNG.uniform(-1, 1, (3, 120)).astype(np.float32)
PADS = ((0, 0), (1, 0), (0, 2), (0, 0))
LENGTHS = np.sqrt((X**2).sum(3, keepdims=True))
ZEROED = np.pad(X, ((0, 0), (1, 0), (1, 0), (0, 0)))
EDGED = np.pad(X, ((0, 0), (0, 1), (0, 1), (0, 0)), constant_values=-9)
CASES: dict[str, tuple[str, list[Array], dict[str, Any], list[Array]]] = {
    "scale": ("ScaleFusion", [C, C], {"axis": -1, "activation_type": 1}, [np.maximum(X * C + C, 0)]),
    "scale at axis 1": (
        "ScaleFusion",
        [np.arange(5, dtype=np.float32)],
        {"axis": 1},
        [X * np.arange(5, dtype=np.float32).reshape(5, 1, 1)],
    ),
    "batch norm": (
        "FusedBatchNorm",
        [C, C * 2, C * 3, C * 4],
        {"epsilon": 0.5},
        [(X - C * 3) / np.sqrt(C * 4 + 0.5) * C + C * 2],
    ),
    "full connection": ("FullConnection", [W], {}, [X.reshape(2, 120) @ W.T]),
    "power": ("PowFusion", [np.float32(1.5).reshape(1)], {"scale": 2.0, "shift": 1.0}, [(2 * X + 1) ** 1.5]),
    "exponential": ("ExpFusion", [], {"base": 2.0, "scale": 0.5, "shift": 1.0}, [2 ** (0.5 * X + 1)]),
    "to the end": (
        "ReduceFusion",
        [_i(2)],
        {"mode": 4, "reduce_to_end": True, "keep_dims": False, "coeff": 2.0},
        [2 * X.sum((2, 3))],
    ),
    "kept axes": ("ReduceFusion", [_i(1)], {"mode": 0, "keep_dims": True}, [X.mean(1, keepdims=True)]),
    "slice": ("SliceFusion", [_i(1, 2), _i(-1, 3)], {"axes": (1, 2)}, [X[:, 1:, 2:5]]),
    "masks": (
        "StridedSlice",
        [_i(0, 4, 9, 1), _i(9, 0, 0, 2), _i(1, -2, -1, 1)],
        {"begin_mask": 4, "end_mask": 4, "shrink_axis_mask": 8},
        [X[0:9, 4:0:-2, ::-1, 1]],
    ),
    "split": ("Split", [], {"axis": 3, "size_splits": (1, -1)}, [X[..., :1], X[..., 1:]]),
    "split alike": ("Split", [], {"axis": -2}, [X[:, :, :3], X[:, :, 3:]]),
    "unstack": ("Unstack", [], {"axis": 0}, [X[0], X[1]]),
    "stack": ("Stack", [X], {"axis": 1}, [np.stack([X, X], 1)]),
    "tile": ("TileFusion", [_i(3)], {"dims": (2,)}, [np.tile(X, (1, 1, 3, 1))]),
    "pad": ("PadFusion", [], {"paddings": PADS}, [np.pad(X, PADS)]),
    "reverse": ("ReverseV2", [], {"axis": (1,)}, [X[:, ::-1]]),
    "prelu of one": ("PReLUFusion", [np.float32(0.5).reshape(1)], {}, [X]),
    "difference": ("SquaredDifference", [C], {}, [(X - C) ** 2]),
    "maximum": ("Eltwise", [X[::-1]], {"mode": 2}, [np.maximum(X, X[::-1])]),
    "tanh": ("Activation", [], {"activation_type": 16, "min_val": 0.5, "max_val": 1.0}, [X.clip(0.5, 1)]),
    "swish": ("Activation", [], {"activation_type": 18}, [X / (1 + np.exp(-X))]),
    "clip": ("Clip", [], {"min": 0.5, "max": 1.0}, [X.clip(0.5, 1)]),
    "norm": ("L2NormalizeFusion", [], {"axis": (3,), "epsilon": 1e-6}, [X / LENGTHS]),
    "layer norm": (
        "LayerNormFusion",
        [C, C + 1],
        {"epsilon": 0.5, "begin_norm_axis": 3, "begin_params_axis": 3},
        [_normal(3) * C + C + 1],
    ),
    "layer norm with a scale of fewer axes": (
        "LayerNormFusion",
        [C, C + 1],
        {"epsilon": 0.5, "begin_norm_axis": 2, "begin_params_axis": 3},
        [_normal(2, 3) * C + C + 1],
    ),
    "rest": ("FloorMod", [C], {}, [X - np.floor(X / C) * C]),
    "unequal": ("NotEqual", [X[:1]], {}, [(X[:1] != X).astype(np.float32)]),
    "deconvolution of the same size": (
        "Conv2dTransposeFusion",
        [np.full((4, 2, 2, 1), 0.5, np.float32)],
        {"pad_mode": 1, "stride": (1, 1), "dilation": (1, 1), "format": 1},
        [
            np.add.reduce([ZEROED[:, i : i + 5, j : j + 6] for i in (0, 1) for j in (0, 1)]).sum(
                3, keepdims=True
            )
            / 2
        ],
    ),
    "to first": ("FormatTranspose", [], {"src_format": 1, "dst_format": 0}, [X.transpose(0, 3, 1, 2)]),
    "squeeze": ("ExpandDims", [_i(2)], {}, [X[:, :, None]]),
    "format of a pool": (
        "MaxPoolFusion",
        [],
        {"kernel_size": (2, 2), "strides": (2, 2), "pad_mode": 2, "format": 1},
        [X[:, :4].reshape(2, 2, 2, 3, 2, 4).max((2, 4))],
    ),
    "pool of the same size": (
        "MaxPoolFusion",
        [],
        {"kernel_size": (2, 2), "strides": (1, 1), "pad_mode": 1, "format": 1},
        [np.maximum.reduce([EDGED[:, i : i + 5, j : j + 6] for i in (0, 1) for j in (0, 1)])],
    ),
}


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_primitive_means_what_its_formula_says(name: str, free: bool) -> None:
    kind, inputs, attributes, want = CASES[name]
    model = _model(kind, inputs, [array.shape for array in want], attributes)
    spelled = spell(model, MINDSPORE, free_borders=free)
    got = _run(spelled.proto, {border.name: X.transpose(border.order) for border in spelled.inputs})
    for border, array in zip(spelled.outputs, want, strict=True):
        found = got[border.name].transpose(np.argsort(border.order))
        np.testing.assert_allclose(found, array, rtol=2e-5, atol=1e-5)


def test_a_custom_primitive_is_the_users_layer_with_its_parameters() -> None:
    attributes = {"type": "TPU_SCALE", "factor": b"1.5", "sizes": "1 2,3", "mode": "fast", "count": b"4\0"}
    model = _model("Custom", [], [X.shape], attributes)
    (node,) = spell(model, MINDSPORE, free_borders=True).proto.graph.node
    assert (node.op_type, node.domain) == ("TPU_SCALE", "tpulayer")
    found = {item.name: item for item in node.attribute}
    assert (found["factor"].f, list(found["sizes"].ints), found["count"].i) == (1.5, [1, 2, 3], 4)
    assert found["mode"].s == b"fast"


def test_what_onnx_cannot_say_is_told() -> None:
    for kind, attributes, why in (
        ("Custom", {"type": ""}, "no type"),
        ("Activation", {"activation_type": 14}, "activation 14"),
        ("ReduceFusion", {"mode": 7}, "mode is 7"),
        ("LSTM", {}, "no such operation"),
        ("Split", {"axis": 3, "size_splits": (1, 2)}, "are not 1 of 4"),
    ):
        with pytest.raises(CompileError, match=why):
            spell(_model(kind, [], [X.shape], attributes), MINDSPORE)


def test_a_layer_norm_whose_scale_has_more_axes_than_it_normalizes_is_refused() -> None:
    """MindSpore Lite's own kernel does not take such a scale as its documentation says."""
    scale = np.ones((6, 4), np.float32)
    attributes = {"epsilon": 0.5, "begin_norm_axis": 3, "begin_params_axis": 2}
    with pytest.raises(CompileError, match="a scale from axis 2, and normalizes from axis 3"):
        spell(_model("LayerNormFusion", [scale], [X.shape], attributes), MINDSPORE)
    attributes["begin_params_axis"] = 1
    with pytest.raises(CompileError, match="LayerNormFusion one: its parameters do not fit: "):
        spell(
            _model("LayerNormFusion", [scale[:5]], [X.shape], attributes | {"begin_norm_axis": 1}), MINDSPORE
        )


def _field(number: int, *parts: bytes) -> bytes:
    """A message or text of a protobuf message."""
    data, size = b"".join(parts), b""
    left = len(data)
    while left > 127:
        size += bytes([left & 127 | 128])
        left >>= 7
    return bytes([number << 3 | 2]) + size + bytes([left]) + data


@pytest.mark.parametrize("inner", [(b"x",), ()])
def test_tuples_that_hold_a_tuple_many_times_are_refused(inner: tuple[bytes, ...]) -> None:
    nodes = []
    for level in range(8):
        parts = inner if level == 0 else (b"%d" % (level - 1),) * 60
        names = [_field(1, part) for part in parts]
        nodes.append(_field(1, *names, _field(2, b"%d" % level), _field(4, b"MakeTuple")))
    told = _field(5, _field(1, b"x"), _field(2, b"\x08\x02", _field(7, b"x")))
    graph = _field(7, *nodes, _field(2, b"net"), told, _field(6, _field(1, b"7")))
    with pytest.raises(ModelError, match="its operations read more than"):
        read_mindir(_field(1, b"0.1.0") + graph)
    small = _field(7, *nodes[:2], _field(2, b"net"), told, _field(6, _field(1, b"1")))
    assert read_mindir(_field(1, b"0.1.0") + small).outputs == tuple(["x"] * 60 * len(inner))


def test_integers_without_a_scale_are_refused(tmp_path: Path) -> None:
    model = read_ms((MODELS / "cnn.ms").read_bytes())
    first = Operation("QuantDTypeCast", "to_8_bits", model.inputs, model.operations[0].outputs, {})
    path = tmp_path / "few.ms"
    path.write_bytes(write_ms(replace(model, operations=(first, *model.operations))))
    with pytest.raises(CompileError, match="QuantDTypeCast to_8_bits: it says no scale"):
        spell(read_model(path), MINDSPORE)


@pytest.mark.parametrize(
    ("shape", "told", "last"),
    [
        ((2, 5, 6, 4), None, True),
        ((2, 4, 6, 5), None, False),
        ((2, 4, 6, 4), None, False),
        ((2, 4, 6, 4), 0, False),
        ((2, 4, 6, 4), 1, True),
        ((2, 4, 9), 1, False),
    ],
)
def test_the_channels_of_an_instance_norm_are_where_its_scale_or_the_delegate_says(
    shape: tuple[int, ...], told: int | None, last: bool
) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, shape).astype(np.float32)
    scale, bias = (rng.uniform(0.5, 2, 4).astype(np.float32) for _ in range(2))
    tensors = {name: Tensor(shape, F32) for name in "xy"}
    tensors |= {"s": Tensor((4,), F32, scale), "b": Tensor((4,), F32, bias)}
    attributes = {"epsilon": 0.0} if told is None else {"epsilon": 0.0, "format": told}
    norm = Operation("InstanceNorm", "norm", ("x", "s", "b"), ("y",), attributes)
    model = ForeignModel("MindSpore", "net", tensors, ("x",), ("y",), (norm,))
    axes = tuple(range(1, len(shape) - 1)) if last else tuple(range(2, len(shape)))
    flat = (4,) if last else (4, *(1,) * (len(shape) - 2))
    want = (x - x.mean(axes, keepdims=True)) / x.std(axes, keepdims=True)
    want = want * scale.reshape(flat) + bias.reshape(flat)
    got = _run(spell(model, MINDSPORE).proto, {"x": x})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_custom_primitive_of_a_mindir_file_has_its_parameters_alone() -> None:
    """As the converter wrote it: beside them it has attributes of its own."""
    model = read_mindir((ROOT / "tests" / "sources" / "mindspore_programs" / "custom.mindir").read_bytes())
    (custom,) = [operation for operation in model.operations if operation.kind == "Custom"]
    assert custom.attributes == {"type": "TPU_DOUBLE", "tpulayer_shapes": b"1x4x5x6"}


def test_the_converter_is_told_what_operations_of_the_users_are(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    make, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        make("TPU_ONE", ["x"], ["a", "b"], domain="tpulayer", axis=1, sizes=[2.5, 1.0], word="w"),
        make("Relu", ["a"], ["c"]),
        make("TPU_TWO", ["c"], ["y"], domain="tpulayer"),
    ]
    ends = [value(name, 1, shape) for name, shape in (("x", [4]), ("y", [2, 2]), ("a", [3]), ("b", []))]
    graph = onnx.helper.make_graph(nodes, "net", ends[:1], ends[1:2], value_info=ends[2:3])
    opsets = [onnx.helper.make_opsetid(domain, 1) for domain in ("tpulayer", "")]
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets), str(source))
    lines = with_layers(source, target, 5)
    found = {tuple(line.split("\t")) for line in lines}
    one, two = "TpulayerOperation5", "TpulayerOperation9"  # numbers that only tell them apart
    assert found == {
        (one, "type", "TPU_ONE"),
        (one, "axis", "1"),
        (one, "sizes", "2.5 1.0"),
        (one, "word", "w"),
        (two, "type", "TPU_TWO"),
        (two, "tpulayer_shapes", "2x2"),  # of the first the file does not say all
    }
    changed = onnx.load(str(target))
    assert [(node.op_type, node.domain) for node in changed.graph.node] == [
        (one, ""),
        ("Relu", ""),
        (two, ""),
    ]
    assert [item.domain for item in changed.opset_import] == [""]
    assert with_layers(target, tmp_path / "none.onnx") == [] and not (tmp_path / "none.onnx").exists()
    nodes[0].attribute.append(onnx.helper.make_attribute("odd", "two\nlines"))
    bad = onnx.helper.make_graph(nodes, "net", ends[:1], ends[1:2])
    onnx.save(onnx.helper.make_model(bad, opset_imports=opsets), str(source))
    with pytest.raises(UsageError, match="its attribute 'odd' has a line break or a tab"):
        with_layers(source, target)
