"""What is known when compiling: constants are computed now, on onnxruntime; what nothing needs goes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from firmware_sim.errors import CompileError, ModelError
from user_layers.onnx.apart import run_model
from user_layers.onnx.load import infer_values
from user_layers.onnx.model import CUSTOM_DOMAIN, STANDARD, Array, Model, Node, Value, shown
from user_layers.onnx.proto import element_type, part_proto, serialized, with_oldest_opset
from user_layers.onnx.types import held_as
from user_layers.runtime.onnx_limits import FOLD_S

_RANDOM = frozenset(
    {
        "RandomNormal",
        "RandomUniform",
        "RandomNormalLike",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
    }
)
_NOTHING = ("Identity", "Dropout", "Cast")  # which may do nothing
_LARGEST = 1 << 28  # bytes that one folded node may make
# Of inferring the whole model for what its stretches do not tell: sequences, values without types.
_ROUNDS = 8


def fold_constants(model: Model) -> Model:
    """The model without nodes that compute constants, what does nothing (Identity, Dropout, Cast to the same
    type, slices of the whole), and what no output needs. Values without elements are constants too.

    Where that makes shapes known that were not, it goes on with these: the walk infers each stretch of the
    model once, when something behind it reads a shape of it, so that a chain of any length takes as long as
    it has nodes. Errors: MissingError without onnxruntime. A node that onnxruntime cannot compute stays.
    """
    for _ in range(_ROUNDS):
        folded = needed(_Walk(model).folded())
        if not any(folded.value(name).fixed is None for node in folded.nodes for name in node.makes):
            return folded
        inferred = infer_values(folded)
        if inferred.values == folded.values:
            return folded
        model = inferred
    return folded


class _Walk:
    """Once over the nodes in their order. What a node reads is known by then as far as it ever will be."""

    def __init__(self, model: Model) -> None:
        self._constants = dict(model.constants)
        self._constants.update(
            (v.name, empty) for v in model.values.values() if (empty := _empty(v)) is not None
        )
        # The dictionary is shared: what the walk finds is in the model at once.
        self._model = replace(model, constants=self._constants)
        self._same: dict[str, str] = {}  # output of a node that does nothing -> its input
        self._kept: list[Node] = []
        self._inferred = 0  # of the nodes kept, those whose shapes have been inferred

    def folded(self) -> Model:
        """The model with what is constant computed; its values may know more shapes than before."""
        model, constants = self._model, self._constants
        named = model.results | {name for node in model.nodes for name in node.captured}
        for node in model.nodes:
            node = replace(node, inputs=tuple(self._same.get(name, name) for name in node.inputs))
            node = _always(self._model, _cast_like(self._model, node))
            if _overwrites(self._model, node):
                said = f"{node.outputs[0]}:shape"
                constants[said] = np.array(self._model.value(node.inputs[0]).fixed, np.int64)
                node = replace(node, op="Reshape", inputs=(node.inputs[2], said), attributes={}, proto=None)
            if all(name in constants for name in node.makes):
                continue
            if node.mapped:
                self._kept.append(node)
            elif node.outputs[0] not in named and _does_nothing(self._model, node, model):
                self._same[node.outputs[0]] = node.inputs[0]
            elif node.op in ("Shape", "Size") and (known := self._shape_of(node)) is not None:
                constants[node.outputs[0]] = known
            elif _foldable(self._model, node, constants):
                try:
                    constants.update(run_node(self._model, node))
                except ModelError:
                    self._kept.append(node)  # it may have a layer, or be refused by name later
            else:
                self._kept.append(node)
        inputs = tuple(v for v in model.inputs if v.name not in constants)
        kept = (node for node in self._kept if not all(name in constants for name in node.makes))
        return replace(self._model, inputs=inputs, nodes=tuple(kept))

    def _shape_of(self, node: Node) -> Array | None:
        """What a Shape or Size gives, where the shape is known or can be inferred by now."""
        name = node.inputs[0]
        if self._model.value(name).fixed is None and self._inferred < len(self._kept):
            stretch = self._kept[self._inferred :]
            self._inferred = len(self._kept)
            self._model = infer_values(self._model, stretch)
            made = (self._model.value(made) for node in stretch for made in node.makes)
            self._constants.update((v.name, empty) for v in made if (empty := _empty(v)) is not None)
        shape = self._model.value(name).fixed
        if shape is None:
            return None
        if node.op == "Size":
            return np.array(math.prod(shape), np.int64)
        start, end = node.attributes.get("start", 0), node.attributes.get("end")
        return np.array(shape[start:end], np.int64)


def needed(model: Model) -> Model:
    """Without the nodes that no output depends on."""
    wanted = set(model.results)
    nodes = []
    for node in reversed(model.nodes):
        if wanted.intersection(node.makes):
            nodes.append(node)
            wanted.update(node.reads)
    return replace(model, nodes=tuple(nodes[::-1]))


def _empty(value: Value) -> Array | None:
    """The only value that a tensor without elements can have. ModelError for extents beyond all memory."""
    shape = value.fixed
    if shape is None or value.dtype is None or 0 not in shape:
        return None
    try:
        return np.zeros(shape, value.dtype)
    except ValueError as error:
        raise ModelError(f"{shown(value.name)} cannot have the shape {list(shape)}: {error}") from None


def _does_nothing(known: Model, node: Node, model: Model) -> bool:
    """Identity of a tensor, Cast to the type that it has, and Dropout whose mask nobody reads and that is not
    for training; slices, pads, expansions and reshapes that change nothing; a Clip at the ends of the one
    before.
    known: the values as they are known now; model: who reads them."""
    if node.op in ("Slice", "Pad", "Expand", "Reshape"):
        return node.domain in STANDARD and _is_whole(known, node)
    if node.is_a("Clip"):
        return _is_clipped(model.makers.get(node.inputs[0]), node, known.constants)
    if node.op not in _NOTHING or known.value(node.inputs[0]).kind != "tensor":
        return False
    if node.op == "Cast":
        before, after = (known.value(name).dtype for name in (node.inputs[0], node.outputs[0]))
        return before is not None and before == after
    if any(name in model.results or name in model.consumers for name in node.outputs[1:]):
        return False
    training = node.inputs[2] if len(node.inputs) > 2 else ""
    if not training:
        return True
    return training in known.constants and not bool(known.constants[training])


def _is_clipped(before: Node | None, node: Node, constants: Mapping[str, Array]) -> bool:
    """Whether a Clip has the constant ends of the one before it."""
    if before is None or not before.is_a("Clip") or len(before.inputs) != 3 or len(node.inputs) != 3:
        return False
    pairs = list(zip(node.inputs[1:], before.inputs[1:], strict=True))
    ends = [(constants.get(mine), constants.get(theirs)) for mine, theirs in pairs]
    return all(a is not None and b is not None and np.array_equal(a, b) for a, b in ends)


_CHANNELS = 1  # the dimension that weights say


def _says_the_same(target: Array | None, shape: Sequence[int]) -> bool:
    """Whether a constant shape gives back a tensor's own also where other extents come: all that it says are
    there, or nothing but channels is said."""
    if target is None:
        return False
    said = {i for i, extent in enumerate(target.reshape(-1)) if extent > 0}
    return len(said) == len(shape) or said <= {_CHANNELS}


def _is_whole(known: Model, node: Node) -> bool:
    """Whether a slice takes all of its input, pads have no width, an expansion makes what is there, a reshape
    does so for whatever comes."""
    before, after = known.value(node.inputs[0]).fixed, known.value(node.outputs[0]).fixed
    if before is None or before != after:
        return False
    if node.op == "Expand":
        return True
    if node.op == "Reshape":
        return _says_the_same(known.constants.get(node.inputs[1]), before)
    if node.op == "Pad":
        pads = node.attributes.get("pads")
        if pads is None and len(node.inputs) > 1:
            pads = known.constants.get(node.inputs[1])
        return pads is not None and not np.any(pads)
    if len(node.inputs) < 5 or not node.inputs[4]:
        return True
    steps = known.constants.get(node.inputs[4])
    return steps is not None and bool(np.all(steps > 0))


def _always(model: Model, node: Node) -> Node:
    """A choice that is known, and the same for all elements, as the Identity that it is."""
    chosen = model.constants.get(node.inputs[0]) if node.is_a("Where") else None
    if chosen is None or chosen.size == 0 or chosen.min() != chosen.max():
        return node
    kept = node.inputs[1 if chosen.reshape(-1)[0] else 2]
    if kept in model.constants or model.value(kept).fixed is None:
        return node
    if model.value(kept).fixed != model.value(node.outputs[0]).fixed:  # it is also repeated
        return node
    return replace(node, op="Identity", inputs=(kept,), proto=None)


def _overwrites(model: Model, node: Node) -> bool:
    """Whether a ScatterND's updates are all of its result, in its order: nothing of its input is left."""
    if not node.is_a("ScatterND") or node.attributes.get("reduction", "none") not in ("none", b"none"):
        return False
    indices, shape = model.constants.get(node.inputs[1]), model.value(node.inputs[0]).fixed
    if indices is None or shape is None or not indices.size:
        return False
    extents = shape[: indices.shape[-1]]
    places = indices.reshape(-1, len(extents))
    if len(places) != math.prod(extents):
        return False
    every = np.indices(extents).reshape(len(extents), -1).T
    return np.array_equal(np.where(places < 0, places + np.array(extents), places), every)


