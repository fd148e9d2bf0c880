"""Building graphs: what is accepted, and what each mistake is answered with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError, DeviceError, UsageError
from firmware_sim.wire import BUILTIN_OP_BASE, DType, TensorRecord, TType
from tests.support.compiler_fakes import (
    FakeLayer,
    FakeToolkit,
    ShapeFunction,
    global_layer,
    local_layer,
    same_shape,
)
from tpulayer import Graph
from user_layers.graph import BINARY_MUL
from user_layers.net.nodes import check_dtype, check_shape

EXPAND = FakeLayer("TPU_EXPAND_DIMS", BUILTIN_OP_BASE)
BINARY = FakeLayer("TPU_CONST_BINARY", BUILTIN_OP_BASE + 1)


def graph(*layers: FakeLayer) -> Graph:
    g = Graph(toolkit=FakeToolkit(*(layers or (local_layer(), EXPAND, BINARY))))
    g.add_input("x", (2, 3, 4, 5))
    return g


def test_layers_are_found_by_name_and_number_and_named_after_the_op() -> None:
    g = graph()
    assert g.add_tpu_layer("TPU_LOC", ["x"], None, ["a"]) == ("a",)
    g.add_tpu_layer(0, ["a"], {"v": 7}, ["b"])
    g.add_tpu_layer(0, ["b"], b"\1\0\0\0", ["c"], name="mine")
    assert [n.name for n in g.nodes] == ["loc_0", "loc_1", "mine"]
    assert [n.param for n in g.nodes] == [bytes(4), b"\7\0\0\0", b"\1\0\0\0"]
    assert g.nodes[0].where.startswith("test_graph.py:")


def test_free_names_pass_over_all_that_are_taken() -> None:
    g = graph()
    for i in (2, 3):
        g.add_tpu_layer(0, ["x"], None, [f"y{i}"], name=f"loc_{i}")
    g.add_tpu_layer(0, ["x"], None, ["z"])
    assert g.nodes[-1].name == "loc_4"


def test_constants_are_stored_with_the_low_byte_first() -> None:
    g = graph()
    g.add_const("c", np.array([1, -2], ">i4"))
    assert g.tensors["c"].data == b"\1\0\0\0\xfe\xff\xff\xff"


def test_outputs_are_what_nothing_uses_unless_named() -> None:
    g = graph()
    g.add_tpu_layer(0, ["x"], None, ["a"])
    g.add_tpu_layer(0, ["a"], None, ["b"])
    g.add_tpu_layer(0, ["a"], None, ["c"])
    assert g.inputs == ("x",)
    assert list(g.outputs) == ["b", "c"]
    g.add_output("a")
    assert list(g.outputs) == ["a"]
    assert [n.outputs for n in g.resolve().nodes] == [("a",)]  # the rest is not needed


def test_builtin_layers_have_their_own_functions() -> None:
    g = graph()
    assert g.add_expand_dims_layer("x", 0, "e") == "e"
    assert g.add_const_binary_layer("e", 2, "m", BINARY_MUL) == "m"
    assert [n.op.op for n in g.nodes] == ["TPU_EXPAND_DIMS", "TPU_CONST_BINARY"]


def test_shapes_come_from_the_layers() -> None:
    crop = FakeLayer("TPU_CUT", 3, shape=lambda ins, p: [TensorRecord((*ins[0].shape[:-1], 2), DType.FP32)])
    g = graph(crop)
    g.add_tpu_layer(3, ["x"], None, ["y"], output_shapes=[(2, 3, 4, 2)], output_dtypes=["float32"])
    assert g.shape("x") == (2, 3, 4, 5)
    assert g.shape("y") == (2, 3, 4, 2)
    assert g.resolve().tensors["y"].dtype == DType.FP32


def test_shape_functions_get_the_values_of_shape_inputs() -> None:
    def shape(ins: Any, param: bytes) -> list[TensorRecord]:
        assert ins[1].ttype == TType.NEURON_SHAPE
        return [TensorRecord(ins[1].host_data)]

    layer = FakeLayer(
        "TPU_TO", 0, shape=shape, says={"input_type": lambda i: TType.NEURON_SHAPE if i else TType.NEURON}
    )
    g = graph(layer)
    g.add_const("to", np.array([5, 4, 6], np.int32))
    g.add_tpu_layer(0, ["x", "to"], None, ["y"])
    assert g.shape("y") == (5, 4, 6)


@pytest.mark.parametrize("computed", [True, False])
def test_shape_inputs_are_int32_constants(computed: bool) -> None:
    layer = FakeLayer("TPU_TO", 0, says={"input_type": TType.NEURON_SHAPE})
    g = graph(layer, global_layer())
    g.add_const("to", np.array([5, 4, 6], np.float32))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["n"])
    g.add_tpu_layer("TPU_TO", ["to", "n"] if not computed else ["n", "to"], None, ["y"])
    with pytest.raises(CompileError, match="computed in the net" if computed else "of type float32"):
        g.resolve()


def bad(value: object) -> Any:
    """A value that the types forbid."""
    return value


def constant(shape: tuple[int, ...]) -> ShapeFunction:
    return lambda inputs, param: [TensorRecord(shape)]


def refused(make: Any, *words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    for word in ("test_graph.py:", *words):
        assert word in str(caught.value), str(caught.value)


def test_bad_names() -> None:
    g = graph()
    refused(lambda: g.add_input("x", (1,)), "'x'", "taken by", "input 'x'")
    refused(lambda: g.add_input("", (1,)), "''", "is not a name")
    refused(lambda: g.add_input("two\nlines", (1,)), "is not a name")
    refused(lambda: g.add_const("x", np.zeros(3)), "float64")
    g.add_tpu_layer(0, ["x"], None, ["y"], name="one")
    refused(lambda: g.add_tpu_layer(0, ["x"], None, ["y"]), "'y'", "taken by", "layer 'one'")
    refused(lambda: g.add_tpu_layer(0, ["x"], None, ["z"], name="one"), "another layer")
    refused(lambda: g.add_tpu_layer(0, ["x"], None, ["z", "z"]), "'z' twice")
    refused(lambda: g.add_tpu_layer(0, ["nope"], None, ["z"]), "'nope'", "x, y")
    refused(lambda: g.add_tpu_layer(0, "x", None, ["z"]), "['x']")
    refused(lambda: g.add_tpu_layer(0, [], None, ["z"]), "inputs has 0")
    refused(lambda: g.add_tpu_layer(0, ["x"], None, [f"o{i}" for i in range(17)]), "17", "16")


def test_a_refused_layer_leaves_no_trace() -> None:
    g = graph()
    refused(lambda: g.add_tpu_layer(0, ["x"], None, ["new", "x"]), "taken")
    refused(lambda: g.add_input("shapeless", (0,)), "below 1")
    g.add_input("shapeless", (1,))
    g.add_tpu_layer(0, ["x"], None, ["new"])


def test_bad_ops_and_parameters() -> None:
    g = graph()
    refused(lambda: g.add_tpu_layer("TPU_NONE", ["x"], None, ["y"]), "TPU_NONE", "TPU_LOC", "TPU_EXPAND_DIMS")
    refused(lambda: g.add_tpu_layer(77, ["x"], None, ["y"]), "77", "build_layers")
    refused(lambda: g.add_tpu_layer(0, ["x"], b"123", ["y"]), "3 bytes", "TPU_LOC 4")
    refused(lambda: g.add_const_binary_layer("x", 1, "y", 5), "5", "0, 1, 2, 3, 4, 10000")


def test_bad_shapes_and_types() -> None:
    g = graph()
    refused(lambda: g.add_input("a", (1,) * 9), "9 dimensions")
    refused(lambda: g.add_input("a", ()), "0 dimensions")
    refused(lambda: g.add_input("a", (1, -2)), "below 1")
    refused(lambda: g.add_input("a", (1 << 20, 1 << 20)), str(1 << 40))
    refused(lambda: g.add_input("a", bad(3)), "whole numbers")
    refused(lambda: g.add_input("a", bad((1.5,))), "whole numbers")
    refused(lambda: g.add_input("a", (1,), "float64"), "float64", "uint8")
    refused(lambda: g.add_input("a", (1,), 12), "12", "0 to 7")
    refused(lambda: g.add_tpu_layer(0, ["x"], None, ["y"], [(1,), (2,)]), "2 entries for 1")
    refused(lambda: g.add_tpu_layer(0, ["x"], None, ["y"], None, []), "0 entries for 1")
    for i in range(15):
        g.add_input(f"i{i}", (1,))
    refused(lambda: g.add_input("a", (1,)), "input 17", "16")


def test_bad_outputs() -> None:
    g = graph()
    refused(lambda: g.add_output("y"), "'y'")
    refused(lambda: g.add_output("x"), "comes from no layer")
    g.add_tpu_layer(0, ["x"], None, ["y"])
    g.add_output("y")
    refused(lambda: g.add_output("y"), "already")


def test_unknown_chips() -> None:
    with pytest.raises(UsageError, match="BM1684"):
        Graph("BM1688")


def wrong(g: Graph, *words: str) -> None:
    with pytest.raises(CompileError) as caught:
        g.resolve()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_given_shapes_are_compared_with_the_layers() -> None:
    g = graph()
    g.add_tpu_layer(0, ["x"], None, ["y"], [(2, 3, 4, 6)])
    wrong(g, "loc_0 (TPU_LOC, test_graph.py:", "[2, 3, 4, 6]", "[2, 3, 4, 5]", "output_shapes")
    g = graph()
    g.add_tpu_layer(0, ["x"], None, ["y"], None, ["int8"])
    wrong(g, "int8", "float32", "output_dtypes")


def test_layers_that_give_nonsense_shapes() -> None:
    for shape in ((), (0, 3), (1 << 16, 1 << 16)):
        g = graph(FakeLayer("TPU_BAD", 0, shape=constant(shape)))
        g.add_tpu_layer(0, ["x"], None, ["y"])
        wrong(g, "bad_0", str(list(shape)), "[2, 3, 4, 5]")


def test_nets_that_are_not_complete() -> None:
    wrong(graph(), "no layer")
    g = graph()
    g.add_input("idle", (1,))
    g.add_tpu_layer(0, ["x"], None, ["y"])
    wrong(g, "'idle'")
    g = graph()
    for i in range(17):
        g.add_tpu_layer(0, ["x"], None, [f"y{i}"])
    wrong(g, "17 outputs", "add_output")


def test_checks_of_shapes_and_types() -> None:
    assert check_shape([np.int64(3), 4], "it") == (3, 4)
    assert check_dtype(np.float16, "it") == DType.FP16
    assert check_dtype(DType.INT8, "it") == DType.INT8
    assert check_dtype(np.dtype("uint32"), "it") == DType.UINT32


def test_constants_keep_their_values() -> None:
    g = graph()
    g.add_const("k", np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::-1])
    assert g.tensors["k"].data == np.array([[2, 1, 0], [5, 4, 3]], np.int16).tobytes()
    assert same_shape([TensorRecord((1,))], b"")[0].shape == (1,)


def test_closing_ends_both_processes() -> None:
    toolkit = FakeToolkit(local_layer())
    with Graph(toolkit=toolkit) as g:
        g.add_input("x", (1,))
    assert toolkit.fake_device.closed and toolkit.fake_plugins.closed
    with pytest.raises(UsageError, match="closed"):
        _ = toolkit.device
    g.close()


@pytest.mark.parametrize(("code", "told"), [("-1 (BM_LAYER_NOT_SUPPORTED)", True), ("-3", False)])
def test_what_a_layer_was_given_that_refuses_it(
    code: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = FakeToolkit(local_layer())

    def refuse(*_: Any) -> list[TensorRecord]:
        raise DeviceError(f"layer TPU_LOC: shape function returned {code}")

    monkeypatch.setattr(toolkit.fake_device, "infer_shape", refuse)
    graph = Graph(toolkit=toolkit)
    graph.add_tpu_layer("TPU_LOC", [graph.add_input("x", (1, 2))], None, ["y"])
    with pytest.raises(CompileError, match="shape function returned -") as caught:
        graph.shape("y")
    assert caught.value.message.endswith("; it was given 'x' float32") == told
    assert ("input_dtype and input_store_mode" in caught.value.hint) == told
