"""LSTM, GRU and RNN of models as layers: beside numpy in float64 and onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper
from onnx.backend.test.case import node as node_cases

from firmware_sim.errors import TpulayerError
from tests.support.examples import examples
from tests.support.onnx_models import build_graph, make_model
from tpulayer import Graph
from user_layers.onnx.check import reference
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.flexible import fixed_extents_of
from user_layers.onnx.load import from_proto
from user_layers.onnx.work import macs
from user_layers.toolkit import Toolkit

Array = NDArray[Any]

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
NEAR = 3e-6  # of the largest value of an output


@dataclass(frozen=True)
class Case:
    """One node. weak: what weights are multiplied by, so that states of many units do not end at 1."""

    op: str
    steps: int = 3
    batch: int = 2
    features: int = 5
    hidden: int = 7
    direction: str = "forward"
    bias: bool = True
    initial: bool = False
    layout: int = 0
    after: int = 0
    outputs: tuple[bool, ...] = (True, True, True)
    weak: float = 0.5

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    def values(self) -> dict[str, Array]:
        draw = np.random.default_rng(self.hidden)
        rows = GATES[self.op] * self.hidden

        def some(*shape: int, times: float = 1.0) -> Array:
            return (times * draw.standard_normal(shape)).astype(np.float32)

        state = (self.directions, self.batch, self.hidden)
        found = {
            "W": some(self.directions, rows, self.features, times=self.weak),
            "R": some(self.directions, rows, self.hidden, times=self.weak * self.hidden**-0.5),
        }
        if self.bias:
            found["B"] = some(self.directions, 2 * rows, times=self.weak)
        found["X"] = some(self.steps, self.batch, self.features)
        if self.initial:
            found["initial_h"] = some(*state)
            if self.op == "LSTM":
                found["initial_c"] = some(*state)
        if self.layout:
            for name in ("X", "initial_h", "initial_c"):
                if name in found:
                    found[name] = np.ascontiguousarray(found[name].swapaxes(0, 1))
        return found

    def names(self) -> list[str]:
        every = ["Y", "Y_h", "Y_c"][: 3 if self.op == "LSTM" else 2]
        return [name if wanted else "" for name, wanted in zip(every, self.outputs, strict=False)]

    def model(self, fixed: Sequence[str] = ("W", "R", "B"), **attributes: Any) -> Any:
        """fixed: which inputs are constants."""
        values = self.values()
        inputs = ["X", "W", "R", "B", "", "initial_h", "initial_c"][: 7 if self.op == "LSTM" else 6]
        given = [name if name in values else "" for name in inputs]
        if self.layout:
            attributes["layout"] = 1
        if self.op == "GRU":
            attributes["linear_before_reset"] = self.after
        node = helper.make_node(
            self.op, given, self.names(), hidden_size=self.hidden, direction=self.direction, **attributes
        )
        shapes = {name: array.shape for name, array in values.items() if name not in fixed}
        constants = {name: array for name, array in values.items() if name in fixed}
        return make_model([node], shapes, [name for name in self.names() if name], constants)

    def inputs(self, fixed: Sequence[str] = ("W", "R", "B")) -> dict[str, Array]:
        return {name: array for name, array in self.values().items() if name not in fixed}


def sigmoid(x: Array) -> Array:
    made: Array = 1 / (1 + np.exp(-x))
    return made


def one_direction(
    case: Case, x: Array, w: Array, r: Array, b: Array, h: Array, c: Array
) -> tuple[Array, Array, Array]:
    """States of all steps, and the last ones, by ONNX's formulas."""
    size, states = case.hidden, []
    wb, rb = b[: len(b) // 2], b[len(b) // 2 :]
    for now in x:
        given = now @ w.T + wb
        if case.op == "RNN":
            h = np.tanh(given + h @ r.T + rb)
        elif case.op == "LSTM":
            i, o, f, g = np.split(given + h @ r.T + rb, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        else:
            z, reset = np.split(sigmoid((given + h @ r.T + rb)[:, : 2 * size]), 2, axis=1)
            last, lastb = r[2 * size :], rb[2 * size :]
            product = reset * (h @ last.T + lastb) if case.after else (reset * h) @ last.T + lastb
            h = (1 - z) * np.tanh(given[:, 2 * size :] + product) + z * h
        states.append(h)
    return np.stack(states), h, c


def expected(case: Case) -> list[Array]:
    """All outputs in float64, those that are left out too."""
    values = {name: array.astype(np.float64) for name, array in case.values().items()}
    if case.layout:
        for name in ("X", "initial_h", "initial_c"):
            if name in values:
                values[name] = values[name].swapaxes(0, 1)
    zero = np.zeros((case.directions, case.batch, case.hidden))
    made = []
    for d in range(case.directions):
        back = case.direction == "reverse" or d == 1
        steps = values["X"][::-1] if back else values["X"]
        bias = values["B"][d] if case.bias else np.zeros(2 * GATES[case.op] * case.hidden)
        h, c = (values.get(name, zero)[d] for name in ("initial_h", "initial_c"))
        y, h, c = one_direction(case, steps, values["W"][d], values["R"][d], bias, h, c)
        made.append((y[::-1] if back else y, h, c))
    whole = [np.stack([one[0] for one in made], axis=1), *(np.stack([m[i] for m in made]) for i in (1, 2))]
    if case.layout:
        whole = [whole[0].transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in whole[1:])]
    return whole


def check(toolkit: Toolkit, case: Case, dynamic: bool = False) -> None:
    graph, built = build_graph(from_proto(case.model()), toolkit=toolkit)
    assert built.on_cpu == []
    graph.compile(dynamic=dynamic)
    wanted = [want for want, name in zip(expected(case), case.names(), strict=False) if name]
    for got, want in zip(graph.run(case.inputs()), wanted, strict=True):
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= NEAR * np.abs(want).max()


@examples(40)
@given(st.data())
def test_any_recurrent_layer(toolkit: Toolkit, data: st.DataObject) -> None:
    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    case = Case(
        data.draw(st.sampled_from(sorted(GATES))),
        steps=data.draw(st.one_of(st.integers(1, 4), st.integers(8, 24))),
        batch=draw(1, 4),
        features=draw(1, 20),
        hidden=data.draw(st.one_of(st.integers(1, 20), st.integers(60, 150))),
        direction=data.draw(st.sampled_from(["forward", "reverse", "bidirectional"])),
        bias=data.draw(st.booleans()),
        initial=data.draw(st.booleans()),
        layout=draw(0, 1),
        after=draw(0, 1),
        outputs=data.draw(st.sampled_from([(True,) * 3, (True, False, False), (False, True, False)])),
    )
    check(toolkit, case, dynamic=data.draw(st.booleans()))


LARGE = {
    "weights that just fit": Case("LSTM", steps=2, batch=1, hidden=1024),
    "weights in pieces": Case("LSTM", steps=2, hidden=1024, direction="bidirectional", initial=True),
    "two products in pieces": Case("GRU", steps=2, hidden=1500),
    "batches one after the other": Case("LSTM", steps=2, batch=300, hidden=600, initial=True),
    "batches and pieces": Case("GRU", steps=2, batch=100, hidden=1100, after=1, initial=True),
    "the widest": Case("LSTM", steps=1, batch=1, hidden=2048),
    "one state": Case("RNN", steps=70, hidden=3000),
}
QUICK = ("weights in pieces", "two products in pieces", "batches one after the other")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in LARGE]
)
def test_many_units_and_batches(toolkit: Toolkit, name: str) -> None:
    check(toolkit, LARGE[name])


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_controller_does_the_same(controller: Toolkit, dynamic: bool) -> None:
    check(controller, Case("LSTM", hidden=70, direction="bidirectional", initial=True), dynamic)
    check(controller, Case("GRU", hidden=70), dynamic)


