"""ONNX nodes as layers: against onnxruntime, through the whole of compiling and running."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from firmware_sim.errors import CompileError, UsageError
from tests.paths import ROOT
from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.onnx.attention import ATTENTION
from user_layers.onnx.channels import CHANNEL_NORM
from user_layers.onnx.check import TOLERANCE, compare, random_inputs, reference
from user_layers.onnx.command import CompileOptions, parse_shapes, run
from user_layers.onnx.custom import parse_map
from user_layers.onnx.fuse import AFFINE
from user_layers.onnx.load import from_proto, load_model
from user_layers.onnx.lower import CONVERTERS, load_converters
from user_layers.onnx.patterns.or_zero import OR_ZERO
from user_layers.onnx.patterns.unit_rows import UNIT_ROWS
from user_layers.onnx.pixel_sums import PIXEL_SUMS
from user_layers.onnx.pixels import PIXELS
from user_layers.onnx.row_orders import REARRANGE
from user_layers.onnx.tokens import TURN
from user_layers.onnx.types import from_net, to_net
from user_layers.toolkit import Toolkit

RNG = np.random.default_rng(9)
I64 = np.int64


def f32(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


class Case:
    def __init__(
        self,
        *nodes: Any,
        x: Mapping[str, tuple[int, ...]],
        c: Mapping[str, Any] | None = None,
        out: tuple[str, ...] = ("y",),
        opset: int = 17,
    ) -> None:
        self.nodes, self.x, self.c, self.out, self.opset = nodes, x, dict(c or {}), out, opset


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


CASES = {
    "matmul": Case(node("MatMul", "x v"), x={"x": (3, 40)}, c={"v": f32(40, 7)}),
    "matmul of two inputs": Case(node("MatMul", "a b"), x={"a": (2, 3, 5, 6), "b": (3, 6, 4)}),
    "gemm": Case(
        node("Gemm", "x w b", transB=1, alpha=0.5, beta=2.0),
        x={"x": (3, 40)},
        c={"w": f32(50, 40), "b": f32(50)},
    ),
    "gemm, all turned": Case(node("Gemm", "a b", transA=1, transB=1), x={"a": (5, 3), "b": (4, 5)}),
    "reshape": Case(node("Reshape", "x s"), x={"x": (2, 3, 4)}, c={"s": np.array([4, -1, 3], I64)}),
    "flatten": Case(node("Flatten", "x", axis=2), x={"x": (2, 3, 4, 5)}),
    "flatten from the end": Case(node("Flatten", "x", axis=-1), x={"x": (2, 3, 4, 5)}),
    "flatten to a row": Case(node("Flatten", "x", axis=0), x={"x": (2, 3)}),
    "squeeze": Case(node("Squeeze", "x a"), x={"x": (1, 3, 1, 5)}, c={"a": np.array([2], I64)}),
    "squeeze, old": Case(node("Squeeze", "x", axes=[0]), x={"x": (1, 3, 1, 5)}, opset=11),
    "unsqueeze": Case(node("Unsqueeze", "x a"), x={"x": (3, 5)}, c={"a": np.array([0, -1], I64)}),
    "identity": Case(node("Identity", "x"), x={"x": (3, 5)}),
    "concat": Case(
        node("Concat", "a b k", axis=1), x={"a": (2, 3, 4), "b": (2, 1, 4)}, c={"k": f32(2, 2, 4)}
    ),
    "split": Case(
        node("Split", "x s", "y z", axis=-1), x={"x": (2, 7)}, c={"s": np.array([3, 4], I64)}, out=("y", "z")
    ),
    "slice": Case(
        node("Slice", "x s e a t"),
        x={"x": (5, 9, 4)},
        c={"s": np.array([-1, 1]), "e": np.array([-100, 8]), "a": np.array([0, 1]), "t": np.array([-2, 3])},
    ),
    "slice, old": Case(node("Slice", "x", starts=[1], ends=[1000]), x={"x": (5, 9)}, opset=9),
    "transpose": Case(node("Transpose", "x", perm=[2, 0, 3, 1]), x={"x": (2, 3, 4, 5)}),
    "transpose of all": Case(node("Transpose", "x"), x={"x": (2, 3, 4)}),
    "pad": Case(node("Pad", "x p v"), x={"x": (3, 4)}, c={"p": np.array([1, 0, 2, 3]), "v": np.float32(7)}),
    "pad, reflected": Case(
        node("Pad", "x p", mode="reflect"), x={"x": (3, 4)}, c={"p": np.array([1, 2, 2, 3])}
    ),
    "pad, old": Case(node("Pad", "x", pads=[0, 1, 0, 1], value=2.0), x={"x": (3, 4)}, opset=9),
    "expand": Case(node("Expand", "x s"), x={"x": (3, 1)}, c={"s": np.array([2, 1, 4], I64)}),
    "tile": Case(node("Tile", "x r"), x={"x": (3, 2)}, c={"r": np.array([2, 3], I64)}),
    "depth to space": Case(node("DepthToSpace", "x", blocksize=2, mode="CRD"), x={"x": (1, 8, 3, 2)}),
    "space to depth": Case(node("SpaceToDepth", "x", blocksize=2), x={"x": (1, 2, 4, 6)}),
    "relu": Case(node("Relu", "x"), x={"x": (2, 3, 4)}),
    "leaky relu": Case(node("LeakyRelu", "x", alpha=0.3), x={"x": (2, 3)}),
    "clip": Case(node("Clip", "x a b"), x={"x": (5, 7)}, c={"a": np.float32(-0.5), "b": np.float32(0.25)}),
    "clip, one side": Case(node("Clip", "x a"), x={"x": (5, 7)}, c={"a": np.float32(0.1)}),
    "clip, old": Case(node("Clip", "x", min=-1.0, max=0.5), x={"x": (5, 7)}, opset=9),
    "selu": Case(node("Selu", "x"), x={"x": (5, 7)}),
    "hard sigmoid": Case(node("HardSigmoid", "x"), x={"x": (5, 7)}),
    "gelu": Case(node("Gelu", "x", approximate="tanh"), x={"x": (5, 7)}, opset=20),
    "softplus of tanh": Case(node("Softplus", "x", "s"), node("Tanh", "s"), x={"x": (5, 7)}),
    "add, broadcast": Case(node("Add", "a b"), x={"a": (2, 1, 4), "b": (3, 1)}),
    "prelu": Case(node("PRelu", "x s"), x={"x": (2, 3, 4, 5)}, c={"s": f32(3, 1, 1)}),
    "sub from constant": Case(node("Sub", "k x"), x={"x": (3, 4)}, c={"k": f32(4)}),
    "mean of three": Case(node("Mean", "a b c"), x={"a": (3, 4), "b": (4,), "c": (3, 1)}),
    "max of one": Case(node("Max", "a"), x={"a": (3, 4)}),
    "softmax": Case(node("Softmax", "x", axis=1), x={"x": (3, 9, 4)}),
    "softmax, old": Case(node("LogSoftmax", "x", axis=1), x={"x": (3, 9, 4)}, opset=11),
    "means of planes": Case(node("ReduceMean", "x", axes=[3, -2]), x={"x": (2, 9, 4, 5)}),
    **{
        f"{op} of planes": Case(node(f"Reduce{op}", "x", axes=[2, 3]), x={"x": (2, 9, 7, 5)}, opset=11)
        for op in ("Max", "Sum", "SumSquare", "L2")
    },
    "reduce": Case(node("ReduceMean", "x", axes=[1, -1], keepdims=0), x={"x": (3, 9, 4)}),
    "reduce by input": Case(
        node("ReduceSum", "x a"), x={"x": (3, 9, 4)}, c={"a": np.array([0], I64)}, opset=13
    ),
    "gather": Case(node("Gather", "x i", axis=1), x={"x": (3, 5, 2)}, c={"i": np.array([[4, 0], [-1, 2]])}),
    "gather one": Case(node("Gather", "x i"), x={"x": (3, 5)}, c={"i": np.array(1)}),
    "conv": Case(
        node("Conv", "x w b", strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2]),
        x={"x": (2, 3, 9, 11)},
        c={"w": f32(5, 3, 3, 2), "b": f32(5)},
    ),
    "conv, groups": Case(
        node("Conv", "x w", group=2, auto_pad="SAME_LOWER"), x={"x": (1, 4, 5, 6)}, c={"w": f32(6, 2, 2, 2)}
    ),
    "conv, depthwise": Case(
        node("Conv", "x w", group=4, pads=[1, 1, 1, 1]), x={"x": (1, 4, 5, 6)}, c={"w": f32(4, 1, 3, 3)}
    ),
    "conv, one dimension": Case(
        node("Conv", "x w b", strides=[2], pads=[1, 1]),
        x={"x": (2, 3, 9)},
        c={"w": f32(4, 3, 3), "b": f32(4)},
    ),
    "transposed convolution": Case(
        node("ConvTranspose", "x w b", strides=[2, 3], pads=[1, 0, 1, 2], output_padding=[1, 1], group=2),
        x={"x": (1, 4, 5, 6)},
        c={"w": f32(4, 3, 3, 4), "b": f32(6)},
    ),
    "transposed convolution of a shape": Case(
        node("ConvTranspose", "x w", strides=[2, 2], auto_pad="SAME_UPPER"),
        x={"x": (1, 2, 5, 6)},
        c={"w": f32(2, 3, 3, 3)},
    ),
    "transposed convolution, given shape": Case(
        node("ConvTranspose", "x w", strides=[3, 2], output_shape=[10, 8], output_padding=[1, 1]),
        x={"x": (1, 1, 3, 3)},
        c={"w": f32(1, 2, 3, 3)},
    ),
    "transposed convolution, one dimension": Case(
        node("ConvTranspose", "x w", strides=[2], dilations=[2]), x={"x": (2, 3, 5)}, c={"w": f32(3, 2, 3)}
    ),
    "max pool": Case(
        node("MaxPool", "x", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]), x={"x": (1, 3, 9, 8)}
    ),
    "max pool, ceil": Case(
        node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), x={"x": (1, 3, 8, 8)}
    ),
    "average pool": Case(
        node("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), x={"x": (1, 3, 6, 5)}
    ),
    "average pool, pads count": Case(
        node("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        x={"x": (1, 3, 6, 5)},
    ),
    "max pool, ceil, a window behind the data": Case(
        node("MaxPool", "x", kernel_shape=[1, 2], strides=[2, 4], pads=[0, 0, 0, 1], ceil_mode=1),
        x={"x": (1, 3, 4, 4)},
        opset=22,  # whose inference leaves it out, as onnxruntime does for all
    ),
    "average pool, ceil": Case(
        node("AveragePool", "x", kernel_shape=[3], strides=[2], ceil_mode=1), x={"x": (1, 3, 8)}, opset=19
    ),
    "max pool of volumes": Case(
        node("MaxPool", "x", kernel_shape=[2, 3, 3], strides=[2, 1, 2], pads=[1, 0, 1, 0, 1, 1], ceil_mode=1),
        x={"x": (2, 3, 6, 7, 8)},
    ),
    "average pool of volumes": Case(
        node("AveragePool", "x", kernel_shape=[3, 2, 2], strides=[2, 1, 1], pads=[1, 1, 0, 1, 0, 1]),
        x={"x": (1, 3, 5, 6, 7)},
    ),
    "convolution of volumes": Case(
        node("Conv", "x w b", strides=[2, 1, 2], pads=[1, 0, 1, 2, 1, 0], dilations=[2, 1, 1], group=2),
        x={"x": (2, 4, 7, 6, 8)},
        c={"w": f32(6, 2, 3, 2, 3), "b": f32(6)},
    ),
    "global average pool": Case(node("GlobalAveragePool", "x"), x={"x": (2, 3, 7, 9)}),
    "global max pool": Case(node("GlobalMaxPool", "x"), x={"x": (2, 3, 7)}),
    "batch normalization": Case(
        node("BatchNormalization", "x s b m v", epsilon=1e-3),
        x={"x": (2, 3, 4, 5)},
        c={"s": f32(3), "b": f32(3), "m": f32(3), "v": np.abs(f32(3)) + 0.1},
    ),
    "normalized and scaled convolution": Case(
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c s b m v", "n"),
        node("Mul", "n f", "k"),
        node("Add", "k g"),
        x={"x": (2, 3, 6, 5)},
        c={
            "w": f32(4, 3, 3, 3),
            "s": f32(4),
            "b": f32(4),
            "m": f32(4),
            "v": np.abs(f32(4)) + 0.1,
            "f": f32(4, 1, 1),
            "g": f32(1, 4, 1, 1),
        },
    ),
    "where the largest is": Case(
        node("ArgMax", "x", "i", axis=1, keepdims=0), node("Cast", "i", "y", to=1), x={"x": (3, 9, 4)}
    ),
    "the largest": Case(
        node("TopK", "x k", "y i", axis=1),
        node("Cast", "i", "z", to=1),
        x={"x": (3, 9)},
        c={"k": np.array([4])},
        out=("y", "z"),
    ),
    "resize, nearest": Case(
        node("Resize", "x r s", mode="nearest"),
        x={"x": (1, 2, 3, 4)},
        c={"r": f32(0), "s": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "resize, linear": Case(
        node("Resize", "x r e t", mode="linear", coordinate_transformation_mode="align_corners"),
        x={"x": (1, 2, 3, 4)},
        c={"r": f32(0), "e": f32(0), "t": np.array([1, 2, 7, 5])},
    ),
    "resize, cubic and smaller": Case(
        node("Resize", "x r s", mode="cubic"),
        x={"x": (1, 2, 8, 9)},
        c={"r": f32(0), "s": np.array([1, 1, 0.5, 0.7], np.float32)},
    ),
    "upsample": Case(
        node("Upsample", "x s", mode="nearest"),
        x={"x": (1, 2, 3, 4)},
        c={"s": np.array([1, 1, 2, 3], np.float32)},
        opset=9,
    ),
    "sum of all": Case(node("ReduceSum", "x", keepdims=0), x={"x": (3, 9, 4)}),
    "product of vectors": Case(node("MatMul", "a b"), x={"a": (7,), "b": (7,)}),
    "where the largest of all is": Case(
        node("ArgMax", "x", "i", keepdims=0), node("Cast", "i", "y", to=1), x={"x": (9,)}
    ),
    "gather a number": Case(node("Gather", "x i"), x={"x": (5,)}, c={"i": np.array(3)}),
    "gemm, computed summand": Case(
        node("Gemm", "a b c", beta=0.5), x={"a": (3, 4), "b": (4, 5), "c": (3, 1)}
    ),
    "clip, computed limits": Case(
        node("ReduceMin", "a", "l", keepdims=0), node("Clip", "x l b"), x={"x": (5, 7), "a": (3,), "b": ()}
    ),
    "dropout with its mask": Case(
        node("Dropout", "x", "y m"), node("Cast", "m", "z", to=1), x={"x": (3, 4)}, out=("y", "z")
    ),
    "concat of many": Case(node("Concat", "x " * 35, axis=1), x={"x": (2, 3)}),
    "concat with nothing": Case(
        node("Slice", "x s e a", "n"),
        node("Concat", "x n x", axis=1),
        x={"x": (2, 3)},
        c={"s": np.array([0]), "e": np.array([0]), "a": np.array([1])},
    ),
    "cast like": Case(node("CastLike", "x t"), x={"x": (3, 4)}, c={"t": f32(1)}),
    "number of elements": Case(
        node("Size", "x", "n"), node("Cast", "n", "f", to=1), node("Div", "x f"), x={"x": (3, 4)}
    ),
    "sine": Case(node("Sin", "x"), x={"x": (5, 7)}),
    "cosine": Case(node("Cos", "x"), x={"x": (5, 7)}),
    "hyperbolic sine": Case(node("Sinh", "x"), x={"x": (5, 7)}),
    "hyperbolic cosine": Case(node("Cosh", "x"), x={"x": (5, 7)}),
    "its inverse": Case(node("Cosh", "x", "c"), node("Acosh", "c"), x={"x": (5, 7)}),
    "hardmax": Case(node("Hardmax", "x", axis=1), x={"x": (3, 9, 4)}),
    "hardmax, old": Case(node("Hardmax", "x", axis=1), x={"x": (3, 9)}, opset=11),
    "divided by its norm": Case(node("LpNormalization", "x", axis=1, p=1), x={"x": (3, 9, 4)}),
    "pool of powers": Case(
        node("LpPool", "x", kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1], p=3),
        x={"x": (1, 3, 6, 7)},
    ),
    "pool of squares": Case(node("LpPool", "x", kernel_shape=[3]), x={"x": (1, 3, 6)}),
    "pool of absolutes": Case(node("LpPool", "x", kernel_shape=[2, 2], p=1), x={"x": (1, 3, 6, 7)}),
    "batch normalization, computed": Case(
        node("Abs", "v", "w"),
        node("BatchNormalization", "x s b m w"),
        x={"x": (2, 3, 4, 5), "s": (3,), "b": (3,), "m": (3,), "v": (3,)},
    ),
    "loss": Case(
        node("LogSoftmax", "x", "l", axis=1),
        node("NegativeLogLikelihoodLoss", "l t w"),
        x={"x": (2, 5, 3)},
        c={"t": np.array([[1, 4, 0], [3, 3, 2]]), "w": np.abs(f32(5))},
    ),
    "loss without one class": Case(
        node("NegativeLogLikelihoodLoss", "x t", ignore_index=3),
        x={"x": (2, 5, 3)},
        c={"t": np.array([[1, 4, 0], [3, 3, 2]])},
    ),
    "losses": Case(
        node("SoftmaxCrossEntropyLoss", "x t", reduction="none", ignore_index=-1),
        x={"x": (2, 5, 3)},
        c={"t": np.array([[1, 4, 0], [3, -1, 2]])},
    ),
    "transposed convolution of volumes": Case(
        node("Relu", "x", "r"),
        node("ConvTranspose", "r w b", "t", strides=[2, 2, 2]),
        node("Relu", "t"),
        x={"x": (2, 3, 4, 5, 6)},
        c={"w": f32(3, 4, 2, 2, 2), "b": f32(4)},
    ),
    "transposed convolution of volumes, planes left over": Case(
        node("ConvTranspose", "x w", strides=[3, 1, 2], pads=[1, 0, 1, 2, 1, 0], output_padding=[0, 0, 1]),
        x={"x": (1, 3, 4, 5, 6)},
        c={"w": f32(3, 2, 4, 2, 3)},
    ),
    "pool of whole volumes": Case(node("GlobalAveragePool", "x"), x={"x": (2, 3, 4, 5, 6)}),
    "maxima of whole volumes": Case(node("GlobalMaxPool", "x"), x={"x": (2, 3, 4, 5, 6)}),
    "lrn": Case(node("LRN", "x", size=3, alpha=0.5), x={"x": (2, 7, 4, 5)}),
    "layer normalization": Case(
        node("LayerNormalization", "x s b", axis=-2), x={"x": (3, 4, 5)}, c={"s": f32(4, 5), "b": f32(4, 5)}
    ),
    "layer normalization without shift": Case(
        node("LayerNormalization", "x s"), x={"x": (3, 9)}, c={"s": f32(9)}
    ),
    "instance normalization": Case(
        node("InstanceNormalization", "x s b"), x={"x": (2, 3, 4, 5)}, c={"s": f32(3), "b": f32(3)}
    ),
    "where a is larger": Case(
        node("Greater", "a b", "g"), node("Where", "g a k"), x={"a": (3, 4), "b": (4,)}, c={"k": f32(1)}
    ),
    "truth as numbers": Case(
        node("Less", "a b", "l"),
        node("Equal", "a b", "e"),
        node("Or", "l e", "o"),
        node("Not", "o", "n"),
        node("Cast", "n", "y", to=1),
        x={"a": (3, 4), "b": (4,)},
    ),
    "numbers to integers and back": Case(
        node("Cast", "x", "i", to=7), node("Cast", "i", "y", to=1), x={"x": (3, 40)}
    ),
    "numbers as truth": Case(
        node("Relu", "x", "r"), node("Cast", "r", "t", to=9), node("Cast", "t", "y", to=1), x={"x": (3, 40)}
    ),
    "normalized without convolution": Case(
        node("BatchNormalization", "x s b m v", "n"),
        node("Mul", "n f", "k"),
        node("Relu", "k"),
        x={"x": (2, 3, 6, 5)},
        c={"s": f32(3), "b": f32(3), "m": f32(3), "v": np.abs(f32(3)) + 0.1, "f": f32(3, 1, 1)},
    ),
}


def save(case: Case, path: Path) -> Path:
    onnx.save(make_model(case.nodes, case.x, case.out, case.c, case.opset), str(path))
    return path


@pytest.mark.parametrize("name", CASES)
def test_a_node(name: str, toolkit: Toolkit, tmp_path: Path) -> None:
    path = save(CASES[name], tmp_path / "model.onnx")
    model = load_model(path)
    inputs = random_inputs(model)
    graph = Graph.from_onnx(path, toolkit=toolkit, cpu=False)
    graph.compile(opt=0)
    fed = {v.name: to_net(inputs[v.name], v) for v in model.inputs if v.name in graph.inputs}
    got = [from_net(array, value) for array, value in zip(graph.run(fed), model.outputs, strict=True)]
    for found in compare([v.name for v in model.outputs], got, reference(path, inputs)):
        assert found.relative <= TOLERANCE, found


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("normalized and scaled convolution", ["TPU_CONV"]),
        ("normalized without convolution", ["TPU_SCALE_SHIFT", "TPU_UNARY"]),
    ],
)
def test_channels_are_scaled_once(name: str, ops: list[str], toolkit: Toolkit, tmp_path: Path) -> None:
    graph = Graph.from_onnx(save(CASES[name], tmp_path / "model.onnx"), toolkit=toolkit)
    assert [layer.op.op for layer in graph.nodes] == ops


def test_several_nodes_static_and_dynamic(toolkit: Toolkit, tmp_path: Path) -> None:
    case = Case(
        node("Gemm", "x w b", "h"),
        node("Reshape", "h s", "r"),
        node("Transpose", "r", "t", perm=[1, 0, 2]),
        node("Concat", "t t", "y", axis=0),
        x={"x": (4, 6)},
        c={"w": f32(6, 10), "b": f32(10), "s": np.array([4, 5, 2], I64)},
    )
    path = save(case, tmp_path / "model.onnx")
    inputs = random_inputs(load_model(path))
    (want,) = reference(path, inputs)
    for dynamic in (False, True):
        graph = Graph.from_onnx(path, toolkit=toolkit)
        graph.compile(dynamic=dynamic)
        (found,) = compare(["y"], graph.run(inputs), [want])
        assert found.relative <= TOLERANCE


def test_an_output_keeps_its_name_where_it_is_a_constant(toolkit: Toolkit) -> None:
    nodes = [node("Identity", "k", "c"), node("Add", "x c", "y")]
    constant = f32(2, 3)
    graph = Graph.from_onnx(make_model(nodes, {"x": (2, 3)}, ["y", "c"], {"k": constant}), toolkit=toolkit)
    assert graph.outputs == ("y", "c")
    graph.compile()
    y, c = graph.run({"x": np.ones((2, 3), np.float32)})
    assert np.array_equal(c, constant) and np.array_equal(y, constant + 1)


def test_what_no_layer_computes_is_named(toolkit: Toolkit, tmp_path: Path) -> None:
    case = Case(
        node("Tile", "x r", "t", name="twice"),
        node("Det", "t", "d", name="det_1"),
        node("MatMul", "x q", "y", name="product"),
        x={"x": (2, 2), "q": (2, 2)},
        c={"r": np.array([1, 1], I64)},
        out=("d", "y"),
    )
    path = save(case, tmp_path / "model.onnx")
    with pytest.raises(
        CompileError, match=r"no layer does this:\n  Det det_1: there is no layer for this"
    ) as caught:
        Graph.from_onnx(path, toolkit=toolkit, cpu=False)
    assert "product" not in caught.value.message


@pytest.mark.parametrize(
    ("nodes", "shapes", "why"),
    [
        ([node("MaxPool", "x", "y i", kernel_shape=[2])], {"x": (1, 2, 4)}, "indices of the maxima"),
        (
            [node("ConvTranspose", "x w")],
            {"x": (1, 2, 4), "w": (2, 1, 3)},
            "'w' is computed; it must be a constant",
        ),
        (
            [node("GlobalMaxPool", "x")],
            {"x": (1, 2, 3, 4, 5, 2)},
            "only one, two or three spatial dimensions",
        ),
    ],
)
def test_what_a_layer_cannot_do_is_said(
    nodes: list[Any], shapes: dict[str, tuple[int, ...]], why: str, toolkit: Toolkit, tmp_path: Path
) -> None:
    outputs = tuple(nodes[0].output)
    model = make_model(nodes, shapes, outputs[:1])
    for name in outputs[1:]:
        model.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.INT64, None))
    onnx.save(model, str(tmp_path / "model.onnx"))
    with pytest.raises(CompileError, match=re.escape(why)):
        Graph.from_onnx(tmp_path / "model.onnx", toolkit=toolkit, cpu=False)


def test_custom_nodes_and_maps(toolkit: Toolkit, tmp_path: Path) -> None:
    """A node in the domain tpulayer is a layer; --map makes one of any. Attributes are parameters."""
    custom = helper.make_node("TPU_CONST_BINARY", ["x"], ["m"], domain="tpulayer", value=3.0, binary_op=2)
    case = Case(custom, node("Neg", "m", name="minus"), x={"x": (2, 3)})
    path = save(case, tmp_path / "model.onnx")
    graph = Graph.from_onnx(path, toolkit=toolkit, custom=parse_map(["minus=TPU_COPY"]))
    graph.compile()
    x = f32(2, 3)
    (y,) = graph.run({"x": x})
    assert np.array_equal(y, x * np.float32(3))
    with pytest.raises(UsageError, match=r"--map minus: expected NODE=TPU_OP or NODE=FILE.py:FUNCTION"):
        parse_map(["minus"])


def test_the_command_compiles_and_compares(toolkit: Toolkit, tmp_path: Path) -> None:
    path = save(CASES["gemm"], tmp_path / "model.onnx")
    lines: list[str] = []
    assert run(CompileOptions(path, tmp_path / "net", report=True), lines.append, toolkit)
    assert (tmp_path / "net" / "compilation.bmodel").is_file()
    assert any("1 layer: 1 " in line for line in lines)
    assert "MATMUL" in (tmp_path / "net" / "report.txt").read_text()
    assert {"report.json", "local_memory.svg"} <= {path.name for path in (tmp_path / "net").iterdir()}
    assert re.fullmatch(r"y equals onnxruntime's within \d\.\de-\d+ of its largest value", lines[-1])


def test_the_command_notices_a_difference(toolkit: Toolkit, tmp_path: Path) -> None:
    """A node mapped to a layer that does something else; onnxruntime knows the operation."""
    path = save(Case(node("Neg", "x"), x={"x": (2, 3)}), tmp_path / "model.onnx")
    x = random_inputs(load_model(path))
    (found,) = compare(["y"], [x["x"]], reference(path, x))
    assert found.relative == pytest.approx(2.0)
    with pytest.raises(CompileError, match=r"output 'y' is \[6\], onnxruntime gives \[2, 3\]"):
        compare(["y"], [x["x"].reshape(6)], reference(path, x))
    lines: list[str] = []
    options = CompileOptions(path, tmp_path / "net", custom=["Neg=TPU_COPY"])
    assert run(options, lines.append, toolkit)
    assert lines[-2].startswith("y equals onnxruntime's within 0.0e+00")
    assert lines[-1].startswith("Neg mapped, 1 node: at most 2.0e+00 of the largest value off onnxruntime's")


@pytest.mark.parametrize("word", ["x", "x=", "=1x2", "x=1xa"])
def test_bad_shapes(word: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=1x3x224x224"):
        parse_shapes([word])


def test_the_documentation_lists_every_operation() -> None:
    load_converters()
    text = (ROOT / "docs" / "onnx.md").read_text()
    section = text.partition("## Operations with layers\n\n")[2].partition("\n\n")[0]
    listed = set(re.findall(r"\w+", section))
    own = {
        AFFINE,
        ATTENTION,
        CHANNEL_NORM,
        OR_ZERO,
        PIXELS,
        PIXEL_SUMS,
        REARRANGE,
        TURN,
        UNIT_ROWS,
    }  # of this compiler alone
    assert listed == CONVERTERS.keys() - own | {"BatchNormalization"}


@pytest.mark.parametrize("zero", [0, 7, 128])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_integers_at_the_edges(dtype: str, zero: int, toolkit: Toolkit) -> None:
    """DequantizeLinear of an input and QuantizeLinear of an output are layers; bytes are transposed."""
    make, kind = helper.make_node, np.dtype(dtype)
    ends = np.iinfo(kind)
    point = np.array(min(zero, ends.max), kind)
    nodes = [
        make("DequantizeLinear", ["x", "s", "z"], ["f"]),
        make("Tan", ["f"], ["g"]),  # on the host: what stands around it is by itself
        make("QuantizeLinear", ["g", "t", "z"], ["q"]),
        make("Transpose", ["q"], ["y"], perm=[0, 2, 1]),
    ]
    constants = {"s": np.float32(0.037), "z": point, "t": np.float32(0.0051)}
    model = make_model(nodes, {"x": [2, 9, 40]}, ["y"], constants)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(kind)
    graph = Graph.from_onnx(model, toolkit=toolkit)
    assert [node.op.short for node in graph.nodes].count("CAST") == 2
    assert sum(node.cpu is not None for node in graph.nodes) == 1
    graph.compile()
    x = np.arange(ends.min, ends.min + 720, dtype=np.int64).astype(kind).reshape(2, 9, 40)
    (want,) = reference(from_proto(model), {"x": x})
    (got,) = graph.run({"x": x})
    assert got.dtype == want.dtype and np.abs(got.astype(int) - want.astype(int)).max() <= 1
    assert (got != want).mean() < 0.01
