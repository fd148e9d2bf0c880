"""Rows of pictures whose channels come last: [N, H, W, C] as [N, H * W, C], where lanes hold more of them;
and more rows than local memory takes, [N, T, C], as several batches of them, [N * k, T / k, C].

In local memory the second dimension lies over the lanes, and it is few rows of a small picture. What is done
to each row alone (products with constant matrices, normalisation of rows, functions of one element between
them) does not look at the dimensions before the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from firmware_sim.chip import NPU_NUM
from firmware_sim.isa.layout import CHANNELS_MAX
from user_layers.onnx.attention import ATTENTION
from user_layers.onnx.channels import ONE_BY_ONE
from user_layers.onnx.columns import without_detours
from user_layers.onnx.fold import needed
from user_layers.onnx.model import ARITHMETIC, Array, Model, Node, Value
from user_layers.onnx.patterns.unit_rows import UNIT_ROWS
from user_layers.onnx.views import RESHAPES

NORMS = ("LayerNormalization", "RMSNormalization", UNIT_ROWS)
_MOST_ROWS = 512  # of a batch: few enough for several slices
_HALF = 0.5  # of the lanes that rows use, at least, for them to stay as attention has them
_MORE = 1.1  # times as many rows in the lanes as before make up for the views


def join_rows(model: Model) -> Model:
    """Products and normalisations of rows, and what is done to their results one by one, in three dimensions
    instead of four or more, with views around them."""
    constants: dict[str, Array] = dict(model.constants)
    values = dict(model.values)
    nodes: list[Node] = []
    joined: set[str] = set()
    viewed: set[str] = set()
    batch = batch_of(model)
    beside = _beside_attention(model, batch)

    def view(source: str, made: str, shape: tuple[int, ...], old: tuple[int, ...]) -> None:
        target = f"{made}:shape"
        together = [0, -1, *shape[2:]] if len(shape) == 3 else [0, *shape[1:]]
        constants[target] = np.array(together if shape[0] == old[0] else [-1, *shape[1:]], np.int64)
        nodes.append(Node("Reshape", "", "", (source, target), (made,)))

    for node in model.nodes:
        lead = beside.get(node.outputs[0]) if node.outputs else None
        sources = _sources(model, node, joined, batch) if lead is None else _beside(model, node, lead)
        if sources is None:
            nodes.append(node)
            continue
        (output,) = node.makes
        inputs = list(node.inputs)
        for source in sources:
            before = model.value(source).fixed or ()
            shape = _joined(before, batch) if lead is None else (*lead, before[-1])
            name = f"{source}:rows" if lead is None else f"{source}:batches"
            if name not in viewed:
                viewed.add(name)
                values[name] = Value(name, shape, np.dtype(np.float32))
                view(source, name, shape, before)
            inputs = [name if given == source else given for given in inputs]
        for i, given in enumerate(inputs):
            if given in constants and constants[given].ndim > 3:
                inputs[i] = f"{given}:row"
                constants[inputs[i]] = constants[given].reshape(-1)
        shape = model.value(output).fixed or ()
        made = _joined(shape, batch) if lead is None else (*lead, shape[-1])
        name = f"{output}:rows" if lead is None else f"{output}:batches"
        values[name] = Value(name, made, np.dtype(np.float32))
        attributes = {**node.attributes, **({"axis": -1} if node.op in NORMS else {})}
        nodes.append(replace(node, inputs=tuple(inputs), outputs=(name,), attributes=attributes, proto=None))
        view(name, output, shape, made)
        joined.add(output)
        viewed.add(name)
    if not joined:
        return model
    return needed(without_detours(replace(model, nodes=tuple(nodes), constants=constants, values=values)))


Lead = tuple[int, int]
"""Batches and rows of attention."""


def _beside_attention(model: Model, batch: int) -> dict[str, Lead]:
    """What is made row by row for attention of more batches than the model's, and of its results, a product
    on each side: with other batches than attention's it would not stay in local memory with it."""
    found: dict[str, Lead] = {}
    for node in model.nodes:
        if node.op != ATTENTION or not node.is_known:
            continue
        shape = model.value(node.outputs[0]).fixed or ()
        if len(shape) == 3 and shape[0] > batch and _use(shape[1]) > _HALF:
            for name in node.inputs:
                _spread(model, name, shape[:2], found, back=True)
            _spread(model, node.outputs[0], shape[:2], found, back=False)
    return found


def _spread(
    model: Model, name: str, lead: Lead, found: dict[str, Lead], *, back: bool, products: int = 1
) -> None:
    """Note the values of these rows that one is made of, or that are made of it, up to sums of two."""
    shape = model.value(name).fixed or ()
    if name in model.constants or tuple(n for n in shape[:-1] if n != 1) != lead:
        return
    found.setdefault(name, lead)
    maker = model.makers.get(name)
    nodes = ((maker,) if maker is not None else ()) if back else model.consumers.get(name, ())
    for node in nodes:
        left = products - (node.op == "MatMul")
        sources = [one for one in node.inputs if one not in model.constants]
        if left < 0 or not node.is_known or not node.makes:
            continue
        if node.op not in ("MatMul", *NORMS, *ONE_BY_ONE, *ARITHMETIC, *RESHAPES):
            continue
        if len(sources) == 1:
            _spread(model, (sources if back else node.outputs)[0], lead, found, back=back, products=left)
        elif not back:
            found.setdefault(node.outputs[0], lead)


