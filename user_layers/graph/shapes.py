"""Shapes and types of all tensors, by the layers' own shape functions in the firmware."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from firmware_sim.chip import MAX_TENSORS
from firmware_sim.errors import CompileError, DeviceError
from firmware_sim.wire import QUANTISED, DType, Format, StoreMode, TensorRecord, TType
from user_layers.graph.formats import Conversions
from user_layers.graph.prepared import Adopted, adopt_prepared
from user_layers.net.net import Net, NetTensorInfo
from user_layers.net.nodes import MAX_ELEMENTS, LayerNode, Tensor
from user_layers.toolkit import Toolkit

_REFUSES = "(BM_LAYER_NOT_SUPPORTED)"


class Unresolved(Protocol):
    """What shape inference needs of a graph (GraphBuilder)."""

    name: str
    toolkit: Toolkit
    tensors: dict[str, Tensor]
    nodes: list[LayerNode]
    scales: dict[str, float]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The net's inputs in their order."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The net's outputs in their order."""


def infer_shapes(graph: Unresolved, wanted: Sequence[str] | None = None) -> Net:
    """Graph -> Net: layers that no output needs are left out, and conversions are put before layers that
    take other formats.

    wanted: the tensors to know, by default the outputs; for others the graph need not be complete.

    Errors: CompileError for a graph without layers, an input that is never read, shapes that differ from the
    ones given, a shape function that fails or returns nonsense.
    """
    nodes = _needed(graph, graph.outputs if wanted is None else wanted)
    read = {name for node in nodes for name in node.inputs}
    if wanted is None:
        _check_complete(graph, read)
    tensors = {
        t.name: NetTensorInfo(
            t.name,
            t.shape,
            t.dtype,
            TType.NEURON if t.data is None else TType.COEFF,
            t.data,
            store_mode=t.store_mode,
            scale=t.scale,
        )
        for t in graph.tensors.values()
        if t.data is None or t.name in read
    }
    names = {*graph.tensors, *(name for node in graph.nodes for name in node.outputs)}
    conversions = Conversions(graph.toolkit, graph.scales, names)
    placed: list[LayerNode] = []
    for given in nodes:
        settled = conversions.settle(given, tensors)
        for node in (*settled.before, settled.node):
            adopted = adopt_prepared(node, tensors, graph.toolkit, names)
            placed.append(adopted.node)
            tensors.update(adopted.tensors)
            found = _infer(adopted, tensors, graph.toolkit, graph.scales)
            tensors.update((info.name, info) for info in found)
    return Net(graph.name, tensors, tuple(placed), graph.inputs, graph.outputs)


def _check_complete(graph: Unresolved, read: set[str]) -> None:
    if not graph.nodes:
        raise CompileError(f"net {graph.name!r} has no layer", hint="add one with add_tpu_layer")
    if len(graph.outputs) > MAX_TENSORS:
        raise CompileError(
            f"net {graph.name!r} has {len(graph.outputs)} outputs: {', '.join(graph.outputs)}",
            hint=f"at most {MAX_TENSORS}; name the wanted ones with add_output",
        )
    idle = [name for name in graph.inputs if name not in read]
    if idle:
        raise CompileError(
            f"net {graph.name!r}: no output depends on input {', '.join(map(repr, idle))}",
            hint="leave it out, or make an output of what uses it",
        )


def _needed(graph: Unresolved, wanted: Sequence[str]) -> list[LayerNode]:
    needed = set(wanted)
    nodes = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
    return nodes[::-1]


def infer_layer(node: LayerNode, tensors: dict[str, NetTensorInfo], toolkit: Toolkit) -> list[NetTensorInfo]:
    """Shapes and types of a layer's outputs; quantised ones are told as fp32. Errors: CompileError.

    A layer of the user's that takes integers is asked with such, not fp32: a shape depends on no scale.
    """
    given = {**tensors, **_in_integers(node, tensors, toolkit)}
    adopted = adopt_prepared(node, given, toolkit)
    return [
        replace(made, dtype=DType.FP32, store_mode=StoreMode.N1, scale=0.0) if made.format.quantised else made
        for made in _infer(adopted, {**given, **adopted.tensors}, toolkit)
    ]


def _in_integers(
    node: LayerNode, tensors: Mapping[str, NetTensorInfo], toolkit: Toolkit
) -> dict[str, NetTensorInfo]:
    """Those inputs in fp32 that a layer of the user's takes as integers, as it takes them."""
    given = [tensors[name] for name in node.inputs]
    computed = [i for i, tensor in enumerate(given) if tensor.data is None and tensor.format == Format()]
    if node.cpu is not None or node.op.is_builtin or not computed:
        return {}
    handle = toolkit.describe(node, given, [NetTensorInfo(name, (1,), DType.FP32) for name in node.outputs])
    taken = {i: handle.takes(i) for i in computed}
    return {
        given[i].name: replace(given[i], dtype=form.dtype, store_mode=form.store_mode, scale=1.0)
        for i, form in taken.items()
        if form.dtype in QUANTISED
    }


