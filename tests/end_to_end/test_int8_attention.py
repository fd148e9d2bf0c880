"""Attention between products in 8 bits: the same bits in every way, near to the float net; what stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.end_to_end.test_int8_tokens import Net, in_every_way, ops
from tests.end_to_end.test_layers_attention import packed
from user_layers.compiler.strips import in_strips
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.rewrite import QuantiseOptions, quantise
from user_layers.toolkit import Toolkit


def block(net: Net, tokens: int, masked: bool = False, **more: Any) -> str:
    """Four heads of 16 channels between two products."""
    joined = net.product("x", 64, 192)
    inputs = [joined] * 3
    if masked:
        mask = np.triu(np.full((tokens, tokens), -1e4, np.float32), 1)
        inputs.append(net.graph.add_const("mask", mask))
    return net.product(net.layer("TPU_ATTENTION", inputs, {**packed(4, 16), **more}), 64, 64)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("batch", "tokens"), [(1, 70), (1, 300), (5, 33)])
def test_between_products(toolkit: Toolkit, batch: int, tokens: int, masked: bool) -> None:
    net = Net(toolkit, (batch, tokens, 64))
    done = net.done(block(net, tokens, masked))
    assert done.share == 1.0 and ops(done).count("ATTENTION") == 1
    net.graph.compile(opt=0)
    wants = net.graph.run({"x": net.x})
    assert min(in_every_way(net, done, wants)) > 28
    strips = in_strips(done.graph, done.graph.resolve())
    assert (strips is not None) == (batch == 1)
    if strips is not None:
        strips.compile()
        again = strips.run({"x": net.x})
        assert all(np.array_equal(a, b) for a, b in zip(again, done.graph.run({"x": net.x}), strict=True))


def test_operands_of_a_sign_and_apart(toolkit: Toolkit) -> None:
    """Queries that are never negative, as uint8; keys and values straight from the net's input."""
    net = Net(toolkit, (2, 40, 64))
    queries = net.unary(net.product("x", 64, 64), "RELU")
    param = packed(4, 16, **{"from": (0, 0, 0)})
    done = net.done(net.layer("TPU_ATTENTION", [queries, "x", "x"], param))
    assert done.share == 1.0
    assert done.integers[queries][1] > 0
    net.graph.compile(opt=0)
    assert min(in_every_way(net, done, net.graph.run({"x": net.x}))) > 28


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"mixed": 1, "before": [1.0] * 64, "after": [1.0] * 64}, "heads that are mixed"),
        ({"size": 14}, "heads of 14 and 16 channels, no multiples of 4"),
    ],
)
def test_what_stays(toolkit: Toolkit, more: dict[str, Any], reason: str) -> None:
    net = Net(toolkit, (1, 40, 64))
    done = net.done(block(net, 40, **more))
    assert [row.reason for row in done.rows] == [None, reason, None]
    assert 0.5 < done.share < 1.0


def test_asked_for_and_unknown(toolkit: Toolkit) -> None:
    net = Net(toolkit, (1, 40, 64))
    made = block(net, 40)
    net.graph.add_output(made)
    table = calibrate(net.graph, [{"x": net.x}])
    kept = quantise(net.graph, table, QuantiseOptions(("t3",)))
    (row,) = (row for row in kept.rows if row.op == "TPU_ATTENTION")
    assert row.output == "t3" and row.reason == "asked for (t3)"
    joined = net.graph.nodes[1].inputs[0]
    del table.ranges[joined]  # type: ignore[attr-defined]
    unknown = quantise(net.graph, table)
    (row,) = (row for row in unknown.rows if row.op == "TPU_ATTENTION")
    assert row.reason == f"the table has no range of {joined!r}"
