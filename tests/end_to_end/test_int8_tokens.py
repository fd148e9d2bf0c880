"""Products of tokens in 8 bits: those of plain integers in every way that there is, near to the float net."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.int8_walk import walked
from tests.support.quantised import Array
from tpulayer import BINARY_ADD, BINARY_MUL, Graph
from user_layers.compiler.strips import in_strips
from user_layers.net.functions import UNARY
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import compared
from user_layers.quantize.report import Quantised
from user_layers.quantize.rewrite import QuantiseOptions, quantise
from user_layers.quantize.rules_linear import POINT
from user_layers.quantize.table import Table
from user_layers.toolkit import Toolkit

MODES: tuple[dict[str, Any], ...] = ({"opt": 0}, {"opt": 1}, {"opt": 2}, {"dynamic": True})


class Net:
    """A float graph on x, with its table."""

    def __init__(self, toolkit: Toolkit, shape: tuple[int, ...]) -> None:
        self.graph, self.random = Graph(name="net", toolkit=toolkit), np.random.default_rng(0)
        self.x: Array = (self.random.standard_normal(shape) + 0.2).astype(np.float32)
        self.graph.add_input("x", shape)
        self._names = iter(f"t{i}" for i in range(99))

    def constant(self, *shape: int, size: float = 1.0) -> str:
        array = (self.random.standard_normal(shape) * size).astype(np.float32)
        return self.graph.add_const(next(self._names), array)

    def product(self, x: str, inner: int, columns: int, *, bias: bool = True, **values: Any) -> str:
        side = (columns, inner) if values.get("trans_b") else (inner, columns)
        inputs = [x, self.constant(*side, size=inner**-0.5)]
        if bias:
            inputs.append(self.constant(columns, size=0.3))
        return self.layer("TPU_MATMUL", inputs, values)

    def unary(self, x: str, function: str) -> str:
        return self.layer("TPU_UNARY", [x], {"unary_op": UNARY[function]})

    def layer(self, op: str, inputs: list[str], values: dict[str, Any]) -> str:
        name = next(self._names)
        self.graph.add_tpu_layer(op, inputs, values or None, [name])
        return name

    def done(self, *outputs: str) -> Quantised[Graph]:
        for name in outputs:
            self.graph.add_output(name)
        found: Quantised[Graph] = quantise(self.graph, self.table())
        return found

    def table(self) -> Table:
        return calibrate(self.graph, [{"x": self.x}])


def agree(net: Net, done: Quantised[Graph], least: float = 28) -> None:
    """All ways give what numpy does, near to the float net."""
    net.graph.compile(opt=0)
    floats = net.graph.run({"x": net.x})
    wants = walked(done.graph, {"x": net.x})
    for options in MODES:
        done.graph.compile(**options)
        for got, want, plain in zip(done.graph.run({"x": net.x}), wants, floats, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=str(options))
            assert compared(plain, got).sqnr > least


def ops(done: Quantised[Graph]) -> list[str]:
    return [node.op.short for node in done.graph.nodes]


@pytest.mark.parametrize(
    "shape", [(1, 70, 96), (1, 64, 96), (3, 70, 96), (6, 33, 96), (2, 6, 7, 96), (1, 9, 8, 96), (300, 96)]
)
def test_products_in_a_row(toolkit: Toolkit, shape: tuple[int, ...]) -> None:
    """Tokens are turned before the first and behind the last; a function between them moves nothing."""
    net = Net(toolkit, shape)
    inner = net.unary(net.product("x", 96, 150), "GELU")
    done = net.done(net.product(inner, 150, 80, bias=False))
    assert done.share == 1.0 and ops(done).count("TURN") == 2
    agree(net, done)


@pytest.mark.parametrize(
    ("values", "relu"),
    [({"trans_b": 1}, True), ({"alpha": 0.37}, False), ({"trans_b": 1, "alpha": -2.0}, True)],
)
def test_parameters(toolkit: Toolkit, values: dict[str, Any], relu: bool) -> None:
    net = Net(toolkit, (2, 50, 64))
    made = net.product("x", 64, 130, **values)
    done = net.done(net.unary(made, "RELU") if relu else made)
    assert done.share == 1.0
    agree(net, done)


def sums(net: Net) -> list[str]:
    """Of two products, in integers; of one and what is in fp32 anyway, in fp32."""
    both = net.layer("TPU_BINARY", [net.product("x", 64, 64), net.product("x", 64, 64)], {"binary_op": 0})
    return [net.product(both, 64, 72), net.layer("TPU_BINARY", ["x", both], {"binary_op": BINARY_ADD})]


def mixed(net: Net) -> list[str]:
    """Products over tokens between those over channels: what turns them moves nothing."""
    turn = {"height": 0, "width": 0}
    over = net.product(net.layer("TPU_TURN", ["x"], turn), 48, 60)
    back = net.layer("TPU_TURN", [net.unary(over, "TANH")], turn)
    return [net.product(back, 64, 70)]


def picture(net: Net) -> list[str]:
    """A picture of the tokens, and tokens of a picture."""
    made = net.layer("TPU_TURN", [net.product("x", 64, 70)], {"height": 6, "width": 8})
    again = net.layer("TPU_TURN", [made], {"height": 0, "width": 0})
    return [net.product(again, 70, 64)]


@pytest.mark.parametrize(
    ("build", "turns"), [(sums, 3), (mixed, 2), (picture, 2)], ids=["sums", "mixed", "picture"]
)
@pytest.mark.parametrize("batch", [1, 2])
def test_between_products(
    toolkit: Toolkit, build: Callable[[Net], list[str]], turns: int, batch: int
) -> None:
    net = Net(toolkit, (batch, 48, 64))
    done = net.done(*build(net))
    assert done.share == 1.0
    assert ops(done).count("TURN") == turns
    if build is not sums:  # whose second one is in fp32
        agree(net, done, 26)


@pytest.mark.parametrize(
    "shapes", [((1, 70, 96), (70, 96)), ((70, 96), (70, 1, 96)), ((70, 1, 96), (1, 70, 96))]
)
def test_rows_seen_otherwise(toolkit: Toolkit, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Rows of one batch, whichever dimension they lie along, stay where products left them."""
    before, after = shapes
    net = Net(toolkit, before)
    inner = net.unary(net.product("x", 96, 150), "TANH")
    seen = net.layer("TPU_RESHAPE", [inner], {"dims": len(after), "shape": (*after[:-1], 150)})
    done = net.done(net.product(seen, 150, 80))
    assert done.share == 1.0 and ops(done).count("TURN") == 2 and ops(done).count("QUANTIZE") == 1
    agree(net, done)