@pytest.mark.parametrize("case", [Case("LSTM"), Case("GRU"), Case("GRU", after=1), Case("RNN")], ids=repr)
def test_onnxruntime_agrees(case: Case) -> None:
    """The reference of these tests is what onnxruntime computes."""
    case = Case(**{**case.__dict__, "direction": "bidirectional", "initial": True})
    for got, want in zip(reference(from_proto(case.model()), case.inputs()), expected(case), strict=False):
        assert np.abs(got - want).max() <= NEAR * np.abs(want).max()


@pytest.mark.parametrize("op", sorted(GATES))
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_fewer_steps_and_batches_when_it_runs(toolkit: Toolkit, op: str, direction: str) -> None:
    most = Case(op, steps=6, batch=5, direction=direction, initial=True)
    proto = most.model()
    graph, built = build_graph(from_proto(proto), toolkit=toolkit)
    fixed = fixed_extents_of(built, from_proto(proto), lambda shapes: from_proto(proto, shapes))
    assert fixed.n is None
    graph.compile(dynamic=True)
    for steps, batch in ((6, 5), (2, 5), (1, 3), (4, 1)):
        case = Case(op, steps=steps, batch=batch, direction=direction, initial=True)
        for got, want in zip(graph.run(case.inputs()), expected(case), strict=False):
            assert got.shape == want.shape
            assert np.abs(got - want).max() <= NEAR * np.abs(want).max()


def on_host(model: Any, toolkit: Toolkit) -> list[str]:
    return build_graph(from_proto(model), toolkit=toolkit)[1].on_cpu


