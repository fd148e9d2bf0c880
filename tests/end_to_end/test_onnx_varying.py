"""Outputs whose shapes are known only when the model has run, such as the boxes that are kept."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from firmware_sim.errors import CompileError
from tests.support.examples import examples
from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model
from user_layers.bmodel import read
from user_layers.bmodel.directory import OUTPUT_SHAPES
from user_layers.bmrt.bmrt_test import BmrtTestOptions
from user_layers.bmrt.bmrt_test import run as bmrt_test
from user_layers.onnx.check import reference
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.load import from_proto
from user_layers.onnx.model import Array
from user_layers.onnx.varying import largest_shapes
from user_layers.toolkit import Toolkit

BOXES, CLASSES = 12, 2


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def drop_unused(proto: Any) -> None:
    """Constants that no node reads."""
    used = {name for one in proto.graph.node for name in one.input}
    kept = [tensor for tensor in proto.graph.initializer if tensor.name in used]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)


def model(nodes: list[Any], outputs: dict[str, int], **more: Any) -> Any:
    """x: [1, BOXES, 6], boxes and scores."""
    head = [
        node("Split", "x parts", "corners logits", axis=2),
        node("Sigmoid", "logits", "probable"),
        node("Transpose", "probable", "scores", perm=[0, 2, 1]),
    ]
    constants = {
        "parts": np.array([4, CLASSES]),
        "most": np.array([3]),
        "overlap": np.float32(0.5),
        "least": np.float32(0.6),
        **more,
    }
    proto = make_model([*head, *nodes], {"x": (1, BOXES, 4 + CLASSES)}, [], constants)
    drop_unused(proto)
    for name, kind in outputs.items():
        proto.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    return proto


NMS = node("NonMaxSuppression", "corners scores most overlap least", "kept")
BEHIND = [
    NMS,
    node("Gather", "kept two", "which", axis=1),
    node("Squeeze", "which one", "index"),
    node("Gather", "corners index", "found", axis=1),
]
MORE = {"two": np.array([2]), "one": np.array([1])}


def sample(low: float = -4.0) -> Array:
    rng = np.random.default_rng(3)
    x = rng.uniform(low, low + 8, (1, BOXES, 4 + CLASSES)).astype(np.float32)
    x[..., 2:4] = x[..., :2] + rng.uniform(0.5, 1, (1, BOXES, 2))
    return x


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_model_that_ends_in_nms(dynamic: bool, toolkit: Toolkit, tmp_path: Path) -> None:
    onnx.save(model([NMS], {"kept": TensorProto.INT64}), str(tmp_path / "m.onnx"))
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net", dynamic), lines.append, toolkit)
    assert any(line.startswith("kept equals onnxruntime's") for line in lines)
    assert "output kept is at most [6, 3]: its shape is known when the net has run" in lines
    (net,) = read(tmp_path / "net" / "compilation.bmodel").nets
    assert [stage_output.shape for stage_output in net.stages[0].outputs] == [(6, 3)]
    assert net.stages[0].varies(net.stages[0].outputs[0])
    assert (tmp_path / "net" / OUTPUT_SHAPES).is_file()


@pytest.mark.parametrize("low", [-4.0, 0.0, -30.0], ids=["some", "many", "none"])
def test_what_comes_out_is_as_large_as_it_is(low: float, toolkit: Toolkit) -> None:
    """Also no box at all; an output beside it, whose shape does not vary, stays static."""
    proto = model(BEHIND, {"found": TensorProto.FLOAT, "scores": TensorProto.FLOAT}, **MORE)
    graph, built = build_graph(from_proto(proto), toolkit=toolkit)
    assert built.varying == {"found": (1, 6, 4)}
    net = graph.compile()
    assert [t.varies for t in net.stages[0].outputs] == [True, False]
    x = sample(low)
    got, want = graph.run({"x": x}), reference(from_proto(proto), {"x": x})
    assert want[0].shape[1] == 0 if low == -30 else want[0].shape[1] > 0
    for mine, theirs in zip(got, want, strict=True):
        assert mine.shape == theirs.shape
        assert np.abs(mine.astype(np.float64) - theirs).max(initial=0) < 1e-6


def test_reference_data_without_any_box(toolkit: Toolkit, tmp_path: Path) -> None:
    """A probability that nothing has."""
    onnx.save(model([NMS], {"kept": TensorProto.INT64}, least=np.float32(2)), str(tmp_path / "m.onnx"))
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net"), print, toolkit)
    device, lines = toolkit.device, list[str]()
    options = BmrtTestOptions(context_dir=tmp_path / "net")
    assert bmrt_test(options, device=lambda *_: nullcontext(device), say=lines.append) == 0, lines


def test_an_output_without_a_limit_is_refused(toolkit: Toolkit) -> None:
    """As many numbers as a value says."""
    nodes = [
        node("ReduceMax", "x", "largest", keepdims=0),
        node("Cast", "largest", "count", to=TensorProto.INT64),
        node("Range", "zero count step", "y"),
    ]
    constants = {"zero": np.int64(0), "step": np.int64(1)}
    proto = make_model(nodes, {"x": (2, 3)}, [], constants)
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.INT64, None))
    with pytest.raises(
        CompileError, match="'y' has a shape that is known only when the model runs"
    ) as caught:
        build_graph(from_proto(proto), toolkit=toolkit)
    assert "say its shape" in caught.value.hint


@examples(60)
@given(
    st.sampled_from(["NonZero", "Compress", "Compress axis", "Unique", "Unique axis"]),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(0, 999),
)
def test_no_result_is_larger_than_its_limit(kind: str, shape: list[int], seed: int) -> None:
    """The slow reference is onnxruntime on random data; somewhere the limit is reached."""
    op, _, axis = kind.partition(" ")
    rng = np.random.default_rng(seed)
    attributes = {"axis": int(rng.integers(-len(shape), len(shape)))} if axis else {}
    length = shape[attributes["axis"]] if axis else int(np.prod(shape))
    picked = rng.integers(0, 2, int(rng.integers(1, length + 1))).astype(bool)
    inputs = ["x", "picked"] if op == "Compress" else ["x"]
    constants = {"picked": picked} if op == "Compress" else {}
    nodes = [helper.make_node(op, inputs, ["y"], **attributes)]
    proto = make_model(nodes, {"x": shape}, [], constants)
    type_ = TensorProto.INT64 if op == "NonZero" else TensorProto.FLOAT
    proto.graph.output.append(helper.make_tensor_value_info("y", type_, None))
    read_ = from_proto(proto)
    (y,) = reference(read_, {"x": rng.integers(0, 3, shape).astype(np.float32)})
    (largest,) = largest_shapes(read_).values()
    assert len(largest) == y.ndim and all(n <= most for n, most in zip(y.shape, largest, strict=True))


def chosen() -> list[Any]:
    """Of what is above a limit the rows, at most five of the best ones of which are left, as `best` and
    `where`."""
    return [
        node("Split", "x parts", "corners logits", axis=1),
        node("Squeeze", "logits last", "scores"),
        node("Greater", "scores zero", "above"),
        node("NonZero", "above", "found"),
        node("Transpose", "found", "rows", perm=[1, 0]),
        node("GatherND", "scores rows", "some"),
        node("GatherND", "corners rows", "boxes"),
        node("Shape", "some", "number"),
        node("Concat", "five number", "both", axis=0),
        node("ReduceMin", "both", "least", keepdims=0),
        node("Reshape", "least one", "k"),
        node("TopK", "some k", "best where"),
    ]


CHOSEN: dict[str, Any] = {
    "parts": np.array([4, 1]),
    "last": np.array([1]),
    "zero": np.float32(0),
    "five": np.array([5]),
    "one": np.array([1]),
}
TAILS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "the best": ([node("Identity", "best", "y")], {}),
    "their boxes": ([node("Gather", "boxes where", "y", axis=0)], {}),
    "zeros for each": (
        [node("Concat", "number three", "size", axis=0), node("ConstantOfShape", "size", "y")],
        {"three": np.array([3])},
    ),
    "one for each": (
        [
            node("Unsqueeze", "some one", "column"),
            node("Shape", "boxes", "size"),
            node("Expand", "column size", "y"),
        ],
        {},
    ),
    "rows of a rest": (
        [
            node("Unsqueeze", "number nothing", "rows_"),
            node("Reshape", "rows_ one", "count"),
            node("Concat", "count rest", "shape", axis=0),
            node("Unsqueeze", "boxes one", "planes"),
            node("Reshape", "planes shape", "y"),
        ],
        {"nothing": np.array([0]), "rest": np.array([-1])},
    ),
    "all in pairs": ([node("Reshape", "boxes pairs", "y")], {"pairs": np.array([-1, 2])}),
    "up to an end": (
        [node("Slice", "boxes two number nothing", "y")],
        {"two": np.array([2]), "nothing": np.array([0])},
    ),
}


def tailed(tail: str, boxes: int) -> Any:
    nodes, more = TAILS[tail]
    proto = make_model([*chosen(), *nodes], {"x": (boxes, 5)}, [], CHOSEN | more)
    drop_unused(proto)
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return proto


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("boxes", [3, 12])
def test_what_follows_from_counts(tail: str, boxes: int) -> None:
    """The slow reference is onnxruntime; the limit is reached where all are chosen."""
    read_ = from_proto(tailed(tail, boxes))
    (limit,) = largest_shapes(read_).values()
    rng = np.random.default_rng(boxes)
    for shift in (0, 1, 9) if tail == "rows of a rest" else (-9, -1, 0, 1, 9):  # no rows have no rest
        x = rng.standard_normal((boxes, 5)).astype(np.float32)
        x[:, 4] += shift
        (y,) = reference(read_, {"x": x})
        assert len(limit) == y.ndim and all(n <= most for n, most in zip(y.shape, limit, strict=True))
    assert y.shape == limit


def branches() -> Any:
    """Nothing where there is none, else what is left of overlapping ones, and of these the first three."""
    inside = [
        node("Unsqueeze", "best_boxes nothing", "many"),
        node("Unsqueeze", "best pair", "classes"),
        node("NonMaxSuppression", "many classes most overlap", "triples"),
        helper.make_node("Constant", [], ["third"], value=numpy_helper.from_array(np.array([2]))),
        node("Gather", "triples third", "column", axis=1),
        node("Squeeze", "column one", "left"),
    ]
    none = helper.make_node("Constant", [], ["none"], value=numpy_helper.from_array(np.zeros(0, np.int64)))
    graphs = [
        helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.INT64, [None])])
        for name, nodes in (("none", [none]), ("left", inside))
    ]
    nodes = [
        *chosen(),
        node("Gather", "boxes where", "best_boxes", axis=0),
        node("Size", "best", "size"),
        node("Equal", "size no", "is_empty"),
        helper.make_node("If", ["is_empty"], ["kept"], then_branch=graphs[0], else_branch=graphs[1]),
        node("Slice", "kept nothing three", "first"),
        node("Gather", "best first", "y", axis=0),
    ]
    more = {"nothing": np.array([0]), "pair": np.array([0, 1]), "most": np.array([9]), "no": np.int64(0)}
    proto = make_model(
        nodes, {"x": (12, 5)}, [], CHOSEN | more | {"overlap": np.float32(0.5), "three": np.array([3])}
    )
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return proto


@pytest.mark.parametrize("shift", [-9, 0, 9])
def test_a_detector_with_branches(shift: int, toolkit: Toolkit) -> None:
    """As those of torchvision end."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((12, 5)).astype(np.float32)
    x[:, 4] += shift
    proto = branches()
    (limit,) = largest_shapes(from_proto(proto)).values()
    assert limit == (3,)
    graph = equals_onnxruntime(toolkit, proto, {"x": x})
    assert graph.run({"x": x})[0].shape == ((0,) if shift < 0 else (3,))