def _beside(model: Model, node: Node, lead: Lead) -> tuple[str, ...] | None:
    """The values whose rows a node works on, where it is to have them as attention has; None where it has, or
    does something else."""
    made = model.value(node.outputs[0]).fixed or ()
    return None if made[:-1] == lead else sources_of(model, node)


def batch_of(model: Model) -> int:
    """Of the model's inputs; 0 where they have none in common."""
    extents = {(value.fixed or (0,))[0] for value in model.inputs if value.fixed != ()}
    return extents.pop() if len(extents) == 1 else 0


def _joined(shape: tuple[int, ...], batch: int) -> tuple[int, ...]:
    rows = math.prod(shape[1:-1])
    parts = parts_of(rows)
    if parts == 1 and batch and shape[0] > batch and shape[0] % batch == 0:
        # Windows, and the like: whole pictures have as many rows when a dynamic net gets fewer of them.
        each = shape[0] // batch * rows
        counts = [n for n in range(NPU_NUM // 2, _MOST_ROWS + 1) if each % n == 0]
        best = max(counts, key=lambda n: (_use(n), -n), default=rows)
        if _use(best) > _MORE * _use(rows):
            return batch * each // best, best, shape[-1]
    return shape[0] * parts, rows // parts, shape[-1]


def parts_of(rows: int) -> int:
    """How many batches so many rows are: one, but for more than local memory takes as channels, which become
    equal ones that fill the lanes; one, too, where they do not divide into such."""
    if rows <= CHANNELS_MAX:
        return 1
    each = [n for n in range(NPU_NUM, _MOST_ROWS + 1) if rows % n == 0]
    return rows // max(each, key=lambda n: (_use(n), n), default=rows)


def _sources(model: Model, node: Node, joined: set[str], batch: int) -> tuple[str, ...] | None:
    """The values whose rows a node works on, where it is to work on joined ones; None else."""
    shape = model.value(node.outputs[0]).fixed if node.outputs else None
    if shape is None or not _gains(shape, batch):
        return None
    sources = sources_of(model, node)
    if sources is not None and node.op not in ("MatMul", *NORMS) and joined.isdisjoint(sources):
        return None
    return sources


def sources_of(model: Model, node: Node, *, whole: bool = False) -> tuple[str, ...] | None:
    """The values on whose rows a node works one by one; None where it does something else. whole: a constant
    operand may also have a row for each."""
    if not node.is_known or len(node.makes) != 1 or node.captured:
        return None
    made = model.value(node.outputs[0])
    if made.fixed is None or made.dtype != np.float32:
        return None
    sources = tuple(dict.fromkeys(name for name in node.inputs if name and name not in model.constants))
    shapes = [model.value(name).fixed or () for name in sources]
    if not sources or any(shape[:-1] != made.fixed[:-1] for shape in shapes):
        return None
    if node.op == "MatMul":
        right = model.constants.get(node.inputs[1])
        fits = right is not None and right.ndim == 2 and all(n in model.constants for n in node.inputs[2:])
        return sources if fits and len(sources) == 1 else None
    if node.op in NORMS:
        axis = int(node.attributes.get("axis", -1))
        return sources if axis in (-1, len(made.fixed) - 1) and len(sources) == 1 else None
    if any(shape != made.fixed for shape in shapes):
        return None
    if node.op in ONE_BY_ONE:
        return sources
    if node.op in ARITHMETIC and len(node.inputs) == 2 and "axis" not in node.attributes:
        rows = all(
            is_row(array, made.fixed) or (whole and array.shape == made.fixed)
            for array in _constants(model, node)
        )
        return sources if rows else None
    return None


def _constants(model: Model, node: Node) -> Iterator[Array]:
    return (model.constants[name] for name in node.inputs if name in model.constants)


def is_row(array: Array, shape: tuple[int, ...]) -> bool:
    """Whether a constant is one number, or one for each column."""
    return array.size == 1 or (array.size == shape[-1] and array.shape[-1] == shape[-1])


def _gains(shape: tuple[int, ...], batch: int) -> bool:
    """Whether lanes hold more rows of joined dimensions."""
    if len(shape) < 3 or min(shape) < 1:
        return False
    rows = math.prod(shape[1:-1])
    if rows > CHANNELS_MAX or _joined(shape, batch)[0] != shape[0]:
        return _joined(shape, batch)[0] != shape[0]
    return len(shape) > 4 or (len(shape) == 4 and _use(rows) > _use(shape[1]))


def _use(channels: int) -> float:
    return channels / (-(-channels // NPU_NUM) * NPU_NUM)
