"""Reading ONNX files: checked, with the shapes of the inputs fixed and those of all values inferred."""

from __future__ import annotations

import contextlib
import ctypes
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firmware_sim.errors import MissingError, ModelError, UsageError
from user_layers.files import check_input
from user_layers.onnx.apart import check_model, infer_model, inline_functions
from user_layers.onnx.model import STANDARD, Array, Model, Node, Value, shown
from user_layers.onnx.proto import array_of, element_type, part_proto, serialized, subgraphs
from user_layers.onnx.widen import holds_bfloat16, widen_graph
from user_layers.quantize.pictures import Preprocess
from user_layers.runtime.onnx_session import first_line

if TYPE_CHECKING:
    import onnx

    from user_layers.onnx.custom import MapFunction

_MMAP_THRESHOLD = -3  # of malloc.h
_SMALL = 4096  # elements of a constant that inference of shapes may read
_KINDS = {
    "sequence_type": "sequence",
    "optional_type": "optional",
    "map_type": "map",
    "sparse_tensor_type": "sparse tensor",
}


def load_model(path: Path, shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
    """Read a model file; shapes: of inputs, for those with free dimensions or to change them.

    Errors: MissingError when the package onnx is not installed; ModelError for a file that is none, a model
    that is not valid, an unknown opset or type; UsageError for shapes that do not fit.
    """
    return from_proto(read_proto(path), shapes, str(path))


@dataclass(frozen=True)
class Source:
    """Where a model comes from: what messages call it (short: beside a layer), the name of its net; path: the
    ONNX file that says the same, if there is one; file: what was read, where that is another one. pictures:
    how they become its input.

    Of a file of another kind than ONNX's: calls, what adds the layers of some of its nodes, by their names;
    notes, what its user should know; reread: the onnx.ModelProto for other shapes of the inputs, where the
    file is to be read anew for them.
    """

    place: str
    short: str
    name: str
    path: Path | None
    calls: Mapping[str, MapFunction] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reread: Callable[[Mapping[str, Sequence[int]]], Any] | None = None
    file: Path | None = None
    pictures: Preprocess | None = None

    @classmethod
    def of(cls, model: str | Path | onnx.ModelProto) -> Source:
        """The source of what `read_proto` took: a path, or a model that has none."""
        if isinstance(model, (str, Path)):
            path = Path(model)
            return cls(str(path), path.name, path.stem, path)
        return cls("the model", "the model", model.graph.name or "net", None)

    def load(self, proto: Any, shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
        """The model that `read_proto` gave for it, with these shapes of inputs; errors as of `load_model`."""
        if self.reread is not None and shapes:
            return from_proto(self.reread(shapes), None, self.place)
        model = from_proto(proto, shapes, self.place)
        from user_layers.onnx.batch import other_batch, with_batch  # which folds, and so infers again

        batch = other_batch(proto, shapes or {})
        return model if batch is None else with_batch(model, batch)

    def mapped(self, custom: Mapping[str, str | MapFunction] | None) -> Mapping[str, str | MapFunction]:
        """What becomes of nodes by the user's word, and by the file's."""
        return {**self.calls, **(custom or {})}


def _give_back() -> None:
    """From now on the C library gives blocks of a mebibyte and more back to the system when they are freed.
    By itself it keeps what is smaller than the largest one was: several times the weights."""
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20)


def read_proto(model: str | Path | onnx.ModelProto) -> Any:
    """The onnx.ModelProto of a file, or the one given. Errors: MissingError, UsageError, ModelError."""
    onnx = _onnx()
    _give_back()
    if isinstance(model, onnx.ModelProto):
        return model
    if not isinstance(model, (str, Path)):
        raise UsageError(
            f"an ONNX model is wanted, not an object of type {type(model).__name__}",
            hint="give the path of its file, or an onnx.ModelProto",
        )
    path = Path(model)
    try:
        check_input(path)
        return onnx.load(str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # protobuf raises several kinds
        raise ModelError(f"{path} is not an ONNX model: {first_line(error)}") from None


def from_proto(proto: Any, shapes: Mapping[str, Sequence[int]] | None = None, where: str = "model") -> Model:
    """The same for an onnx.ModelProto in memory, which is not changed."""
    onnx = _onnx()
    opset = _opset(proto, where)
    if not proto.graph.node and not proto.graph.output:
        raise ModelError(f"{where} is not an ONNX model: it has no graph")
    for graph in (proto.graph, *proto.functions):
        _check_names(graph, where)
    proto = _without_functions(proto, where)
    if proto.graph.sparse_initializer:
        name = proto.graph.sparse_initializer[0].values.name
        raise ModelError(f"{where}: the constant {name} is sparse", hint="store it dense")
    constants = {t.name: array_of(t, where) for t in proto.graph.initializer}
    proto = _light(proto, constants)
    given = dict(shapes or {})
    unfixed = onnx.ModelProto()
    unfixed.CopyFrom(proto)
    _fix_shapes(proto, given, constants, where)
    nodes = tuple(node_of(node, where) for node in proto.graph.node)
    fed = [v.name for v in proto.graph.input if v.name not in constants]
    made = _check_nodes(nodes, {*fed, *constants}, where)
    _check_edges(proto.graph, fed, made, where)
    edges = {v.name: value_of(v, where).dtype for v in (*proto.graph.input, *proto.graph.output)}
    if holds_bfloat16(proto.graph):  # many operations take it in new opsets alone, or nowhere; here all do
        for graph in (proto.graph, unfixed.graph):
            widen_graph(graph, {})
    standard = all(node.domain in STANDARD for node in nodes)
    try:
        proto = _checked(proto, standard, where)
    except ModelError:
        if not given:
            raise
        _checked(unfixed, standard, where)
        # The file is valid, but for other shapes than those given: `check_shapes` says what contradicts them.
        proto = onnx.load_from_string(infer_model(serialized(proto, where)))
    graph = proto.graph
    values = {v.name: value_of(v, where) for v in (*graph.value_info, *graph.input, *graph.output)}
    values |= {name: replace(values[name], dtype=dtype) for name, dtype in edges.items() if dtype is not None}
    inputs = tuple(values[v.name] for v in graph.input if v.name not in constants)
    outputs = tuple(values[v.name] for v in graph.output)
    opsets = {("" if o.domain in STANDARD else o.domain): int(o.version) for o in proto.opset_import}
    fixed = {name: tuple(shape) for name, shape in given.items()}
    return Model(graph.name or "net", opset, inputs, outputs, constants, nodes, values, opsets, fixed)


def infer_values(model: Model, nodes: Sequence[Node] | None = None) -> Model:
    """The model with shapes and types inferred again, now that more constants or shapes are known.

    nodes: of these alone, a stretch of the model in its order; what they read is as it is known.
    """
    onnx = _onnx()
    proto = inference_proto(model, model.nodes if nodes is None else nodes)
    try:
        found = onnx.load_from_string(infer_model(serialized(proto, "the model"))).graph
    except ModelError:  # what it cannot infer stays unknown
        return model
    values = dict(model.values)
    for info in (*found.value_info, *found.output):
        new, old = value_of(info, model.name), values.get(info.name)
        if old is None or (old.fixed is None and new.shape is not None):
            values[info.name] = replace(new, dtype=new.dtype if old is None else old.dtype or new.dtype)
    outputs = tuple(values.get(value.name, value) for value in model.outputs)
    return replace(model, values=values, outputs=outputs)


def inference_proto(model: Model, nodes: Sequence[Node]) -> Any:
    """An onnx.ModelProto of nodes of a model, in their order, with all that is known of their values' shapes,
    and of constants the small ones."""
    onnx = _onnx()
    made = {name for node in nodes for name in node.makes}
    # Constants that inference reads are in the part; the others are inputs, as is what other nodes make.
    outside = dict.fromkeys(
        name
        for node in nodes
        for name in node.reads
        if name not in made and (name not in model.constants or model.constants[name].size > _SMALL)
    )
    results = [value.name for value in model.outputs if value.name in made]
    proto = part_proto(model, nodes, list(outside), results, shapes=True)
    for name in made.difference(results):
        value = model.value(name)
        if name not in model.constants and value.dtype is not None and value.shape is not None:
            proto.graph.value_info.append(_info(onnx, value))
    return proto


def _info(onnx: Any, value: Value) -> Any:
    assert value.dtype is not None and value.shape is not None
    extents = [None if isinstance(n, str) else n for n in value.shape]
    return onnx.helper.make_tensor_value_info(value.name, element_type(value.dtype), extents)


def _onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise MissingError("the package onnx is not installed", hint="pip install 'tpulayer[onnx]'") from None
    return onnx


def _opset(proto: Any, where: str) -> int:
    for entry in proto.opset_import:
        if entry.domain in STANDARD:
            version, newest = int(entry.version), int(_onnx().defs.onnx_opset_version())
            if not 1 <= version <= newest:
                raise ModelError(
                    f"{where} is of opset {version}; known are 1 to {newest}",
                    hint="convert it with onnx.version_converter",
                )
            return version
    if not proto.opset_import:
        raise ModelError(f"{where} is not an ONNX model: it names no opset")
    return int(_onnx().defs.onnx_opset_version())


def _check_names(graph: Any, where: str) -> None:
    """Names are texts; protobuf gives bytes for what is none."""
    for node in graph.node:
        for name in (node.name, node.op_type, node.domain, *node.input, *node.output):
            if not isinstance(name, str):
                raise ModelError(f"{where}: {name!r} in node {node.name!r} is not a string")
        for attribute in node.attribute:
            if not isinstance(attribute.name, str):
                raise ModelError(f"{where}: {attribute.name!r} in node {node.name!r} is not a string")
        for inner in subgraphs(node):
            _check_names(inner, where)
    if not isinstance(graph.name, str):
        raise ModelError(f"{where}: the name {graph.name!r} of its graph is not a string")
    for part in ("input", "output", "initializer", "value_info"):
        for named in getattr(graph, part, ()):
            name = getattr(named, "name", named)  # a function lists its inputs and outputs by name alone
            if not isinstance(name, str):
                raise ModelError(f"{where}: the name {name!r} is not a string")


def _without_functions(proto: Any, where: str) -> Any:
    """The model with its own functions written out."""
    if not proto.functions:
        return proto
    try:
        return _onnx().load_from_string(inline_functions(proto.SerializeToString()))
    except ModelError as error:
        raise ModelError(f"{where}: {error.message}") from None


def _checked(proto: Any, standard: bool, where: str) -> Any:
    """The model with inferred shapes; standard: it has only ONNX's own operations, which can be checked."""
    try:
        return _onnx().load_from_string(check_model(serialized(proto, where), standard=standard))
    except ModelError as error:
        raise ModelError(f"{where} is not valid: {error.message}") from None


def _light(proto: Any, constants: Mapping[str, Array]) -> Any:
    """A copy without the values of large constants, which are inputs there: nothing copies them about."""
    onnx = _onnx()
    light = onnx.ModelProto()
    light.ir_version = proto.ir_version
    light.opset_import.extend(proto.opset_import)
    graph = light.graph
    graph.name = proto.graph.name
    for part in ("node", "input", "output", "value_info"):
        getattr(graph, part).extend(getattr(proto.graph, part))
    declared = {v.name for v in graph.input}
    for tensor in proto.graph.initializer:
        if constants[tensor.name].size <= _SMALL:
            graph.initializer.append(tensor)
        elif tensor.name not in declared:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return light


def overridden(proto: Any, shapes: Mapping[str, Sequence[int]]) -> list[str]:
    """A line about each input for which other extents are given than those that its model fixes."""
    lines = []
    for value in proto.graph.input:
        dims = value.type.tensor_type.shape.dim
        given = shapes.get(value.name)
        if given is not None and any(
            d.HasField("dim_value") and d.dim_value != n for d, n in zip(dims, given, strict=False)
        ):
            says = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in dims]
            lines.append(
                f"input {shown(value.name)} is compiled for {list(given)}, though the model says "
                f"{str(says).replace(chr(39), '')}: what follows from its own shape may not fit"
            )
    return lines


def _fix_shapes(
    proto: Any, shapes: dict[str, Sequence[int]], constants: Mapping[str, Array], where: str
) -> None:
    """Write the given shapes into the graph's inputs. UsageError for a name or rank that does not fit."""
    inputs = {v.name: v for v in proto.graph.input if v.name not in constants}
    changed = False
    for name, shape in shapes.items():
        if name not in inputs:
            raise UsageError(f"{where} has no input {name!r}", hint=f"its inputs are {', '.join(inputs)}")
        try:
            extents = [operator.index(extent) for extent in shape]
        except TypeError:
            raise UsageError(
                f"input {name!r}: the shape {shape!r} is not a sequence of whole numbers",
                hint="give a tuple such as (1, 3, 224, 224)",
            ) from None
        tensor = inputs[name].type.tensor_type
        if not tensor.HasField("shape"):
            for _ in extents:
                tensor.shape.dim.add()
        dims = tensor.shape.dim
        if len(dims) != len(extents):
            raise UsageError(f"input {name!r} has {len(dims)} dimensions, the shape given has {len(extents)}")
        for dim, extent in zip(dims, extents, strict=True):
            if extent < 0:
                raise UsageError(f"input {name!r}: the extent {extent} is below 0")
            changed |= dim.HasField("dim_value") and dim.dim_value != extent
            dim.Clear()
            dim.dim_value = extent
    if changed:  # shapes that the file gives for other values were those of the old inputs
        del proto.graph.value_info[:]
        for value in proto.graph.output:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
    free = [
        f"{shown(name)} {[d.dim_param or d.dim_value or '?' for d in v.type.tensor_type.shape.dim]}"
        if v.type.tensor_type.HasField("shape")
        else f"{shown(name)} (any)"
        for name, v in inputs.items()
        if v.type.WhichOneof("value") == "tensor_type"
        and (
            not v.type.tensor_type.HasField("shape")
            or not all(_known(d) for d in v.type.tensor_type.shape.dim)
        )
    ]
    if free:
        raise UsageError(
            f"{where} has free dimensions: {'; '.join(free)}",
            hint="give them with --shapes NAME=1x3x224x224, in Python shapes={'NAME': (1, 3, 224, 224)}",
        )


def value_of(info: Any, where: str) -> Value:
    """A Value from an onnx.ValueInfoProto. ModelError for an unknown element type."""
    onnx = _onnx()
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        return Value(info.name, None, None, "tensor" if kind is None else _KINDS.get(kind, kind))
    tensor = info.type.tensor_type
    dtype = None
    if tensor.elem_type:
        try:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        except KeyError:
            raise ModelError(
                f"{where}: {info.name} has the unknown element type {tensor.elem_type}"
            ) from None
    if not tensor.HasField("shape"):
        return Value(info.name, None, dtype)
    shape = tuple(
        int(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim
    )
    return Value(info.name, shape, dtype)


def edge_of(info: Any, where: str) -> Value:
    """The same for an input or output of a graph as it was written, where -1 is a free dimension."""
    value = value_of(info, where)
    if value.shape is None:
        return value
    return replace(value, shape=tuple("?" if isinstance(n, int) and n < 0 else n for n in value.shape))


def _known(dim: Any) -> bool:
    """Whether a dimension of an input has an extent; some tools write -1 for one that is free."""
    return bool(dim.HasField("dim_value") and dim.dim_value >= 0)


def node_of(node: Any, where: str) -> Node:
    """A Node from an onnx.NodeProto. ModelError for damaged attributes."""
    onnx = _onnx()
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            continue  # a subgraph can only run on the CPU, which takes the node as it is
        try:
            value = onnx.helper.get_attribute_value(attribute)
        except Exception as error:
            raise ModelError(
                f"{where}: {node.op_type} {node.name}: its attribute {attribute.name} is damaged: "
                f"{first_line(error)}"
            ) from None
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        elif isinstance(value, onnx.TensorProto):
            value = array_of(value, where)
        elif attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
            value = list(value)
        elif attribute.type == onnx.AttributeProto.STRINGS:
            value = [text.decode(errors="replace") for text in value]
        attributes[attribute.name] = value
    captured = tuple(dict.fromkeys(name for graph in subgraphs(node) for name in _captured(graph)))
    return Node(
        node.op_type,
        node.domain,
        node.name,
        tuple(node.input),
        tuple(node.output),
        attributes,
        captured,
        proto=node,
    )


def _captured(graph: Any) -> list[str]:
    """What a subgraph reads from outside."""
    known = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    known |= {t.values.name for t in graph.sparse_initializer}
    found = []
    for node in graph.node:
        names = [*node.input, *(name for inner in subgraphs(node) for name in _captured(inner))]
        found += [name for name in names if name and name not in known]
        known.update(node.output)
    return found + [v.name for v in graph.output if v.name not in known]


def _check_nodes(nodes: Sequence[Node], known: set[str], where: str) -> set[str]:
    """Every operation exists, and everything is made once, before it is read. Returns all that is there."""
    onnx = _onnx()
    made = set(known)
    for node in nodes:
        if node.domain in STANDARD and not onnx.defs.has(node.op):
            raise ModelError(f"{where}: {node.title}: ONNX has no operation {shown(node.op)}")
        missing = next((name for name in node.reads if name not in made), None)
        if missing is not None:
            raise ModelError(f"{where}: {node.title} reads {shown(missing)}, which nothing before it makes")
        again = next((name for name in node.makes if name in made), None)
        if again is not None:
            raise ModelError(f"{where}: {node.title} makes {shown(again)}, which is there already")
        made.update(node.makes)
    return made


def _check_edges(graph: Any, inputs: Sequence[str], made: set[str], where: str) -> None:
    """There are outputs, they are made, and the inputs are tensors."""
    if not graph.output:
        raise ModelError(f"{where} has no output")
    for info in graph.output:
        if info.name not in made:
            raise ModelError(f"{where}: nothing makes the output {info.name!r}")
    for info in graph.input:
        value = value_of(info, where)
        if info.name in inputs and value.kind != "tensor":
            raise ModelError(f"{where}: input {value.name!r} is {value.what}; a net takes only tensors")
