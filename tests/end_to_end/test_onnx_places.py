"""Places along an axis that are taken and stacked one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit


def recurrence(shape: list[int], axis: int, steps: list[int]) -> Any:
    """h = h / 2 + x[..., t, ...] for each t; all h, stacked where t was."""
    made = ["zero"]
    constants: dict[str, Any] = {"zero": np.float32(0), "half": np.float32(0.5), "axis": np.array([axis])}
    nodes = []
    for t in steps:
        constants[f"t{t}"] = np.array(t)
        nodes += [
            helper.make_node("Gather", ["x", f"t{t}"], [f"x{t}"], axis=axis),
            helper.make_node("Mul", [made[-1], "half"], [f"m{t}"]),
            helper.make_node("Add", [f"m{t}", f"x{t}"], [f"h{t}"]),
            helper.make_node("Unsqueeze", [f"h{t}", "axis"], [f"u{t}"]),
        ]
        made.append(f"h{t}")
    nodes.append(helper.make_node("Concat", [f"u{t}" for t in steps], ["y"], axis=axis))
    return make_model(nodes, {"x": shape}, ["y"], constants, 18)


def sample(shape: list[int]) -> dict[str, Any]:
    return {"x": np.random.default_rng(5).standard_normal(shape).astype(np.float32)}


def turned(toolkit: Toolkit, proto: Any) -> int:
    _, built = build_graph(from_proto(proto), toolkit=toolkit)
    return sum(one.op in ("Transpose", "Turn") for one in built.model.nodes)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [([1, 40, 12], 2), ([2, 40, 10, 3], -2), ([30, 9, 2], 1), ([40, 12], 1)]
)
def test_steps_are_taken_from_the_front_and_stacked_there(
    toolkit: Toolkit, shape: list[int], axis: int, dynamic: bool
) -> None:
    count = shape[axis]
    proto = recurrence(shape, axis, list(range(count)))
    assert turned(toolkit, proto) > 0
    graph = equals_onnxruntime(toolkit, proto, sample(shape), dynamic=dynamic)
    if not dynamic:
        ran = [one.op for one in graph.compile(opt=0, report=True).report[0].nodes if one.work is not None]
        assert not {"GATHER", "CONCAT"} & {op.removeprefix("TPU_") for op in ran} and len(ran) > 2 * count - 3


@pytest.mark.parametrize(
    ("shape", "axis", "steps"),
    [
        ([12, 1, 40], 0, 12),  # they are in front
        ([2, 12, 4096], 1, 12),  # rows as long as these are copied as fast
        ([1, 40, 12], 2, 3),  # of which few are taken
    ],
)
def test_steps_that_are_taken_where_they_are(
    toolkit: Toolkit, shape: list[int], axis: int, steps: int
) -> None:
    proto = recurrence(shape, axis, list(range(steps)))
    assert turned(toolkit, proto) == 0
    equals_onnxruntime(toolkit, proto, sample(shape))
