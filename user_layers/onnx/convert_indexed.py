"""Elements chosen or replaced by indices, one by one or in rows, and running sums.

Nothing in a stream of commands chooses an address by data. Constant indices are moves. Computed ones are
compared with all places along the axis, which takes an element for each pair of index and place, but stays in
the stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from user_layers.onnx.convert_composed import Steps
from user_layers.onnx.convert_movement import shape_param
from user_layers.onnx.lower import Lowering, Unsupported, axis_of, converts
from user_layers.onnx.model import Array, Node

_PAIRS = 1 << 23  # of an index and a place that are compared
_RUNNING = 2048  # numbers of a running sum: a square matrix
_ROWS = 4096  # moves of rows that do not lie one behind the other
_NO_PARAM = {"reserved": 0}
_PRODUCT = {"trans_a": 0, "trans_b": 0, "alpha": 1.0}


@converts("CumSum")
def running_sum(to: Lowering, node: Node) -> None:
    """A product with a triangle of ones; an infinity or a NaN reaches the sums before it, too."""
    to.need_float(node.inputs[0])
    shape = to.shape(node.inputs[0])
    chosen = to.known(node, 1)
    assert chosen is not None
    axis = axis_of(int(chosen.reshape(-1)[0]), len(shape))
    n, inner = shape[axis], math.prod(shape[axis + 1 :])
    if n > _RUNNING:
        raise Unsupported(f"a sum that runs over {n} elements; at most {_RUNNING} have a layer")
    ones = np.tri(n, k=-1 if node.attributes.get("exclusive", 0) else 0, dtype=np.float32)
    if node.attributes.get("reverse", 0):
        ones = ones.T
    do, x = Steps(to, node), to.tensor(node.inputs[0])
    rows = (1, n) if len(shape) == 1 else (math.prod(shape[:axis]), n, inner)
    if axis == len(shape) - 1 and len(shape) > 1:
        to.simple("TPU_MATMUL", node, [x, do.numbers(ones.T, (n, n), "ones")], _PRODUCT)
        return
    sides = [do.shaped(x, rows), do.numbers(ones.T, (n, n), "ones")]
    if len(shape) > 1:
        sides = [do.numbers(ones, (n, n), "ones"), sides[0]]
    to.simple("TPU_RESHAPE", node, [to.between("TPU_MATMUL", node, sides, _PRODUCT)], shape_param(shape))


@dataclass(frozen=True)
class _Axis:
    """An axis of a tensor between what is before and behind: [outer, places, inner]; `count` indices."""

    outer: int
    places: int
    count: int
    inner: int

    @property
    def pairs(self) -> int:
        return self.outer * self.places * self.count * self.inner

    @property
    def lines(self) -> tuple[int, ...]:
        """The tensor's shape beside that of pairs, [outer, count, places, inner]."""
        return self.outer, 1, self.places, self.inner


def _axis(to: Lowering, node: Node) -> tuple[int, _Axis]:
    """Of the node's first input, and its second as the indices."""
    data, chosen = (to.shape(name) for name in node.inputs[:2])
    axis = axis_of(int(node.attributes.get("axis", 0)), len(data))
    if (*data[:axis], *data[axis + 1 :]) != (*chosen[:axis], *chosen[axis + 1 :]):
        raise Unsupported("indices for a part of the other dimensions")
    before, behind = math.prod(data[:axis]), math.prod(data[axis + 1 :])
    return axis, _Axis(before, data[axis], chosen[axis], behind)


