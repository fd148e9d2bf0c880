"""Layers of faulty_more.c and correct_more.c, each alone, between others or in a larger net."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.faults.kernel_case import Array, random
from tests.faults.net_case import DYNAMIC, GLOBAL, LOCAL, Net, layer
from tpulayer import Graph
from user_layers.graph import BINARY_ADD, BINARY_MUL

_MAP = random(1, 20, 6, 7)
_ODD = random(3, 20, 7, 9)
_TALL = random(1, 2, 501, 191)  # 373 KiB of a lane: groups are cut into tiles
_WIDE = random(1, 100, 6, 7)
_THREE = (random(2, 3, 5, 6), random(2, 5, 5, 6), random(2, 4, 5, 6))
_ROWS = random(12, 9)


def _global(mode: str) -> tuple[Net, ...]:
    return (
        layer("F_ROWS_OF_THE_FIRST", mode, _MAP, outputs=2),
        layer("F_BUFFER_OF_ELEMENTS", mode, _MAP),
        layer("F_SUMS_IN_ITS_BUFFER", mode, _MAP),
        layer("F_PAIRS_OF_BATCHES", mode, _ODD),
        layer("F_ROWS_ROUNDED_UP", mode, _ODD),
        layer("F_PLACE_OF_THE_THIRD", mode, *_THREE),
        layer("F_HALVES_FOR_WORDS", mode, _MAP),
        layer("F_PAIRS_OF_CONSTANTS", mode, _MAP, consts=[random(1, 20, 1, 1)]),
    )


def _joined_and_halved(graph: Graph) -> None:
    """A layer that leaves something out stands before one that puts it behind other tensors."""
    (y,) = graph.add_tpu_layer("TPU_F_PAIRS_OF_BATCHES", ["x"], None, ["y"])
    half = graph.add_const_binary_layer("x", 0.5, "half", BINARY_MUL)
    (joined,) = graph.add_tpu_layer("TPU_C_THREE_IN_A_ROW", [half, y, half], None, ["joined"])
    graph.add_const_binary_layer(joined, 1.0, "z", BINARY_ADD)


FAULTY: dict[str, tuple[Net, ...]] = {
    "global layers": (*_global(GLOBAL), layer("F_POINTER_WHILE_RECORDED", GLOBAL, _MAP)),
    "dynamic nets": (
        *_global(DYNAMIC),
        layer("F_ONE_ROW_MORE", DYNAMIC, _ROWS),
        layer("F_BUFFER_TOO_EARLY", DYNAMIC, _MAP),
    ),
    "local layers": tuple(
        layer(op, LOCAL, x)
        for op, x in (
            ("F_SCRATCH_OF_A_SLOT", _WIDE),
            ("F_ADDS_TO_SCRATCH", _MAP),
            ("F_PAIRS_OF_COLUMNS", _MAP),
            ("F_READS_WHAT_IT_REPLACED", _MAP),
            ("F_TWO_ROWS_FEWER", _TALL),
        )
    ),
    "nets": (Net("joined_and_halved", "TPU_F_PAIRS_OF_BATCHES", {"x": _ODD}, _joined_and_halved),),
}


def _two_shapes(x: Array) -> Any:
    h = x.shape[2] // 2
    return x, x[:, :, : 2 * h].reshape(*x.shape[:2], h, 2, -1).max(3)


def _shapes_joined(graph: Graph) -> None:
    """One layer's outputs go to two layers, and come together again."""
    twice = graph.add_const_binary_layer("x", 2.0, "twice", BINARY_MUL)
    whole, half = graph.add_tpu_layer("TPU_C_TWO_SHAPES", [twice], None, ["whole", "half"])
    (sums,) = graph.add_tpu_layer("TPU_C_SUMS_IN_ITS_BUFFER", [half], None, ["sums"])
    graph.add_tpu_layer("TPU_C_THREE_IN_A_ROW", [half, sums, half], None, ["joined"])
    graph.add_const_binary_layer(whole, 1.0, "last", BINARY_ADD)


def _shapes_joined_expected(x: Array) -> Any:
    whole, half = _two_shapes(2 * x)
    return np.concatenate([half, 3 * half, half], 1), whole + 1


CORRECT: tuple[Net, ...] = (
    *(
        net
        for mode in (GLOBAL, DYNAMIC)
        for net in (
            layer("C_TWO_SHAPES", mode, _ODD, outputs=2, expected=_two_shapes),
            layer("C_SUMS_IN_ITS_BUFFER", mode, _MAP, expected=lambda x: 3 * x, tolerance=1e-6, runs=2),
            layer("C_THREE_IN_A_ROW", mode, *_THREE, expected=lambda *x: np.concatenate(x, 1)),
            Net(
                f"shapes_joined.{mode}",
                "",
                {"x": _ODD},
                _shapes_joined,
                mode,
                {},
                _shapes_joined_expected,
                1e-6,
            ),
        )
    ),
    layer("C_ROWS_ABOVE", DYNAMIC, _ROWS, expected=lambda x: x[x[:, 0] > 0], runs=2),
    layer("C_LARGEST_OF_ALL", DYNAMIC, _MAP, expected=lambda x: x + x.max()),
    *(
        layer(op, LOCAL, x, expected=expected)
        for op, expected in (
            ("C_REPLACES_ITS_INPUT", lambda x: np.minimum(x, 0)),
            ("C_PAIRS_OF_COLUMNS", lambda x: 2 * x),
        )
        for x in (_MAP,)
    ),
)