def _cast_like(model: Model, node: Node) -> Node:
    """CastLike as the Cast that it is: only the type of its second input matters. Not to float16, for which
    there is no layer inside a net."""
    if node.op != "CastLike" or node.domain not in STANDARD:
        return node
    dtype = model.value(node.inputs[1]).dtype
    if dtype is None or held_as(dtype) is None or dtype == np.float16:
        return node
    attributes = {**node.attributes, "to": element_type(dtype)}
    return replace(node, op="Cast", inputs=node.inputs[:1], attributes=attributes, proto=None)


def _foldable(model: Model, node: Node, constants: Mapping[str, Array]) -> bool:
    if node.domain == CUSTOM_DOMAIN or is_random(node):
        return False
    if any(name not in constants for name in node.reads):
        return False
    if any(model.value(name).kind != "tensor" for name in node.makes):
        return False
    sizes = [model.value(name).fixed for name in node.makes]
    return all(shape is None or 8 * int(np.prod(shape, dtype=np.int64)) <= _LARGEST for shape in sizes)


def is_random(node: Node) -> bool:
    """Whether a node gives something else each time."""
    if node.op in _RANDOM:
        return True
    return node.proto is not None and _holds_random(node.proto)


def random_nodes(model: Model) -> list[Node]:
    """The nodes that give something else each time: those that draw, and a Dropout for training."""

    return [node for node in model.nodes if is_random(node) or (node.is_a("Dropout") and drops(model, node))]