@converts("GatherElements")
def gather_elements(to: Lowering, node: Node) -> None:
    """Along a single line a Gather; constant indices that go up or down by one along the last dimension are
    rows of another length; those that depend on the distance of row and column alone (as relative positions
    do) are that behind a product, which has the element of each distance; else a comparison with all places.
    An infinity or a NaN reaches a product's whole row."""
    axis, along = _axis(to, node)
    indices = to.constant(node.inputs[1])
    shape = to.shape(node.outputs[0])
    do = Steps(to, node)
    if along.outer == along.inner == 1:
        line = do.shaped(to.tensor(node.inputs[0]), (along.places,))
        list_ = _listed(to, node, indices)
        made = to.between("TPU_GATHER", node, [line, list_], {"axis": 0, "scalar": 0})
        to.simple("TPU_RESHAPE", node, [made], shape_param(shape))
        return
    if indices is not None and axis == len(shape) - 1:
        found = _skewed(indices, along.places)
        if found is not None:
            _slide(to, node, found, to.tensor(node.inputs[0]), along.places)
            return
    to.need_float(node.inputs[0])
    apart = None if indices is None or axis != len(shape) - 1 else _by_distance(indices, along.places)
    if apart is not None:
        of_each, found = apart
        ones = np.zeros((along.places, len(of_each)), np.float32)
        ones[of_each, range(len(of_each))] = 1
        sides = [to.tensor(node.inputs[0]), do.numbers(ones, ones.shape, "distances")]
        _slide(to, node, found, to.between("TPU_MATMUL", node, sides, _PRODUCT), len(of_each))
        return
    here = _places(to, node, indices, along)
    data = do.shaped(to.tensor(node.inputs[0]), along.lines)
    zero = do.numbers([0.0], (1,), "zero")
    chosen = do.reduced("Sum", to.between("TPU_WHERE", node, [here, data, zero], _NO_PARAM), [2], keep=0)
    if indices is None:  # where it is out of range nothing is chosen, and the result is NaN
        inside = do.reduced("Max", here, [2], keep=0)
        outside = do.numbers([np.nan], (1,), "outside")
        chosen = to.between("TPU_WHERE", node, [inside, chosen, outside], _NO_PARAM)
    to.simple("TPU_RESHAPE", node, [chosen], shape_param(shape))


def _listed(to: Lowering, node: Node, indices: Array | None) -> str:
    """The indices as one list, a tensor of the graph."""
    if indices is None:
        count = math.prod(to.shape(node.inputs[1]))
        return Steps(to, node).shaped(to.tensor(node.inputs[1]), (count,))
    return to.add_const(indices.reshape(-1).astype(np.int64), f"{node.inputs[1]}:indices")


def _places(to: Lowering, node: Node, indices: Array | None, along: _Axis) -> str:
    """1 where an index names a place, [outer, count, places, inner]; negative ones count from the end. Raises
    Unsupported for too many pairs."""
    if along.pairs > _PAIRS:
        raise Unsupported(f"{along.pairs} pairs of an index and a place; at most {_PAIRS} are compared")
    do, shape = Steps(to, node), (along.outer, along.count, 1, along.inner)
    if indices is not None:
        whole = np.where(indices < 0, indices + along.places, indices)
        if not ((whole >= 0) & (whole < along.places)).all():
            raise Unsupported(f"an index out of range of {along.places} places")
        index = do.numbers(whole, shape, "indices")
    else:
        given = to.between("TPU_CAST", node, [to.tensor(node.inputs[1])], {"to": 0})
        index = do.shaped(_from_the_end(do, given, along.places), shape)
    every = do.numbers(range(along.places), (1, 1, along.places, 1), "places")
    return do.two("EQUAL", index, every)


def _from_the_end(do: Steps, index: str, places: int) -> str:
    """Indices, negative ones counted from the end."""
    below = do.two("LESS", index, do.numbers([0], (1,), "below"))
    return do.two("ADD", index, do.by("MUL", below, float(places)))


@dataclass(frozen=True)
class _Skewed:
    """Indices first + row * step + column, or - column: which element of each row a result takes."""

    first: int
    step: int
    falling: bool


def _skewed(indices: Array, places: int) -> _Skewed | None:
    """What constant indices [..., rows, columns] are, where they are that and alike for all before rows."""
    if indices.ndim < 2 or min(indices.shape) < 1:
        return None
    rows, columns = indices.shape[-2:]
    flat = indices.reshape(-1, rows, columns)
    one = np.where(flat[0] < 0, flat[0] + places, flat[0])
    if (flat != flat[0]).any() or columns < 2:
        return None
    slope, step = int(one[0, 1] - one[0, 0]), int(one[1, 0] - one[0, 0]) if rows > 1 else 0
    want = one[0, 0] + step * np.arange(rows)[:, None] + slope * np.arange(columns)
    if slope not in (1, -1) or (one != want).any() or places + step < columns:
        return None
    return _Skewed(int(one[0, 0]), step, slope < 0)


