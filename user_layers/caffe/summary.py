"""A net of Caffe's layer by layer: shapes, weights, and how many multiplications it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from user_layers.spelling.foreign import ForeignModel, Operation

Shape = tuple[int, ...]
_HEAD = ("id", "layer", "type", "bottoms", "tops", "weights", "MACs")


@dataclass(frozen=True)
class Row:
    """A layer. weights: how many numbers its blobs have; macs: multiplications with them, and additions, for
    the whole batch; None for both of a layer of the user's own."""

    id: int
    name: str
    type: str
    bottoms: Sequence[Shape]
    tops: Sequence[Shape]
    weights: int | None
    macs: int | None


def rows(model: ForeignModel) -> list[Row]:
    """The layers of a model as `read_caffe` gives it, in the order in which they run."""
    return [_row(model, number, operation) for number, operation in enumerate(model.operations)]


def as_json(model: ForeignModel) -> dict[str, Any]:
    """The same as one object, with the net's inputs, outputs and sums."""
    found = rows(model)
    return {
        "name": model.name,
        "inputs": {name: list(model.tensors[name].shape) for name in model.inputs},
        "outputs": {name: list(model.tensors[name].shape) for name in model.outputs},
        "layers": [asdict(row) for row in found],
        "weights": sum(row.weights or 0 for row in found),
        "macs": sum(row.macs or 0 for row in found),
    }


def as_text(model: ForeignModel) -> str:
    """The same as a table, with a line for inputs, outputs and sums."""
    found = rows(model)
    cells = [
        (
            str(row.id),
            row.name,
            row.type,
            _shapes(row.bottoms),
            _shapes(row.tops),
            _number(row.weights),
            _number(row.macs),
        )
        for row in found
    ]
    table = [_HEAD, *cells]
    widths = [max(len(line[i]) for line in table) for i in range(len(_HEAD))]
    numbers = {0, 5, 6}
    lines = [
        "  ".join(
            text.rjust(width) if i in numbers else text.ljust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
    ends = [
        f"{what} {name} {list(model.tensors[name].shape)}"
        for what, names in (("input", model.inputs), ("output", model.outputs))
        for name in names
    ]
    sums = (
        f"{len(found)} layers, {_number(sum(row.weights or 0 for row in found))} weights, "
        f"{_number(sum(row.macs or 0 for row in found))} MACs"
    )
    return "\n".join([f"net {model.name}", *lines, *ends, sums])


def _row(model: ForeignModel, number: int, operation: Operation) -> Row:
    names = [name for name in operation.inputs if name is not None]
    count = int(operation.attributes.get("blobs", 0))
    bottoms = [model.tensors[name].shape for name in names[: len(names) - count]]
    blobs = [model.tensors[name].shape for name in names[len(names) - count :]]
    tops = [model.tensors[name].shape for name in operation.outputs]
    return Row(
        number,
        operation.name,
        operation.kind,
        bottoms,
        tops,
        None if operation.own else sum(math.prod(shape) for shape in blobs),
        None if operation.own else _macs(operation, bottoms, tops, blobs),
    )


def _macs(
    operation: Operation, bottoms: Sequence[Shape], tops: Sequence[Shape], blobs: Sequence[Shape]
) -> int:
    if operation.kind in ("Convolution", "ConvolutionDepthwise", "DepthwiseConvolution"):
        return math.prod(tops[0]) * math.prod(blobs[0][1:])
    if operation.kind == "Deconvolution":
        return math.prod(bottoms[0]) * math.prod(blobs[0][1:])
    if operation.kind == "InnerProduct":
        return math.prod(tops[0]) * blobs[0][0 if operation.attributes.get("transpose") else 1]
    return 0


def _shapes(shapes: Sequence[Shape]) -> str:
    return " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