@pytest.mark.parametrize(
    ("op", "attributes", "reason"),
    [
        ("LSTM", {"clip": 3.0}, "clip = 3.0"),
        ("LSTM", {"input_forget": 1}, "input_forget = 1"),
        ("LSTM", {"activations": ["Sigmoid", "Tanh", "Relu"]}, "the activation Relu; Sigmoid, Tanh, Tanh"),
        ("GRU", {"activations": ["HardSigmoid", "Tanh"]}, "the activation HardSigmoid"),
        ("RNN", {"activations": ["Relu"]}, "the activation Relu; Tanh is what a layer has"),
    ],
)
def test_what_stays_on_the_host(
    toolkit: Toolkit, op: str, attributes: Mapping[str, Any], reason: str
) -> None:
    (line,) = on_host(Case(op).model(**attributes), toolkit)
    assert reason in line


@pytest.mark.parametrize("op", sorted(GATES))
def test_what_stays_on_the_host_with_batches_first(toolkit: Toolkit, op: str) -> None:
    """onnxruntime has no such layout: what it runs is turned."""
    case = Case(op, batch=2, direction="bidirectional", initial=True, layout=1)
    graph, built = build_graph(from_proto(case.model(clip=1e6)), toolkit=toolkit)
    assert built.on_cpu == [f"{op} Y: clip = 1000000.0"]
    graph.compile()
    wanted = [want for want, name in zip(expected(case), case.names(), strict=False) if name]
    for got, want in zip(graph.run(case.inputs()), wanted, strict=True):
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= NEAR * np.abs(want).max()


@pytest.mark.parametrize("attributes", [{}, {"clip": 1e6}])
def test_batches_first_are_compared_with_onnxruntime(
    toolkit: Toolkit, tmp_path: Path, attributes: dict[str, Any]
) -> None:
    onnx.save(Case("GRU", layout=1).model(**attributes), str(tmp_path / "m.onnx"))
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net"), print, toolkit)


@pytest.mark.parametrize("change", [{"layout": 2}, {"direction": "sideways"}])
def test_what_onnx_does_not_define(toolkit: Toolkit, change: dict[str, Any]) -> None:
    case = Case("LSTM", outputs=(True, False, False))
    model = case.model()
    (node,), ((name, value),) = model.graph.node, change.items()
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
    first, second, _ = case.inputs()["X"].shape
    shape = (first, second, 1, case.hidden) if name == "layout" else (first, 1, second, case.hidden)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, shape))
    with pytest.raises(TpulayerError, match=name):  # no layer takes it, and onnxruntime says why it does not
        on_host(model, toolkit)


def test_default_activations_may_be_written(toolkit: Toolkit) -> None:
    assert on_host(Case("LSTM").model(activations=["Sigmoid", "Tanh", "Tanh"]), toolkit) == []


def with_inputs(case: Case, constants: Mapping[str, Array], inputs: Sequence[str]) -> Any:
    model = case.model()
    model.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in constants.items())
    del model.graph.node[0].input[:]
    model.graph.node[0].input.extend(inputs)
    return model


def test_lengths_of_sequences(toolkit: Toolkit) -> None:
    """All steps are what a layer does; fewer the host does."""
    case, inputs = Case("GRU", steps=4), ["X", "W", "R", "B", "n"]
    every = with_inputs(case, {"n": np.array([4, 4], np.int32)}, inputs)
    assert on_host(every, toolkit) == []
    (line,) = on_host(with_inputs(case, {"n": np.array([4, 3], np.int32)}, inputs), toolkit)
    assert "sequences of other lengths than 4 steps" in line


def test_peepholes_stay_on_the_host(toolkit: Toolkit) -> None:
    case = Case("LSTM")
    peep = {"p": np.ones((1, 3 * case.hidden), np.float32)}
    (line,) = on_host(with_inputs(case, peep, ["X", "W", "R", "B", "", "", "", "p"]), toolkit)
    assert "peepholes" in line


@pytest.mark.parametrize("left_out", ["initial_h", "initial_c"])
def test_one_of_two_initial_states(toolkit: Toolkit, left_out: str) -> None:
    """The other one begins as zeros, for as many batches as there are when it runs."""

    def model_of(case: Case) -> Any:
        model = case.model()
        model.graph.node[0].input[5 if left_out == "initial_h" else 6] = ""
        (index,) = (i for i, value in enumerate(model.graph.input) if value.name == left_out)
        del model.graph.input[index]
        return from_proto(model)

    most = Case("LSTM", batch=150, hidden=70, initial=True)
    graph, built = build_graph(model_of(most), toolkit=toolkit)
    assert built.on_cpu == []
    for dynamic, batches in ((False, (150,)), (True, (150, 1, 149))):
        graph.compile(dynamic=dynamic)
        for batch in batches:
            case = Case("LSTM", batch=batch, hidden=70, initial=True)
            inputs = {name: array for name, array in case.inputs().items() if name != left_out}
            want = reference(model_of(case), inputs)
            for got, one in zip(graph.run(inputs), want, strict=True):
                assert np.abs(got - one).max() <= NEAR * np.abs(one).max()


