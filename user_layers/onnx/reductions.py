"""Reductions whose dimensions a Reshape brings back keep them: so torch's exporter writes variances."""

from __future__ import annotations

from dataclasses import replace

from user_layers.onnx.model import Model, Node, reduced_axes


def keep_reduced(model: Model) -> Model:
    """One node in the place of a reduction and the Reshape or Unsqueeze that alone reads it."""
    instead: dict[str, tuple[Node, ...]] = {}
    for node in model.nodes:
        reader = model.only_reader(node.outputs[0]) if node.op.startswith("Reduce") else None
        if reader is not None and node.is_plain and _is_kept(model, node, reader):
            attributes = {**node.attributes, "keepdims": 1}
            kept = replace(node, outputs=reader.outputs, attributes=attributes, proto=None)
            instead |= {node.outputs[0]: (), reader.outputs[0]: (kept,)}
    return model.with_instead(instead, model.constants, model.values)


def _is_kept(model: Model, node: Node, reader: Node) -> bool:
    """Whether the reader makes what the reduction would be with all dimensions."""
    shape = model.value(node.inputs[0]).fixed
    if shape is None or node.attributes.get("keepdims", 1):
        return False
    if not reader.is_a("Reshape", "Unsqueeze") or reader.inputs[0] != node.outputs[0]:
        return False
    along = reduced_axes(node, model.constants, len(shape)) or ()
    made = tuple(1 if axis in along else extent for axis, extent in enumerate(shape))
    return bool(along) and model.value(reader.outputs[0]).fixed == made
