"""Models whose integers are made while they run, or whose weights alone are integers, in float32.

Dynamic quantisation (onnxruntime's, which most published `model_quantized.onnx` are) finds a scale for each
tensor when it has its numbers. The chip's shifts are fixed when a net is compiled, so these products are
those of the numbers themselves with the weights that the file's integers stand for; the rounding goes, and
with it its error. Weights packed by MatMulNBits are unpacked. Operations: onnxruntime's contrib operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from user_layers.graph.prepared import free_name
from user_layers.onnx.implied import implied_ranges
from user_layers.onnx.model import STANDARD, Array, Model, Node, Value
from user_layers.onnx.quantised import dequantised, in_float
from user_layers.quantize.table import Range

AT_RUN_TIME, PACKED, SIXTEEN = "integers made at run time", "packed weights", "16-bit integers"
_FLOAT = np.dtype(np.float32)
_MICROSOFT = "com.microsoft"
_INTEGER_OPS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
_TO_FLOAT = 1  # TensorProto.FLOAT


def unquantised(model: Model) -> tuple[Model, dict[str, Range], tuple[str, ...]]:
    """The model in float32, the ranges that its scales of 8 bits say, by names of tensors, and what else was
    integers in it: AT_RUN_TIME, PACKED, SIXTEEN. Errors: as `in_float`."""
    model, found = unrounded(model)
    model, ranges, sixteen = in_float(model)
    return model, implied_ranges(model, ranges), (*found, SIXTEEN) if sixteen else found


def unrounded(model: Model) -> tuple[Model, tuple[str, ...]]:
    """The model in float32, and what was integers in it: AT_RUN_TIME, PACKED. Where the numbers that a scale
    was made for are read by anything but a product of integers, or a product by anything that is not its
    scale, all of them stay."""
    work = _Work(model)
    for node in model.nodes:
        work.node(node)
    return work.result()


class _Work:
    """Over the nodes in their order."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._constants = dict(model.constants)
        self._values = dict(model.values)
        self._instead: dict[str, Sequence[Node]] = {}
        self._found: dict[str, None] = {}
        self._sources = _dynamic(model)

    def result(self) -> tuple[Model, tuple[str, ...]]:
        made = self._model.with_instead(self._instead, self._constants, self._values)
        return made, tuple(self._found)

    def node(self, node: Node) -> None:
        """Note what stands for a node, if it is one of these."""
        if node.is_own:
            return
        made: list[Node] | None = None
        what = AT_RUN_TIME
        if node.is_a("DynamicQuantizeLinear") and node.outputs[0] in self._sources:
            self._constants[node.outputs[1]] = np.array(1, _FLOAT)  # its numbers are in units of 1
            made = []
        elif node.op in _INTEGER_OPS and node.domain in STANDARD:
            made = self._product_of_integers(node)
        elif node.domain == _MICROSOFT and node.op in ("MatMulIntegerToFloat", "DynamicQuantizeMatMul"):
            made = self._product(node)
        elif node.domain == _MICROSOFT and node.op == "DynamicQuantizeLSTM":
            made = self._lstm(node)
        elif node.domain == _MICROSOFT and node.op == "MatMulNBits":
            made, what = self._packed(node), PACKED
        if made is not None:
            self._instead[node.outputs[0]] = made
            self._found.setdefault(what)

    def _product_of_integers(self, node: Node) -> list[Node] | None:
        """MatMulInteger and ConvInteger of numbers with a scale of their own."""
        if node.inputs[0] not in self._sources:
            return None
        left, right, *zeros = (*node.inputs, "", "")[:4]
        if right in self._sources:
            other: str | None = self._sources[right]
        else:
            other = self._weights(right, None, zeros[1], 0 if node.op == "ConvInteger" else -1)
        if other is None:
            return None
        made = node.outputs[0]
        self._values[made] = Value(made, self._model.value(made).shape, _FLOAT)
        inputs = (self._sources[left], other)
        return [replace(node, op=_INTEGER_OPS[node.op], inputs=inputs, proto=None)]

    def _product(self, node: Node) -> list[Node] | None:
        """onnxruntime's own, which give floats: MatMulIntegerToFloat(A, B, a_scale, b_scale, a_zero, b_zero,
        bias), and DynamicQuantizeMatMul(A, B, b_scale, b_zero, bias) of floats A."""
        inputs = (*node.inputs, *[""] * 7)[:7]
        if node.op == "DynamicQuantizeMatMul":
            source, (weights, scale, zero, bias) = inputs[0], inputs[1:5]
        elif inputs[0] in self._sources:
            source, weights, scale, zero, bias = self._sources[inputs[0]], *(inputs[i] for i in (1, 3, 5, 6))
        else:
            return None
        return self._matmul(node, source, self._weights(weights, scale, zero, -1), bias)

    def _matmul(self, node: Node, source: str, weights: str | None, bias: str) -> list[Node] | None:
        if weights is None:
            return None
        (made,) = node.outputs
        if not bias:
            return [Node("MatMul", "", node.name, (source, weights), (made,))]
        between = free_name(f"{made}:product", self._constants, self._values)
        self._values[between] = Value(between, self._model.value(made).shape, _FLOAT)
        return [
            Node("MatMul", "", node.name, (source, weights), (between,)),
            Node("Add", "", "", (between, bias), (made,)),
        ]

    def _lstm(self, node: Node) -> list[Node] | None:
        """DynamicQuantizeLSTM: an LSTM whose W and R are integers, [directions, inputs, 4 x hidden], with
        scales and zero points for each direction, or each column, behind LSTM's own inputs."""
        inputs = (*node.inputs, *[""] * 12)[:12]
        matrices = []
        for at, scale in ((1, 8), (2, 10)):
            integers = self._constants.get(inputs[at])
            steps, points = (self._constants.get(inputs[k]) for k in (scale, scale + 1))
            if integers is None or steps is None or points is None:
                return None
            step, point = (one.reshape(len(integers), 1, -1) for one in (steps, points))
            wide = dequantised(integers, step, point, -1).transpose(0, 2, 1)
            matrices.append(self._add(f"{inputs[at]}:float", np.ascontiguousarray(wide)))
        last = max((k for k in range(3, 8) if inputs[k]), default=2)
        plain = (inputs[0], *matrices, *inputs[3 : last + 1])
        return [Node("LSTM", "", node.name, plain, node.outputs, node.attributes)]

    def _weights(self, name: str, scale: str | None, zero: str, axis: int) -> str | None:
        """The name of what constant integers stand for. scale: in units of it, or of 1; axis: along which
        there are scales and zero points for each channel. None where they are computed."""
        integers = self._constants.get(name)
        steps = np.ones((), _FLOAT) if scale is None else self._constants.get(scale)
        points = self._constants.get(zero) if zero else np.zeros((), np.uint8)
        if integers is None or steps is None or points is None:
            return None
        return self._add(f"{name}:float", dequantised(integers, steps, points, axis))

    def _packed(self, node: Node) -> list[Node] | None:
        """MatMulNBits(A, B, scales, zero points, g_idx, bias): B [N, blocks, bytes of a block] holds each
        column's K numbers, the lower bits first; a block's zero point is half of what fits if none is
        given."""
        source, packed, scale, zero, order, bias = (*node.inputs, *[""] * 6)[:6]
        given, steps = self._constants.get(packed), self._constants.get(scale)
        points = self._constants.get(zero) if zero else None
        if given is None or steps is None or order or (zero and points is None):
            return None
        rows, columns, bits, block = (
            int(node.attributes.get(key, 4)) for key in ("K", "N", "bits", "block_size")
        )
        if bits not in (2, 4, 8):
            return None
        blocks = -(-rows // block)
        numbers = _unpacked(given.reshape(columns, -1), bits)[:, : blocks * block]
        if points is None:
            base = np.full((columns, blocks), 1 << (bits - 1), _FLOAT)
        elif points.dtype == np.uint8:
            base = _unpacked(points.reshape(columns, -1), bits)[:, :blocks].astype(_FLOAT)
        else:
            base = points.astype(_FLOAT).reshape(columns, blocks)
        apart = numbers.astype(_FLOAT).reshape(columns, blocks, block) - base[..., None]
        wide = apart * steps.astype(_FLOAT).reshape(columns, blocks, 1)
        matrix = np.ascontiguousarray(wide.reshape(columns, -1)[:, :rows].T)
        return self._matmul(node, source, self._add(f"{packed}:float", matrix), bias)

    def _add(self, name: str, array: Array) -> str:
        name = free_name(name, self._constants, self._values)
        self._constants[name] = array
        return name


def _unpacked(packed: Array, bits: int) -> Array:
    """Rows of bytes as rows of the numbers in them."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((packed[..., None] >> shifts) & ((1 << bits) - 1)).reshape(len(packed), -1)


def _dynamic(model: Model) -> dict[str, str]:
    """What DynamicQuantizeLinear nodes make that may be floats: its name, and that of its numbers."""
    found = {
        node.outputs[0]: node
        for node in model.nodes
        if node.is_a("DynamicQuantizeLinear") and len(node.makes) == 3
    }
    # Whoever shares a product stays or goes with the other one.
    while True:
        kept = {name: node for name, node in found.items() if _is_scaled(model, node, found)}
        if len(kept) == len(found):
            return {name: node.inputs[0] for name, node in kept.items()}
        found = kept


def _is_scaled(model: Model, node: Node, others: dict[str, Node]) -> bool:
    """Whether all that reads a node's integers multiplies them, and their scale once, and nothing else reads
    integers, scale or zero point."""
    numbers, scale, zero = node.outputs
    if {numbers, scale, zero} & (model.results | {name for one in model.nodes for name in one.captured}):
        return False
    scales = {one.outputs[1] for one in others.values()}
    products = {reader.outputs[0]: reader for reader in model.consumers.get(numbers, ())}
    scaled: set[str] = set()  # products in float, with their scale
    factors: set[str] = set()
    for made, reader in products.items():
        if not _takes(model, reader, numbers, zero, others):
            return False
        if reader.op not in _INTEGER_OPS:
            if reader.inputs[2] != scale:
                return False
            scaled.add(made)
            continue
        found = _factor(model, reader)
        if found is None or scale not in _scales_of(model, found[0], scales):
            return False
        factors.add(found[0])
        scaled.add(found[1])

    def only(name: str, allowed: set[str]) -> bool:
        return all(reader.outputs[0] in allowed for reader in model.consumers.get(name, ()))

    return (
        only(zero, set(products))
        and only(scale, scaled | factors)
        and all(only(name, scaled) and name not in model.results for name in factors - {scale})
    )


def _takes(model: Model, node: Node, numbers: str, zero: str, others: dict[str, Node]) -> bool:
    """Whether a node is a product of these integers with constants, or with others of their kind."""
    inputs = (*node.inputs, *[""] * 6)[:6]
    if node.op in _INTEGER_OPS and node.domain in STANDARD:
        sides = ((inputs[0], inputs[2]), (inputs[1], inputs[3]))
    elif node.domain == _MICROSOFT and node.op == "MatMulIntegerToFloat":
        sides = ((inputs[0], inputs[4]), (inputs[1], inputs[5]))
        if inputs[1] == numbers or inputs[3] not in model.constants:
            return False
    else:
        return False
    if sides[0][0] not in others:
        return False
    for name, point in sides:
        if name in others:
            if point != others[name].outputs[2]:
                return False
        elif name not in model.constants or (point and point not in model.constants):
            return False
    return (numbers, zero) in sides


def _factor(model: Model, node: Node) -> tuple[str, str] | None:
    """By what alone a product of integers is multiplied, in float, and what comes of it."""
    cast = model.only_reader(node.outputs[0])
    if cast is None or not cast.is_a("Cast") or cast.attributes.get("to") != _TO_FLOAT:
        return None
    scaled = model.only_reader(cast.outputs[0])
    if scaled is None or not scaled.is_a("Mul"):
        return None
    factor = next((name for name in scaled.inputs if name != cast.outputs[0]), None)
    return None if factor is None else (factor, scaled.outputs[0])


def _scales_of(model: Model, name: str, scales: set[str]) -> set[str]:
    """The scales of a factor: it is one, or their product, or one's with a constant."""
    if name in scales:
        return {name}
    maker = model.makers.get(name)
    if maker is None or not maker.is_a("Mul"):
        return set()
    if any(one not in scales and one not in model.constants for one in maker.inputs):
        return set()
    return set(maker.inputs) & scales