def _by_distance(indices: Array, places: int) -> tuple[Array, _Skewed] | None:
    """Constant indices [..., rows, columns], alike for all before rows, that depend on column - row alone, or
    on column + row: the place for each of these, from the least on, and how results are taken of them."""
    if indices.ndim < 2 or min(indices.shape[-2:]) < 2:
        return None
    rows, columns = indices.shape[-2:]
    flat = indices.reshape(-1, rows, columns)
    one = np.where(flat[0] < 0, flat[0] + places, flat[0])
    if (flat != flat[0]).any() or not ((one >= 0) & (one < places)).all():
        return None
    if (one[1:, 1:] == one[:-1, :-1]).all():
        return np.concatenate([one[:0:-1, 0], one[0]]), _Skewed(rows - 1, -1, False)
    if (one[1:, :-1] == one[:-1, 1:]).all():
        return np.concatenate([one[0], one[1:, -1]]), _Skewed(0, 1, False)
    return None


def _slide(to: Lowering, node: Node, found: _Skewed, tensor: str, places: int) -> None:
    """Rows of so many places, read as longer or shorter ones: all that is taken begins in one column then."""
    shape = to.shape(node.outputs[0])
    rows, columns, do = shape[-2], shape[-1], Steps(to, node)
    before = math.prod(shape[:-2])
    length, start = places + found.step, found.first - (columns - 1 if found.falling else 0)
    tensor = do.shaped(tensor, (before, rows * places))
    lacking = start + rows * length - rows * places
    if lacking > 0:
        ends = {"before": [0] * 8, "after": [0, lacking, *[0] * 6]}
        tensor = to.between("TPU_PAD", node, [tensor], {"mode": 0, **ends, "value": 0.0, "bits": 0})
    tensor = _cut(to, node, tensor, 1, start, start + rows * length)
    tensor = _cut(to, node, do.shaped(tensor, (before, rows, length)), 2, 0, columns)
    if found.falling:
        tensor = _cut(to, node, tensor, 2, -1, -columns - 1, -1)
    to.simple("TPU_RESHAPE", node, [tensor], shape_param(to.shape(node.outputs[0])))


def _cut(to: Lowering, node: Node, tensor: str, axis: int, start: int, end: int, step: int = 1) -> str:
    """From start up to before end of an axis."""
    param: dict[str, object] = {"count": 1, "axes": [axis, *[0] * 7], "steps": [step, *[1] * 7]}
    return to.between(
        "TPU_SLICE", node, [tensor], {**param, "starts": [start, *[0] * 7], "ends": [end, *[0] * 7]}
    )


