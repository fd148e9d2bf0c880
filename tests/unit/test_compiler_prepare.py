"""Constants that descriptors prepare, with fake layers: what the layers see, what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError
from firmware_sim.wire import DType, TensorRecord, TType
from tests.support.compiler_fakes import FakeLayer, FakeToolkit, global_layer
from tpulayer import Graph
from user_layers.compiler.attributes import DescribedNet, gather_attributes
from user_layers.compiler.prepare import prepare_constants
from user_layers.graph.shapes import infer_shapes

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)


def backwards(i: int, constants: Mapping[int, bytes], nbytes: int) -> bytes:
    """The elements of input i the other way round, those of others behind them, filled up with zeros."""
    values = np.frombuffer(constants[i], np.float32)[::-1].tobytes()
    values += b"".join(data for k, data in constants.items() if k != i)
    return values + bytes(nbytes - len(values))


def layer(**says: Any) -> FakeLayer:
    """It wants input 1 as [1, 4, 2]; seen: what its shape function gets."""
    answers = {
        "prepared": lambda i: ((1, 4, 2), DType.FP32) if i == 1 else None,
        "prepare": backwards,
        "input_type": lambda i: TType.COEFF if i else TType.NEURON,
        **says,
    }
    return global_layer("TPU_P", 7, **answers)


def graph(*layers: FakeLayer) -> Graph:
    g = Graph(name="net", toolkit=FakeToolkit(*layers))
    g.add_input("x", (1, 3, 8, 8))
    g.add_const("w", WEIGHTS)
    return g


def prepared(g: Graph) -> DescribedNet:
    return prepare_constants(gather_attributes(infer_shapes(g), g.toolkit))


def values(described: DescribedNet, name: str) -> list[float]:
    data = described.net.tensors[name].data
    assert data is not None
    return list(np.frombuffer(data, np.float32))


def test_a_prepared_constant_takes_the_place_of_the_graphs() -> None:
    seen: list[tuple[Any, ...]] = []

    def shape(inputs: Sequence[TensorRecord], param: bytes) -> list[TensorRecord]:
        seen.append((inputs[1].shape, inputs[1].ttype))
        return [TensorRecord(inputs[0].shape, inputs[0].dtype)]

    kind = layer()
    kind.shape = shape
    g = graph(kind)
    g.add_tpu_layer("TPU_P", ["x", "w"], None, ["y"])
    described = prepared(g)
    assert seen == [((1, 4, 2), TType.COEFF)]
    (attrs,) = described.attrs
    assert attrs.node.inputs == described.net.nodes[0].inputs == ("x", "w:prepared")
    assert described.const_names == ("w:prepared",)
    assert values(described, "w:prepared") == [5, 4, 3, 2, 1, 0, 0, 0]
    assert attrs.input_types == (TType.NEURON, TType.COEFF)


def test_what_two_nodes_want_alike_is_stored_once() -> None:
    other = global_layer("TPU_Q", 8, prepared=lambda i: ((6,), DType.FP32) if i else None, prepare=backwards)
    plain = global_layer("TPU_R", 9)
    g = graph(layer(), other, plain)
    g.add_tpu_layer("TPU_P", ["x", "w"], None, ["a"])
    g.add_tpu_layer("TPU_P", ["a", "w"], None, ["b"])
    g.add_tpu_layer("TPU_Q", ["b", "w"], None, ["c"])
    described = prepared(g)
    assert [node.inputs[1] for node in described.net.nodes] == ["w:prepared", "w:prepared", "w:prepared:2"]
    assert described.const_names == ("w:prepared", "w:prepared:2")
    assert described.net.consumers["w:prepared"] == (0, 1)
    g.add_tpu_layer("TPU_R", ["c", "w"], None, ["d"])
    assert prepared(g).const_names == ("w", "w:prepared", "w:prepared:2")


def test_a_name_that_is_taken() -> None:
    g = graph(layer())
    g.add_const("w:prepared", np.ones(1, np.float32))
    g.add_tpu_layer("TPU_P", ["x", "w", "w:prepared"], None, ["y"])
    g.add_tpu_layer("TPU_P", ["y", "w"], None, ["w:prepared:1"])
    described = prepared(g)
    assert described.net.nodes[0].inputs == ("x", "w:prepared:2", "w:prepared")
    assert values(described, "w:prepared") == [1]


def test_only_constants_are_prepared() -> None:
    g = graph(layer(prepared=((5,), DType.FP32)))
    g.add_tpu_layer("TPU_P", ["x", "x"], None, ["t"])
    g.add_tpu_layer("TPU_P", ["t", "x"], None, ["y"])
    assert prepared(g).const_names == ()


def test_messages_show_the_graphs_shapes() -> None:
    kind = layer()
    kind.shape = lambda inputs, param: [TensorRecord((0,), DType.FP32)]
    g = graph(kind)
    g.add_tpu_layer("TPU_P", ["x", "w"], None, ["y"])
    with pytest.raises(CompileError, match=r"for inputs \[1, 3, 8, 8\], \[2, 3\]"):
        prepared(g)


def test_constants_for_the_controller_stay_as_they_are() -> None:
    g = graph(layer(input_type=TType.NEURON_SHAPE))
    g.add_tpu_layer("TPU_P", ["x", "w"], None, ["y"], name="odd")
    with pytest.raises(CompileError, match=r"odd \(TPU_P, .*\): its descriptor prepares input 'w', which"):
        prepared(g)


def test_a_prepared_constant_that_holds_another() -> None:
    seen: list[tuple[Any, ...]] = []

    def shape(inputs: Sequence[TensorRecord], param: bytes) -> list[TensorRecord]:
        seen.append(tuple(t.shape for t in inputs))
        return [TensorRecord(inputs[0].shape, inputs[0].dtype)]

    kind = layer(
        prepared_with=lambda i: 1 if i == 2 else i,
        input_type=lambda i: (TType.NEURON, TType.COEFF, TType.COEFF, TType.COEFF_NEURON)[i],
    )
    kind.shape = shape
    g = graph(kind)
    g.add_const("b", np.array([7, 8], np.float32))
    g.add_const("c", np.array([9], np.float32))
    g.add_tpu_layer("TPU_P", ["x", "w", "b", "c"], None, ["y"])
    described = prepared(g)
    assert seen == [((1, 3, 8, 8), (1, 4, 2), (1,))]
    (attrs,) = described.attrs
    assert attrs.node.inputs == ("x", "w:prepared", "c") and attrs.numbers == (0, 1, 3)
    assert attrs.input_types == (TType.NEURON, TType.COEFF, TType.COEFF_NEURON)
    assert values(described, "w:prepared") == [5, 4, 3, 2, 1, 0, 7, 8]
    assert described.const_names == ("c", "w:prepared")


@pytest.mark.parametrize("into", [0, 2, 5, -1])
def test_a_constant_that_goes_nowhere(into: int) -> None:
    g = graph(layer(prepared_with=lambda i: into if i == 3 else i))
    g.add_const("b", np.array([7, 8], np.float32))
    g.add_tpu_layer("TPU_P", ["x", "w", "b", "b"], None, ["y"])
    with pytest.raises(CompileError, match=rf"prepared_with\(3\) of its descriptor returns {into}, which"):
        prepared(g)
