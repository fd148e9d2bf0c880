"""Averages over windows of several sizes, written as gathers, masks and sums: weighted sums along h and w."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import equals_onnxruntime, make_model
from tests.support.workspaces import builtin_toolkit
from user_layers.onnx.check import reference
from user_layers.onnx.load import load_model
from user_layers.onnx.pixel_sums import PIXEL_SUMS, sum_pixels
from user_layers.toolkit import Toolkit

Array = NDArray[Any]


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


class Pool:
    """An adaptive average pool as PyTorch writes it out: all windows as long as the longest, what is too much
    masked, then a mean, or one sum after the other and a division."""

    def __init__(self, height: int, width: int, made: tuple[int, int]) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.shape, self.made = (height, width), made

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def const(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values)
        return name

    def windows(self, axis: int) -> tuple[Array, Array, Array]:
        """Indices [made, longest], which of them are too much, and the lengths."""
        extent, made = self.shape[axis], self.made[axis]
        first = np.arange(made) * extent // made
        last = -(-(np.arange(made) + 1) * extent // made)
        steps = np.arange((last - first).max())
        indices = first[:, None] + steps
        return np.minimum(indices, extent - 1), indices >= last[:, None], last - first

    def write(self, *, one_by_one: bool) -> str:
        (rows, no_row, heights), (columns, no_column, widths) = self.windows(0), self.windows(1)
        pairs = np.stack(np.broadcast_arrays(rows[:, :, None, None], columns[None, None]), -1)
        turned = self.node("Transpose", ["x"], perm=[2, 3, 0, 1])
        picked = self.node("GatherND", [turned, self.const(pairs)])
        value = self.node("Transpose", [picked], perm=[4, 5, 0, 1, 2, 3])
        if no_row.any() or no_column.any() or one_by_one:
            zero = self.const(np.float32(0))
            value = self.node("Where", [self.const(no_row[:, :, None, None]), zero, value])
            value = self.node("Where", [self.const(~no_column), value, zero])
            if not one_by_one:
                value = self.node("ReduceSum", [value, self.const([3, -1])], keepdims=0)
        else:
            return self.node("ReduceMean", [value], axes=[-3, -1], keepdims=0)
        if one_by_one:
            parts = []
            for i in range(rows.shape[1]):
                row = self.node("Gather", [value, self.const(np.int64(i))], axis=3)
                for k in range(columns.shape[1]):
                    parts.append(self.node("Gather", [row, self.const(np.int64(k))], axis=-1))
            value = parts[0]
            for part in parts[1:]:
                value = self.node("Add", [value, part])
        return self.node("Div", [value, self.const((heights[:, None] * widths).astype(np.float32))])

    def model(self, name: str, batch: int = 2, channels: int = 5) -> Any:
        self.nodes.append(helper.make_node("Relu", [name], ["y"]))
        return make_model(self.nodes, {"x": (batch, channels, *self.shape)}, ["y"], self.constants)


def values(*shape: int) -> dict[str, Array]:
    return {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}


@examples(8)
@given(
    shape=st.tuples(st.integers(1, 17), st.integers(1, 17)),
    made=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    one_by_one=st.booleans(),
    channels=st.sampled_from([1, 70]),
)
def test_any_pool(
    toolkit: Toolkit, shape: tuple[int, int], made: tuple[int, int], one_by_one: bool, channels: int
) -> None:
    pool = Pool(*shape, made)
    proto = pool.model(pool.write(one_by_one=one_by_one), channels=channels)
    if max(pool.windows(i)[0].shape[1] for i in (0, 1)) > 1:
        assert [node.op for node in sum_pixels(load_model(proto)).nodes] == [PIXEL_SUMS, "Relu"]
    equals_onnxruntime(toolkit, proto, values(2, channels, *shape))


def test_as_large_as_in_networks(toolkit: Toolkit) -> None:
    pool = Pool(32, 40, (6, 3))
    equals_onnxruntime(toolkit, pool.model(pool.write(one_by_one=False)), values(2, 5, 32, 40))


def refused(pool: Pool, name: str) -> None:
    """The model stays as it is."""
    given = load_model(pool.model(name))
    assert sum_pixels(given).nodes == given.nodes
    (y,) = reference(given, values(2, 5, *pool.shape))
    assert y.size


def test_what_stays() -> None:
    def gathered(pool: Pool, indices: Array) -> str:
        turned = pool.node("Transpose", ["x"], perm=[2, 3, 0, 1])
        picked = pool.node("GatherND", [turned, pool.const(indices)])
        return pool.node("Transpose", [picked], perm=[*range(len(indices.shape) - 1, len(indices.shape) + 1),
                                                     *range(len(indices.shape) - 1)])  # fmt: skip

    pool = Pool(6, 6, (3, 3))  # three pixels of which no row and column make a sum
    value = gathered(pool, np.array([[[[0, 0], [1, 1], [2, 0]]]]))
    refused(pool, pool.node("ReduceSum", [value, pool.const([-1])], keepdims=0))
    pool = Pool(6, 6, (3, 3))  # nothing is added up
    refused(pool, gathered(pool, np.array([[[0, 0], [1, 1]]])))
    pool = Pool(6, 6, (3, 3))  # channels differ
    value = gathered(pool, np.array([[[[0, 0], [0, 1]]]]))
    scaled = pool.node("Mul", [value, pool.const(np.arange(5, dtype=np.float32).reshape(5, 1, 1, 1))])
    refused(pool, pool.node("ReduceSum", [scaled, pool.const([-1])], keepdims=0))
    pool = Pool(140, 6, (1, 1))  # more taps than the layer has
    name = pool.write(one_by_one=False)
    refused(pool, name)
