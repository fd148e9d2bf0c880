"""Products whose columns are used in parts (gates, keys and values): one product for each part.

A part of the columns of a matrix lies elsewhere than it is needed, so it goes through DDR; a product with
these columns of the constant alone leaves it where the next layer wants it, and reads its other operand once
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from user_layers.onnx.model import Array, Model, Node
from user_layers.onnx.views import cut_of

_MOVES = 2  # a part that is cut out is read and written


def split_products(model: Model) -> Model:
    """Put products for parts of columns in the place of one by a constant whose result is only read in parts,
    where that moves less."""
    constants = dict(model.constants)
    instead: dict[str, list[Node]] = {}  # by the first outputs of nodes that go
    for node in model.nodes:
        parts = _parts(model, node)
        if parts is None:
            continue
        instead.update((reader.outputs[0], []) for reader in model.consumers[node.outputs[0]])
        instead[node.outputs[0]] = [
            _with_part(node, *part, i, constants) for i, part in enumerate(parts) if part[2]
        ]
    return model.with_instead(instead, constants, model.values)


def _parts(model: Model, node: Node) -> list[tuple[str, int, int]] | None:
    """The parts in which a product's result is read: under which name, from which column on, how many."""
    if node.op != "MatMul" or not node.is_known or not node.outputs:
        return None
    name, rest = node.outputs[0], [model.constants.get(given) for given in node.inputs[1:]]
    shape, given = (model.value(one).fixed for one in (name, node.inputs[0]))
    readers = model.consumers.get(name, ())
    if name in model.results or not readers or shape is None or given is None or len(shape) < 2:
        return None
    if rest[0] is None or rest[0].ndim != 2 or any(one is None or one.ndim > 2 for one in rest):
        return None
    found: list[tuple[str, int, int]] = []
    for reader in readers:
        plain = reader.is_plain and reader.inputs[0] == name
        if reader.op not in ("Split", "Slice") or not plain:
            return None
        for made in reader.makes:
            after = model.value(made).fixed
            cut = cut_of(model, reader, made, shape, after) if after is not None else None
            if cut is None or cut[0] != len(shape) - 1:
                return None
            found.append((made, *cut[1:]))
    counts = [count for _, _, count in found]
    if any(count % 2 for count in counts) and shape[-1] % 2 == 0:  # rows of odd length are slower
        return None
    return found if pays(counts, given[-1]) else None


def pays(counts: Sequence[int], inner: int) -> bool:
    """Whether a product for each part, of so many columns, moves less; inner: elements of a row that each
    reads again."""
    return (len(counts) - 1) * inner < _MOVES * sum(counts)


def _with_part(
    node: Node, name: str, first: int, count: int, index: int, constants: dict[str, Array]
) -> Node:
    """The product for one part."""
    inputs = [node.inputs[0]]
    for k, constant in enumerate(node.inputs[1:]):
        own = f"{node.outputs[0]}:part{index}:{k}"
        constants[own] = np.ascontiguousarray(constants[constant][..., first : first + count])
        inputs.append(own)
    title = f"{node.name}:{index}" if node.name and index else node.name
    return replace(node, name=title, inputs=tuple(inputs), outputs=(name,), proto=None)