def _infer(
    adopted: Adopted,
    tensors: Mapping[str, NetTensorInfo],
    toolkit: Toolkit,
    scales: Mapping[str, float] | None = None,
) -> list[NetTensorInfo]:
    """scales: in which the graph wants tensors where they are quantised, by name."""
    node = adopted.node
    if node.cpu is not None:
        assert node.shapes is not None and node.dtypes is not None  # add_cpu_layer asks for them
        return [
            NetTensorInfo(name, shape, dtype)
            for name, shape, dtype in zip(node.outputs, node.shapes, node.dtypes, strict=True)
        ]
    toolkit.check_firmware(node.op, node.title)
    inputs = input_records(node, tensors, adopted.wanted)
    wanted = [(scales or {}).get(name, 0.0) for name in node.outputs]
    try:
        records = toolkit.device.infer_shape(
            node.op.op_type, node.param, inputs, len(node.outputs), wanted if any(wanted) else ()
        )
    except DeviceError as e:
        offered, hint = _offered(node, inputs) if _REFUSES in e.message else ("", "")
        raise CompileError(
            f"{node.title}: its shape function failed: {e.message}{offered}", hint=e.hint or hint
        ) from e
    result = []
    for i, (name, record) in enumerate(zip(node.outputs, records, strict=True)):
        if not record.shape or min(record.shape) < 1 or math.prod(record.shape) > MAX_ELEMENTS:
            raise CompileError(
                f"{node.title}: its shape function gives {name!r} the shape {list(record.shape)} for inputs "
                f"{_shapes(node, tensors)}",
                hint="every extent is at least 1; check layer_param against the input shapes",
            )
        if node.dims is not None and node.dims[i] != len(record.shape):
            given, says = f"{node.dims[i]} dimensions", f"{len(record.shape)}, {list(record.shape)},"
            raise _contradiction(node, tensors, i, "output_dims", given, says)
        if node.shapes is not None and node.shapes[i] != record.shape:
            given, says = f"the shape {list(node.shapes[i])}", f"{list(record.shape)}"
            raise _contradiction(node, tensors, i, "output_shapes", given, says)
        if node.dtypes is not None and node.dtypes[i] != record.dtype:
            given, says = f"the type {node.dtypes[i].numpy_name}", record.dtype.numpy_name
            raise _contradiction(node, tensors, i, "output_dtypes", given, says)
        if record.format.together > 1 and not record.scale and any(r.scale for r in inputs):
            raise CompileError(
                f"{node.title}: its shape function gives {name!r} {record.format.text} and no scale, for "
                "inputs that have one",
                hint=f"set out_tensors[{i}].scale: the values are scale x integer",
            )
        result.append(
            NetTensorInfo(
                name,
                record.shape,
                record.dtype,
                record.ttype,
                store_mode=record.store_mode,
                scale=record.scale,
            )
        )
    return result


def _offered(node: LayerNode, inputs: Sequence[TensorRecord]) -> tuple[str, str]:
    """What a layer of the user's was given that refuses it, and a hint: how it comes by other types."""
    if node.op.is_builtin:
        return "", ""
    told = (f"{name!r} {one.format.text}" for name, one in zip(node.inputs, inputs, strict=True))
    hint = (
        "the types are those that input_dtype and input_store_mode of its descriptor ask for: without these "
        "a layer is given float32 for what is quantised"
    )
    return f"; it was given {', '.join(told)}", hint


def _contradiction(
    node: LayerNode, tensors: Mapping[str, NetTensorInfo], i: int, argument: str, given: str, says: str
) -> CompileError:
    return CompileError(
        f"{node.title}: {argument}[{i}]: output {node.outputs[i]!r} is given {given}, the layer's shape "
        f"function says {says} for inputs {_shapes(node, tensors)}",
        hint=f"correct {argument}, or leave it out (None, in C NULL)",
    )


def input_records(
    node: LayerNode, tensors: Mapping[str, NetTensorInfo], input_types: tuple[TType, ...]
) -> list[TensorRecord]:
    """The inputs as the layer's DDR functions see them (without addresses): constants in the type that
    input_type asks for, with their values where that is NEURON_SHAPE."""
    return [
        input_record(node, tensors[name], wanted)
        for name, wanted in zip(node.inputs, input_types, strict=True)
    ]


def input_record(node: LayerNode, tensor: NetTensorInfo, wanted: TType) -> TensorRecord:
    """One input as the layer's DDR functions see it."""
    record = tensor.record()
    if wanted == TType.NEURON_SHAPE:
        if tensor.data is None or tensor.dtype != DType.INT32:
            what = "computed in the net" if tensor.data is None else f"of type {tensor.dtype.numpy_name}"
            raise CompileError(
                f"{node.title}: input {tensor.name!r} is read by the controller "
                f"(input_type is BMNET_NEURON_SHAPE) but is {what}",
                hint="make it an int32 constant with add_const",
            )
        values = struct.unpack(f"<{record.elem_num}i", tensor.data)
        return replace(record, ttype=wanted, host_data=values)
    return record if tensor.data is None else replace(record, ttype=wanted)


def _shapes(node: LayerNode, tensors: Mapping[str, NetTensorInfo]) -> str:
    """Of the node's inputs, as they are in the graph."""
    infos = [tensors[name].plain or tensors[name] for name in node.inputs]
    return ", ".join(str(list(info.shape)) for info in infos)
