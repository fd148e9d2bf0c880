"""Another batch than the file's, where reshapes hold the file's own as a number.

Exporters write `[1, 512]` behind a pool or before a Gemm, where `[0, 512]` is meant: as many rows as before.
For another batch such a model contradicts itself. It is read so only then: where it contradicts itself as it
is written, and does not with the first number of such reshapes read as "as many as before".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firmware_sim.errors import TpulayerError
from user_layers.onnx.fitting import check_shapes
from user_layers.onnx.fold import fold_constants
from user_layers.onnx.load import infer_values
from user_layers.onnx.model import Array, Model, Node, shown

_NAMES = 3  # reshapes that the line names


@dataclass(frozen=True)
class Batch:
    """The first extent of inputs: the file's, and the one that is given."""

    written: int
    given: int


def other_batch(proto: Any, shapes: Mapping[str, Sequence[int]]) -> Batch | None:
    """What the given shapes make of the first extent that the file (an onnx.ModelProto) fixes: None where
    that stays, or becomes different numbers for different inputs."""
    found = set()
    for value in proto.graph.input:
        dims, given = value.type.tensor_type.shape.dim, shapes.get(value.name)
        if dims and given and dims[0].HasField("dim_value") and dims[0].dim_value != given[0]:
            found.add(Batch(int(dims[0].dim_value), int(given[0])))
    return found.pop() if len(found) == 1 else None


def with_batch(model: Model, batch: Batch) -> Model:
    """The model as it is, or with the reshapes that take the file's batch taking the given one, and a note
    about that. A model that fits neither way stays, and is refused later by what it contradicts."""
    as_written = fold_constants(model)
    if _fits(as_written):
        return model
    known = as_written.constants
    left_out: set[str] = set()
    while True:
        candidates = _candidates(model, known, batch, left_out)
        if not candidates:
            return model
        changed = _rewritten(model, known, candidates)
        folded = fold_constants(changed)
        firsts = {name: _first(folded, node) for name, node in candidates.items()}
        # As many as before is what is written where that is the file's batch, and what is meant where it is
        # the given one. Elsewhere nothing says that the number is a batch.
        others = {name for name, first in firsts.items() if first not in (batch.written, batch.given)}
        if not others:
            break
        left_out |= others
    meant = [node for name, node in candidates.items() if firsts[name] == batch.given]
    if not meant or not _fits(folded):
        return model
    return replace(changed, notes=(*model.notes, _line(meant, batch)))


def _fits(folded: Model) -> bool:
    try:
        check_shapes(folded)
    except TpulayerError:
        return False
    return True


def _candidates(
    model: Model, known: Mapping[str, Array], batch: Batch, left_out: Collection[str]
) -> dict[str, Node]:
    """Reshapes by their outputs whose constant targets begin with the file's batch. known: all constants."""
    found = {}
    for node in model.nodes:
        if not node.is_a("Reshape") or len(node.inputs) != 2 or node.attributes.get("allowzero", 0):
            continue
        target = known.get(node.inputs[1])
        if target is None or target.ndim != 1 or not target.size or node.outputs[0] in left_out:
            continue
        if target[0] == batch.written:
            found[node.outputs[0]] = node
    return found


def _first(model: Model, node: Node) -> int | None:
    """The first extent of what a node of the model before folding reads; folding takes away one that changes
    nothing."""
    kept = model.makers.get(node.outputs[0], node)
    shape = model.value(kept.inputs[0]).fixed
    return shape[0] if shape else None


def _rewritten(model: Model, known: Mapping[str, Array], nodes: Mapping[str, Node]) -> Model:
    """The model with targets of reshapes that keep the first extent; shapes behind are inferred again."""
    constants: dict[str, Array] = dict(model.constants)
    made: list[Node] = []
    behind: set[str] = set()
    for node in model.nodes:
        if node.outputs and node.outputs[0] in nodes:
            name = f"{node.outputs[0]}:batch"
            constants[name] = np.concatenate([[0], known[node.inputs[1]][1:]]).astype(np.int64)
            node = replace(node, inputs=(node.inputs[0], name))
            behind.update(node.makes)
        elif not behind.isdisjoint(node.reads):
            behind.update(node.makes)
        made.append(node)
    values = {
        name: replace(value, shape=None) if name in behind else value for name, value in model.values.items()
    }
    outputs = tuple(values.get(value.name, value) for value in model.outputs)
    changed = replace(model, nodes=tuple(made), constants=constants, values=values, outputs=outputs)
    return infer_values(changed)


def _line(nodes: Sequence[Node], batch: Batch) -> str:
    first = ", ".join(shown(node.name or node.outputs[0]) for node in nodes[:_NAMES])
    more = f" and {len(nodes) - _NAMES} more" if len(nodes) > _NAMES else ""
    return (
        f"the {batch.written} that begins the target of Reshape {first}{more} is taken for the batch, "
        f"{batch.given} here: as it is written, the model would contradict the shapes given"
    )