def test_weights_that_are_computed_or_do_not_fit(toolkit: Toolkit) -> None:
    (line,) = on_host(Case("RNN").model(fixed=("W", "B")), toolkit)
    assert "'R' is computed; it must be a constant" in line
    case = Case("LSTM", hidden=2049, steps=1, batch=1, features=1)
    (line,) = on_host(case.model(), toolkit)
    assert "2049 hidden units; a layer has up to 2048" in line


@pytest.mark.parametrize(
    "case", [Case("LSTM"), Case("GRU", direction="bidirectional"), Case("RNN")], ids=repr
)
def test_multiplications(toolkit: Toolkit, case: Case) -> None:
    model = from_proto(case.model())
    each = GATES[case.op] * case.hidden * (case.features + case.hidden)
    assert macs(model, model.nodes[0]) == case.steps * case.batch * case.directions * each


PARAM = {"cell": 0, "hidden": 6, "units": 2, "directions": 1, "reverse": 0, "initial": 0}
SHAPES = [(4, 2, 24), (1, 3, 6, 8)]


@pytest.mark.parametrize(
    ("shapes", "change"),
    [
        (SHAPES, {"cell": 4}),
        (SHAPES, {"units": 3}),  # other columns
        (SHAPES, {"units": 0}),
        (SHAPES, {"directions": 2}),
        (SHAPES, {"initial": 1}),  # but none is given
        ([*SHAPES, (1, 2, 6)], {"initial": 3}),  # but one is
        ([*SHAPES, (1, 2, 6), (1, 2, 6)], {"initial": 4}),
        (SHAPES, {"reverse": 1, "directions": 2}),
        ([(4, 24), (1, 3, 6, 8)], {}),
        ([(4, 2, 24), (1, 3, 5, 8)], {}),
        ([*SHAPES, (1, 2, 6), (1, 3, 6)], {"initial": 3}),  # another batch
        ([(4, 2, 18), (1, 3, 6, 4)], {"cell": 1}),  # weights are missing
        ([(4, 2, 6), (1, 3, 6, 2), (1, 2, 6)], {"cell": 3, "initial": 2}),  # it has no cell states
        ([(1, 1, 520), (1, 65, 130, 8)], {"hidden": 130}),  # more lanes than there are
    ],
)
def test_what_does_not_fit_is_refused(
    toolkit: Toolkit, shapes: Sequence[tuple[int, ...]], change: Mapping[str, int]
) -> None:
    param = {**PARAM, **change}
    graph = Graph(name="net", toolkit=toolkit)
    names = [graph.add_input(f"in{i}", shape) for i, shape in enumerate(shapes)]
    with pytest.raises(TpulayerError, match="recurrent"):
        graph.add_tpu_layer("TPU_RECURRENT", names, param, ["y", "h", "c"][: 3 - (param["cell"] > 0)])
        graph.compile()


def node_tests() -> list[Any]:
    """The onnx package's own, of recurrent layers. Importing a module of them is what collects these; the
    package's function for that imports all, which takes 20 s. They are computed then: products of small
    matrices, of which numpy says at times, by chance, that they had invalid values."""
    with np.errstate(invalid="ignore"):
        for op in GATES:
            import_module(f"{node_cases.__name__}.{op.lower()}")
    return [case for case in node_cases._NodeTestCases if case.model.graph.node[0].op_type in GATES]


@pytest.mark.parametrize("case", node_tests(), ids=lambda case: str(case.name))
def test_the_onnx_packages_own(toolkit: Toolkit, case: Any) -> None:
    """With the weights as constants, which they are in models that somebody trained."""
    ((inputs, wanted),) = case.data_sets
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    values = dict(zip((value.name for value in model.graph.input), inputs, strict=True))
    for value in list(model.graph.input)[1:]:
        model.graph.initializer.append(onnx.numpy_helper.from_array(values[value.name], value.name))
        model.graph.input.remove(value)
    graph, built = build_graph(from_proto(model), toolkit=toolkit)
    if "peepholes" in case.name:
        (line,) = built.on_cpu
        assert "peepholes" in line
        return
    assert built.on_cpu == []
    graph.compile()
    for got, want in zip(graph.run({"X": values["X"]}), wanted, strict=True):
        assert got.shape == want.shape
        assert np.allclose(got, want, rtol=case.rtol, atol=case.atol)
