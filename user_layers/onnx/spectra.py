"""Fourier transforms as products with constants, and windows that are added up again as a transposed
convolution with ones: the chip has neither, but multiplies.

A transform of n numbers takes n * m products instead of some n log n; up to a few thousand numbers that is
less than their way to the host and back. Those whose matrices would be larger stay on the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from user_layers.onnx.kernels import window_ones
from user_layers.onnx.model import Array, Model, Node, Value

_LARGEST = 1 << 24  # numbers of a matrix
_OLDEST_AXIS_INPUT = 20  # opset of DFT's axis as an input


def write_spectra(model: Model) -> Model:
    """DFT, STFT and Col2Im with constant sizes in other operations of ONNX."""
    work = _Work(model)
    for node in model.nodes:
        made = None
        if node.is_a("DFT"):
            made = work.transform(node)
        elif node.is_a("STFT"):
            made = work.frames(node)
        elif node.is_a("Col2Im"):
            made = work.image(node)
        if made is not None:
            work.instead[node.outputs[0]] = made
    return model.with_instead(work.instead, work.constants, work.values)


def has_spectra(model: Model) -> bool:
    """Whether there are transforms."""
    return any(node.is_a("DFT", "STFT") for node in model.nodes)


def _waves(count: int, length: int, bins: int, inverse: bool) -> tuple[Array, Array]:
    """cos and sin of each of `count` numbers in each of `bins`, [count, bins]; numbers beyond `length` count
    for nothing."""
    turns = np.outer(np.arange(count), np.arange(bins)) % length
    angle = 2 * np.pi / length * turns * (1 if inverse else -1)
    there = (np.arange(count) < length)[:, None] / (length if inverse else 1)
    return np.cos(angle) * there, np.sin(angle) * there


class _Work:
    """What is written, for one model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.constants = dict(model.constants)
        self.values = dict(model.values)
        self.instead: dict[str, list[Node]] = {}

    def transform(self, node: Node) -> list[Node] | None:
        """DFT along one dimension: real and imaginary parts of all its numbers times a matrix."""
        value = self.model.value(node.inputs[0])
        shape, length = value.fixed, self._number(node, 1)
        if self.model.opset >= _OLDEST_AXIS_INPUT:
            axis = -2 if len(node.inputs) < 3 or not node.inputs[2] else self._number(node, 2)
        else:
            axis = int(node.attributes.get("axis", 1))
        if shape is None or value.dtype != np.float32 or axis is None or shape[-1] not in (1, 2):
            return None
        if len(node.inputs) > 1 and node.inputs[1] and length is None:
            return None
        axis %= len(shape)
        inverse, onesided = bool(node.attributes.get("inverse", 0)), bool(node.attributes.get("onesided", 0))
        if axis == len(shape) - 1 or (onesided and (inverse or shape[-1] == 2)):
            return None
        count = shape[axis]
        length = length or count
        bins = length // 2 + 1 if onesided else length
        if 2 * bins * count * shape[-1] > _LARGEST:
            return None
        cos, sin = _waves(count, length, bins, inverse)
        matrix = np.empty((count, shape[-1], bins, 2))
        matrix[:, 0, :, 0], matrix[:, 0, :, 1] = cos, sin
        if shape[-1] == 2:
            matrix[:, 1, :, 0], matrix[:, 1, :, 1] = -sin, cos
        steps = _Steps(self, node)
        order = [i for i in range(len(shape)) if i not in (axis, len(shape) - 1)] + [axis, len(shape) - 1]
        moved = steps.transpose(node.inputs[0], shape, order)
        lead = [shape[i] for i in order[:-2]]
        name = steps.reshape(moved, "row", [*lead, count * shape[-1]])
        weights = steps.constant("waves", matrix.reshape(count * shape[-1], 2 * bins).astype(np.float32))
        name = steps.add("MatMul", (name, weights), "product", [*lead, 2 * bins])
        back = [order.index(i) for i in range(len(shape))]
        if back == list(range(len(shape))):
            return steps.end(name, [*lead, bins, 2])
        name = steps.reshape(name, "bins", [*lead, bins, 2])
        steps.add("Transpose", (name,), "", [[*lead, bins, 2][i] for i in back], perm=back)
        return steps.nodes

    def frames(self, node: Node) -> list[Node] | None:
        """STFT of real signals: pieces as long as the step between windows are channels, of which a window is
        some, one behind the other; so it is a convolution."""
        inputs = (*node.inputs, "", "")[:4]
        value, step = self.model.value(inputs[0]), self._number(node, 1)
        shape, window, length = value.fixed, self.constants.get(inputs[2]), self._number(node, 3)
        if shape is None or value.dtype != np.float32 or not step or (len(shape) == 3 and shape[-1] != 1):
            return None
        if (inputs[2] and window is None) or (inputs[3] and length is None) or len(shape) not in (2, 3):
            return None
        length = length or (window.size if window is not None else None)
        if not length or (window is not None and window.size != length) or length > shape[1]:
            return None
        bins = length // 2 + 1 if node.attributes.get("onesided", 1) else length
        pieces = -(-length // step)
        if 2 * bins * pieces * step > _LARGEST:
            return None
        count = (shape[1] - length) // step + 1
        cos, sin = _waves(length, length, bins, False)
        weights = np.zeros((bins, 2, pieces * step))
        weights[:, 0, :length], weights[:, 1, :length] = cos.T, sin.T
        if window is not None:
            weights[..., :length] *= window.reshape(-1)
        weights = weights.reshape(2 * bins, pieces, step).swapaxes(1, 2)
        steps, batch = _Steps(self, node), shape[0]
        whole, name = (count - 1 + pieces) * step, steps.reshape(inputs[0], "signal", [batch, shape[1]])
        if whole > shape[1]:
            pads = steps.constant("pads", np.array([0, 0, 0, whole - shape[1]]))
            name = steps.add("Pad", (name, pads), "longer", [batch, whole])
        elif whole < shape[1]:
            ends = [
                steps.constant(what, np.array([n])) for what, n in (("from", 0), ("to", whole), ("axis", 1))
            ]
            name = steps.add("Slice", (name, *ends), "shorter", [batch, whole])
        name = steps.reshape(name, "pieces", [batch, whole // step, step])
        name = steps.add("Transpose", (name,), "channels", [batch, step, whole // step], perm=[0, 2, 1])
        kernel = steps.constant("waves", np.ascontiguousarray(weights, np.float32))
        name = steps.add("Conv", (name, kernel), "spectra", [batch, 2 * bins, count], kernel_shape=[pieces])
        name = steps.add("Transpose", (name,), "turned", [batch, count, 2 * bins], perm=[0, 2, 1])
        return steps.end(name, [batch, count, bins, 2])

    def image(self, node: Node) -> list[Node] | None:
        """Col2Im of pictures: each place of a window is a channel whose kernel has one 1."""
        shape = self.model.value(node.inputs[0]).fixed
        size, block = (self.constants.get(name) for name in node.inputs[1:3])
        if shape is None or size is None or block is None or size.size != 2 or len(shape) != 3:
            return None
        if self.model.value(node.inputs[0]).dtype != np.float32:
            return None
        kernel = [int(n) for n in block]
        strides, dilations = (
            list(map(int, node.attributes.get(key, (1, 1)))) for key in ("strides", "dilations")
        )
        pads = [int(n) for n in node.attributes.get("pads", (0,) * 4)]
        taps = math.prod(kernel)
        spans = [dilations[i] * (kernel[i] - 1) + 1 for i in range(2)]
        whole = [int(n) + pads[i] + pads[i + 2] for i, n in enumerate(size)]
        places = [(whole[i] - spans[i]) // strides[i] + 1 for i in range(2)]
        if math.prod(places) != shape[2] or shape[1] % taps:
            return None
        channels = shape[1] // taps
        rest = [whole[i] - (strides[i] * (places[i] - 1) + spans[i]) for i in range(2)]
        steps = _Steps(self, node)
        name = steps.reshape(node.inputs[0], "places", [shape[0], shape[1], *places])
        ones = window_ones(channels, tuple(kernel))
        attributes = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
        weights = steps.constant("ones", ones)
        made = [shape[0], channels, *map(int, size)]
        steps.add(
            "ConvTranspose", (name, weights), "", made, group=channels, output_padding=rest, **attributes
        )
        return steps.nodes

    def _number(self, node: Node, at: int) -> int | None:
        """A constant input of one number."""
        array = self.constants.get(node.inputs[at]) if at < len(node.inputs) else None
        return int(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


class _Steps:
    """Nodes in the place of one, each reading what the one before makes."""

    def __init__(self, work: _Work, node: Node) -> None:
        self._work, self._node = work, node
        self.nodes: list[Node] = []

    def constant(self, what: str, array: Array) -> str:
        """A constant for these nodes alone."""
        name = f"{self._node.outputs[0]}:{what}"
        self._work.constants[name] = array
        return name

    def add(
        self, op: str, inputs: tuple[str, ...], what: str, shape: Sequence[int], **attributes: object
    ) -> str:
        """A node; `what` names its result, "" is that of the node that it ends."""
        output = self._node.outputs[0]
        name = f"{output}:{what}" if what else output
        self._work.values[name] = Value(name, tuple(shape), np.dtype(np.float32))
        own = self._node.name
        title = f"{own}:{what}" if own and what else own  # onnxruntime refuses nodes of one name
        self.nodes.append(Node(op, "", title, inputs, (name,), attributes))
        return name

    def reshape(self, source: str, what: str, shape: Sequence[int]) -> str:
        """The same numbers in another shape; the first extent may be smaller in a run."""
        target = self.constant(f"{what or 'whole'}:shape", np.array([-1, *shape[1:]], np.int64))
        return self.add("Reshape", (source, target), what, shape)

    def transpose(self, source: str, shape: Sequence[int], order: Sequence[int]) -> str:
        """Dimensions in another order, if it is another."""
        if list(order) == list(range(len(order))):
            return source
        return self.add("Transpose", (source,), "moved", [shape[i] for i in order], perm=list(order))

    def end(self, source: str, shape: Sequence[int]) -> list[Node]:
        """All nodes, the last of which gives this shape to the result."""
        self.reshape(source, "", shape)
        return self.nodes
