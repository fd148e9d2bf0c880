"""ONNX operations that only move data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from user_layers.onnx.fold import drops
from user_layers.onnx.lower import Lowering, Unsupported, axis_of, converts
from user_layers.onnx.model import Node
from user_layers.onnx.row_orders import REARRANGE
from user_layers.onnx.tokens import TURN
from user_layers.onnx.views import RESHAPES

_OPERANDS = 16  # inputs, and outputs, of one layer
_LAST = np.iinfo(np.int32).max
_PAD_MODES = {"constant": 0, "reflect": 1, "edge": 2, "wrap": 3}


def shape_param(shape: Sequence[int]) -> dict[str, object]:
    """Parameters of TPU_RESHAPE; one number without dimensions is (1,) in a net."""
    extents = tuple(shape) or (1,)
    return {"dims": len(extents), "shape": _dims(extents)}


def _dims(values: Sequence[int]) -> list[int]:
    """A field of 8 numbers."""
    if len(values) > 8:
        raise Unsupported(f"{len(values)} dimensions; layers take 8")
    return [*(int(v) for v in values), *[0] * (8 - len(values))]


@converts(*RESHAPES)
def reshape(to: Lowering, node: Node) -> None:
    """All of these are the same elements under another shape, which follows the input's in a dynamic net."""
    before, after = (to.shape(name) for name in (node.inputs[0], node.outputs[0]))
    if node.op in ("Squeeze", "Unsqueeze"):
        extents = _without_ones(to, node, before, after)
    elif node.op == "Flatten":
        axis = int(node.attributes.get("axis", 1))  # up to the rank
        axis += len(before) * (axis < 0)
        extents = [0, -1] if axis == 1 and before else list(after)
    else:
        target = to.constant(node.inputs[1])
        wanted = list(after) if target is None else [int(extent) for extent in target]
        # An extent that stands where the input has the same is that of the input, for other batches too.
        extents = [0 if before[i : i + 1] == (extent,) else extent for i, extent in enumerate(wanted)]
    to.simple("TPU_RESHAPE", node, [to.tensor(node.inputs[0])], shape_param(extents))


def _without_ones(to: Lowering, node: Node, before: Sequence[int], after: Sequence[int]) -> list[int]:
    """The extents that TPU_RESHAPE is given where extents of 1 go or come."""
    longer = before if node.op == "Squeeze" else after
    if "axes" not in node.attributes and len(node.inputs) > 1 and to.constant(node.inputs[1]) is None:
        return list(after)  # axes that are computed
    axes = to.option(node, "axes", 1)
    if axes is None:  # Squeeze without axes: all of them
        ones = {i for i, extent in enumerate(before) if extent == 1}
    else:
        ones = {axis_of(int(axis), len(longer)) for axis in axes.reshape(-1)}
    if node.op == "Squeeze":
        return [-2 - i for i in range(len(before)) if i not in ones]
    sources = iter(range(len(before)))
    return [1 if i in ones else -2 - next(sources) for i in range(len(after))]


@converts("Identity")
def copy(to: Lowering, node: Node) -> None:
    """A layer that copies, so that the output has a tensor of its own."""
    to.simple("TPU_COPY", node, [to.tensor(node.inputs[0])], {"reserved": 0})


@converts("Dropout")
def dropout(to: Lowering, node: Node) -> None:
    """A copy, and a mask that keeps everything, unless it is for training."""
    for operand in (1, 2):
        to.known(node, operand)
    if drops(to.model, node):
        raise Unsupported("training")
    to.simple("TPU_COPY", node, [to.tensor(node.inputs[0])], {"reserved": 0})
    if len(node.outputs) > 1 and node.outputs[1]:
        keep = to.add_const(np.ones(to.shape(node.outputs[1]), np.float32), f"{node.outputs[1]}:keep")
        to.layer("TPU_COPY", node, [keep], {"reserved": 0}, [to.output(node, 1)])


@converts("Concat")
def concat(to: Lowering, node: Node) -> None:
    """In steps of 16, what a layer takes; inputs without elements add nothing."""
    param = {"axis": int(node.attributes["axis"])}
    full = [name for name in node.inputs if 0 not in to.shape(name)]
    if 1 < len(full) <= _OPERANDS and param["axis"] in (1, -4) and to.in_planes(*full):
        to.plane_by_plane("TPU_CONCAT", node, [to.planes(name) for name in full], {"axis": 1})
        return
    names = [to.tensor(name) for name in full]
    while len(names) > _OPERANDS:
        names = [
            to.between("TPU_CONCAT", node, names[i : i + _OPERANDS], param)
            if i + 1 < len(names)
            else names[i]
            for i in range(0, len(names), _OPERANDS)
        ]
    to.simple("TPU_CONCAT" if len(names) > 1 else "TPU_COPY", node, names, param if len(names) > 1 else {})


@converts("Split")
def split(to: Lowering, node: Node) -> None:
    """At most 16 outputs; parts without elements are not outputs of the layer."""
    axis = int(node.attributes.get("axis", 0))
    if len(node.outputs) > 16:
        raise Unsupported(f"{len(node.outputs)} outputs; a layer has 16")
    shapes = [to.shape(name) for name in node.outputs]
    whole = [i for i, shape in enumerate(shapes) if 0 not in shape]  # parts without elements are constants
    sizes = [shapes[i][axis] for i in whole]
    param = {"axis": axis, "sizes": [*sizes, *[0] * (16 - len(sizes))]}
    outputs = [to.output(node, i) for i in whole]
    to.layer("TPU_SPLIT", node, [to.tensor(node.inputs[0])], param, outputs)


