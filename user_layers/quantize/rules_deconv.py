"""Transposed convolutions: each pixel of the input makes a square of the result, whose pixels are channels of
a plain convolution first.

Of the zeros that an instruction would insert nothing is computed; taps that only some pixels of a square have
are zeros for the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from user_layers.quantize.rewrite import Rewriting, rule
from user_layers.quantize.rules_linear import POINT, conv_of, in_integers, tell
from user_layers.quantize.scales import F64, Step
from user_layers.quantize.sites import Site, constant


@dataclass(frozen=True)
class _Axis:
    """One direction. size, out: elements of input and result; first, count: of the input's elements, beside
    the one of a square, those that the square needs; after: zeros behind the input."""

    size: int
    out: int
    kernel: int
    stride: int
    pad: int

    @property
    def first(self) -> int:
        return -((self.kernel - 1 - self.pad) // self.stride)

    @property
    def count(self) -> int:
        return (self.stride - 1 + self.pad) // self.stride - self.first + 1

    @property
    def squares(self) -> int:
        return -(-self.out // self.stride)

    @property
    def after(self) -> int:
        return max(self.squares + self.count - 1 + self.first - self.size, 0)

    def tap(self, within: int, place: int) -> int | None:
        """Of the kernel: for the element `within` of a square, and a place of the plain convolution's."""
        found = within + self.pad - self.stride * (place + self.first)
        return found if 0 <= found < self.kernel else None


@rule("TPU_DECONV")
def transposed(state: Rewriting, site: Site) -> str | None:
    """Without groups and dilation, with one stride."""
    values, node = site.values, site.node
    if values["groups"] != 1 or max(values["dilation_h"], values["dilation_w"]) > 1:
        return "a transposed convolution with groups or dilation"
    if values["stride_h"] != values["stride_w"]:
        return "a transposed convolution with two strides"
    shape, out = state.info(node.inputs[0]).shape, state.info(site.output).shape
    stride = values["stride_h"]
    h, w = (
        _Axis(shape[d], out[d], values[f"kernel_{name}"], stride, values[f"pad_{before}"])
        for d, name, before in ((2, "h", "top"), (3, "w", "left"))
    )
    if h.first > 0 or w.first > 0:
        return "pads beyond the kernel"
    weights = constant(state.net, node.inputs[1])
    bias = constant(state.net, node.inputs[2]) if len(node.inputs) > 2 else None
    if weights is None or (len(node.inputs) > 2 and bias is None):
        return "weights or bias that are computed"
    plain = _plain(weights, h, w)
    found = in_integers(
        state, site, plain, None if bias is None else np.repeat(bias.reshape(-1), stride**2), shape
    )
    if isinstance(found, str):
        return found
    given = state.step_of(node.inputs[0])
    source, _ = state.as_bytes(node, node.inputs[0])
    window = {**POINT, "groups": 1, "kernel_h": h.count, "kernel_w": w.count}
    window |= {"pad_top": -h.first, "pad_bottom": h.after, "pad_left": -w.first, "pad_right": w.after}
    inputs, conv = conv_of(state, site, source, found, window)
    made = state.layer(site, "TPU_CONV_INT8", inputs, conv, state.between(site, "squares"))
    larger = [one.size + one.after - one.first - one.count + 1 for one in (h, w)]
    cut = [stride * size for size in larger] != [*out[2:]]
    name = state.result(site, Step(found.scale, not site.relu))
    whole = state.between(site, "whole") if cut else name
    state.layer(site, "TPU_DEPTH_TO_SPACE", [made], {"block": stride, "crd": 1}, whole)
    if cut:
        ends = {"count": 2, "axes": (2, 3), "starts": (0, 0), "ends": tuple(out[2:]), "steps": (1, 1)}
        state.layer(site, "TPU_SLICE", [whole], ends, name)
    tell(state, site, given, found)
    return None


def _plain(weights: F64, h: _Axis, w: _Axis) -> F64:
    """[IC, OC, KH, KW] as [OC x rows x columns of a square, IC, places along h, along w]."""
    inputs, outputs = weights.shape[:2]
    made = np.zeros((outputs, h.stride, w.stride, inputs, h.count, w.count))
    for row, column, i, j in np.ndindex(h.stride, w.stride, h.count, w.count):
        y, x = h.tap(row, i), w.tap(column, j)
        if y is not None and x is not None:
            made[:, row, column, :, i, j] = weights[:, :, y, x].T
    return made.reshape(-1, inputs, h.count, w.count)
