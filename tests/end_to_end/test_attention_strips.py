"""8-bit attention on strips of tokens in local memory: its layers beside numpy and TPU_ATTENTION, nets of one
batch beside the same nets without strips, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.chip import LOCAL_BYTES
from firmware_sim.errors import TpulayerError
from tests.end_to_end.test_int8_attention import block
from tests.end_to_end.test_int8_tokens import Net, ops
from tests.end_to_end.test_layers_attention import packed
from tests.end_to_end.test_layers_attention_int8 import eight, reference
from tests.support.examples import examples
from tests.support.quantised import DTYPE, ENDS, MODES, Array, check, integers, ran
from tpulayer import BINARY_MUL, Graph
from user_layers.compiler import attention_strips
from user_layers.compiler.attention_strips import attend_in_strips
from user_layers.compiler.strips import in_strips
from user_layers.net.compiled import CompiledNet
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import compared
from user_layers.quantize.report import Quantised
from user_layers.quantize.rewrite import quantise
from user_layers.quantize.rules_linear import POINT
from user_layers.report.model import Runs
from user_layers.toolkit import Toolkit

F32 = np.float32


# ---- the layers ----


def words(matrix: Array) -> Array:
    """[R, 4 W] as four batches, [4, R, W]."""
    rows, columns = matrix.shape
    found: Array = matrix.reshape(rows, columns // 4, 4).transpose(2, 0, 1)
    return np.ascontiguousarray(found)


def matrix(x: Array) -> Array:
    """Back."""
    found: Array = x.transpose(1, 2, 0).reshape(x.shape[1], -1)
    return found


def turned(graph: Graph) -> None:
    graph.add_tpu_layer("TPU_TURN_BYTES", ["x"], None, ["y"])
    graph.add_output("y")


def between_copies(graph: Graph) -> None:
    """In a group with what is before and behind it."""
    add = {"binary_op": 0, "multiplier_a": 1, "multiplier_b": 1, "rshift": 1, "scale": 0.1}
    add |= {"dtype": DTYPE["int8"]}
    graph.add_tpu_layer("TPU_ELTWISE_INT8", ["x", "x"], add, ["a"])
    graph.add_tpu_layer("TPU_TURN_BYTES", ["a"], None, ["b"])
    graph.add_tpu_layer("TPU_ELTWISE_INT8", ["b", "b"], add, ["y"])
    graph.add_output("y")


@pytest.mark.parametrize("build", [turned, between_copies])
@pytest.mark.parametrize(("rows", "columns"), [(4, 1), (68, 17), (192, 50), (1152, 70), (2052, 300)])
def test_bytes_are_turned(toolkit: Toolkit, rows: int, columns: int, build: Callable[[Graph], None]) -> None:
    x = integers((4, rows, columns), "int8")
    want = words(matrix(x).T)
    check(toolkit, build, {"x": x}, [0.1], [want])


@pytest.mark.parametrize("shape", [(4, 66, 3), (8, 64, 3), (3, 64, 3), (4, 64, 3, 2)])
def test_what_is_not_turned(toolkit: Toolkit, shape: tuple[int, ...]) -> None:
    with pytest.raises(TpulayerError, match="NOT_SUPPORTED"):
        ran(toolkit, turned, {"x": integers(shape, "int8")}, [0.1], [{"opt": 0}])


def rounded(x: Array, scale: float, dtype: str) -> Array:
    found: Array = np.rint(x / scale).clip(*ENDS[dtype])
    return found


def attend(
    toolkit: Toolkit,
    operands: Sequence[Array],
    mask: Array | None,
    param: Mapping[str, Any],
    modes: Sequence[Mapping[str, Any]] = MODES,
    factors: Array | None = None,
) -> list[Array]:
    """operands: tokens and channels, of integers. What each of the modes gives, tokens and channels."""
    query, key, value = operands
    inputs = {"q": words(query), "k": words(key.T), "v": words(value)}

    def build(graph: Graph) -> None:
        names = ["q", "k", "v"]
        if mask is not None:
            names.append(graph.add_const("mask", mask))
        if factors is not None:
            names.append(graph.add_const("factors", np.tile(factors, (1, 64, 1))))
        flags = {"masked": int(mask is not None), "evened": int(factors is not None)}
        graph.add_tpu_layer("TPU_ATTENTION_INT8", names, {**flags, **param}, ["y"])
        graph.add_output("y")

    return [matrix(got[0]) for got in ran(toolkit, build, inputs, [1.0] * 3, modes)]


def own(param: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Of TPU_ATTENTION's parameters those of the other layer."""
    names = ("heads", "size", "value_size", "from", "step", "scale", "unit")
    optional = {name: param[name] for name in ("shared", "scaled", "scales") if name in param}
    result = {"batches": 1, "dtype": DTYPE["int8"], "result_scale": 0.0413}
    return {**{name: param[name] for name in names}, **optional, **result, **more}