def _clipped(value: int) -> int:
    return max(-_LAST - 1, min(_LAST, int(value)))


@converts("Slice")
def slice_(to: Lowering, node: Node) -> None:
    """Starts, ends, axes and steps must be constants; starts and ends beyond int32 are cut to it."""
    starts, ends = (to.option(node, name, i) for i, name in ((1, "starts"), (2, "ends")))
    assert starts is not None and ends is not None
    axes = to.option(node, "axes", 3)
    steps = to.known(node, 4)
    axes = np.arange(len(starts)) if axes is None else axes
    steps = np.ones(len(starts), np.int64) if steps is None else steps
    param = {"count": len(starts), "axes": _dims(list(axes))}
    param |= {"starts": _dims([_clipped(v) for v in starts]), "ends": _dims([_clipped(v) for v in ends])}
    param["steps"] = [*(_clipped(v) for v in steps), *[1] * (8 - len(steps))]
    to.simple("TPU_SLICE", node, [to.tensor(node.inputs[0])], param)


@converts(REARRANGE)
def rearrange(to: Lowering, node: Node) -> None:
    """Rows in other places, by constant boxes."""
    boxes = to.add_const(to.model.constants[node.inputs[1]], f"{node.outputs[0]}:boxes")
    to.simple("TPU_REARRANGE", node, [to.tensor(node.inputs[0]), boxes], {"rows": node.attributes["rows"]})


@converts("Transpose")
def transpose(to: Lowering, node: Node) -> None:
    """Without `perm` the dimensions turn around. Where only extents of 1 change places nothing moves."""
    shape = to.shape(node.inputs[0])
    rank = len(shape)
    order = [int(i) for i in node.attributes.get("perm", range(rank)[::-1])]
    op, param = turning(shape, order)
    to.simple(op, node, [to.tensor(node.inputs[0])], param)


def turning(shape: Sequence[int], order: Sequence[int]) -> tuple[str, dict[str, object]]:
    """The layer that transposes a tensor of this shape, and its parameters."""
    large = [i for i in order if shape[i] != 1]
    if large == sorted(large):
        return "TPU_RESHAPE", shape_param([-2 - i for i in order])
    return "TPU_TRANSPOSE", {"dims": len(order), "order": _dims(order)}


@converts(TURN)
def turn(to: Lowering, node: Node) -> None:
    """Between pictures and tokens (tokens.py)."""
    to.simple("TPU_TURN", node, [to.tensor(node.inputs[0])], node.attributes)


@converts("Pad")
def pad(to: Lowering, node: Node) -> None:
    """Constant, reflect, edge or wrap; the value of integers goes as bits, beside that of floats."""
    mode = node.attributes.get("mode", "constant")
    if mode not in _PAD_MODES:
        raise Unsupported(f"the mode {mode!r}")
    pads = to.option(node, "pads", 1)
    assert pads is not None
    value = to.option(node, "value", 2)
    rank = len(to.shape(node.inputs[0]))
    axes = to.known(node, 3)
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(range(rank) if axes is None else axes):
        before[axis], after[axis] = int(pads[i]), int(pads[i + len(pads) // 2])
    number = 0.0 if value is None or not value.size else float(value.reshape(-1)[0])
    bits = 0 if to.is_float(node.inputs[0]) else int(number)
    param = {
        "mode": _PAD_MODES[mode],
        "before": _dims(before),
        "after": _dims(after),
        "value": number,
        "bits": bits,
    }
    to.simple("TPU_PAD", node, [to.tensor(node.inputs[0])], param)


@converts("Expand")
def expand(to: Lowering, node: Node) -> None:
    """To the output's known shape, whether the node's shape input is a constant or computed."""
    to.simple("TPU_EXPAND", node, [to.tensor(node.inputs[0])], shape_param(to.shape(node.outputs[0])))


@converts("Tile")
def tile(to: Lowering, node: Node) -> None:
    """Repeats follow from the extents before and after, so they may be computed."""
    before, after = to.shape(node.inputs[0]), to.shape(node.outputs[0])
    repeats = [b // a for a, b in zip(before, after, strict=True)]  # also where they are computed
    counts = [*(int(v) for v in repeats), *[1] * (8 - len(repeats))]
    to.simple("TPU_TILE", node, [to.tensor(node.inputs[0])], {"repeats": counts})


@converts("DepthToSpace")
def depth_to_space(to: Lowering, node: Node) -> None:
    """Blocks of channels become pixels, in the order DCR or CRD."""
    crd = int(node.attributes.get("mode", "DCR") == "CRD")
    block = int(node.attributes["blocksize"])
    param = {"block_h": block, "block_w": block, "crd": crd}
    to.simple("TPU_DEPTH_TO_SPACE", node, [to.tensor(node.inputs[0])], param)


@converts("SpaceToDepth")
def space_to_depth(to: Lowering, node: Node) -> None:
    """The way back; `mode` is read as DepthToSpace has it."""
    crd = int(node.attributes.get("mode", "DCR") == "CRD")
    param = {"block": int(node.attributes["blocksize"]), "crd": crd}
    to.simple("TPU_SPACE_TO_DEPTH", node, [to.tensor(node.inputs[0])], param)