def test_strips_of_tokens(toolkit: Toolkit) -> None:
    """One batch lies in all slots of a word; the same bits, as the comparison of a compile is said."""
    net = Net(toolkit, (1, 196, 192))
    done = net.done(net.product(net.unary(net.product("x", 192, 384), "GELU"), 384, 192))
    log: list[str] = []
    done.graph.compile(log=log.append)
    (told,) = (line for line in log if line.startswith("strips of rows"))
    cut, whole = (float(part.split(" cycles")[0].split()[-1].replace(",", "")) for part in told.split(", p"))
    assert cut < whole and any(line.startswith("CONV_INT8") and "[4, 384, 49]" in line for line in log)
    (want,) = walked(done.graph, {"x": net.x})
    np.testing.assert_array_equal(done.graph.run({"x": net.x})[0], want)


@pytest.mark.parametrize("tokens", [64, 70])
def test_blocks_of_strips(toolkit: Toolkit, tokens: int) -> None:
    """Sums, normalisations and conversions of tokens work on strips too; what needs all of them gets all."""
    net = Net(toolkit, (1, tokens, 96))
    factors = [net.constant(96), net.constant(96)]

    def normed(x: str) -> str:
        return net.layer("TPU_NORM", [x, *factors], {"axis": -1, "epsilon": 1e-5})

    start = net.layer("TPU_CONST_BINARY", ["x"], {"value": 0.5, "binary_op": BINARY_ADD})
    mixed = net.layer("TPU_SOFTMAX", [net.product(normed(start), 96, 96)], {"axis": 1})
    first = net.layer("TPU_BINARY", [start, net.product(mixed, 96, 96)], {"binary_op": BINARY_ADD})
    inner = net.unary(net.product(normed(first), 96, 200), "GELU")
    last = net.layer("TPU_BINARY", [first, net.product(inner, 200, 96)], {"binary_op": BINARY_ADD})
    done = net.done(normed(last), last)
    assert done.share == 1.0
    done.graph.compile(opt=0)
    wants = done.graph.run({"x": net.x})
    strips = in_strips(done.graph, done.graph.resolve())
    assert strips is not None
    made = [node.op.short for node in strips.nodes]
    assert "STRIPS_CUT" not in made and "STRIPS_JOIN" not in made and made.count("NORM") == 3
    assert len({node.name for node in strips.nodes}) == len(strips.nodes)
    assert made.count("CONCAT") == (2 if tokens % 4 else 0)
    for opt in (0, 1, 2):
        strips.compile(opt=opt)
        for got, want in zip(strips.run({"x": net.x}), wants, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=str(opt))


