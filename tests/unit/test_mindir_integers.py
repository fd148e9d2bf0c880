"""Quantized models of MindSpore Lite: what their integers stand for, and in 8-bit layers of the chip.

tests/sources/mindspore_quantised has a small ONNX model and what the converter of MindSpore Lite 2.0.0 made
of it with `quant_type` FULL_QUANT (integers.ms, and per_layer.ms with per_channel=false), WEIGHT_QUANT of 8,
5 and 16 bits, and DYNAMIC_QUANT (by_run.ms).
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import CompileError, ModelError
from tests.paths import SOURCES
from tests.support.tflite_quantised import without_optimizer
from user_layers.formats import in_onnx
from user_layers.mindir import MINDSPORE, read_model
from user_layers.mindir.flat import Table
from user_layers.mindir.integers import CASTS, placed, unpacked, unrounded
from user_layers.mindir.ms import read_ms
from user_layers.onnx.compile import compile_model
from user_layers.quantize.quality import compared
from user_layers.runtime.references import load_net
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Scaled, Tensor
from user_layers.spelling.spell import spell
from user_layers.toolkit import Toolkit

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
MODELS = SOURCES / "mindspore_quantised"
FLOAT = "quantized weights are computed with in float: the model has no scales of what it computes"
_QUANT_PARAMS, _COMPRESSED = 7, 11  # fields of a tensor in the schema


def _numbers(seed: int) -> tuple[Array, Array]:
    """An input as ONNX has it, and what the float model gives."""
    x = np.random.default_rng(seed).standard_normal((1, 3, 16, 16)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(MODELS / "cnn.onnx"))
    (found,) = session.run(None, {"x": x})
    return x, found


@pytest.mark.parametrize(
    ("name", "least", "note"),
    [
        ("integers.ms", 30, "quantized model: 10 tensors in 8 bits"),
        ("per_layer.ms", 30, "quantized model: 10 tensors in 8 bits"),
        ("weights8.ms", 35, FLOAT),
        ("weights5.ms", 20, FLOAT),
        ("weights16.ms", 80, FLOAT),
        ("by_run.ms", 35, FLOAT),
    ],
)
def test_a_quantized_model_is_near_its_float_one(name: str, least: float, note: str) -> None:
    model = read_model(MODELS / name)
    assert model.notes == (note,)
    x, want = _numbers(1)
    given = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    (got,) = without_optimizer(spell(model, MINDSPORE).proto, {"x": given})
    assert compared(want, got).sqnr > least


@pytest.mark.parametrize("dynamic", [False, True])
def test_it_becomes_8_bit_layers(toolkit: Toolkit, dynamic: bool) -> None:
    proto, source = in_onnx(MODELS / "integers.ms")
    assert source is not None
    made = compile_model(
        proto, dynamic=dynamic, shapes=None, stages=(), opt=2, custom=None, cpu=True, check=True,
        report=False, name="net", layers=False, int8=None, toolkit=toolkit, source=source,
    )  # fmt: skip
    assert not made.different
    assert any(line.startswith("8 bits: 6 of ") for line in made.lines), made.lines
    x, want = _numbers(2)
    with load_net(made.net, toolkit) as runtime:
        (got,) = runtime.launch("net", {"x": np.ascontiguousarray(x.transpose(0, 2, 3, 1))})
    assert compared(want, got).sqnr > 28


def _op(kind: str, *inputs: str, **attributes: object) -> Operation:
    return Operation(kind, kind.lower(), inputs, ("y",), attributes)


@pytest.mark.parametrize(
    ("op", "place", "axis"),
    [
        (_op("MatMulFusion", "x", "w"), 1, 2),
        (_op("MatMulFusion", "x", "w", transpose_b=True), 1, 1),
        (_op("MatMulFusion", "w", "x"), 0, 1),
        (_op("MatMulFusion", "w", "x", transpose_a=True), 0, 2),
        (_op("FullConnection", "x", "w"), 1, 0),
        (_op("Conv2DFusion", "x", "w"), 1, 0),
    ],
)
def test_scales_go_along_the_channels_of_what_reads_them(op: Operation, place: int, axis: int) -> None:
    """All axes are equally long, so that only the operation can tell."""
    data = np.arange(27, dtype=np.int8).reshape(3, 3, 3)
    scales = np.array([1.0, 2.0, 4.0])
    told = Scaled(np.dtype(np.int8), scales, np.zeros(3, np.int64), 0, data)
    tensors = {"w": Tensor((3, 3, 3), None, scaled=told), "x": Tensor((3, 3, 3), np.dtype(np.float32))}
    assert op.inputs[place] == "w"
    tensors["y"] = tensors["x"]
    model, _ = CASTS.in_float(placed(ForeignModel("MindSpore", "net", tensors, ("x",), ("y",), (op,))))
    shape = [1, 1, 1]
    shape[axis] = 3
    found = model.tensors["w"].data
    assert found is not None and np.array_equal(found, data * scales.reshape(shape))


def test_means_of_weights_are_put_right() -> None:
    data = np.arange(-3, 3, dtype=np.int8).reshape(2, 3)
    told = Scaled(data.dtype, np.array([0.5, 0.25]), np.array([1, 0]), 0, data, np.array([0.125, -1.0]))
    tensors = {"w": Tensor((2, 3), None, scaled=told), "x": Tensor((4, 3), np.dtype(np.float32))}
    tensors["y"] = Tensor((4, 2), np.dtype(np.float32))
    op = _op("FullConnection", "x", "w")
    model, _ = CASTS.in_float(placed(ForeignModel("MindSpore", "net", tensors, ("x",), ("y",), (op,))))
    want = [[-1.875, -1.375, -0.875], [-1.0, -0.75, -0.5]]
    found = model.tensors["w"].data
    assert found is not None and np.array_equal(found, np.array(want, np.float32))


def _slot(raw: bytes | bytearray, table: Table, field: int) -> int:
    """Where a table of the file says how far behind its start a field lies."""
    (vtable,) = struct.unpack_from("<i", raw, table.start)
    return table.start - int(vtable) + 4 + 2 * field


def _field(raw: bytes | bytearray, table: Table, field: int) -> int:
    """Where a field lies."""
    return table.start + int(struct.unpack_from("<H", raw, _slot(raw, table, field))[0])


def test_packed_elements_lie_bit_by_bit() -> None:
    raw = (MODELS / "weights5.ms").read_bytes()
    packed = [one for one in Table.root(raw).tables(7) if one.scalar(_COMPRESSED, "i")]
    assert packed
    for table in packed:
        shape = tuple(int(n) for n in table.array(2, "<i4"))
        data, params = table.array(6, "u1"), table.tables(_QUANT_PARAMS)
        count = int(np.prod(shape))
        whole = int.from_bytes(data.tobytes(), "little")
        want = [(whole >> 5 * i & 31) - 16 for i in range(count)]
        assert unpacked(data, params, shape, "w").ravel().tolist() == want
        with pytest.raises(ModelError, match=rf"w of shape .* and 5 bits has {count * 5 // 8 - 1} packed"):
            unpacked(data[: count * 5 // 8 - 1], params, shape, "w")


def test_what_is_packed_in_another_way_says_so(tmp_path: Path) -> None:
    raw = bytearray((MODELS / "weights5.ms").read_bytes())
    for table in Table.root(bytes(raw)).tables(7):
        if table.scalar(_COMPRESSED, "i"):
            struct.pack_into("<i", raw, _field(raw, table, _COMPRESSED), 3)
    (tmp_path / "few.ms").write_bytes(raw)
    with pytest.raises(CompileError, match="is compressed in a way that is not read"):
        spell(read_model(tmp_path / "few.ms"), MINDSPORE)


def test_scales_that_fit_no_axis_are_damage(tmp_path: Path) -> None:
    raw = (MODELS / "integers.ms").read_bytes()
    graph = Table.root(raw)
    first = next(one for one in graph.tables(7) if len(one.tables(_QUANT_PARAMS)) == 8)
    odd = bytearray(raw)
    at = _field(raw, first, _QUANT_PARAMS)
    at += struct.unpack_from("<I", odd, at)[0]
    struct.pack_into("<I", odd, at, 7)
    (tmp_path / "few.ms").write_bytes(odd)
    with pytest.raises(ModelError, match=r"few\.ms is a damaged model of MindSpore Lite: 7 scales"):
        read_model(tmp_path / "few.ms")


def test_only_files_leave_out_what_is_rounded_by_each_run() -> None:
    model = read_ms((MODELS / "by_run.ms").read_bytes())
    made = [op.outputs[0] for op in model.operations if op.kind == "DynamicQuant"]
    assert made and all(model.tensors[name].dtype == np.float32 for name in made)
    whole = Tensor((1, 8), np.dtype(np.int8))
    told = placed(replace(model, tensors={**model.tensors, **dict.fromkeys(made, whole)}))
    assert all(told.tensors[name] == whole for name in made)
    assert all(unrounded(told).tensors[name].dtype == np.float32 for name in made)


def test_integers_without_scales_are_no_numbers(tmp_path: Path) -> None:
    """What an operation in integers makes of them is not what a float one would."""
    raw = (MODELS / "integers.ms").read_bytes()
    graph, odd = Table.root(raw), bytearray(raw)
    node = next(one for one in graph.tables(6) if one.scalar(5, "i") == 5)
    tensor = graph.tables(7)[int(node.array(4, "<u4")[0])]
    # The table of fields may be another tensor's too: all that share it lose their scales.
    struct.pack_into("<H", odd, _slot(raw, tensor, _QUANT_PARAMS), 0)
    (tmp_path / "few.ms").write_bytes(odd)
    with pytest.raises(CompileError, match=rf"{node.text(0)}: it is quantized, and '.*' has no scale"):
        spell(read_model(tmp_path / "few.ms"), MINDSPORE)
