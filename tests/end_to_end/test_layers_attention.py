"""TPU_ATTENTION beside numpy in float64: operands as channels of one tensor or apart, masks, many keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from firmware_sim.errors import TpulayerError
from tests.support.examples import examples
from tpulayer import Graph
from user_layers.toolkit import Toolkit

Array = NDArray[Any]


def sample(shape: Sequence[int], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(tuple(shape)).astype(np.float32)


def heads_of(x: Array, param: Mapping[str, Any], operand: int) -> Array:
    """[batch, heads, tokens, size] in float64."""
    size = param["value_size" if operand == 2 else "size"]
    shared = param.get("shared", 1) if operand else 1
    if x.ndim == 4:
        return x.astype(np.float64).repeat(shared, axis=1)
    count = param["heads"] // shared
    starts = [param["from"][operand] + h * param["step"][operand] for h in range(count)]
    apart = np.stack([x[:, :, at : at + size] for at in starts], axis=1)
    return apart.astype(np.float64).repeat(shared, axis=1)


def attention(operands: Sequence[Array], mask: Array | None, param: Mapping[str, Any]) -> Array:
    q, k, v = (heads_of(x, param, i) for i, x in enumerate(operands))
    scores = q @ k.swapaxes(2, 3) * param["scale"]
    count = param["heads"]
    if param.get("scaled"):
        scores = scores * np.float64(param["scales"][:count]).reshape(-1, 1, 1)
    if mask is not None:
        scores = scores + mask
    before, after = (
        np.float64(param[name][: count**2]).reshape(count, count) if param.get("mixed") else np.eye(count)
        for name in ("before", "after")
    )
    scores = np.einsum("gh,nhqk->ngqk", before, scores)
    powers = np.exp(scores - scores.max(axis=3, keepdims=True))
    weights = np.einsum("gh,nhqk->ngqk", after, powers / powers.sum(axis=3, keepdims=True))
    if param.get("mixed"):
        weights = weights + np.float64(param["added"][:count]).reshape(-1, 1, 1)
    made: Array = weights @ v
    batch, heads, queries, size = made.shape
    return made if param["apart"] else made.swapaxes(1, 2).reshape(batch, queries, heads * size)


def run(
    toolkit: Toolkit,
    operands: Sequence[Array],
    mask: Array | None,
    param: Mapping[str, Any],
    dynamic: bool = False,
) -> Array:
    graph = Graph(name="net", toolkit=toolkit)
    distinct = {id(x): x for x in operands}
    names = {key: graph.add_input(f"in{i}", x.shape) for i, (key, x) in enumerate(distinct.items())}
    inputs = [names[id(x)] for x in operands]
    if mask is not None:
        inputs.append(graph.add_const("mask", mask))
    graph.add_tpu_layer("TPU_ATTENTION", inputs, param, ["out"])
    graph.compile(dynamic=dynamic)
    return graph.run({names[key]: x for key, x in distinct.items()})[0]


def near(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def packed(heads: int, size: int, **more: Any) -> dict[str, Any]:
    """q, k and v behind one another in the channels of one tensor."""
    width = heads * size
    place = {"from": (0, width, 2 * width), "step": (size,) * 3}
    return {
        "heads": heads,
        "size": size,
        "value_size": size,
        "apart": 0,
        "scale": size**-0.5,
        **place,
        **more,
    }


CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "vit": ((1, 197, 576), packed(3, 64)),
    "windows": ((9, 49, 3 * 96), packed(3, 32)),
    "result apart": ((2, 70, 3 * 40), packed(5, 8, apart=1)),
    "one head": ((1, 33, 3 * 6), packed(1, 6)),
    "q, k and v beside one another in each head": (
        (2, 65, 90),
        packed(5, 6, **{"from": (0, 6, 12), "step": (18,) * 3}),
    ),
    "several turns of queries": ((1, 1300, 3 * 16), packed(2, 8)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_one_tensor_for_all(toolkit: Toolkit, name: str, dynamic: bool) -> None:
    shape, param = CASES[name]
    x = sample(shape)
    near(run(toolkit, [x, x, x], None, param, dynamic), attention([x, x, x], None, param))


MORE: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "channels that nobody reads": ((2, 70, 3 * 24 + 10), packed(3, 8, **{"from": (2, 28, 55)})),
    "mostly others' channels": ((1, 49, 400), packed(3, 8, **{"from": (2, 128, 300)})),
    "many tokens": ((2, 1100, 3 * 16), packed(2, 8)),
}


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("name", [*CASES, *MORE])
def test_heads_with_factors_that_are_mixed(toolkit: Toolkit, name: str, mixed: bool) -> None:
    shape, param = (CASES | MORE)[name]
    x, rng = sample(shape), np.random.default_rng(5)
    param = {**param, "scaled": 1, "scales": [float(v) for v in rng.uniform(0.5, 2, 64).astype(np.float32)]}
    if mixed:
        numbers = {"before": 64, "after": 64, "added": 8}
        param |= {key: [float(v) for v in sample([size], size)] for key, size in numbers.items()}
        param["mixed"] = 1
    near(run(toolkit, [x, x, x], None, param), attention([x, x, x], None, param))


def test_mixed_heads_with_a_mask_are_refused(toolkit: Toolkit) -> None:
    x = sample((1, 9, 48))
    with pytest.raises(TpulayerError):
        run(toolkit, [x, x, x], sample((9, 9)), packed(2, 8, mixed=1))


MASKS = [
    (2, 3, 40, 51),
    (1, 3, 40, 51),
    (2, 1, 40, 51),
    (1, 1, 40, 51),
    (40, 51),
    (2, 1, 1, 51),
    (40, 1),
    (1,),
]


@pytest.mark.parametrize("shape", MASKS)
def test_masks(toolkit: Toolkit, shape: tuple[int, ...]) -> None:
    q, k, v = sample((2, 40, 3 * 8)), sample((2, 51, 3 * 8), 1), sample((2, 51, 3 * 10), 2)
    param = packed(3, 8, value_size=10, **{"from": (0, 0, 0), "step": (8, 8, 10)})
    mask = sample(shape, 4)
    if shape[-1] > 1:
        mask = np.where(sample(shape, 3) > 1, np.float32(-1e9), mask)
        mask[..., 0] = 0
    near(run(toolkit, [q, k, v], mask, param), attention([q, k, v], mask, param))


def test_more_keys_than_a_command_takes(toolkit: Toolkit) -> None:
    """Scores of 4,097 keys are sums and pictures of more than one command, and 8,200 too."""
    for keys in (4097, 2047):
        q, kv = sample((1, 130, 8)), sample((1, keys, 16), 1)
        param = packed(1, 8, **{"from": (0, 0, 8)})
        near(run(toolkit, [q, kv, kv], None, param), attention([q, kv, kv], None, param))


@pytest.mark.parametrize(("groups", "shared"), [(2, 4), (1, 5), (3, 1), (1, 40)])
def test_heads_that_share_keys(toolkit: Toolkit, groups: int, shared: int) -> None:
    """In one tensor; 40 heads of queries and a key are several turns."""
    heads, width = groups * shared, (groups * shared + 2 * groups) * 32
    param = packed(heads, 32, shared=shared, **{"from": (0, heads * 32, (heads + groups) * 32)})
    x = sample((2, 150, width))
    near(run(toolkit, [x, x, x], None, param), attention([x, x, x], None, param))


@examples(60)
@given(st.data())
def test_any_attention(toolkit: Toolkit, data: st.DataObject) -> None:
    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    batch, size, value = draw(1, 3), 2 * draw(1, 40), draw(1, 70)
    groups, shared = draw(1, 5), data.draw(st.sampled_from([1, 1, 2, 3, 6]))
    heads = groups * shared
    queries, keys = draw(1, 200), draw(1, 200)
    sizes, tokens = (size, size, value), (queries, keys, keys)
    begin = [draw(0, 5) for _ in range(3)]
    step = [s + draw(0, 3) for s in sizes]
    operands = []
    for i in range(3):
        apart = data.draw(st.booleans())
        count = groups if i else heads
        width = begin[i] + (count - 1) * step[i] + sizes[i] + draw(0, 3)
        shape = (batch, count, tokens[i], sizes[i]) if apart else (batch, tokens[i], width)
        operands.append(sample(shape, i))
    extents = (batch, heads, queries, keys)
    mask = None
    if data.draw(st.booleans()):
        mask = sample([e if data.draw(st.booleans()) else 1 for e in extents], 9)
    place = {"from": begin, "step": step, "shared": shared}
    param = {"heads": heads, "size": size, "value_size": value, "apart": draw(0, 1), "scale": 0.3, **place}
    near(run(toolkit, operands, mask, param, data.draw(st.booleans())), attention(operands, mask, param))


@pytest.mark.parametrize(
    ("shapes", "change"),
    [
        ([(1, 4, 12)] * 3, {"size": 3}),  # an odd size
        ([(1, 4, 11)] * 3, {}),  # too few channels
        ([(1, 4, 12), (1, 4, 12), (1, 5, 12)], {}),  # as many values as keys
        ([(1, 4, 12), (2, 4, 12), (2, 4, 12)], {}),
        ([(1, 4, 12)] * 3 + [(3, 4)], {}),  # a mask that does not broadcast
        ([(1, 4, 12)] * 3, {"heads": 0}),
        ([(1, 3, 4, 2)] * 3, {}),  # another number of heads
        ([(1, 4, 12)] * 3, {"shared": 3}),
        ([(1, 4, 12)] * 3, {"shared": -1}),
        ([(1, 4, 12)] * 3, {"shared": 2, "mixed": 1}),
    ],
)
def test_what_does_not_fit_is_refused(
    toolkit: Toolkit, shapes: Sequence[tuple[int, ...]], change: Mapping[str, Any]
) -> None:
    param = {**packed(2, 2), **change}
    with pytest.raises(TpulayerError, match="attention"):
        graph = Graph(name="net", toolkit=toolkit)
        names = [graph.add_input(f"in{i}", shape) for i, shape in enumerate(shapes)]
        graph.add_tpu_layer("TPU_ATTENTION", names, param, ["out"])
        graph.compile()