def in_every_way(
    net: Net, done: Quantised[Graph], wants: list[Array], modes: Sequence[Mapping[str, Any]] = MODES
) -> list[float]:
    """Signal to noise of each output, whose bits are the same in every way."""
    results = []
    for options in modes:
        done.graph.compile(**options)
        results.append(done.graph.run({"x": net.x}))
    for other_way in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other_way, strict=True))
    return [compared(want, got).sqnr for want, got in zip(wants, results[0], strict=True)]


@pytest.mark.parametrize("shared", [False, True])
def test_channels_of_unlike_sizes(toolkit: Toolkit, shared: bool) -> None:
    """What is normalised with factors of its own for each channel, and columns of unlike sizes: numbers in
    fp32 before and behind the products even them out."""
    net = Net(toolkit, (2, 64, 96))

    def spread(count: int) -> Array:
        return np.exp(1.2 * net.random.standard_normal(count)).astype(np.float32)

    factors = [net.graph.add_const("g", spread(96)), net.constant(96)]
    normed = net.layer("TPU_NORM", ["x", *factors], {"axis": -1, "epsilon": 1e-5})
    weights = (net.random.standard_normal((96, 80)) / 10).astype(np.float32) * spread(80)
    bias = net.constant(80, size=0.3)
    made = net.layer("TPU_MATMUL", [normed, net.graph.add_const("w", weights), bias], {})
    own = [net.constant(80), net.constant(80)]
    ends = [net.layer("TPU_NORM", [made, *own], {"axis": -1, "epsilon": 1e-5})]
    if shared:  # by a product that keeps its columns, and by a sum in fp32
        other = net.unary(net.product(normed, 96, 120), "GELU")
        back = net.product(other, 120, 96)
        ends.append(net.layer("TPU_BINARY", [normed, back], {"binary_op": BINARY_ADD}))
    for name in ends:
        net.graph.add_output(name)
    samples = [{"x": net.random.standard_normal((2, 64, 96)).astype(np.float32)} for _ in range(33)]
    table = calibrate(net.graph, samples)
    assert len(table.ranges[normed].peaks) == 96 and len(table.ranges[made].mean) == 80
    net.graph.compile(opt=0)
    wants = net.graph.run({"x": net.x})
    noise = []
    for equalise in (False, True):
        done = quantise(net.graph, table, QuantiseOptions(equalise=equalise))
        assert done.share == 1.0 and ("of tokens" in done.note) == equalise
        noise.append(in_every_way(net, done, wants))
    gains = [after - before for before, after in zip(*noise, strict=True)]
    assert gains[0] > 3 and min(gains) > 0.5, noise
    kept = quantise(net.graph, table, QuantiseOptions((made,)))
    assert not any(node.name.startswith(f"{made}:") for node in kept.graph.nodes)


