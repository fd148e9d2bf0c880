"""Attention between products in 8 bits: the same bits in every way, near to the float net; what stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.end_to_end.test_int8_tokens import MODES, Net, in_every_way, ops
from tests.end_to_end.test_layers_attention import packed
from user_layers.compiler.strips import in_strips
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.rewrite import QuantiseOptions, quantise
from user_layers.toolkit import Toolkit

WHOLE = tuple(options for options in MODES if options.get("opt") != 2)  # without strips of tokens


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
    alike = tokens <= 256  # sums of more keys are rounded in parts
    assert min(in_every_way(net, done, wants, MODES if alike else WHOLE)) > 28
    strips = in_strips(done.graph, done.graph.resolve())
    assert (strips is not None) == (batch == 1)
    if strips is not None:
        strips.compile()
        again = strips.run({"x": net.x})
        done.graph.compile(opt=0)
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


def test_what_is_faster_in_fp32(toolkit: Toolkit) -> None:
    """Few tokens that are no results of products would only be divided for it."""
    net = Net(toolkit, (2, 3, 48))
    done = net.done(net.layer("TPU_ATTENTION", ["x", "x", "x"], packed(4, 4)))
    assert done.rows[0].reason == "slower in 8 bits than in fp32"


@pytest.mark.parametrize("value", [0.02, 50.0])
def test_a_key_that_most_queries_look_at(toolkit: Toolkit, value: float) -> None:
    """Where its value is nothing beside the others', their weights of 8 bits are not enough; calibrating
    sees it."""
    net = Net(toolkit, (1, 600, 192))
    net.x[..., 0::64] = 5  # of each head the first channel
    net.x[:, 0, 64:128] = 0
    net.x[:, 0, 64] = 20
    net.x[:, 0, 128:] = value
    done = net.done(net.layer("TPU_ATTENTION", ["x", "x", "x"], packed(1, 64)))
    reason = done.rows[0].reason
    if value > 1:
        assert reason is None
        net.graph.compile(opt=0)
        assert min(in_every_way(net, done, net.graph.run({"x": net.x}), WHOLE)) > 28
    else:
        assert reason is not None and reason.startswith("weights of 8 bits would keep ")


@pytest.mark.parametrize("times", [1.0, 0.02])
def test_values_that_are_smaller_than_keys(toolkit: Toolkit, times: float) -> None:
    """In one tensor with them, of a product whose columns are evened: each operand has its own step."""
    net = Net(toolkit, (2, 64, 96))
    weights = (net.random.standard_normal((96, 192)) / 10).astype(np.float32)
    weights[:, 128:] *= times
    factors = [net.graph.add_const("g", np.ones(96, np.float32)), net.constant(96, size=0.1)]
    normed = net.layer("TPU_NORM", ["x", *factors], {"axis": -1, "epsilon": 1e-5})
    joined = net.layer("TPU_MATMUL", [normed, net.graph.add_const("w", weights)], {})
    net.graph.add_output(net.layer("TPU_ATTENTION", [joined] * 3, packed(4, 16)))
    samples = [{"x": net.random.standard_normal((2, 64, 96)).astype(np.float32)} for _ in range(33)]
    done = quantise(net.graph, calibrate(net.graph, samples))
    assert done.share == 1.0
    net.graph.compile(opt=0)
    assert min(in_every_way(net, done, net.graph.run({"x": net.x}))) > 25


def test_queries_that_are_learned(toolkit: Toolkit) -> None:
    net = Net(toolkit, (1, 90, 64))
    both = net.product("x", 64, 128)
    param = packed(4, 16, **{"from": (0, 0, 64)})
    made = net.layer("TPU_ATTENTION", [net.constant(1, 70, 64), both, both], param)
    done = net.done(made)
    assert done.share == 1.0
    net.graph.compile(opt=0)
    assert min(in_every_way(net, done, net.graph.run({"x": net.x}))) > 28


def test_asked_for_and_unknown(toolkit: Toolkit) -> None:
    net = Net(toolkit, (1, 40, 64))
    made = block(net, 40)
    net.graph.add_output(made)
    table = calibrate(net.graph, [{"x": net.x}])
    kept = quantise(net.graph, table, QuantiseOptions(("t3",)))
    (row,) = (row for row in kept.rows if row.op == "TPU_ATTENTION")
    assert row.output == "t3" and row.reason == "asked for as 't3'"
    joined = net.graph.nodes[1].inputs[0]
    del table.ranges[joined]  # type: ignore[attr-defined]
    unknown = quantise(net.graph, table)
    (row,) = (row for row in unknown.rows if row.op == "TPU_ATTENTION")
    assert row.reason == f"the table has no range of {joined!r}"
