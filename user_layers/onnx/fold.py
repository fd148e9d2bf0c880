"""Constant folding: nodes whose inputs are all known run now, on onnxruntime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from firmware_sim.errors import MissingError, ModelError
from user_layers.onnx.load import CUSTOM_DOMAIN
from user_layers.onnx.model import Array, Model, Node

_STAYS = {
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
}
_LARGEST = 1 << 28  # bytes that one folded node may make


def fold_constants(model: Model) -> Model:
    """The model without nodes that compute constants, Identity, and Dropout (which does nothing here).

    Errors: ModelError when such a node fails, naming it; MissingError without onnxruntime.
    """
    constants = dict(model.constants)
    same: dict[str, str] = {}  # output of a node that does nothing -> its input
    kept: list[Node] = []
    results = {v.name for v in model.outputs}
    for node in model.nodes:
        node = replace(node, inputs=tuple(same.get(name, name) for name in node.inputs))
        if node.op in ("Identity", "Dropout") and node.outputs[0] not in results and _unused(model, node):
            same[node.outputs[0]] = node.inputs[0]
        elif node.op == "Shape" and (known := _shape_of(model, node, constants)) is not None:
            constants[node.outputs[0]] = known
        elif _foldable(model, node, constants):
            constants.update(run_node(model.opset, node, constants))
        else:
            kept.append(node)
    return replace(model, constants=constants, nodes=tuple(kept))


def _unused(model: Model, node: Node) -> bool:
    """Dropout's mask is made by nobody here."""
    results = {v.name for v in model.outputs}
    return all(name not in results and name not in model.consumers for name in node.outputs[1:])


def _shape_of(model: Model, node: Node, constants: dict[str, Array]) -> Array | None:
    shape = model.value(node.inputs[0]).fixed
    if node.inputs[0] in constants:
        shape = constants[node.inputs[0]].shape
    if shape is None:
        return None
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    return np.array(shape[start:end], np.int64)


def _foldable(model: Model, node: Node, constants: dict[str, Array]) -> bool:
    if node.domain == CUSTOM_DOMAIN or node.op in _STAYS:
        return False
    if any(type(value).__name__ == "AttributeProto" for value in node.attributes.values()):
        return False
    if any(name and name not in constants for name in node.inputs):
        return False
    sizes = [model.value(name).fixed for name in node.outputs if name]
    return all(shape is None or 8 * int(np.prod(shape, dtype=np.int64)) <= _LARGEST for shape in sizes)


def run_node(opset: int, node: Node, values: dict[str, Array]) -> dict[str, Array]:
    """The outputs of one node for these inputs, by onnxruntime. Errors: ModelError naming the node."""
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise MissingError(
            "the package onnxruntime is not installed", hint="pip install 'tpulayer[onnx]'"
        ) from None
    used = {name: values[name] for name in node.inputs if name}
    attributes: dict[str, Any] = {
        key: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for key, value in node.attributes.items()
    }
    made = onnx.helper.make_node(node.op, node.inputs, node.outputs, domain=node.domain, **attributes)
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.outputs if name]
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in used.items()
    ]
    graph = onnx.helper.make_graph([made], "fold", inputs, outputs)
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    proto.ir_version = min(proto.ir_version, 10)
    try:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        found = session.run([name for name in node.outputs if name], used)
    except Exception as error:
        raise ModelError(f"{node.title} cannot be computed: {str(error).splitlines()[0]}") from None
    return dict(zip((name for name in node.outputs if name), found, strict=True))
