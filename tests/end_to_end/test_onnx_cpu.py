"""Models with nodes that no layer computes: these run on onnxruntime, the rest stays on the TPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from firmware_sim.errors import CompileError
from tests.support.examples import examples
from tests.support.onnx_models import build_graph, make_model
from user_layers.onnx.build import Built, build
from user_layers.onnx.check import TOLERANCE, compare, random_inputs, reference
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.load import from_proto
from user_layers.onnx.tokens import TURN
from user_layers.onnx.types import from_net, to_net
from user_layers.toolkit import Toolkit

I64, BOOL, F64 = TensorProto.INT64, TensorProto.BOOL, TensorProto.DOUBLE


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def check(proto: Any, toolkit: Toolkit, path: Path, dynamic: bool = False) -> Built:
    """Build, compile, run, and compare with onnxruntime."""
    onnx.save(proto, str(path))
    model = from_proto(proto)
    inputs = random_inputs(model)
    graph, built = build_graph(model, "net", toolkit=toolkit)
    graph.compile(dynamic=dynamic)
    fed = {v.name: to_net(inputs[v.name], v) for v in model.inputs if v.name in built.graph.inputs}
    got = [from_net(a, v) for a, v in zip(graph.run(fed), model.outputs, strict=True)]
    for found in compare([v.name for v in model.outputs], got, reference(path, inputs)):
        assert found.relative <= TOLERANCE, found
    return built


def sides(built: Built) -> list[str]:
    return [("cpu " if p.on_cpu else "tpu ") + " ".join(n.op for n in p.nodes) for p in built.parts]


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_node_in_the_middle(dynamic: bool, toolkit: Toolkit, tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "a"), node("Tan", "a", "b", name="angles"), node("Exp", "b")]
    proto = make_model(nodes, {"x": (3, 5)}, ["y"], {"k": np.int64(1)})
    built = check(proto, toolkit, tmp_path / "m.onnx", dynamic)
    assert sides(built) == ["tpu Relu", "cpu Tan", "tpu Exp"]
    assert built.on_cpu == ["Tan angles: there is no layer for this operation"]


def test_types_of_the_model_and_of_the_device(toolkit: Toolkit, tmp_path: Path) -> None:
    """int64 and bool cross as int32 and fp32; float64 stays inside the part that makes it."""
    nodes = [
        node("ArgMax", "x", "i", axis=1),  # TPU, int64 in the model
        node("Div", "i k", "j"),  # CPU: whole numbers
        node("Cast", "j", "f", to=1),
        node("Greater", "x f", "g"),  # TPU, bool
        node("Not", "g", "n"),
        node("Cast", "x", "d", to=F64),  # CPU, and what reads it
        node("Sqrt", "d", "e"),
        node("Cast", "e", "r", to=1),
        node("Where", "n x r"),
        node("Neg", "n32", "s"),
        node("Cast", "n", "n32", to=6),
    ]
    nodes[-1], nodes[-2] = nodes[-2], nodes[-1]
    proto = make_model(nodes, {"x": (3, 5)}, ["y"], {"k": np.int64(1)})
    proto.graph.output.append(helper.make_tensor_value_info("n", BOOL, None))
    proto.graph.output.append(helper.make_tensor_value_info("j", I64, None))
    proto.graph.output.append(helper.make_tensor_value_info("s", TensorProto.INT32, None))
    built = check(proto, toolkit, tmp_path / "m.onnx")
    assert {"Div", "Sqrt", "Neg"} <= {n.op for p in built.parts if p.on_cpu for n in p.nodes}
    assert {"ArgMax", "Greater", "Where"} <= {n.op for p in built.parts if not p.on_cpu for n in p.nodes}
    assert any("'d' is float64" in line for line in built.on_cpu)


def test_subgraphs_read_values_from_outside(toolkit: Toolkit, tmp_path: Path) -> None:
    """An If whose branches capture a computed value, one under a name that Identity gave it."""
    branches = {
        name: helper.make_graph(
            [helper.make_node(op, ["same", "h"], [f"{name}_y"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_y", 1, None)],
        )
        for name, op in (("then", "Add"), ("else", "Sub"))
    }
    nodes = [
        node("Relu", "x", "h"),
        node("Identity", "x", "same"),
        node("ReduceMax", "x", "m", keepdims=0),
        node("Greater", "m zero", "c"),
        helper.make_node("If", ["c"], ["i"], then_branch=branches["then"], else_branch=branches["else"]),
        node("Neg", "i"),
    ]
    proto = make_model(nodes, {"x": (3, 5)}, ["y"], {"zero": np.float32(0)})
    built = check(proto, toolkit, tmp_path / "m.onnx")
    assert "cpu If" in sides(built)


def test_functions_of_the_model_are_written_out(toolkit: Toolkit, tmp_path: Path) -> None:
    body = [node("Relu", "a", "r"), node("Tan", "r", "b")]
    function = helper.make_function(
        "own",
        "Sums",
        ["a", "k"],
        ["b"],
        body,
        [helper.make_opsetid("", 17)],
    )
    nodes = [helper.make_node("Sums", ["x", "k"], ["s"], domain="own"), node("Exp", "s")]
    proto = make_model(nodes, {"x": (3, 5)}, ["y"], {"k": np.int64(0)})
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    assert sides(check(proto, toolkit, tmp_path / "m.onnx")) == ["tpu Relu", "cpu Tan", "tpu Exp"]


def test_shapes_known_only_when_running(toolkit: Toolkit, tmp_path: Path) -> None:
    """What depends on them is one part, up to where the shape is known again."""
    nodes = [
        node("Relu", "x", "r"),
        node("NonZero", "r", "z", name="where"),
        node("Cast", "z", "f", to=1),
        node("ReduceMax", "f", "m", axes=[1], keepdims=0),
        node("Exp", "m"),
    ]
    proto = make_model(nodes, {"x": (3, 5)}, ["y"])
    built = check(proto, toolkit, tmp_path / "m.onnx")
    assert sides(built) == ["tpu Relu", "cpu NonZero Cast ReduceMax", "tpu Exp"]
    assert any("'z' has a shape that is known only when the model runs" in line for line in built.on_cpu)


def test_random_numbers_are_no_constants(toolkit: Toolkit) -> None:
    """They are made when the net runs; a part without inputs of its own gets one."""
    nodes = [node("RandomNormal", "", "r", shape=[3, 5]), node("Add", "x r")]
    model = from_proto(make_model(nodes, {"x": (3, 5)}, ["y"]))
    graph, built = build_graph(model, "net", toolkit=toolkit)
    assert sides(built) == ["cpu RandomNormal", "tpu Add"]
    graph.compile()
    x = np.ones((3, 5), np.float32)
    (y,) = graph.run({"x": x})
    assert y.shape == (3, 5) and len(set(y.ravel().tolist())) > 10


OPS: dict[str, tuple[int, Callable[..., list[Any]]]] = {
    "tpu": (1, lambda y, a: [node("Relu", a, y)]),
    "tpu of two": (2, lambda y, a, b: [node("Sub", f"{a} {b}", y)]),
    "cpu": (1, lambda y, a: [node("Tan", a, y)]),
    "double": (
        1,
        lambda y, a: [
            node("Cast", a, f"{y}d", to=F64),
            node("Sqrt", f"{y}d", f"{y}e"),
            node("Cast", f"{y}e", y, to=1),
        ],
    ),
    "truth": (
        2,
        lambda y, a, b: [
            node("Greater", f"{a} {b}", f"{y}g"),
            node("Where", f"{y}g {a} {b}", y),
        ],
    ),
    "index": (
        1,
        lambda y, a: [
            node("ArgMax", a, f"{y}i", axis=0),
            node("Mul", f"{y}i {y}i", f"{y}j"),
            node("Cast", f"{y}j", f"{y}f", to=1),
            node("Add", f"{a} {y}f", y),
        ],
    ),
}


@given(st.data())
@examples(25, suppress_health_check=list(HealthCheck))
def test_any_mixture(toolkit: Toolkit, tmp_path: Path, data: st.DataObject) -> None:
    names, nodes = ["x", "z"], []
    for number in range(data.draw(st.integers(1, 7))):
        count, make = OPS[data.draw(st.sampled_from(sorted(OPS)))]
        operands = [data.draw(st.sampled_from(names)) for _ in range(count)]
        nodes += make(f"v{number}", *operands)
        names.append(f"v{number}")
    outputs = data.draw(st.lists(st.sampled_from(names[2:]), min_size=1, max_size=3, unique=True))
    proto = make_model(nodes, {"x": (3, 4), "z": (3, 4)}, outputs, {"one": np.int64(1)})
    built = check(proto, toolkit, tmp_path / "m.onnx", dynamic=data.draw(st.booleans()))
    assert len([part for part in built.parts if part.on_cpu]) <= len(nodes)


def test_an_input_that_the_device_cannot_hold_is_refused(toolkit: Toolkit) -> None:
    proto = make_model([node("Relu", "x")], {"x": (3, 5)}, ["y"])
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = F64
    with pytest.raises(CompileError, match="input 'x' is float64, which no tensor of the device holds"):
        build(from_proto(proto), "net", toolkit=toolkit)


def test_values_without_elements_are_constants(toolkit: Toolkit, tmp_path: Path) -> None:
    """A tensor without elements has only one value, so what is made of it is known."""
    nodes = [node("ReduceSum", "e axes", "s", keepdims=0), node("Add", "x s")]
    proto = make_model(nodes, {"x": (4,), "e": (4, 0)}, ["y"], {"axes": np.array([1])})
    built = check(proto, toolkit, tmp_path / "m.onnx")
    assert built.graph.inputs == ("x",)
    empty = make_model([node("Concat", "e e", axis=0)], {"e": (4, 0)}, ["y"])
    with pytest.raises(CompileError, match="output 'y' has no elements"):
        build(from_proto(empty), "net", toolkit=toolkit)


def test_inputs_that_nothing_needs_are_left_out(toolkit: Toolkit, tmp_path: Path) -> None:
    proto = make_model([node("Relu", "x"), node("Exp", "z", "unused")], {"x": (4,), "z": (4,)}, ["y"])
    built = check(proto, toolkit, tmp_path / "m.onnx")
    assert built.graph.inputs == ("x",) and len(built.graph.nodes) == 1


def test_operations_defined_by_others_are_written_out(toolkit: Toolkit, tmp_path: Path) -> None:
    """LayerNormalization with its mean as an output has no layer, but what defines it has."""
    nodes = [node("LayerNormalization", "x s", "n m"), node("Add", "n m")]
    proto = make_model(nodes, {"x": (3, 8)}, ["y"], {"s": np.full(8, 2, np.float32)})
    built = check(proto, toolkit, tmp_path / "m.onnx")
    assert not built.on_cpu and len(built.graph.nodes) > 4


def test_what_writing_out_does_not_help_stays_whole(toolkit: Toolkit, tmp_path: Path) -> None:
    """One piece (a cast to uint8) has no layer: then the whole node is on the CPU, as it was."""
    nodes = [
        node("Relu", "x", "a"),
        node("DynamicQuantizeLinear", "a", "q s z"),
        node("Cast", "q", "f", to=1),
        node("Exp", "f"),
    ]
    built = check(make_model(nodes, {"x": (3, 4)}, ["y"]), toolkit, tmp_path / "m.onnx")
    assert sides(built) == ["tpu Relu", "cpu DynamicQuantizeLinear", "tpu Cast Exp"]


def test_rotary_embedding_is_written_out(toolkit: Toolkit, tmp_path: Path) -> None:
    """With positions that are an input: rows of its two small tables."""
    nodes = [node("Relu", "x", "a"), node("RotaryEmbedding", "a c s p", "r"), node("Exp", "r")]
    proto = make_model(nodes, {"x": (1, 2, 3, 4), "c": (9, 2), "s": (9, 2)}, ["y"], opset=23)
    proto.graph.input.append(helper.make_tensor_value_info("p", I64, [1, 3]))
    assert not check(proto, toolkit, tmp_path / "m.onnx").on_cpu


def test_the_command_says_what_is_on_the_cpu(toolkit: Toolkit, tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "a"), node("Tan", "a", "b", name="angles"), node("Exp", "b")]
    proto = make_model(nodes, {"x": (3, 5)}, ["y"], {"k": np.int64(1)})
    onnx.save(proto, str(tmp_path / "m.onnx"))
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net"), lines.append, toolkit)
    assert lines[0].endswith("compilation.bmodel: 2 layers, 1 node on the CPU in 1 part")
    assert lines[1] == "on the CPU: Tan angles: there is no layer for this operation"
    forbidden = CompileOptions(tmp_path / "m.onnx", tmp_path / "other", cpu=False)
    with pytest.raises(CompileError, match="no layer does this:\n  Tan angles: there is no layer"):
        run(forbidden, lines.append, toolkit)
    assert not (tmp_path / "other").exists()


def test_the_command_says_which_shapes_it_saw(toolkit: Toolkit, tmp_path: Path) -> None:
    """No inference knows onnxruntime's own operations; what lies behind them is inferred again."""
    own = [
        helper.make_node("BiasGelu", ["x", "b"], ["g0"], domain="com.microsoft"),
        *(
            helper.make_node("BiasGelu", [f"g{i}", "b"], [f"g{i + 1}"], domain="com.microsoft")
            for i in range(4)
        ),
    ]
    proto = make_model([*own, node("Exp", "g4")], {"x": (3, 5)}, ["y"], {"b": np.ones(5, np.float32)})
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(proto, str(tmp_path / "m.onnx"))
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net"), lines.append, toolkit)
    seen = "g0 [3, 5], g1 [3, 5], g2 [3, 5], g3 [3, 5] and 2 more"
    assert f"6 shapes seen when the model ran, not inferred: {seen}" in lines
    onnx.save(make_model([node("Exp", "x")], {"x": (3, 5)}, ["y"]), str(tmp_path / "m.onnx"))
    lines.clear()
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net"), lines.append, toolkit)
    assert not any("seen" in line for line in lines)


