"""A decoder block as exporters write it, quantised by onnxruntime: every product in 8 bits, as near to the
float model as onnxruntime's own integers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper
from onnxruntime.quantization import QuantFormat, quantize_static

from tests.support.onnx_models import make_model
from user_layers.bmodel import write
from user_layers.compiler.pipeline import compile_graph
from user_layers.onnx.build import build
from user_layers.onnx.load import from_proto
from user_layers.quantize.quality import compared
from user_layers.runtime import BModelRuntime
from user_layers.runtime.onnx_session import open_session
from user_layers.toolkit import Toolkit

TOKENS, CHANNELS, HEADS, GROUPS = 40, 64, 4, 2
SIZE = CHANNELS // HEADS
Array = npt.NDArray[Any]


class Block:
    """Its nodes. Names of values go on with numbers, as PyTorch's exporter gives them: what one begins with
    is another."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        count = sum(node.op_type == op for node in self.nodes)
        name = op.lower() + (f"_{count}" if count else "")
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def constant(self, array: npt.ArrayLike) -> str:
        name = f"val_{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def product(self, x: str, inner: int, columns: int) -> str:
        weights = self.random.standard_normal((inner, columns)) * inner**-0.5
        return self.add("MatMul", x, self.constant(weights.astype(np.float32)))

    def norm(self, x: str) -> str:
        """RMS, in single operations."""
        squares = self.add("ReduceMean", self.add("Pow", x, self.number(2)), axes=[-1])
        root = self.add("Sqrt", self.add("Add", squares, self.number(1e-5)))
        scaled = self.add("Mul", x, self.add("Reciprocal", root))
        return self.add("Mul", self.constant(np.linspace(0.5, 2, CHANNELS).astype(np.float32)), scaled)

    def heads(self, x: str, count: int) -> str:
        shape = self.constant([1, TOKENS, count, SIZE])
        return self.add("Transpose", self.add("Reshape", x, shape), perm=[0, 2, 1, 3])

    def turned(self, x: str) -> str:
        """Rotary positions."""
        half = [self.constant([n]) for n in (0, SIZE // 2, SIZE, 3)]
        left, right = (
            self.add("Slice", x, a, b, half[3]) for a, b in ((half[0], half[1]), (half[1], half[2]))
        )
        other = self.add("Concat", self.add("Neg", right), left, axis=-1)
        angles = np.outer(np.arange(TOKENS), 100.0 ** -np.linspace(0, 1, SIZE // 2))
        whole = np.concatenate([angles, angles], axis=1)[None, None].astype(np.float32)
        cos, sin = self.constant(np.cos(whole)), self.constant(np.sin(whole))
        return self.add("Add", self.add("Mul", x, cos), self.add("Mul", other, sin))

    def repeated(self, x: str) -> str:
        times = HEADS // GROUPS
        wide = self.add("Reshape", x, self.constant([1, GROUPS, 1, TOKENS, SIZE]))
        wide = self.add("Expand", wide, self.constant([1, GROUPS, times, TOKENS, SIZE]))
        return self.add("Reshape", wide, self.constant([1, HEADS, TOKENS, SIZE]))

    def attention(self, x: str) -> str:
        query = self.turned(self.heads(self.product(x, CHANNELS, CHANNELS), HEADS))
        key = self.turned(self.heads(self.product(x, CHANNELS, GROUPS * SIZE), GROUPS))
        value = self.heads(self.product(x, CHANNELS, GROUPS * SIZE), GROUPS)
        root = self.number(SIZE**-0.25)
        query = self.add("Mul", query, root)
        key = self.add("Mul", self.add("Transpose", self.repeated(key), perm=[0, 1, 3, 2]), root)
        mask = np.triu(np.full((1, 1, TOKENS, TOKENS), -1e4, np.float32), 1)
        scores = self.add("Add", self.add("MatMul", query, key), self.constant(mask))
        weights = self.add("Softmax", scores, axis=-1)
        weights = self.add("Where", self.add("IsNaN", weights), self.number(0), weights)
        made = self.add("Transpose", self.add("MatMul", weights, self.repeated(value)), perm=[0, 2, 1, 3])
        joined = self.add("Reshape", made, self.constant([1, TOKENS, CHANNELS]))
        return self.product(joined, CHANNELS, CHANNELS)

    def hidden(self, x: str) -> str:
        gate = self.product(x, CHANNELS, 96)
        gate = self.add("Mul", gate, self.add("Sigmoid", gate))
        return self.product(self.add("Mul", gate, self.product(x, CHANNELS, 96)), 96, CHANNELS)


def decoder() -> onnx.ModelProto:
    block = Block()
    first = block.add("Add", "x", block.attention(block.norm("x")))
    block.add("Add", first, block.hidden(block.norm(first)))
    return make_model(block.nodes, {"x": (1, TOKENS, CHANNELS)}, [block.nodes[-1].output[0]], block.constants)


class Samples:
    """Random ones, as the quantiser asks for them."""

    def __init__(self) -> None:
        self._left: Iterator[dict[str, Array]] = ({"x": sample(seed)} for seed in range(8))

    def get_next(self) -> dict[str, Array] | None:
        return next(self._left, None)


def sample(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((1, TOKENS, CHANNELS)).astype(np.float32)


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_a_decoder_block(toolkit: Toolkit, tmp_path: Path, form: QuantFormat) -> None:
    plain = decoder()
    onnx.save(plain, str(tmp_path / "plain.onnx"))
    quantize_static(
        str(tmp_path / "plain.onnx"),
        str(tmp_path / "made.onnx"),
        Samples(),
        quant_format=form,
        per_channel=form is QuantFormat.QDQ,
    )
    made = onnx.load(str(tmp_path / "made.onnx"))
    built = build(from_proto(made), "net", toolkit=toolkit)
    done = built.quantised
    assert done is not None and done.share == 1.0, done and done.lines()
    ops = [node.op.short for node in done.graph.nodes]
    assert ops.count("ATTENTION") == 1 and ops.count("NORM") == 2 and "SOFTMAX" not in ops
    assert "EXPAND" not in ops and "CPU" not in ops
    x = sample(99)
    (want,), (theirs,) = (
        open_session(model.SerializeToString()).run(None, {"x": x}) for model in (plain, made)
    )
    with BModelRuntime(toolkit.device) as runtime:
        runtime.load(write(compile_graph(done.graph)))
        (ours,) = runtime.launch("net", [x])
    assert compared(want, ours).sqnr > max(compared(want, theirs).sqnr - 1, 20)
