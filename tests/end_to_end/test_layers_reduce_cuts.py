"""Which dimension of a reduction lies over the lanes: the one whose blocks take less time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.window_layers import sample
from tpulayer import Graph
from user_layers.report.model import total
from user_layers.toolkit import Toolkit

SUM = {"kind": 0, "axes_num": 1, "axes": [1]}


def summed(toolkit: Toolkit, shape: tuple[int, int, int]) -> int:
    """The sum over the second dimension, compared with numpy; how many commands it takes."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", shape)
    graph.add_tpu_layer("TPU_REDUCE", ["x"], SUM, ["y"])
    work = total(graph.compile(report=True).report[0].recorded)
    x = sample(*shape)
    (got,) = graph.run({"x": x})
    assert np.abs(got - x.sum(axis=1, dtype=np.float64)).max() <= 1e-6 * np.abs(x).sum(axis=1).max()
    return work.bd_commands + work.gdma_commands


@pytest.mark.parametrize(
    ("shape", "most"),
    [
        ((160, 16, 200), 7),  # by its 200 inner elements: 2,240 commands for runs of 3 elements
        ((64, 32, 400), 8),
        ((32, 200, 200), 24),
        ((9, 2, 70000), 25),  # few outer elements, long runs of inner ones
        ((1, 64, 32768), 9),
    ],
)
def test_long_runs_in_few_commands(toolkit: Toolkit, shape: tuple[int, int, int], most: int) -> None:
    assert summed(toolkit, shape) <= most


@examples(25)
@given(
    st.sampled_from([8, 9, 31, 64, 65, 200]),
    st.integers(1, 70),
    st.sampled_from([63, 64, 65, 129, 201, 1000]),
)
def test_any_cut(toolkit: Toolkit, outer: int, reduced: int, inner: int) -> None:
    summed(toolkit, (outer, reduced, inner))