def test_whole_numbers_that_a_model_divides_by(toolkit: Toolkit, tmp_path: Path) -> None:
    """The command's random inputs are 0 and 1; where that fails, other numbers are tried."""
    proto = make_model([node("Div", "x z", "q"), node("Cast", "q", to=1)], {"x": (8,), "z": (8,)}, ["y"])
    for value in proto.graph.input:
        value.type.tensor_type.elem_type = I64
    onnx.save(proto, str(tmp_path / "m.onnx"))
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net"), lines.append, toolkit)
    assert lines[-1].startswith("y equals onnxruntime's")


@pytest.mark.parametrize("many", [15, 20])
def test_more_values_than_a_part_can_read(many: int, toolkit: Toolkit) -> None:
    """What makes them for nodes that cannot be parted runs there too, but no product: as detectors look at
    their classes one by one."""
    nodes = [node("MatMul", "w x", "scores")]
    for i in range(many):
        nodes += [node("Gather", f"scores at{i}", f"of{i}", axis=0), node("NonZero", f"of{i}", f"found{i}")]
    nodes += [
        node("Concat", " ".join(f"found{i}" for i in range(many)), "all", axis=1),
        node("Cast", "all", "y", to=TensorProto.FLOAT),
    ]
    constants = {f"at{i}": np.int64(i) for i in range(many)} | {"w": np.eye(many, dtype=np.float32)}
    proto = make_model(nodes, {"x": (many, 6)}, [], constants)
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    model = from_proto(proto)
    graph, built = build_graph(model, toolkit=toolkit)
    tpu, cpu = built.parts
    assert {one.op for one in tpu.nodes} == ({"MatMul"} if many > 16 else {"MatMul", "Gather"})
    assert len(cpu.inputs) == (1 if many > 16 else many)
    graph.compile()
    x = np.random.default_rng(0).integers(0, 2, (many, 6)).astype(np.float32)
    (y,) = graph.run({"x": x})
    assert np.array_equal(y, reference(model, {"x": x})[0])