@examples(16)
@given(
    batches=st.integers(1, 3),
    groups=st.integers(1, 3),
    shared=st.integers(1, 3),
    size=st.sampled_from([4, 8, 16, 20, 36, 64]),
    value=st.sampled_from([4, 8, 28, 68]),
    queries=st.sampled_from([4, 36, 68, 132]),
    keys=st.sampled_from([4, 28, 64, 200, 256, 300]),
    gap=st.sampled_from([0, 4, 12]),
    masked=st.sampled_from([0, 1, 2]),
    evened=st.booleans(),
    dtype=st.sampled_from(["int8", "uint8"]),
    seed=st.integers(0, 99),
)
def test_beside_numpy(
    toolkit: Toolkit,
    batches: int,
    groups: int,
    shared: int,
    size: int,
    value: int,
    queries: int,
    keys: int,
    gap: int,
    masked: int,
    evened: bool,
    dtype: str,
    seed: int,
) -> None:
    heads = groups * shared
    steps = (size + gap, size + gap, value + gap)
    place = {"from": (gap,) * 3, "step": steps}
    param = eight(heads, size, value_size=value, shared=shared, scale=size**-0.5 / 900, **place)
    random = np.random.default_rng(seed)
    counts, tokens = (heads, groups, groups), (queries, keys, keys)
    operands = [
        random.integers(-90, 91, (batches, t, gap + n * step)).astype("int8")
        for t, n, step in zip(tokens, counts, steps, strict=True)
    ]
    nobody = min(int(random.integers(0, 4)), keys // 4 - 1)
    mask = random.standard_normal((batches, queries, keys * (heads if masked == 2 else 1))).astype(F32)
    factors = random.uniform(0.5, 2, heads * value).astype(F32) if evened else None
    values = own(param, batches=batches, nobody=nobody, dtype=DTYPE[dtype])
    rows = [x.reshape(-1, x.shape[-1]) for x in operands]
    there = np.ones(keys, bool)
    there[keys - 1 - 4 * np.arange(nobody)] = False
    seen = mask.reshape(batches, queries, -1, keys).swapaxes(1, 2)
    least = np.where(there, 0, -1e30).astype(F32)
    given_mask = (seen if masked else np.zeros((1, 1, 1, keys), F32)) + least
    want = reference([x.astype(F32) for x in operands], given_mask.astype(F32), param)
    want = want.reshape(batches * queries, -1) * (1 if factors is None else factors)
    whole = mask.reshape(1, batches * queries, -1)
    for got in attend(toolkit, rows, whole if masked else None, values, factors=factors):
        off = np.abs(got - rounded(want, 0.0413, dtype))
        # A number may lie between two integers; a mask makes scores' last bits others.
        assert off.max() <= 1 and (off > 0).sum() <= max(2, 0.02 * off.size)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"from": (0, 2, 0)}, "PARAM_INVALID"),
        ({"size": 6}, "PARAM_INVALID"),
        ({"nobody": 20}, "PARAM_INVALID"),
        ({"nobody": -1}, "PARAM_INVALID"),
        ({"batches": 0}, "PARAM_INVALID"),
        ({"batches": 3}, "PARAM_INVALID"),
        ({"batches": 4, "nobody": 5}, "PARAM_INVALID"),
        ({"heads": 5}, "PARAM_INVALID"),
        ({"unit": 0.0}, "PARAM_INVALID"),
        ({"masked": 1}, "PARAM_INVALID"),
        ({"evened": 1}, "PARAM_INVALID"),
        ({"result_scale": 0.0}, "PARAM_INVALID"),
        ({"dtype": 0}, "PARAM_INVALID"),
        ({"scaled": 1, "heads": 65}, "PARAM_INVALID|NOT_SUPPORTED"),
    ],
)
def test_what_is_refused(toolkit: Toolkit, more: dict[str, Any], reason: str) -> None:
    x = integers((80, 192), "int8")
    with pytest.raises(TpulayerError, match=reason):
        attend(toolkit, [x, x, x], None, own(eight(4, 16), **more), [{"opt": 0}])


