"""Gather: planes that are chosen by indices, constant ones or ones that the net computes.

Nothing in a stream of commands chooses an address by data, so computed indices are read by the controller,
which issues a copy for each (TPU_GATHER, in a subnet that runs dynamically). A small constant table is
cheaper read as a whole: rows of zeros with a one where an index stands, times the table, in the stream as any
product is.
"""

from __future__ import annotations

import math

import numpy as np

from firmware_sim.isa.timing import issue
from user_layers.net.functions import unary_param
from user_layers.onnx.convert_composed import Steps
from user_layers.onnx.convert_movement import shape_param
from user_layers.onnx.lower import Lowering, axis_of, converts
from user_layers.onnx.model import Array, Node
from user_layers.onnx.work import DDR_BYTES, PRODUCT_MACS

_SMALL = 12_000  # cycles of the layers around a product
_EXACT = 1 << 24  # indices up to here are float32 numbers


@converts("Gather")
def gather(to: Lowering, node: Node) -> None:
    """A scalar index takes its axis away. Constant indices are checked now, computed ones in the net."""
    indices = to.constant(node.inputs[1])
    extents, places = (to.shape(name) for name in node.inputs[:2])
    axis = axis_of(int(node.attributes.get("axis", 0)), len(extents))
    if indices is None and axis == 0 and _products_pay(extents, places, to.constant(node.inputs[0])):
        _by_products(to, node)
        return
    # One number without dimensions is (1,) in a net.
    param = {"axis": axis, "scalar": int(not places and bool(to.shape(node.outputs[0])))}
    if indices is None:
        chosen = to.tensor(node.inputs[1])
    else:
        chosen = to.add_const(np.atleast_1d(indices).astype(np.int64), f"{node.inputs[1]}:indices")
    to.simple("TPU_GATHER", node, [to.tensor(node.inputs[0]), chosen], param)


def _products_pay(extents: tuple[int, ...], places: tuple[int, ...], table: Array | None) -> bool:
    """Whether a product with the whole table takes fewer cycles than a copy for each index, and has the same
    bits: products turn -0 and numbers under 2^-126 into 0, and infinities into NaN."""
    if table is None or table.dtype != np.float32 or len(extents) < 2 or len(places) > 6:
        return False
    count, rows, width = math.prod(places), extents[0], math.prod(extents[1:])
    words = rows * width + 2 * count * rows + count * width
    cycles = _SMALL + count * rows * width / PRODUCT_MACS + words * 4 / DDR_BYTES
    copies = count * (issue() + width * 4 * 2 / DDR_BYTES)
    if rows > _EXACT or cycles >= copies:
        return False
    plain = np.isfinite(table) & ((np.abs(table) >= np.finfo(np.float32).tiny) | (table == 0))
    return bool(plain.all() and not (np.signbit(table) & (table == 0)).any())


def _by_products(to: Lowering, node: Node) -> None:
    """Rows of zeros with a one, times a constant table. Where an index is out of range the result's row has
    NaN."""
    table = to.constant(node.inputs[0])
    assert table is not None
    places, rows, do = to.shape(node.inputs[1]), len(table), Steps(to, node)
    apart = [*[0] * len(places), 1] if places else [1, 1]
    given = do.shaped(to.between("TPU_CAST", node, [to.tensor(node.inputs[1])], {"to": 0}), apart)
    below = do.two("LESS", given, do.numbers([0], (1,), "zero"))
    index = do.two("ADD", given, do.by("MUL", below, float(rows)))
    limits = unary_param("CLIP", 0.0, float(rows - 1))
    inside = do.two("EQUAL", index, to.between("TPU_UNARY", node, [index], limits))
    ends = [do.numbers([value], (1,), what) for value, what in ((0, "inside"), (np.nan, "outside"))]
    blank = to.between("TPU_WHERE", node, [inside, *ends], {"reserved": 0})
    ones = do.two("EQUAL", index, do.numbers(range(rows), (rows,), "rows"))
    flat = do.numbers(table, (rows, -1), "table")
    chosen = to.between("TPU_MATMUL", node, [ones, flat], {"trans_a": 0, "trans_b": 0, "alpha": 1.0})
    if places and table.ndim == 2:
        do.last("ADD", chosen, blank)
        return
    shape = [*[0] * len(places), *table.shape[1:]]
    to.simple("TPU_RESHAPE", node, [do.two("ADD", chosen, blank)], shape_param(shape))
