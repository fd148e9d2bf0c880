"""Windows as channels: convolutions whose weights are computed, as of generators that modulate them, which
become products of matrices, and windows that are cut out.

A convolution with constant ones and zeros puts the elements of each window behind one another, as channels;
the weights are a matrix as they lie. An infinity or a NaN in a window then reaches all its elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from user_layers.onnx.fold import needed
from user_layers.onnx.model import Array, Model, Node, Value


def multiply_computed_kernels(model: Model) -> Model:
    """Put products in the place of convolutions with weights that are no constants."""
    constants, values = dict(model.constants), dict(model.values)
    instead: dict[str, list[Node]] = {}
    for node in model.nodes:
        if _is_one(model, node):
            instead[node.outputs[0]] = _product(model, node, constants, values)
    return model.with_instead(instead, constants, values)


def _is_one(model: Model, node: Node) -> bool:
    if not node.is_a("Conv") or node.inputs[1] in model.constants:
        return False
    known = [model.value(name) for name in (*node.inputs[:2], node.outputs[0])]
    return all(
        one.fixed is not None and len(one.fixed) in (3, 4) and one.dtype == np.float32 for one in known
    )


def _product(model: Model, node: Node, constants: dict[str, Array], values: dict[str, Value]) -> list[Node]:
    x, weights = (model.value(name).fixed for name in node.inputs[:2])
    made = model.value(node.outputs[0]).fixed
    assert x is not None and weights is not None and made is not None
    groups, taps, channels = int(node.attributes.get("group", 1)), math.prod(weights[2:]), x[1]
    nodes: list[Node] = []

    def step(
        op: str, inputs: tuple[str, ...], what: str, shape: tuple[int, ...], **attributes: object
    ) -> str:
        name = f"{node.outputs[0]}:{what}"
        values[name] = replace(model.value(node.outputs[0]), name=name, shape=shape)
        nodes.append(Node(op, "", node.name, inputs, (name,), attributes))
        return name

    def constant(what: str, array: Array) -> str:
        name = f"{node.outputs[0]}:{what}"
        constants[name] = array
        return name

    def shaped(source: str, what: str, shape: tuple[int, ...], given: tuple[int, ...]) -> str:
        """given: what Reshape is told; 0 stands for the batch, which may be another in each run."""
        return step("Reshape", (source, constant(f"{what}:shape", np.array(given))), what, shape)

    window = constant("ones", window_ones(channels, weights[2:]))
    single, elements = {**node.attributes, "group": channels}, (x[0], channels * taps, *made[2:])
    patches = step("Conv", (node.inputs[0], window), "patches", elements, **single)
    rows, places, out = channels // groups * taps, math.prod(made[2:]), made[1] // groups
    columns = shaped(patches, "columns", (x[0], groups, rows, places), (0, groups, rows, places))
    matrix = shaped(node.inputs[1], "matrix", (1, groups, out, rows), (1, groups, out, rows))
    product = step("MatMul", (matrix, columns), "product", (x[0], groups, out, places))
    last = shaped(product, "whole", made, (0, *made[1:]))
    if len(node.inputs) > 2 and node.inputs[2]:
        across = (1, made[1], *[1] * len(made[2:]))
        last = step("Add", (last, shaped(node.inputs[2], "bias", across, across)), "sum", made)
    nodes[-1] = replace(nodes[-1], outputs=node.outputs)
    return nodes


def unfold_by_convolution(model: Model) -> Model:
    """Windows that two Gathers cut out, of rows and of columns, as torch writes `unfold`: a convolution of
    ones and zeros makes them, in the lanes where they belong."""
    constants, values = dict(model.constants), dict(model.values)
    instead: dict[str, list[Node]] = {}
    for node in model.nodes:
        found = _unfolded(model, node)
        if found is None:
            continue
        source, (h, w) = found
        made, x = model.value(node.outputs[0]), model.value(source).fixed
        assert x is not None
        ones, whole = f"{node.outputs[0]}:ones", f"{node.outputs[0]}:windows"
        constants[ones] = window_ones(x[1], (h.taps, w.taps))
        constants[f"{whole}:shape"] = np.array((0, x[1], h.taps, w.taps, h.count, w.count))
        values[whole] = replace(made, name=whole, shape=(x[0], x[1] * h.taps * w.taps, h.count, w.count))
        steps = {"strides": [h.stride, w.stride], "dilations": [h.dilation, w.dilation], "group": x[1]}
        instead[node.outputs[0]] = [
            Node(
                "Conv", "", node.name, (source, ones), (whole,), {"kernel_shape": [h.taps, w.taps], **steps}
            ),
            Node("Reshape", "", node.name, (whole, f"{whole}:shape"), node.outputs),
        ]
    return needed(model.with_instead(instead, constants, values)) if instead else model


@dataclass(frozen=True)
class _Windows:
    """Along an axis: `count` windows, each `stride` behind the other, of taps that are `dilation` apart."""

    taps: int
    count: int
    stride: int
    dilation: int


def _windows(index: Array | None, extent: int) -> _Windows | None:
    """What indices [taps, count] stand for, where they are all windows of such an axis."""
    if index is None or index.ndim != 2 or not index.size or index[0, 0]:
        return None
    taps, count = index.shape
    stride = int(index[0, 1]) if count > 1 else 1
    dilation = int(index[1, 0]) if taps > 1 else 1
    if (
        min(stride, dilation) < 1
        or (index != np.arange(taps)[:, None] * dilation + np.arange(count) * stride).any()
    ):
        return None
    all_of_them = count == (extent - dilation * (taps - 1) - 1) // stride + 1
    return _Windows(taps, count, stride, dilation) if all_of_them else None


def _unfolded(model: Model, node: Node) -> tuple[str, tuple[_Windows, _Windows]] | None:
    """The pictures, and the windows in rows and in columns that a Transpose brings before their places."""
    if not node.is_a("Transpose") or list(node.attributes.get("perm", ())) != [0, 1, 2, 4, 3, 5]:
        return None
    columns = model.makers.get(node.inputs[0])
    rows = model.makers.get(columns.inputs[0]) if columns is not None and columns.is_a("Gather") else None
    if columns is None or rows is None or not rows.is_a("Gather"):
        return None
    if [one.attributes.get("axis", 0) for one in (rows, columns)] != [2, 4]:
        return None
    x, made = model.value(rows.inputs[0]), model.value(node.outputs[0]).fixed
    if x.fixed is None or x.dtype != np.float32 or made is None or len(x.fixed) != 4:
        return None
    if any(model.only_reader(one.outputs[0]) is None for one in (rows, columns)):
        return None
    h, w = (
        _windows(model.constants.get(one.inputs[1]), extent)
        for one, extent in zip((rows, columns), x.fixed[2:], strict=True)
    )
    return (rows.inputs[0], (h, w)) if h is not None and w is not None else None


def window_ones(channels: int, taps: tuple[int, ...]) -> Array:
    """Weights that put the elements of each window behind one another."""
    ones = np.eye(math.prod(taps), dtype=np.float32).reshape(-1, 1, *taps)
    return np.tile(ones, (channels, *[1] * (ones.ndim - 1)))