@converts("ScatterElements", "Scatter")
def scatter_elements(to: Lowering, node: Node) -> None:
    """Each place takes the update whose index names it, or the sum of all; ONNX says nothing of two for one
    place where they are not added. Constant indices that are alike for all columns are a product."""
    to.need_float(node.inputs[0], node.inputs[2])
    reduction = node.attributes.get("reduction", "none")
    if reduction not in ("none", "add", b"none", b"add"):
        raise Unsupported(f"the reduction {reduction!r}")
    added = reduction in ("add", b"add")
    axis, along = _axis(to, node)
    indices, do = to.constant(node.inputs[1]), Steps(to, node)
    shape, data = to.shape(node.outputs[0]), to.tensor(node.inputs[0])
    flat = None if indices is None else indices.reshape(along.outer, along.count, along.inner)
    if flat is not None and along.outer == 1 and (flat == flat[..., :1]).all():
        matrix = np.zeros((along.places, along.count), np.float32)
        matrix[flat[0, :, 0], range(along.count)] = 1
        if not added and (matrix.sum(1) > 1).any():
            raise Unsupported("several updates for one element")
        updates = do.shaped(to.tensor(node.inputs[2]), (along.count, along.inner))
        sides = [do.numbers(matrix, matrix.shape, "places"), updates]
        found = do.shaped(to.between("TPU_MATMUL", node, sides, _PRODUCT), shape)
        hit = do.numbers(matrix.max(1), [n if i == axis else 1 for i, n in enumerate(shape)], "hit")
    else:
        here = _places(to, node, indices, along)
        updates = do.shaped(to.tensor(node.inputs[2]), (along.outer, along.count, 1, along.inner))
        zero = do.numbers([0.0], (1,), "zero")
        chosen = to.between("TPU_WHERE", node, [here, updates, zero], _NO_PARAM)
        found = do.shaped(do.reduced("Sum", chosen, [1], keep=0), shape)
        hit = do.shaped(do.reduced("Max", here, [1], keep=0), shape)
        if indices is None:  # where one is out of range nothing takes its update: the whole line is NaN
            inside = do.reduced("Min", do.reduced("Max", here, [2]), [1])
            ends = [do.numbers([value], (1,), what) for value, what in ((0, "inside"), (np.nan, "outside"))]
            blank = to.between("TPU_WHERE", node, [inside, *ends], _NO_PARAM)
            data, found = (
                do.shaped(do.two("ADD", do.shaped(one, along.lines), blank), shape) for one in (data, found)
            )
    if added:
        do.last("ADD", data, found)
    else:
        to.simple("TPU_WHERE", node, [hit, found, data], _NO_PARAM)


@converts("GatherND")
def gather_rows(to: Lowering, node: Node) -> None:
    """Rows at constant indices: a Gather of what is behind the dimensions that they name."""
    if node.attributes.get("batch_dims", 0):
        raise Unsupported("batch_dims")
    indices = to.known(node, 1)
    assert indices is not None
    shape = to.shape(node.inputs[0])
    rows = _rows(indices, shape)
    _few(rows)
    do, named = Steps(to, node), indices.shape[-1]
    table = do.shaped(to.tensor(node.inputs[0]), (math.prod(shape[:named]), *shape[named:]))
    chosen = to.add_const(rows, f"{node.inputs[1]}:rows")
    made = to.between("TPU_GATHER", node, [table, chosen], {"axis": 0, "scalar": 0})
    to.simple("TPU_RESHAPE", node, [made], shape_param(to.shape(node.outputs[0])))


@converts("ScatterND")
def scatter_rows(to: Lowering, node: Node) -> None:
    """Rows at constant indices in the place of others: a Gather out of both, or parts side by side."""
    if node.attributes.get("reduction", "none") not in ("none", b"none"):
        raise Unsupported(f"the reduction {node.attributes['reduction']!r}")
    indices = to.known(node, 1)
    assert indices is not None
    shape, named = to.shape(node.inputs[0]), indices.shape[-1]
    count, width = math.prod(shape[:named]), math.prod(shape[named:])
    rows, do = _rows(indices, shape), Steps(to, node)
    if (box := _box(rows, shape[:named])) is not None:
        _assign(to, node, box)
        return
    if len(np.unique(rows)) < len(rows):
        raise Unsupported("several updates for one element")
    source = np.arange(count)
    source[rows] = count + np.arange(len(rows))
    _few(source)
    tables = [do.shaped(to.tensor(name), (-1, width)) for name in (node.inputs[0], node.inputs[2])]
    both = to.between("TPU_CONCAT", node, tables, {"axis": 0})
    chosen = to.add_const(source, f"{node.inputs[1]}:rows")
    made = to.between("TPU_GATHER", node, [both, chosen], {"axis": 0, "scalar": 0})
    to.simple("TPU_RESHAPE", node, [made], shape_param(shape))


def _rows(indices: Array, shape: tuple[int, ...]) -> Array:
    """Which row each index names, of the dimensions that it has numbers for as one."""
    extents = shape[: indices.shape[-1]]
    flat = indices.reshape(-1, len(extents)).astype(np.int64)
    flat = np.where(flat < 0, flat + np.array(extents), flat)
    rows: Array = np.ravel_multi_index(tuple(flat.T), extents)
    return rows