@pytest.mark.parametrize("kind", ["gated", "turned", "two readers", "read elsewhere", "itself"])
def test_gated_products_of_unlike_channels(toolkit: Toolkit, kind: str) -> None:
    """The linear one of two factors takes what evens the channels of both; where it is read elsewhere, none
    does."""
    net = Net(toolkit, (2, 64, 96))
    factors = [net.graph.add_const("g", np.ones(96, np.float32)), net.constant(96, size=0.1)]
    normed = net.layer("TPU_NORM", ["x", *factors], {"axis": -1, "epsilon": 1e-5})
    gate = net.unary(net.product(normed, 96, 160), "SIGMOID")
    spread = np.exp(1.5 * net.random.standard_normal(160)).astype(np.float32)
    weights = (net.random.standard_normal((96, 160)) / 10).astype(np.float32) * spread
    linear = net.layer(
        "TPU_MATMUL", [normed, net.graph.add_const("w", weights), net.constant(160, size=0.1)], {}
    )
    pair = [linear, gate] if kind == "turned" else [linear, linear] if kind == "itself" else [gate, linear]
    made = net.layer("TPU_BINARY", pair, {"binary_op": BINARY_MUL})
    ends = [net.product(made, 160, 96)]
    if kind == "two readers":
        ends.append(net.product(made, 160, 48))
    if kind == "read elsewhere":
        ends.append(net.unary(made, "ABS"))
    for name in ends:
        net.graph.add_output(name)
    samples = [{"x": net.random.standard_normal((2, 64, 96)).astype(np.float32)} for _ in range(33)]
    table = calibrate(net.graph, samples)
    net.graph.compile(opt=0)
    wants, noise = net.graph.run({"x": net.x}), []
    for equalise in (False, True):
        done = quantise(net.graph, table, QuantiseOptions(equalise=equalise))
        noise.append(in_every_way(net, done, wants))
    evened = any(name.startswith(f"{made}:even") for name in done.graph.tensor_names)
    assert evened == (kind not in ("read elsewhere", "itself"))
    gains = [after - before for before, after in zip(*noise, strict=True)]
    assert min(gains) > (2 if evened else -1), noise


def test_integers_that_others_read(toolkit: Toolkit) -> None:
    """Tokens in integers that are read in one piece are cut and joined where their channels are second."""
    net = Net(toolkit, (1, 70, 96))
    made = net.layer("TPU_RESHAPE", [net.product("x", 96, 96)], {"dims": 4, "shape": (1, 70, 8, 12)})
    done = net.done(net.unary(made, "ABS"))
    strips = in_strips(done.graph, done.graph.resolve())
    assert strips is not None
    assert [node.op.short for node in strips.nodes].count("STRIPS_JOIN") == 1
    agree(net, done, 26)
    strips.compile()
    np.testing.assert_array_equal(strips.run({"x": net.x})[0], walked(done.graph, {"x": net.x})[0])


@pytest.mark.parametrize(
    ("shape", "weights", "reason"),
    [
        ((2, 3, 8), (8, 4), "slower in 8 bits than in fp32 with conversions beside it"),
        ((2, 50, 64), (2, 64, 64), "a product of several matrices"),
        ((2, 8, 4100), (4100, 64), "slower in 8 bits than in fp32 with conversions beside it"),
    ],
)
def test_what_stays(toolkit: Toolkit, shape: tuple[int, ...], weights: tuple[int, ...], reason: str) -> None:
    net = Net(toolkit, shape)
    done = net.done(net.layer("TPU_MATMUL", ["x", net.constant(*weights, size=0.1)], {"alpha": 1.0}))
    assert done.rows[0].reason == reason and done.share == 0


