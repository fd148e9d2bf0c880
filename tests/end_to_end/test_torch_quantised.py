"""Programs as PT2E quantises them, without PyTorch: in ONNX's words, and in 8-bit layers of the chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError
from tests.support.tflite_quantised import without_optimizer
from user_layers.onnx.compile import compile_model
from user_layers.onnx.load import Source
from user_layers.quantize.quality import compared
from user_layers.runtime.references import load_net
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor
from user_layers.spelling.spell import spell
from user_layers.toolkit import Toolkit
from user_layers.torch.quantised import without_dynamic
from user_layers.torch.spellings import TORCH

INT8, FLOAT = np.dtype(np.int8), np.dtype(np.float32)
X = (np.random.default_rng(0).standard_normal((2, 3, 6, 6)) * 2).astype(np.float32)
WEIGHTS = np.random.default_rng(1).integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
SCALES = np.asarray([0.01, 0.012, 0.008, 0.01], np.float32)
NUMBERS = WEIGHTS * SCALES.reshape(4, 1, 1, 1)


class Program:
    """Operations one behind the other, each with one result that has its name."""

    def __init__(self, **given: Array) -> None:
        self.tensors = {name: Tensor(array.shape, array.dtype) for name, array in given.items()}
        self.inputs = tuple(given)
        self.operations: list[Operation] = []

    def constant(self, name: str, array: Any) -> str:
        array = np.asarray(array)
        self.tensors[name] = Tensor(array.shape, array.dtype, array)
        return name

    def add(
        self,
        name: str,
        kind: str,
        inputs: Sequence[str | None],
        like: Sequence[int],
        made: Any = FLOAT,
        **told: Any,
    ) -> str:
        self.tensors[name] = Tensor(tuple(like), np.dtype(made))
        self.operations.append(Operation(kind, name, tuple(inputs), (name,), told))
        return name

    def scaled(
        self, name: str, way: str, inputs: Sequence[str | None], like: Sequence[int], **told: Any
    ) -> str:
        """One of quantized_decomposed; its result is int8 if it quantizes, but for `made`."""
        made = told.pop("made", INT8 if way.startswith("quantize") else FLOAT)
        ends = {"quant_min": -128, "quant_max": 127, "dtype": INT8}
        return self.add(name, f"quantized_decomposed.{way}", inputs, like, made, **(ends | told))

    def model(self, *outputs: str) -> ForeignModel:
        return ForeignModel("PyTorch", "net", self.tensors, self.inputs, outputs, tuple(self.operations))


def grid(scale: float, zero: int) -> Mapping[str, Any]:
    return {"scale": scale, "zero_point": zero}


def conv(program: Program, x: str, weights: str) -> str:
    told = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    return program.add("conv", "aten.conv2d.default", [x, weights, None], (2, 4, 6, 6), **told)


def network() -> ForeignModel:
    """A convolution with relu, in integers."""
    p = Program(x=X)
    stored = [p.constant("w", WEIGHTS), p.constant("s", SCALES), p.constant("z", np.zeros(4, np.int64))]
    w = p.scaled("weights", "dequantize_per_channel.default", stored, WEIGHTS.shape, axis=0)
    q = p.scaled("q", "quantize_per_tensor.default", ["x"], X.shape, **grid(0.05, 3))
    d = p.scaled("d", "dequantize_per_tensor.default", [q], X.shape, **grid(0.05, 3))
    shape = (2, 4, 6, 6)
    y = p.add("relu", "aten.relu.default", [conv(p, d, w)], shape)
    q = p.scaled("p", "quantize_per_tensor.default", [y], shape, **grid(0.1, -128))
    return p.model(p.scaled("y", "dequantize_per_tensor.default", [q], shape, **grid(0.1, -128)))


def said(model: ForeignModel, **given: Array) -> list[Array]:
    return without_optimizer(spell(model, TORCH).proto, given)


def test_a_program_in_8_bits(toolkit: Toolkit) -> None:
    model = without_dynamic(network())
    assert model.notes == ("quantized model: 2 tensors in 8 bits",)
    proto = spell(model, TORCH).proto
    assert [node.op_type for node in proto.graph.node if node.op_type != "Identity"] == [
        "DequantizeLinear", "QuantizeLinear", "DequantizeLinear",
        "Conv", "Relu", "QuantizeLinear", "DequantizeLinear",
    ]  # fmt: skip
    made = compile_model(
        proto, dynamic=False, shapes=None, stages=(), opt=2, custom=None, cpu=False, check=True,
        report=False, name="net", layers=False, int8=None, toolkit=toolkit,
        source=Source("net", "net", "net", None),
    )  # fmt: skip
    assert any("100.0% of the MACs" in line for line in made.lines)
    with load_net(made.net, toolkit) as runtime:
        (got,) = runtime.launch("net", {"x": X})
    (own,) = said(model, x=X)
    p = Program(x=X)
    p.add("y", "aten.relu.default", [conv(p, "x", p.constant("w", NUMBERS))], (2, 4, 6, 6))
    (want,) = said(p.model("y"), x=X)
    assert compared(want, got).sqnr > compared(want, own).sqnr - 4


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("ends", [None, (3, 90)])
def test_what_quantize_gives(dtype: Any, ends: tuple[int, int] | None) -> None:
    """Integers between the ends, of a scale for all and of one for each channel."""
    whole = np.iinfo(dtype)
    low, high = ends or (whole.min, whole.max)
    told = {"quant_min": low, "quant_max": high, "dtype": np.dtype(dtype), "made": dtype}
    scales, zeros = np.asarray([0.5, 0.03, 0.02]), np.asarray([5, 60, 3])
    p = Program(x=X)
    one = p.scaled("one", "quantize_per_tensor.default", ["x"], X.shape, **told, **grid(0.03, 40))
    names = ["x", p.constant("s", [0.03]), p.constant("z", [40])]
    two = p.scaled("two", "quantize_per_tensor.tensor", names, X.shape, **told)
    bounds = [p.constant("low", low), p.constant("high", high)]
    told2 = {"dtype": np.dtype(dtype), "made": dtype}
    p.tensors["three"] = Tensor(X.shape, np.dtype(dtype))
    kind = "quantized_decomposed.quantize_per_tensor.tensor2"
    p.operations.append(Operation(kind, "three", (*names, *bounds), ("three",), told2))
    names = ["x", p.constant("ss", scales), p.constant("zs", zeros)]
    four = p.scaled("four", "quantize_per_channel.default", names, X.shape, **told, axis=-3)
    got = said(p.model(one, two, "three", four), x=X)
    want = np.clip(np.rint(X / np.float32(0.03)) + 40, low, high)
    for found in got[:3]:
        assert found.dtype == dtype and np.array_equal(found, want)
    shape = (3, 1, 1)
    steps = np.rint(X / scales.astype(np.float32).reshape(shape)) + zeros.reshape(shape)
    assert np.array_equal(got[3], np.clip(steps, low, high))


def test_what_dequantize_gives() -> None:
    p = Program(x=WEIGHTS)
    one = p.scaled(
        "one", "dequantize_per_tensor.default", ["x"], WEIGHTS.shape, **grid(0.5, 7), made=np.float16
    )
    names = ["x", p.constant("s", SCALES.astype(np.float64)), None]
    two = p.scaled("two", "dequantize_per_channel.default", names, WEIGHTS.shape, axis=0)
    sums = p.constant("b", np.asarray([70000, -3], np.int32))
    three = p.scaled("three", "dequantize_per_tensor.default", [sums], (2,), **grid(0.25, 0))
    got = said(p.model(one, two, three), x=WEIGHTS)
    assert got[0].dtype == np.float16
    assert np.array_equal(got[0], (WEIGHTS - np.float16(7)) * np.float16(0.5))
    assert np.array_equal(got[1], NUMBERS)
    assert got[2].tolist() == [17500.0, -0.75]


def test_what_is_not_in_8_bits_says_so() -> None:
    p = Program(x=X)
    p.scaled("wide", "quantize_per_tensor.default", ["x"], X.shape, **grid(0.1, 0), made=np.int16)
    p.scaled("back", "dequantize_per_tensor.default", ["wide"], X.shape, **grid(0.1, 0))
    groups = "dequantize_per_channel_group.default"  # of 4 bits
    p.scaled("few", groups, [p.constant("w", WEIGHTS), p.constant("s", SCALES), None], WEIGHTS.shape)
    sums = p.constant("b", np.asarray([70000, -3], np.int32))
    p.scaled("odd", "dequantize_per_tensor.default", [sums], (2,), **grid(0.25, 1))
    with pytest.raises(CompileError) as caught:
        spell(p.model("back", "few", "odd"), TORCH)
    told = [line.split(".", 1)[1] for line in caught.value.message.splitlines()[1:]]
    known = "8-bit integers are computed here, and float32"
    assert told == [
        f"quantize_per_tensor.default wide: it quantizes in int16; {known}",
        f"dequantize_per_tensor.default back: it is quantized in int16; {known}",
        "dequantize_per_channel_group.default few: there is no such operation here",
        "dequantize_per_tensor.default odd: its 32-bit integers have a zero point",
    ]


def dynamic(scales: Sequence[str] = ("scale", "zero")) -> Program:
    """A convolution whose input gets a scale when it runs."""
    p = Program(x=X)
    p.tensors |= {"scale": Tensor((1,), np.dtype(np.float64)), "zero": Tensor((1,), np.dtype(np.int64))}
    kind = "quantized_decomposed.choose_qparams.tensor"
    p.operations.append(Operation(kind, "choose", ("x",), ("scale", "zero"), {}))
    p.scaled("q", "quantize_per_tensor.tensor", ["x", "scale", "zero"], X.shape)
    p.scaled("d", "dequantize_per_tensor.tensor", ["q", *scales], X.shape)
    stored = [p.constant("w", WEIGHTS), p.constant("s", SCALES), None]
    conv(p, "d", p.scaled("weights", "dequantize_per_channel.default", stored, WEIGHTS.shape, axis=0))
    return p


def test_scales_found_at_run_time_are_float() -> None:
    model = without_dynamic(dynamic().model("conv"))
    assert model.notes == ("what the model quantizes by scales found while it runs is computed in float",)
    (got,) = said(model, x=X)
    p = Program(x=X)
    conv(p, "x", p.constant("w", NUMBERS))
    np.testing.assert_allclose(got, said(p.model("conv"), x=X)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("what", ["other scales", "an output", "looked at"])
def test_integers_of_such_scales_are_refused_where_they_matter(what: str) -> None:
    p = dynamic(("scale", "scale" if what == "other scales" else "zero"))
    outputs = ["conv", *(["q"] if what == "an output" else [])]
    if what == "looked at":
        outputs.append(p.add("more", "aten.neg.default", ["q"], X.shape, INT8))
    with pytest.raises(CompileError, match=r"choose_qparams.tensor choose: there is no such operation here"):
        spell(without_dynamic(p.model(*outputs)), TORCH)


def test_weights_alone_are_numbers() -> None:
    p = Program(x=X)
    stored = [p.constant("w", WEIGHTS), p.constant("s", SCALES), None]
    conv(p, "x", p.scaled("weights", "dequantize_per_channel.default", stored, WEIGHTS.shape, axis=0))
    model = without_dynamic(p.model("conv"))
    assert model.notes[0].startswith("quantized weights are computed with in float")
    assert len(model.operations) == 2
