"""8-bit attention of several batches in local memory: tokens of all of them as those of one (one_batch.py),
bit by bit what they are as batches, and attention on strips of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.end_to_end.test_attention_strips import (
    apart,
    attending,
    heads_of_48,
    masked,
    masks_of_heads,
    one_for_two,
    turned_in_fp32,
)
from tests.end_to_end.test_int8_attention import block
from tests.end_to_end.test_int8_tokens import Net, ops
from tests.end_to_end.test_layers_attention import packed
from tests.support.examples import examples
from tests.support.quantised import Array
from tpulayer import BINARY_MUL, Graph
from user_layers.compiler.attention_strips import attend_in_strips
from user_layers.compiler.one_batch import OneBatch, as_one_batch
from user_layers.compiler.strips import in_strips
from user_layers.quantize import rules_attention
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import compared
from user_layers.quantize.report import Quantised
from user_layers.quantize.rewrite import quantise
from user_layers.report.model import Runs
from user_layers.toolkit import Toolkit

F32 = np.float32


@pytest.fixture(autouse=True, scope="module")
def eight_bits_pay() -> Iterator[None]:
    """Whatever would be faster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules_attention, "_pays", lambda state, site: True)
        yield


def as_one(done: Quantised[Graph]) -> OneBatch[Graph] | None:
    return as_one_batch(done.graph, done.graph.resolve())


def on_strips(done: Quantised[Graph]) -> Graph | None:
    one = as_one(done)
    assert one is not None
    before = one.graph.resolve()
    strips = in_strips(one.graph, before)
    assert strips is not None
    return attend_in_strips(strips, strips.resolve(), before, one)


def results(graph: Graph, x: Array, **options: Any) -> list[Array]:
    graph.compile(**options)
    return list(graph.run({"x": x}))


def masks_of_batches(net: Net, tokens: int) -> str:
    """As blocks of windows have them: some see what others do not."""
    batches = net.x.shape[0]
    mask = np.where(net.random.random((batches, 1, tokens, tokens)) < 0.3, -100.0, 0.0).astype(F32)
    inputs = [*[net.product("x", 64, 192)] * 3, net.graph.add_const("mask", mask)]
    return net.product(net.layer("TPU_ATTENTION", inputs, packed(4, 16)), 64, 64)


def two_layers(net: Net, tokens: int) -> str:
    """Of an encoder, with positions before the first: norms, sums, a function between products."""
    x = net.layer("TPU_BINARY", ["x", net.constant(1, tokens, 64)], {"binary_op": 0})
    for _ in range(2):
        joined = net.product(x, 64, 192)
        attended = net.product(net.layer("TPU_ATTENTION", [joined] * 3, packed(4, 16)), 64, 64)
        x = net.layer("TPU_BINARY", [x, attended], {"binary_op": 0})
        inner = net.layer("TPU_NORM", [x, net.constant(64), net.constant(64)], {"axis": 2, "epsilon": 1e-5})
        made = net.product(net.unary(net.product(inner, 64, 128), "GELU"), 128, 64)
        x = net.layer("TPU_BINARY", [x, made], {"binary_op": 0})
    return x


BUILDS = [block, masked, masks_of_batches, apart, one_for_two, masks_of_heads, two_layers]


