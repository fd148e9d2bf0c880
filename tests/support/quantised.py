"""Integers with a scale, and nets of layers that take them, run in every way that there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.wire import DType
from tpulayer import Graph
from user_layers.toolkit import Toolkit

Array = npt.NDArray[Any]
ENDS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
DTYPE = {"int8": int(DType.INT8), "uint8": int(DType.UINT8)}

MODES: tuple[dict[str, Any], ...] = ({"opt": 0}, {"opt": 1}, {"opt": 2}, {"dynamic": True})
"""What `ran` may be told: alone in DDR, in groups, in the best ones found, dynamically."""


def integers(shape: Sequence[int], dtype: str, seed: int = 0) -> Array:
    """Any number of the type, its ends among them."""
    low, high = ENDS[dtype]
    found = np.random.default_rng(seed).integers(low, high + 1, tuple(shape)).astype(dtype)
    found.reshape(-1)[:2] = [low, high][: found.size]
    return found


def saturated(x: Array, dtype: str) -> Array:
    """Wide integers limited to the type."""
    found: Array = np.clip(x, *ENDS[dtype]).astype(dtype)
    return found


def half_up(x: Array, rshift: int) -> Array:
    """x / 2**rshift to the nearest integer, halves upwards; x: int64."""
    found: Array = (x + (1 << (rshift - 1) if rshift else 0)) >> rshift
    return found


def floats(x: Array, scale: float) -> Array:
    """What the integers mean."""
    found: Array = x.astype(np.float32) * np.float32(scale)
    return found


def net(toolkit: Toolkit, inputs: Mapping[str, Array], scales: Sequence[float]) -> Graph:
    """A graph with quantised inputs in 4N."""
    graph = Graph(name="net", toolkit=toolkit)
    for (name, x), scale in zip(inputs.items(), scales, strict=True):
        graph.add_input(name, x.shape, x.dtype.name, scale=scale)
    return graph


def ran(
    toolkit: Toolkit,
    build: Callable[[Graph], object],
    inputs: Mapping[str, Array],
    scales: Sequence[float],
    modes: Sequence[Mapping[str, Any]] = MODES,
) -> list[list[Array]]:
    """The net's outputs in each of the modes; build: adds the layers."""
    found = []
    for options in modes:
        graph = net(toolkit, inputs, scales)
        build(graph)
        graph.compile(**options)
        found.append(graph.run(dict(inputs)))
    return found


def check(
    toolkit: Toolkit,
    build: Callable[[Graph], object],
    inputs: Mapping[str, Array],
    scales: Sequence[float],
    wants: Sequence[Array],
    modes: Sequence[Mapping[str, Any]] = MODES,
) -> None:
    """The outputs are those, bit for bit, in all modes."""
    for options, got in zip(modes, ran(toolkit, build, inputs, scales, modes), strict=True):
        for y, want in zip(got, wants, strict=True):
            assert y.dtype == want.dtype, options
            np.testing.assert_array_equal(y, want, err_msg=str(options))