def test_a_factor_of_channels_may_come_first(toolkit: Toolkit) -> None:
    """LayerScale as some exporters write it; one batch of tokens is cut into strips."""
    net = Net(toolkit, (1, 20, 32))
    inner = net.layer("TPU_MATMUL", ["x", net.constant(32, 64, size=0.2)], {})
    made = net.layer("TPU_MATMUL", [net.unary(inner, "RELU"), net.constant(64, 32, size=0.2)], {})
    scaled = net.layer("TPU_BINARY", [net.constant(32, size=0.1), made], {"binary_op": BINARY_MUL})
    out = net.product(net.layer("TPU_BINARY", ["x", scaled], {"binary_op": BINARY_ADD}), 32, 16)
    done = net.done(out)
    assert "BINARY" in ops(done)  # with a constant operand: in float32, but of strips
    net.graph.compile(opt=0)
    (want,) = net.graph.run({"x": net.x})
    found = []
    for options in MODES:
        done.graph.compile(**options)
        found.append(done.graph.run({"x": net.x})[0])
    assert all(np.array_equal(one, found[0]) for one in found)
    assert compared(want, found[0]).sqnr > 28


def test_parts_of_a_product_stay_together(toolkit: Toolkit) -> None:
    """Those that a model's product is made in, NAME and NAME:1, stay in fp32 by one name."""
    net = Net(toolkit, (1, 16, 24))
    made = [
        net.graph.add_tpu_layer(
            "TPU_MATMUL",
            ["x", net.constant(24, 16), net.constant(16)],
            None,
            [f"made{k}"],
            name=name,
        )[0]
        for k, name in enumerate(("qkv", "qkv:1", "qkv:x", "other"))
    ]
    for name in made:
        net.graph.add_output(name)
    done = quantise(net.graph, net.table(), QuantiseOptions(("qkv",)))
    asked = {row.layer for row in done.rows if row.reason is not None and row.reason.startswith("asked for")}
    assert asked == {"qkv", "qkv:1"}


def mixed_block(net: Net, height: int, width: int, stride: int) -> list[str]:
    """As in pyramids of transformers: rows of normalised tokens seen as a picture by a convolution with a
    step, and a convolution of pictures between products of tokens."""
    factors = [net.constant(64), net.constant(64)]
    normed = net.layer("TPU_NORM", ["x", *factors], {"axis": -1, "epsilon": 1e-5})
    inside = {"height": height, "width": width}
    step = {**POINT, **dict.fromkeys(("kernel_h", "kernel_w", "stride_h", "stride_w"), stride), "groups": 1}
    small = net.layer(
        "TPU_CONV",
        [net.layer("TPU_TURN", [normed], inside), net.constant(64, 64, stride, stride, size=0.1)],
        step,
    )
    fewer = net.layer("TPU_TURN", [small], {"height": 0, "width": 0})
    wide = net.layer("TPU_TURN", [net.product(normed, 64, 128)], inside)
    pads = dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 1)
    three = {**POINT, **pads, "groups": 128, "kernel_h": 3, "kernel_w": 3}
    mixed = net.unary(net.layer("TPU_CONV", [wide, net.constant(128, 1, 3, 3, size=0.3)], three), "GELU")
    back = net.layer("TPU_TURN", [mixed], {"height": 0, "width": 0})
    return [net.product(fewer, 64, 64), net.product(back, 128, 64)]


@pytest.mark.parametrize(("height", "width", "stride"), [(16, 12, 4), (14, 14, 2), (9, 8, 1), (28, 7, 7)])
def test_pictures_of_tokens(toolkit: Toolkit, height: int, width: int, stride: int) -> None:
    """Nothing is cut or joined between tokens and pictures, and integers are turned, not fp32."""
    net = Net(toolkit, (1, height * width, 64))
    done = net.done(*mixed_block(net, height, width, stride))
    assert done.share > 0.99
    short = ops(done)
    assert short.index("QUANTIZE") < short.index("TURN")
    done.graph.compile(opt=0)
    wants = done.graph.run({"x": net.x})
    strips = in_strips(done.graph, done.graph.resolve())
    assert strips is not None
    made = [node.op.short for node in strips.nodes]
    assert made.count("STRIPS_CUT") + made.count("STRIPS_JOIN") == 0
    for opt in (0, 1, 2):
        strips.compile(opt=opt)
        for got, want in zip(strips.run({"x": net.x}), wants, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=str(opt))