def test_what_is_no_token_alone_stays(toolkit: Toolkit) -> None:
    """Means over tokens and a softmax over them see batches, and so do constants of each."""
    net = Net(toolkit, (3, 66, 64))
    joined = net.product("x", 64, 192)
    made = net.product(net.layer("TPU_ATTENTION", [joined] * 3, packed(4, 16)), 64, 64)
    mean = net.layer("TPU_REDUCE", [made], {"kind": 1, "keep_dims": 1, "axes_num": 1, "axes": (1,)})
    own = [
        net.layer("TPU_BINARY", [made, net.constant(*shape)], {"binary_op": BINARY_MUL})
        for shape in ((3, 1, 64), (3, 66, 64), (1, 66, 64), (66, 1), (66, 64))
    ]
    done = net.done(mean, net.layer("TPU_SOFTMAX", [made], {"axis": 1}), made, *own)
    one, strips = as_one(done), on_strips(done)
    assert one is not None and strips is not None
    wants = results(done.graph, net.x, opt=0)
    for graph in (one.graph, strips):
        for got, want in zip(results(graph, net.x), wants, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("build", "batches", "tokens"),
    [
        *((build, batches, tokens) for build in BUILDS for batches, tokens in ((4, 50), (3, 64), (2, 131))),
        (block, 7, 7),
        (block, 16, 49),
        (heads_of_48, 4, 131),
        (turned_in_fp32, 4, 34),
    ],
)
def test_nets(toolkit: Toolkit, build: Callable[[Net, int], str], batches: int, tokens: int) -> None:
    net = Net(toolkit, (batches, tokens, 64))
    done = net.done(build(net, tokens))
    count = ops(done).count("ATTENTION")
    assert count > 0
    one, made = as_one(done), on_strips(done)
    assert one is not None and made is not None
    assert [node.op.short for node in made.resolve().nodes].count("ATTENTION_INT8") == count
    assert len({node.name for node in made.nodes}) == len(made.nodes)
    (want,) = results(done.graph, net.x, opt=0)
    np.testing.assert_array_equal(results(one.graph, net.x, opt=0)[0], want)
    for opt in (0, 1, 2):
        compiled = made.compile(opt=opt, report=True)
        (got,) = made.run({"x": net.x})
        if build is turned_in_fp32:  # numbers between two integers may go to either
            assert compared(want, got).sqnr > 40
        else:
            np.testing.assert_array_equal(got, want, err_msg=str(opt))
        assert attending(compiled) == [Runs.GROUP if opt else Runs.ALONE] * count


@examples(8)
@given(
    batches=st.integers(2, 9),
    queries=st.integers(4, 90),
    keys=st.integers(4, 90),
    heads=st.sampled_from([1, 2, 4]),
    seed=st.integers(0, 99),
)
def test_of_other_tokens(
    toolkit: Toolkit, batches: int, queries: int, keys: int, heads: int, seed: int
) -> None:
    """What is attended to has as many batches and tokens of its own."""
    net = Net(toolkit, (batches, queries, 64))
    net.graph.add_input("z", (batches, keys, 64))
    param = packed(heads, 64 // heads, **{"from": (0, 0, 64), "step": (64 // heads,) * 3})
    first, other = net.product("x", 64, 64), net.product("z", 64, 128)
    net.graph.add_output(net.product(net.layer("TPU_ATTENTION", [first, other, other], param), 64, 64))
    z = np.random.default_rng(seed).standard_normal((batches, keys, 64)).astype(F32)
    inputs = {"x": net.x, "z": z}
    done: Quantised[Graph] = quantise(net.graph, calibrate(net.graph, [inputs]))
    done.graph.compile(opt=0)
    (want,) = done.graph.run(inputs)
    done.graph.compile()
    (got,) = done.graph.run(inputs)
    np.testing.assert_array_equal(got, want)
    made = on_strips(done) if done.share == 1.0 else None  # few tokens are multiplied in fp32
    assert made is not None or done.share < 1
    if made is not None:
        made.compile()
        np.testing.assert_array_equal(made.run(inputs)[0], want)


def test_it_is_compiled_so_where_it_is_faster(toolkit: Toolkit) -> None:
    net = Net(toolkit, (4, 100, 64))
    log: list[str] = []
    done = net.done(two_layers(net, 100))
    compiled = done.graph.compile(log=log.append, report=True)
    (told,) = (line for line in log if line.startswith("attention on strips of each batch: "))
    parts = [part.split(" cycles")[0].split()[-1] for part in told.split(", without")]
    inside, without = (float(part.replace(",", "")) for part in parts)
    assert inside < without and attending(compiled) == [Runs.GROUP] * 2


def test_what_is_put_in_order_for_each_attention_is_not_tried(toolkit: Toolkit) -> None:
    """As windows are, whose tokens are moved between two of them."""
    net = Net(toolkit, (4, 64, 64))
    assert (one := as_one(net.done(two_layers(net, 64)))) is not None and one.is_long
    net = Net(toolkit, (4, 64, 64))
    done = net.done(net.layer("TPU_SOFTMAX", [block(net, 64)], {"axis": 1}))
    assert (one := as_one(done)) is not None and not one.is_long
    log: list[str] = []
    done.graph.compile(log=log.append)
    assert not any("each batch" in line for line in log)


@pytest.mark.parametrize("shape", [(1, 70, 64), (4, 3, 64), (40, 130, 64)])
def test_what_stays(toolkit: Toolkit, shape: tuple[int, ...]) -> None:
    """One batch; fewer tokens than strips; more than a tensor has channels."""
    net = Net(toolkit, shape)
    assert as_one(net.done(block(net, shape[1]))) is None