def drops(model: Model, node: Node) -> bool:
    """Whether a Dropout leaves numbers out: one for training, with a ratio that is not 0."""
    ratio, training = (model.constants.get(name) for name in (*node.inputs[1:3], "", "")[:2])
    return training is not None and bool(training.any()) and (ratio is None or bool(ratio.any()))


def _holds_random(proto: Any) -> bool:
    from user_layers.onnx.proto import subgraphs

    return any(
        inner.op_type in _RANDOM or _holds_random(inner) for graph in subgraphs(proto) for inner in graph.node
    )


def run_node(model: Model, node: Node) -> dict[str, Array]:
    """The outputs of a node that reads only constants of the model, by onnxruntime.

    Errors: ModelError naming the node, CompileError when that crashes onnxruntime; MissingError.
    """
    proto = part_proto(model, [node], [], node.makes)
    found, refused = None, ""
    for candidate in (proto, with_oldest_opset(proto)):
        try:
            found = run_model(serialized(candidate, node.title), {}, FOLD_S, _LARGEST, plain=True)
            break
        except ModelError as error:
            refused = refused or error.message
        except CompileError as error:
            raise CompileError(f"{node.title}: {error.message}", hint=error.hint) from None
    if found is None:
        raise ModelError(f"{node.title} cannot be computed: {refused}")
    if any(not isinstance(array, np.ndarray) for array in found):
        raise ModelError(f"{node.title} cannot be computed: it makes something else than tensors")
    return dict(zip(node.makes, found, strict=True))