def test_what_is_too_large_alone(toolkit: Toolkit) -> None:
    """Without a group it has all of its operands at once."""
    x = integers((4000, 3072), "int8")
    with pytest.raises(TpulayerError, match="NOT_SUPPORTED"):
        attend(toolkit, [x, x, x], None, own(eight(16, 64)), [{"opt": 0}])


# ---- nets ----


def apart(net: Net, tokens: int) -> str:
    """Three products, heads that share keys and values."""
    names = [net.product("x", 64, columns) for columns in (128, 32, 32)]
    param = packed(8, 16, shared=4, **{"from": (0, 0, 0)})
    return net.product(net.layer("TPU_ATTENTION", names, param), 128, 64)


def turned_in_fp32(net: Net, tokens: int) -> str:
    """Queries and keys with numbers of each token, as rotary embedding has them."""
    names = []
    for _ in range(2):
        made, turns = net.product("x", 64, 64), net.constant(1, tokens, 64)
        names.append(net.layer("TPU_BINARY", [made, turns], {"binary_op": BINARY_MUL}))
    param = packed(4, 16, **{"from": (0, 0, 0)})
    return net.product(net.layer("TPU_ATTENTION", [*names, net.product("x", 64, 64)], param), 64, 64)


def one_for_two(net: Net, tokens: int) -> str:
    """One product of all, whose queries another layer reads too."""
    joined = net.product("x", 64, 192)
    made = net.product(net.layer("TPU_ATTENTION", [joined] * 3, packed(4, 16)), 64, 64)
    other = net.product(net.unary(joined, "RELU"), 192, 64)
    return net.layer("TPU_BINARY", [made, other], {"binary_op": 0})


def masks_of_heads(net: Net, tokens: int) -> str:
    mask = net.constant(1, 4, tokens, tokens)
    joined = net.product("x", 64, 192)
    return net.product(net.layer("TPU_ATTENTION", [joined] * 3 + [mask], packed(4, 16)), 64, 64)


def masked(net: Net, tokens: int) -> str:
    return block(net, tokens, True)


def masked_by_the_least_number(net: Net, tokens: int) -> str:
    mask = np.triu(np.full((tokens, tokens), np.finfo(F32).min, F32), 1)
    inputs = [*[net.product("x", 64, 192)] * 3, net.graph.add_const("mask", mask)]
    return net.product(net.layer("TPU_ATTENTION", inputs, packed(4, 16)), 64, 64)


def heads_of_48(net: Net, tokens: int) -> str:
    """Of which some begin within a slot of lanes; factors of their own."""
    param = packed(3, 48, scaled=1, scales=[1.0, 0.5, 2.0] + [0.0] * 61)
    joined = net.product("x", 64, 9 * 48)
    return net.product(net.layer("TPU_ATTENTION", [joined] * 3, param), 3 * 48, 64)


def masked_altogether(net: Net, tokens: int) -> str:
    """Some queries see no key, so all of them alike, but none behind the last token."""
    mask = np.zeros((tokens, tokens), F32)
    mask[5] = mask[:, tokens - 3 :] = np.finfo(F32).min
    inputs = [*[net.product("x", 64, 192)] * 3, net.graph.add_const("mask", mask)]
    return net.product(net.layer("TPU_ATTENTION", inputs, packed(4, 16)), 64, 64)


def tokens_behind(net: Net) -> list[str]:
    """Which the model joins: they are tokens too, although strips are filled up so."""
    made = net.layer("TPU_ATTENTION", [net.product("x", 64, 192)] * 3, packed(4, 16))
    return [net.product(net.layer("TPU_CONCAT", [made, net.constant(1, 2, 64)], {"axis": 1}), 64, 64)]


def heads_without_scale(net: Net) -> list[str]:
    param = packed(4, 16, scaled=1, scales=[1.0, 0.0, -1.0, 2.0] + [0.0] * 60)
    return [net.product(net.layer("TPU_ATTENTION", [net.product("x", 64, 192)] * 3, param), 64, 64)]


def heads_of_4032(net: Net) -> list[str]:
    """More than zeros could be put before."""
    names = [net.product("x", 64, n) for n in (4032, 4032, 256)]
    place = {"from": (0, 0, 0), "step": (4032, 4032, 256)}
    made = net.layer("TPU_ATTENTION", names, packed(1, 4032, value_size=256, **place))
    return [net.product(made, 256, 256)]


BUILDS = [
    block,
    masked_altogether,
    masked,
    masked_by_the_least_number,
    apart,
    turned_in_fp32,
    one_for_two,
    masks_of_heads,
]


