"""Whole numbers that are counts, positions, truths: computed in float32 where that is exact.

The TPU's units compute in float32, which holds every whole number up to 2^24. Where constants, truth values,
extents and what is computed from them say that all numbers of a node stay below, it becomes one in float32
between casts, and has the same results. Of a comparison one operand within the limit is enough: what the
other one is rounded to lies on the same side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from user_layers.graph.prepared import free_name
from user_layers.onnx.fold import needed
from user_layers.onnx.model import STANDARD, Array, Model, Node, Value
from user_layers.onnx.proto import element_type

_LIMIT = 1 << 24
_EQUAL_OF_FLOATS = 11  # opset
_FLOAT = np.dtype(np.float32)
Range = tuple[int, int]

_COMPARED = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_MOVED = (
    *(
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Slice",
        "Gather",
        "GatherElements",
        "GatherND",
    ),
    *("Expand", "Tile", "Identity", "Split", "Trilu"),
)
_REDUCED = ("ReduceMax", "ReduceMin", "ReduceSum", "CumSum", "ArgMax", "ArgMin")
_ARITHMETIC: dict[str, Callable[[Range, Range], Range]] = {
    "Add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "Sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "Mul": lambda a, b: _around([x * y for x in a for y in b]),
    "Max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "Min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
}


def count_in_floats(model: Model) -> Model:
    """The model with comparisons, sums, products, reductions and running sums of whole numbers that float32
    holds in float32, with casts around them."""
    return _Counting(model).counted()


class _Counting:
    """ranges: of whole numbers and truth values, where known; floats: the same numbers in float32."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._nodes: list[Node] = []
        self._constants = dict(model.constants)
        self._values = dict(model.values)
        self._ranges: dict[str, Range] = {}
        self._floats: dict[str, str] = {}

    def counted(self) -> Model:
        for node in self._model.nodes:
            operands = self._operands(node)
            if operands:
                self._in_float(node, operands)
            else:
                self._nodes.append(node)
            found = self._result(node)
            if found is not None:
                self._ranges[node.outputs[0]] = found
        if not self._floats:
            return self._model
        made = replace(self._model, nodes=tuple(self._nodes), constants=self._constants, values=self._values)
        return needed(made)

    def _operands(self, node: Node) -> Sequence[int]:
        """The inputs that are to be float32, where the node is one that may compute in it."""
        if not node.is_plain or len(node.makes) != 1 or node.captured:
            return ()
        which = (0,) if node.op in _REDUCED else (0, 1)
        if len(node.inputs) < len(which) or not all(self._is_whole(node.inputs[i]) for i in which):
            return ()
        ranges = [self._range(node.inputs[i]) for i in which]
        if node.op == "Equal" and self._model.opset < _EQUAL_OF_FLOATS:
            return ()
        if node.op in _COMPARED:
            return which if any(found is not None and _within(found) for found in ranges) else ()
        if node.op not in (*_REDUCED, *_ARITHMETIC) or (node.op in _ARITHMETIC and len(node.inputs) != 2):
            return ()
        result = self._result(node)
        exact = result is not None and all(
            found is not None and _within(found) for found in (*ranges, result)
        )
        return which if exact else ()

    def _in_float(self, node: Node, operands: Sequence[int]) -> None:
        """The node in float32, and where it makes numbers these again as what they were."""
        inputs = tuple(self._float(name) if i in operands else name for i, name in enumerate(node.inputs))
        output = self._model.value(node.outputs[0])
        if node.op in (*_COMPARED, "ArgMax", "ArgMin"):
            self._nodes.append(replace(node, inputs=inputs, proto=None))
            return
        made = self._new(output.name, output.shape)
        self._floats[output.name] = made
        self._nodes.append(replace(node, inputs=inputs, outputs=(made,), proto=None))
        assert output.dtype is not None
        self._cast(made, output.name, output.dtype)

    def _float(self, name: str) -> str:
        """A value in float32."""
        if name not in self._floats:
            value, maker = self._model.value(name), self._model.makers.get(name)
            made = self._floats[name] = self._new(name, value.shape)
            if name in self._constants:
                self._constants[made] = self._constants[name].astype(np.float32)
            elif maker is not None and maker.op == "Cast" and self._is_truth(maker.inputs[0]):
                self._cast(maker.inputs[0], made, _FLOAT)
            else:
                self._cast(name, made, _FLOAT)
        return self._floats[name]

    def _cast(self, source: str, target: str, dtype: np.dtype[np.generic]) -> None:
        self._nodes.append(Node("Cast", "", "", (source,), (target,), {"to": element_type(dtype)}))

    def _new(self, name: str, shape: tuple[int | str, ...] | None) -> str:
        free = free_name(f"{name}:counted", self._values, self._constants)
        self._values[free] = Value(free, shape, _FLOAT)
        return free

    def _is_whole(self, name: str) -> bool:
        dtype = self._model.value(name).dtype
        return dtype is not None and dtype.name in ("int32", "int64")

    def _is_truth(self, name: str) -> bool:
        return self._model.value(name).dtype == np.bool_

    def _range(self, name: str) -> Range | None:
        """From the least to the largest number; None where it is not known."""
        if name in self._ranges:
            return self._ranges[name]
        if name in self._model.constants:
            return _of(self._model.constants[name])
        return (0, 1) if self._is_truth(name) else None

    def _result(self, node: Node) -> Range | None:
        """The range of a node's first output."""
        if node.domain not in STANDARD or not node.makes or not (self._is_whole(node.outputs[0])):
            return None
        given = [self._range(name) for name in node.inputs if name]
        shape = self._model.value(node.inputs[0]).fixed if node.inputs else None
        if node.op in _ARITHMETIC and len(given) == 2:
            left, right = given
            return None if left is None or right is None else _ARITHMETIC[node.op](left, right)
        if node.op in ("ArgMax", "ArgMin") and shape:
            return 0, max(shape[int(node.attributes.get("axis", 0))] - 1, 0)
        if node.op in ("ReduceSum", "CumSum") and given[0] is not None and shape is not None:
            return _around([*given[0], *(math.prod(shape) * end for end in given[0])])
        if node.op in ("Concat", "Where"):
            ends = [found for found in given[node.op == "Where" :] if found is not None]
            known = len(ends) == len(given) - (node.op == "Where")
            return _around([end for found in ends for end in found]) if known else None
        if node.op in (*_MOVED, "Cast", "ReduceMax", "ReduceMin") and given:
            return given[0]
        return None


def _of(array: Array) -> Range | None:
    whole = array.size and array.dtype.kind in "iub"
    return (int(array.min()), int(array.max())) if whole else None


def _around(ends: Sequence[int]) -> Range:
    return min(ends), max(ends)


def _within(found: Range) -> bool:
    return found[0] > -_LIMIT and found[1] < _LIMIT
