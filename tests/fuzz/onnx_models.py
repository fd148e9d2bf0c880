"""ONNX models: read, checked, and made into a graph."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import Any

from firmware_sim.errors import MissingError
from tests.fuzz.driver import Finding
from tests.fuzz.guided import Guided
from tests.fuzz.mutate import damage, number


class OnnxModels(Guided):
    """An input is a file."""

    longest = 1 << 13
    limit = 60  # the packages onnx and onnxruntime are asked in a process of their own
    own = 1  # what protobuf refuses is of no use
    name = "onnx"

    def __init__(self) -> None:
        self._toolkit: Any = None

    def seeds(self) -> list[bytes]:
        from tests.support.onnx_random import random_model

        made = [random_model(seed)[0].SerializeToString() for seed in range(60)]
        return [data for data in made if len(data) < self.longest // 2][:24]

    def changed(self, rng: random.Random, data: bytes) -> bytes:
        import onnx

        try:
            proto = onnx.load_from_string(data)
            for _ in range(rng.choice((1, 1, 2, 3))):
                _change(rng, proto)
            made: bytes = proto.SerializeToString()
        except Exception:  # protobuf raises several kinds, also later: for names that are not texts
            return damage(rng, data)
        return made

    def one(self, data: bytes) -> str:
        import onnx

        from user_layers.onnx.build import build
        from user_layers.onnx.load import from_proto

        try:
            proto = onnx.load_from_string(data)
        except Exception:  # as read_proto does
            return "no protobuf"
        model = from_proto(proto)
        if self._toolkit is None:
            self._toolkit = _builtin_layers()
        try:
            built = build(model, "net", toolkit=self._toolkit)
        except MissingError as error:  # nothing is missing here
            raise Finding(str(error)) from None
        return "a graph with parts on the host" if built.on_cpu else "a graph"

    def close(self) -> None:
        if self._toolkit is not None:
            self._toolkit.close()


def _builtin_layers() -> Any:
    """A toolkit outside of any workspace."""
    from user_layers.toolkit import Toolkit

    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            made = Toolkit(check="off")
            assert made.workspace is None and made.ops  # both are looked for once
        finally:
            os.chdir(here)
    return made


_OPS = (
    *(
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Max",
        "Where",
        "Relu",
        "Clip",
        "Cast",
        "Concat",
        "Split",
        "Slice",
        "Pad",
    ),
    *(
        "Reshape",
        "Transpose",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Expand",
        "Tile",
        "Gather",
        "ReduceMean",
        "ReduceSum",
    ),
    *(
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "Gemm",
        "MatMul",
        "Softmax",
        "LRN",
    ),
    *(
        "BatchNormalization",
        "Resize",
        "Upsample",
        "DepthToSpace",
        "Shape",
        "ConstantOfShape",
        "TopK",
        "LSTM",
        "If",
    ),
    *(
        "Einsum",
        "Range",
        "NonZero",
        "PRelu",
        "LeakyRelu",
        "LayerNormalization",
        "Identity",
        "Constant",
        "Dropout",
    ),
)


def _change(rng: random.Random, proto: Any) -> None:
    graph = proto.graph
    if not graph.node:
        return
    node = rng.choice(graph.node)
    names = [value for n in graph.node for value in (*n.input, *n.output)] + [
        t.name for t in graph.initializer
    ]
    kind = rng.randrange(11)
    if kind == 0:
        node.op_type = rng.choice(_OPS)
    elif kind == 1 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice([*names, ""])
    elif kind == 2:
        node.input.append(rng.choice([*names, ""]))
    elif kind == 3 and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif kind == 4 and node.attribute:
        _change_attribute(rng, rng.choice(node.attribute))
    elif kind == 5 and node.attribute:
        del node.attribute[rng.randrange(len(node.attribute))]
    elif kind == 6:
        made = node.attribute.add()
        made.name = rng.choice(
            ("axis", "axes", "perm", "pads", "strides", "dilations", "kernel_shape", "group", "mode")
        )
        made.type = rng.choice((2, 7, 3))  # INT, INTS, STRING
        made.i = number(rng, 8) - 4
        made.ints.extend(number(rng, 4) - 2 for _ in range(rng.randrange(6)))
        made.s = rng.choice((b"linear", b"cubic", b"reflect", b"edge", b"SAME_UPPER", b"\xff"))
    elif kind == 7 and graph.input:
        dims = rng.choice(graph.input).type.tensor_type.shape.dim
        if dims:
            rng.choice(dims).dim_value = number(rng, rng.choice((3, 8, 31)))
    elif kind == 8 and graph.initializer:
        tensor = rng.choice(graph.initializer)
        if rng.randrange(2) and tensor.dims:
            tensor.dims[rng.randrange(len(tensor.dims))] = number(rng, rng.choice((3, 8, 31)))
        else:
            tensor.data_type = rng.choice((1, 2, 3, 6, 7, 8, 9, 10, 11, 16))
    elif kind == 9 and graph.initializer:
        tensor = rng.choice(graph.initializer)
        tensor.raw_data = damage(rng, tensor.raw_data, 2)[: len(tensor.raw_data)].ljust(
            len(tensor.raw_data), b"\0"
        )
    elif proto.opset_import:
        rng.choice(proto.opset_import).version = rng.choice((1, 7, 9, 11, 13, 17, 18, 21, 24))


def _change_attribute(rng: random.Random, attribute: Any) -> None:
    if attribute.ints:
        at = rng.randrange(len(attribute.ints))
        if rng.randrange(4):
            attribute.ints[at] = number(rng, rng.choice((3, 8, 31))) * rng.choice((1, 1, -1))
        else:
            del attribute.ints[at]
    elif attribute.type == 1:  # FLOAT
        attribute.f = rng.choice((0.0, -1.0, 1e30, float("inf"), float("nan")))
    elif attribute.type == 3:  # STRING
        attribute.s = rng.choice((b"", b"reflect", b"linear", b"\xff", attribute.s + b"x"))
    else:
        attribute.i = number(rng, rng.choice((3, 8, 31))) * rng.choice((1, 1, -1))


def make() -> Any:
    return OnnxModels()