def on_strips(done: Quantised[Graph]) -> Graph | None:
    before = done.graph.resolve()
    strips = in_strips(done.graph, before)
    assert strips is not None
    return attend_in_strips(strips, strips.resolve(), before)


def attending(compiled: CompiledNet) -> list[Runs]:
    (stage,) = compiled.report
    return [node.runs for node in stage.nodes if node.operation == "ATTENTION_INT8"]


@pytest.mark.parametrize(
    ("build", "tokens"),
    [*((build, tokens) for build in BUILDS for tokens in (64, 65, 70, 131)), (heads_of_48, 131)],
)
def test_nets(toolkit: Toolkit, build: Callable[[Net, int], str], tokens: int) -> None:
    net = Net(toolkit, (1, tokens, 64))
    done = net.done(build(net, tokens))
    assert ops(done).count("ATTENTION") == 1
    made = on_strips(done)
    assert made is not None
    assert [node.op.short for node in made.resolve().nodes].count("ATTENTION_INT8") == 1
    assert len({node.name for node in made.nodes}) == len(made.nodes)
    done.graph.compile(opt=0)
    (want,) = done.graph.run({"x": net.x})
    for opt in (0, 1, 2):
        compiled = made.compile(opt=opt, report=True)
        (got,) = made.run({"x": net.x})
        if build is turned_in_fp32:  # numbers between two integers may go to either
            assert compared(want, got).sqnr > 40
        else:
            np.testing.assert_array_equal(got, want, err_msg=str(opt))
        assert attending(compiled) == [Runs.GROUP if opt else Runs.ALONE]


def test_a_product_of_two_is_not_divided(toolkit: Toolkit) -> None:
    net = Net(toolkit, (1, 64, 64))
    joined = net.product("x", 64, 192)
    ends = [
        net.product(net.layer("TPU_ATTENTION", [joined] * 3, packed(4, 16, scale=scale)), 64, 64)
        for scale in (0.25, 0.1)
    ]
    done = net.done(*ends)
    made = on_strips(done)
    assert made is not None
    found = [node.op.short for node in made.resolve().nodes]
    assert found.count("CONV_INT8") == 3 and found.count("ATTENTION_INT8") == 2
    done.graph.compile(opt=0)
    wants = done.graph.run({"x": net.x})
    made.compile()
    for got, want in zip(made.run({"x": net.x}), wants, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (14, 5), (7, 20)])
def test_between_pictures(toolkit: Toolkit, height: int, width: int) -> None:
    """Whose pixels are attended to, and are a picture again."""
    net = Net(toolkit, (1, 64, height, width))
    rows, picture = {"height": 0, "width": 0}, {"height": height, "width": width}

    def convolved(x: str, inner: int, channels: int) -> str:
        weights = net.constant(channels, inner, 1, 1, size=inner**-0.5)
        return net.layer("TPU_CONV", [x, weights], {**POINT, "groups": 1})

    joined = net.layer("TPU_TURN", [convolved("x", 64, 192)], rows)
    made = net.layer("TPU_ATTENTION", [joined] * 3, packed(4, 16))
    done = net.done(convolved(net.layer("TPU_TURN", [made], picture), 64, 64))
    assert ops(done).count("ATTENTION") == 1
    strips = on_strips(done)
    assert strips is not None
    done.graph.compile(opt=0)
    (want,) = done.graph.run({"x": net.x})
    for opt in (0, 2):
        strips.compile(opt=opt)
        np.testing.assert_array_equal(strips.run({"x": net.x})[0], want)


def test_channels_of_unlike_sizes(toolkit: Toolkit) -> None:
    """Those of the result are evened out by factors, before it becomes integers."""
    net = Net(toolkit, (1, 80, 64))
    weights = (net.random.standard_normal((64, 192)) / 8).astype(F32)
    weights[:, 128:] *= np.exp(1.5 * net.random.standard_normal(64)).astype(F32)
    joined = net.layer("TPU_MATMUL", ["x", net.graph.add_const("w", weights)], {})
    made = net.product(net.layer("TPU_ATTENTION", [joined] * 3, packed(4, 16)), 64, 64)
    net.graph.add_output(made)
    samples = [{"x": net.random.standard_normal((1, 80, 64)).astype(F32)} for _ in range(60)]
    done = quantise(net.graph, calibrate(net.graph, samples))
    assert "of tokens" in done.note and "BINARY" in ops(done)
    strips = on_strips(done)
    assert strips is not None
    values = {node.op.short: node for node in strips.nodes}["ATTENTION_INT8"]
    assert strips.toolkit.param_values(values.op, values.param)["evened"]
    done.graph.compile(opt=0)
    (want,) = done.graph.run({"x": net.x})
    for opt in (0, 2):
        strips.compile(opt=opt)
        np.testing.assert_array_equal(strips.run({"x": net.x})[0], want)


