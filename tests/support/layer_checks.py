"""One built-in layer by itself, compared with numpy bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from firmware_sim.errors import TpulayerError
from tpulayer import Graph
from user_layers.toolkit import Toolkit

Array = NDArray[Any]
DTYPES = ("float32", "int32", "float16", "int16", "uint8", "int8", "uint32", "uint16")


def sample(shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> Array:
    """Every bit pattern, also those that are not numbers: moving must not look at them."""
    count = math.prod(shape) * np.dtype(dtype).itemsize
    bits = np.random.default_rng(seed).integers(0, 256, count, np.uint8)
    return bits.view(dtype).reshape(shape)


def run(
    toolkit: Toolkit,
    op: str,
    param: Mapping[str, Any],
    inputs: Sequence[Array],
    outputs: int = 1,
    *,
    consts: Sequence[Array] = (),
    compiled: Sequence[Sequence[int]] | None = None,
    dynamic: bool = False,
) -> list[Array]:
    """One layer by itself; compiled: the shapes to compile for, where they are not those of the inputs."""
    graph = Graph(name="net", toolkit=toolkit)
    shapes = compiled or [x.shape for x in inputs]
    names = [
        graph.add_input(f"x{i}", s, x.dtype) for i, (x, s) in enumerate(zip(inputs, shapes, strict=True))
    ]
    names += [graph.add_const(f"c{i}", c) for i, c in enumerate(consts)]
    graph.add_tpu_layer(op, names, param, [f"y{i}" for i in range(outputs)])
    graph.compile(dynamic=dynamic)
    return graph.run({f"x{i}": x for i, x in enumerate(inputs)})


def same(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    bits = f"u{want.itemsize}"
    assert np.array_equal(got.view(bits), np.ascontiguousarray(want).view(bits))


def check(
    toolkit: Toolkit,
    op: str,
    param: Mapping[str, Any],
    x: Array | Sequence[Array],
    want: Array | Sequence[Array],
    consts: Sequence[Array] = (),
    modes: Sequence[bool] = (False, True),
) -> None:
    """Static and dynamic."""
    inputs = [x] if isinstance(x, np.ndarray) else list(x)
    wants = [want] if isinstance(want, np.ndarray) else list(want)
    for dynamic in modes:
        got = run(toolkit, op, param, inputs, len(wants), consts=consts, dynamic=dynamic)
        for g, w in zip(got, wants, strict=True):
            same(g, w)


def refused(toolkit: Toolkit, op: str, param: Mapping[str, Any], *inputs: Array, outputs: int = 1) -> None:
    with pytest.raises(TpulayerError, match=f"{op}.*shape function") as caught:
        run(toolkit, op, param, inputs, outputs)
    assert "BM_LAYER_" in str(caught.value)
