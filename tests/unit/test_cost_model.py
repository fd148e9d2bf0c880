"""The cost model: the programs that it has recorded, and the time of ops that wait for one another."""

from __future__ import annotations

from firmware_sim.wire import LARGER, StepOp, TensorKind, TensorRecord
from tests.support.compiler_fakes import FakeToolkit, RecordingDevice, window_layer
from tpulayer import Graph
from user_layers.compiler.attributes import DescribedNet, gather_attributes
from user_layers.compiler.cost_model import MeasuredCost
from user_layers.compiler.flow import OpKind, Order
from user_layers.graph.shapes import infer_shapes

SHAPE = (1, 3, 9, 9)


def described() -> DescribedNet:
    graph = Graph(toolkit=FakeToolkit(window_layer("TPU_WIN", 1, kernel=3, pad=1, accepts_larger_tiles=True)))
    graph.add_tpu_layer("TPU_WIN", [graph.add_input("x", SHAPE)], None, ["y"])
    return gather_attributes(infer_shapes(graph), graph.toolkit)


def test_a_copy_goes_from_ddr_to_l2() -> None:
    device = RecordingDevice([])
    MeasuredCost(described(), device).copy(TensorRecord(SHAPE))
    (program,) = device.recorded
    (step,) = program.steps
    assert step.opcode == StepOp.COPY
    assert [program.tensors[i].kind for i in step.inputs] == [TensorKind.NEURON]
    assert [program.tensors[i].kind for i in step.outputs] == [TensorKind.L2]


def test_a_layer_is_recorded_as_it_is_called() -> None:
    """Only the tile that it makes is said to be made of larger ones."""
    device = RecordingDevice([])
    tiles = [TensorRecord(SHAPE, slice_shape=SHAPE, addr=addr) for addr in (0, 4096)]
    MeasuredCost(described(), device).layer(0, tiles, 0, lambda: (tiles, 8192))
    (program,) = device.recorded
    (step,) = program.steps
    assert [program.tensors[i].index for i in (*step.inputs, *step.outputs)] == [0, LARGER]


def test_the_first_op_is_waited_for() -> None:
    order = Order(serial=False)
    order.append(OpKind.LOAD, 0, 0, 100.0, [], [(0, 128)])
    order.append(OpKind.LAYER, 0, 0, 10.0, [(0, 128)], [(128, 256)])
    assert order.ops[1].after == 0
    assert order.cycles() == 110.0
