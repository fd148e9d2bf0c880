"""Layers with a mistake, each alone, between others or in a larger net."""

from __future__ import annotations

from tests.faults.kernel_case import random
from tests.faults.net_case import DYNAMIC, GLOBAL, LOCAL, Net, layer
from tpulayer import Graph
from user_layers.graph import BINARY_ADD, BINARY_MUL

_MAP = random(1, 20, 6, 7)
_VECTOR = random(1, 20, 1, 1, low=1)
_TALL = random(1, 2, 500, 190)  # 371 KiB of a lane: groups are cut into tiles

_GLOBAL = tuple(
    net
    for mode in (GLOBAL, DYNAMIC)
    for net in (
        layer("F_WRITES_INPUT", mode, _MAP),
        layer("F_NO_BUFFER", mode, _MAP),
        layer("F_BUFFER_TOO_SMALL", mode, random(3, 20, 6, 7)),
        layer("F_PARTLY_WRITTEN", mode, random(1, 100, 6, 7)),
        layer("F_FIRST_BATCH", mode, random(3, 20, 6, 7)),
        layer("F_WRONG_DTYPE", mode, _MAP),
        layer("F_SMALLER_SHAPE", mode, _MAP),
        layer("F_NEIGHBOUR", mode, _MAP),
        layer("F_READS_OUTPUT", mode, _MAP),
        layer("F_WRITES_CONSTANT", mode, _MAP, consts=[_VECTOR]),
        layer("F_VECTOR_AS_MAP", mode, _MAP, random(1, 20, 1, 1)),
        layer("F_RACE", mode, random(3, 20, 6, 7)),
        layer("F_LEFT_IN_LOCAL", mode, _MAP),
        layer("F_SECOND_OUTPUT", mode, _MAP, outputs=2),
        layer("F_EXTENTS_OF_FIRST", mode, _MAP, random(1, 20, 5, 7)),
    )
)

_DYNAMIC = (
    layer("F_COMPILED_ROWS", DYNAMIC, random(1, 20, 4, 7), param={"rows": 6}, compiled=[(1, 20, 6, 7)]),
    layer("F_POINTER_BEYOND", DYNAMIC, _MAP),
)

_LOCAL = (
    layer("F_WRITES_INPUT_TILE", LOCAL, _MAP),
    layer("F_NO_LOCAL_BUFFER", LOCAL, _MAP),
    layer("F_LOCAL_BUFFER_TOO_SMALL", LOCAL, _MAP),
    layer("F_HALO_NOT_ASKED", LOCAL, _TALL),
    layer("F_BEHIND_ITS_TILE", LOCAL, _TALL),
    layer("F_WHOLE_FOR_TILE", LOCAL, _TALL),
    layer("F_LAST_ROW", LOCAL, _MAP),
    layer("F_COMPACT_TILE", LOCAL, random(1, 100, 6, 7)),
    layer("F_WRITES_LOCAL_CONSTANT", LOCAL, _MAP, consts=[_VECTOR]),
    layer("F_FIXED_ADDRESS", LOCAL, _MAP),
    layer("F_ADDS_TO_TILE", LOCAL, _MAP),
    layer("F_CONSTANT_AS_TILE", LOCAL, _MAP, consts=[_VECTOR]),
    layer("F_WORK_BEHIND_OUTPUT", LOCAL, _MAP),
    layer("F_TOP_EDGE", LOCAL, _MAP),
)


def _skip_over(graph: Graph) -> None:
    """The wrong layer's neighbour in DDR is kept for an addition behind it."""
    kept = graph.add_const_binary_layer("x", 3.0, "kept", BINARY_MUL)
    (y,) = graph.add_tpu_layer("TPU_F_NEIGHBOUR", ["x"], None, ["y"])
    graph.add_tpu_layer("TPU_BINARY", [y, kept], {"binary_op": BINARY_ADD}, ["sum"])


def _input_used_twice(graph: Graph) -> None:
    """The layer before writes what the wrong one overwrites and the last one reads."""
    kept = graph.add_const_binary_layer("x", 3.0, "kept", BINARY_MUL)
    (y,) = graph.add_tpu_layer("TPU_F_WRITES_INPUT", [kept], None, ["y"])
    graph.add_tpu_layer("TPU_BINARY", [y, kept], {"binary_op": BINARY_ADD}, ["sum"])


def _rest_read_behind(graph: Graph) -> None:
    """What the wrong layer leaves out is read by the next one."""
    (y,) = graph.add_tpu_layer("TPU_F_FIRST_BATCH", ["x"], None, ["y"])
    graph.add_const_binary_layer(y, 1.0, "z", BINARY_ADD)


def _tile_used_twice(graph: Graph) -> None:
    """The same within a group."""
    kept = graph.add_const_binary_layer("x", 3.0, "kept", BINARY_MUL)
    (y,) = graph.add_tpu_layer("TPU_F_WRITES_INPUT_TILE", [kept], None, ["y"])
    graph.add_tpu_layer("TPU_BINARY", [y, kept], {"binary_op": BINARY_ADD}, ["sum"])


def _work_over_a_branch(graph: Graph) -> None:
    """Work memory behind the output is another branch's tile."""
    kept = graph.add_const_binary_layer("x", 3.0, "kept", BINARY_MUL)
    twice = graph.add_const_binary_layer("x", 0.5, "half", BINARY_MUL)
    (y,) = graph.add_tpu_layer("TPU_F_WORK_BEHIND_OUTPUT", [twice], None, ["y"])
    graph.add_tpu_layer("TPU_BINARY", [y, kept], {"binary_op": BINARY_ADD}, ["sum"])


_NETS = (
    Net("skip_over", "TPU_F_NEIGHBOUR", {"x": _MAP}, _skip_over),
    Net("skip_over.dynamic", "TPU_F_NEIGHBOUR", {"x": _MAP}, _skip_over, DYNAMIC),
    Net("input_used_twice", "TPU_F_WRITES_INPUT", {"x": _MAP}, _input_used_twice),
    Net("rest_read_behind", "TPU_F_FIRST_BATCH", {"x": random(3, 20, 6, 7)}, _rest_read_behind),
    Net("tile_used_twice", "TPU_F_WRITES_INPUT_TILE", {"x": _MAP}, _tile_used_twice, LOCAL),
    Net("work_over_a_branch", "TPU_F_WORK_BEHIND_OUTPUT", {"x": _MAP}, _work_over_a_branch, LOCAL),
    Net("tile_used_twice.tall", "TPU_F_WRITES_INPUT_TILE", {"x": _TALL}, _tile_used_twice, LOCAL),
)

FAULTY: dict[str, tuple[Net, ...]] = {
    "global layers": _GLOBAL[: len(_GLOBAL) // 2],
    "dynamic nets": (*_GLOBAL[len(_GLOBAL) // 2 :], *_DYNAMIC),
    "local layers": _LOCAL,
    "nets": _NETS,
}
