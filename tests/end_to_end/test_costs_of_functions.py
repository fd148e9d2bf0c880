"""What functions of single elements cost by the clock, beside what they give (test_layers_elementwise.py)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from firmware_sim.timeline import Timeline, Timer
from tpulayer import Graph
from user_layers.net import functions
from user_layers.net.compiled import StaticBody
from user_layers.toolkit import Toolkit

# Cycles of the tensor unit for 16 numbers of each lane. A change that makes one larger slows down nets.
CYCLES = {
    "RELU": 1,
    "EXP": 20,
    "SIGMOID": 30,
    "SWISH": 31,
    "GELU_TANH": 34,
    "TANH": 32,
    "ELU": 23,
    "ERF": 35,
    "GELU": 52,
    "MISH": 36,
    "SOFTPLUS": 40,
    "SOFTSIGN": 16,
    "LOG": 36,
    "RECIPROCAL": 26,
    "SQRT": 26,
    "SIN": 32,
    "COS": 34,
}
QUOTIENT = 51


def timeline(toolkit: Toolkit, op: str, param: dict[str, int], inputs: int, shape: Sequence[int]) -> Timeline:
    """Of one layer's commands, from DDR to DDR."""
    graph = Graph(name="net", toolkit=toolkit)
    names = [graph.add_input(f"x{i}", shape, np.float32) for i in range(inputs)]
    graph.add_tpu_layer(op, names, param, ["y"])
    (body,) = (subnet.body for subnet in graph.compile(opt=0).stages[0].subnets)
    assert isinstance(body, StaticBody)
    (group,) = body.groups
    return Timer().timeline(group)


@pytest.mark.parametrize("name", CYCLES)
def test_cycles_of_functions(toolkit: Toolkit, name: str) -> None:
    time = timeline(toolkit, "TPU_UNARY", {"unary_op": functions.UNARY[name]}, 1, [1, 64, 16, 16])
    assert time.bd_busy / 16 == pytest.approx(CYCLES[name])


def test_cycles_of_quotients(toolkit: Toolkit) -> None:
    time = timeline(toolkit, "TPU_BINARY", {"binary_op": functions.BINARY["DIV"]}, 2, [1, 64, 16, 16])
    assert time.bd_busy / 16 == pytest.approx(QUOTIENT)


@pytest.mark.parametrize("shape", [[1, 64, 112, 112], [1, 3, 700, 100], [2, 32, 40, 40]])
def test_a_function_is_computed_while_numbers_move(toolkit: Toolkit, shape: list[int]) -> None:
    """Also of numbers that would fit into one tile: it costs nothing but a few more commands."""
    param = {"unary_op": functions.UNARY["SWISH"]}
    time = timeline(toolkit, "TPU_UNARY", param, 1, shape)
    plain = timeline(toolkit, "TPU_UNARY", {"unary_op": functions.UNARY["ABS"]}, 1, shape)
    assert time.cycles - plain.gdma_busy < 0.15 * time.bd_busy + 1000