def test_more_keys_than_are_summed_at_once(toolkit: Toolkit) -> None:
    net = Net(toolkit, (1, 600, 64))
    done = net.done(block(net, 600))
    done.graph.compile(opt=0)
    (want,) = done.graph.run({"x": net.x})
    made = on_strips(done)
    assert made is not None
    made.compile()
    assert compared(want, made.run({"x": net.x})[0]).sqnr > 36


def test_it_is_compiled_so_where_it_is_faster(toolkit: Toolkit) -> None:
    net = Net(toolkit, (1, 197, 64))
    log: list[str] = []
    done = net.done(block(net, 197))
    compiled = done.graph.compile(log=log.append, report=True)
    (told,) = (line for line in log if line.startswith("attention on strips: "))
    parts = [part.split(" cycles")[0].split()[-1] for part in told.split(", without")]
    inside, without = (float(part.replace(",", "")) for part in parts)
    assert inside < without and attending(compiled) == [Runs.GROUP]


def results_in_fp32(net: Net) -> list[str]:
    """That others read, too."""
    made = net.layer("TPU_ATTENTION", [net.product("x", 64, 192)] * 3, packed(4, 16))
    return [net.product(made, 64, 64), made]


def a_mask_that_is_computed(net: Net) -> list[str]:
    mask = net.layer("TPU_CONST_BINARY", ["x"], {"value": 0.1, "binary_op": BINARY_MUL})
    inputs = [*[net.product("x", 64, 192)] * 3, mask]
    return [net.product(net.layer("TPU_ATTENTION", inputs, packed(4, 16)), 64, 64)]


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (results_in_fp32, (1, 70, 64)),
        (a_mask_that_is_computed, (1, 64, 64)),
        (tokens_behind, (1, 194, 64)),
        (heads_without_scale, (1, 70, 64)),
        (heads_of_4032, (1, 64, 64)),
    ],
)
def test_what_stays(toolkit: Toolkit, build: Callable[[Net], list[str]], shape: tuple[int, ...]) -> None:
    net = Net(toolkit, shape)
    done = net.done(*build(net))
    assert "ATTENTION" in ops(done) and done.share == 1.0 and on_strips(done) is None


def test_more_than_there_is_room_for(toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(toolkit, (1, 300, 64))
    done = net.done(block(net, 300))
    assert on_strips(done) is not None
    monkeypatch.setattr(attention_strips, "LOCAL_BYTES", LOCAL_BYTES // 32)
    assert on_strips(done) is None


# ---- tables ----


def test_tables_go_on_beside_transfers(toolkit: Toolkit) -> None:
    """The tensor unit reads them in L2; only what copies from there has the DMA engine for itself."""
    net = Net(toolkit, (1, 256, 128))
    done = net.done(net.product(net.unary(net.product("x", 128, 512), "GELU"), 512, 128))
    lines: list[str] = []
    done.graph.compile(log=lines.append)
    assert ops(done).count("LOOKUP") == 1
    assert any("overlapped" in line for line in lines if line.startswith("LOOKUP")), lines


@given(
    queries=st.integers(1, 4000),
    keys=st.integers(1, 1000).map(lambda n: 4 * n),
    size=st.integers(1, 256).map(lambda n: 4 * n),
    value=st.integers(1, 256).map(lambda n: 4 * n),
)
def test_the_room_is_what_the_descriptor_says(
    toolkit: Toolkit, queries: int, keys: int, size: int, value: int
) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    shapes = {"q": (4, queries, size // 4), "k": (4, size, keys // 4), "v": (4, keys, value // 4)}
    for name, shape in shapes.items():
        graph.add_input(name, shape, "int8", scale=1.0)
    param = own(eight(1, size, value_size=value, **{"from": (0,) * 3}))
    graph.add_tpu_layer("TPU_ATTENTION_INT8", list(shapes), param, ["y"])
    graph.add_output("y")
    net = graph.resolve()
    (node,) = net.nodes
    made = [net.tensors[name] for name in node.outputs]
    descriptor = toolkit.describe(node, [net.tensors[name] for name in node.inputs], made)
    room = attention_strips._room(queries, keys, size, value)
    assert descriptor.get_local_buffer_size((1, 1, 1, 1)) == 4 * room