def _box(rows: Array, extents: tuple[int, ...]) -> list[range] | None:
    """The ranges whose products are these rows, one after the other; None for others."""
    if not len(rows):
        return None
    places = np.array(np.unravel_index(rows, extents))
    box = [range(int(first), int(last) + 1) for first, last in zip(places.min(1), places.max(1), strict=True)]
    if math.prod(map(len, box)) != len(rows):
        return None
    every = np.ravel_multi_index(np.ix_(*box), extents).reshape(-1)
    return box if np.array_equal(every, rows) else None


def _assign(to: Lowering, node: Node, box: list[range]) -> None:
    """What is assigned to a slice lies between what remains of each axis: no list of rows, however many."""
    shape, do = to.shape(node.inputs[0]), Steps(to, node)
    around, pieces = to.tensor(node.inputs[0]), []
    for axis, (kept, extent) in enumerate(zip(box, shape, strict=False)):
        ends = ((0, kept.start), (kept.stop, extent))
        pieces.append([_cut(to, node, around, axis, *end) if end[0] < end[1] else None for end in ends])
        if len(kept) < extent:
            around = _cut(to, node, around, axis, kept.start, kept.stop)
    made = do.shaped(to.tensor(node.inputs[2]), (*map(len, box), *shape[len(box) :]))
    for axis, (before, after) in reversed(list(enumerate(pieces))):
        parts = [one for one in (before, made, after) if one is not None]
        if len(parts) > 1:
            made = to.between("TPU_CONCAT", node, parts, {"axis": axis})
    to.simple("TPU_RESHAPE", node, [made], shape_param(shape))


def _few(rows: Array) -> None:
    """Raises Unsupported for more moves than pay: rows that lie one behind the other are one."""
    moves = 1 + int((np.diff(rows) != 1).sum())
    if moves > _ROWS:
        raise Unsupported(f"{moves} rows that do not lie one behind the other; at most {_ROWS} are moved")


@converts("OneHot")
def one_hot(to: Lowering, node: Node) -> None:
    """Indices compared with all classes; negative ones count from the end, others out of range are off."""
    shape, places = to.shape(node.outputs[0]), to.shape(node.inputs[0])
    to.need_float(node.inputs[2])
    axis = axis_of(int(node.attributes.get("axis", -1)), len(shape))
    depth, do = shape[axis], Steps(to, node)
    given = to.tensor(node.inputs[0])
    if not to.is_float(node.inputs[0]):
        given = to.between("TPU_CAST", node, [given], {"to": 0})
    index = do.shaped(given, (*places[:axis], 1, *places[axis:]))
    index = _from_the_end(do, index, depth)
    every = do.numbers(range(depth), [depth if i == axis else 1 for i in range(len(shape))], "classes")
    here = do.two("EQUAL", index, every)
    values = to.tensor(node.inputs[2])
    off, on = (_cut(to, node, values, 0, i, i + 1) for i in (0, 1))
    to.simple("TPU_WHERE", node, [here, on, off], _NO_PARAM)


@converts("Trilu")
def triangle(to: Lowering, node: Node) -> None:
    """What is above or below a diagonal is chosen, the rest 0; any type that the device holds."""
    given = to.known(node, 1)
    k, upper = 0 if given is None else int(given.reshape(-1)[0]), int(node.attributes.get("upper", 1))
    rows, columns = to.shape(node.inputs[0])[-2:]
    kept = np.tri(rows, columns, k - 1 if upper else k, dtype=np.float32)
    do = Steps(to, node)
    mask = do.numbers(1 - kept if upper else kept, (rows, columns), "kept")
    dtype = to.model.value(node.inputs[0]).dtype
    zero = to.add_const(np.zeros(1, dtype), f"{node.outputs[0]}:zero")
    to.simple("TPU_WHERE", node, [mask, to.tensor(node.inputs[0]), zero], _NO_PARAM)