def test_nodes_of_this_compiler_alone_do_not_go_to_the_host_with_others(toolkit: Toolkit) -> None:
    """What is turned for a sequence has a layer as one node, but the sequence draws it to the host, which
    only knows it as it was written."""
    many = 20
    nodes = []
    for i in range(many):
        nodes += [node("Mul", f"x f{i}", f"m{i}"), node("Transpose", f"m{i}", f"t{i}", perm=[0, 2, 1])]
    nodes += [
        node("SequenceConstruct", " ".join(f"t{i}" for i in range(many)), "all"),
        node("SequenceLength", "all", "n"),
        node("SequenceAt", "all last", "z"),
        node("ConcatFromSequence", "all", "y", axis=1),
    ]
    constants = {f"f{i}": np.float32(i) for i in range(many)} | {"last": np.int64(many - 1)}
    proto = make_model(nodes, {"x": (1, 3, 5)}, ["y", "z", "n"], constants)
    del proto.graph.output[:]
    for name in ("y", "z"):
        proto.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    model = from_proto(proto)
    graph, built = build_graph(model, toolkit=toolkit)
    host = {one.op for part in built.parts if part.on_cpu for one in part.nodes}
    assert "Transpose" in host and TURN not in host
    graph.compile()
    x = {"x": np.random.default_rng(0).standard_normal((1, 3, 5)).astype(np.float32)}
    for got, want in zip(graph.run(x), reference(model, x), strict=True):
        assert np.array_equal(got, want)
