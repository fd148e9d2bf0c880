"""Attention written out: softmax(scale * q k' + mask) v of each head becomes one node.

The heads of q, k and v are views of what the products before them make, mostly channels of one tensor; so the
transposes and cuts between are gone, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from firmware_sim.chip import ALIGN_BYTES, LOCAL_BYTES, NPU_NUM
from user_layers.onnx.cuts_first import rows_of_product
from user_layers.onnx.heads import Heads, batch_and_heads, heads_of, shared_heads
from user_layers.onnx.masks import Masks
from user_layers.onnx.model import DOMAIN, Array, Model, Node, Value
from user_layers.onnx.patterns.or_zero import OR_ZERO
from user_layers.onnx.views import RESHAPES, View, factor_of, last_two_swapped, views_of

ATTENTION = "HeadAttention"  # an operation of this compiler alone; ONNX's Attention is another
_LINE = ALIGN_BYTES // 4  # fp32 of a line
_HEADS_SCALED, _HEADS_MIXED = 64, 8  # as many as TPU_ATTENTION has room for
_LEFT_OUT = -1e30  # what a mask puts in the place of scores is at most this


@dataclass
class _Found:
    """The operands of the product that makes scores, what that is multiplied by, and the value that is added
    to it. gone: outputs of nodes that nothing else reads, the product's last; scales: factors of the heads;
    mixed: what each head's scores are of all heads' ones; or_zero: rows without a score are 0; before: nodes
    that make the mask."""

    query: str
    key: str
    factor: float = 1.0
    mask: str | None = None
    gone: list[str] = field(default_factory=list)
    scales: tuple[float, ...] = ()
    mixed: Array | None = None
    or_zero: bool = False
    before: list[Node] = field(default_factory=list)


def fuse_attention(model: Model) -> Model:
    """Put a node in the place of each attention whose shapes are known, of float32 values of the same batches
    and heads."""
    return _Fusion(model).fused()


@dataclass(frozen=True)
class _End:
    """The value that a layer makes. packed: a token's heads lie together in it; tokens_first: tokens come
    before batches, which the layer's result does not have."""

    name: str
    tokens_first: bool = False
    packed: bool = True


@dataclass(frozen=True)
class _Mixed:
    """Heads that are sums of all heads of a value. factors: [heads made, heads]; added: to each head made."""

    source: str
    factors: Array
    added: Array
    gone: list[str]


class _Fusion:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.constants: dict[str, Array] = dict(model.constants)
        self.values = dict(model.values)
        self.instead: dict[str, list[Node]] = {}  # by the output of the node in whose place they stand
        self.gone: set[str] = set()

    def fused(self) -> Model:
        for node in self.model.nodes:
            self._try(node)
        if not self.instead:
            return self.model
        model = self.model.with_instead(self.instead, self.constants, self.values)
        nodes = list(model.nodes)
        while True:  # what lay between goes where nothing reads it any more, from the last node to the first
            read = {name for node in nodes for name in node.reads} | self.model.results
            kept = [n for n in nodes if self.gone.isdisjoint(n.outputs) or not read.isdisjoint(n.makes)]
            if len(kept) == len(nodes):
                break
            nodes = kept
        return replace(model, nodes=tuple(nodes))

    def _alone(self, name: str, *ops: str) -> Node | None:
        """The node of one of these operations that makes a value for one reader only."""
        node = self.model.makers.get(name)
        if node is None or not node.is_a(*ops):
            return None
        return node if self.model.only_reader(name) is not None else None

    def _try(self, node: Node) -> None:
        if not node.is_a("MatMul"):
            return
        mixed = self._mixed(node.inputs[0])
        seen = self._matrices(mixed.source if mixed is not None else node.inputs[0])
        safe = self._or_zero(seen)
        softmax = self._alone(seen, "Softmax") if safe is None else self.model.makers[safe[0]]
        shape = self.model.value(node.outputs[0]).fixed
        if softmax is None or shape is None or len(shape) < 2:
            return
        axis = int(softmax.attributes.get("axis", -1 if self.model.opset >= 13 else 1))
        if axis not in (-1, len(self.model.value(seen).fixed or ()) - 1):
            return
        found = self._scores(softmax.inputs[0])
        if found is None or (mixed is not None and found.mask is not None):
            return
        heads = batch_and_heads(shape)[1]
        if mixed is not None or found.mixed is not None:
            if found.mask is not None or heads > _HEADS_MIXED or safe is not None:
                return
            found.gone[:0] = mixed.gone if mixed is not None else []
        found.gone[:0] = [node.inputs[0], seen, *(safe or ())]
        found.or_zero = safe is not None and self._may_mask_rows(found.mask)
        self._replace(node, found, shape, _mixes(heads, found.mixed, mixed))

    def _or_zero(self, name: str) -> tuple[str, str] | None:
        """The softmax whose rows without a score (it is NaN there) are 0, and the test for them."""
        chosen = self._alone(name, "Where")
        zero = self.model.constants.get(chosen.inputs[1]) if chosen is not None else None
        if chosen is None or zero is None or zero.size != 1 or zero.reshape(-1)[0] != 0:
            return None
        test, softmax = self._alone(chosen.inputs[0], "IsNaN"), self.model.makers.get(chosen.inputs[2])
        if (
            test is None
            or softmax is None
            or not softmax.is_a("Softmax")
            or test.inputs[0] != chosen.inputs[2]
        ):
            return None
        readers = self.model.consumers[chosen.inputs[2]]
        if len(readers) != 2 or chosen.inputs[2] in self.model.results:
            return None
        return chosen.inputs[2], test.outputs[0]

    def _may_mask_rows(self, mask: str | None) -> bool:
        """Whether a mask may leave a row without a score. Those that are computed may."""
        if mask is None:
            return False
        numbers = self.constants.get(mask)
        return numbers is None or bool(np.isneginf(numbers).all(-1).any())

    def _matrices(self, name: str) -> str:
        """The same matrices before their batches and heads became one dimension, or two."""
        node = self._alone(name, "Reshape")
        before = self.model.value(node.inputs[0]).fixed if node is not None else None
        shape = self.model.value(name).fixed
        if node is None or before is None or shape is None or before[-2:] != shape[-2:]:
            return name
        return node.inputs[0]

    def _scores(self, name: str) -> _Found | None:
        """What makes the scores of a value: a product, a number that it is multiplied by, what is added."""
        gone: list[str] = []
        factor, masks = 1.0, Masks(name, self.values, self.constants)
        scales: tuple[float, ...] = ()
        mixed: Array | None = None
        while True:
            gone.append(name)
            found = self._mixed(name) if mixed is None and not scales and factor == 1 else None
            if found is not None:
                gone += found.gone
                # A number that is added to all scores of a row goes: weights are as they were.
                mixed, name = found.factors, found.source
                continue
            node = self._alone(name, "Add", "Mul", "Div", "Where", "Reshape", "MatMul")
            shape = self.model.value(name).fixed
            late = factor != 1 or bool(scales)  # what is added would be multiplied, too
            if node is None or shape is None or (late and node.op in ("Add", "Where")):
                return None
            if node.op == "MatMul":
                added = masks.name(name)
                query, key = node.inputs
                return _Found(query, key, factor, added, gone, scales, mixed, before=masks.nodes)
            if node.op in ("Mul", "Div"):
                of_heads = self._scales(node, shape)
                if of_heads is not None and not scales:
                    name, scales = of_heads
                    continue
                times = factor_of(self.model, node)
                if times is None:
                    return None
                name = times[0]
                factor *= times[1]
                continue
            if node.op == "Reshape":
                if not masks.reshape(shape, self.model.value(node.inputs[0]).fixed):
                    return None
                name = node.inputs[0]
                continue
            mask, name = self._added(node) if node.op == "Add" else self._left_out(node)
            if mask is None or not masks.add(mask, node.op == "Where"):
                return None

    def _scales(self, node: Node, shape: tuple[int, ...]) -> tuple[str, tuple[float, ...]] | None:
        """What a product with one constant number per head has as its other operand, and the numbers."""
        if node.op != "Mul" or len(shape) < 3 or not 1 < shape[-3] <= _HEADS_SCALED:
            return None
        for source, name in (node.inputs, node.inputs[::-1]):
            numbers = self.model.constants.get(name)
            if numbers is None or self.model.value(source).fixed != shape or numbers.ndim < 3:
                continue
            if numbers.size == numbers.shape[-3] == shape[-3] and np.isfinite(numbers).all():
                return source, tuple(float(number) for number in numbers.reshape(-1))
        return None

    def _mixed(self, name: str) -> _Mixed | None:
        """A value [N, heads, ...] whose heads are sums of all heads of another one, by constants: heads are
        brought to the end for a product."""
        back = self._alone(name, "Transpose")
        summed = self._alone(back.inputs[0], "Add", "MatMul") if back is not None else None
        gone, added = [], None
        if back is not None and summed is not None and summed.op == "Add":
            gone.append(summed.outputs[0])
            for source, constant in (summed.inputs, summed.inputs[::-1]):
                if constant in self.model.constants:
                    added, summed = self.model.constants[constant], self._alone(source, "MatMul")
                    break
        first = self._alone(summed.inputs[0], "Transpose") if summed is not None else None
        if back is None or summed is None or first is None or summed.op != "MatMul":
            return None
        factors = self.model.constants.get(summed.inputs[1])
        shape = self.model.value(name).fixed
        if factors is None or shape is None or len(shape) != 4 or factors.shape != (shape[1],) * 2:
            return None
        perms = [[int(i) for i in node.attributes.get("perm", ())] for node in (first, back)]
        if perms != [[0, 2, 3, 1], [0, 3, 1, 2]] or self.model.value(first.inputs[0]).fixed != shape:
            return None
        if added is not None and added.shape != (shape[1],):
            return None
        gone = [name, *gone, summed.outputs[0], first.outputs[0]]
        return _Mixed(first.inputs[0], factors.T, np.zeros(shape[1]) if added is None else added, gone)

    def _added(self, node: Node) -> tuple[str | Array | None, str]:
        """The mask and the scores of a sum."""
        for scores, mask in (node.inputs, node.inputs[::-1]):
            if not self._is_float(mask) or self.model.value(mask).fixed is None:
                continue
            if self._are_scores(scores):
                constant = self.model.constants.get(mask)
                return mask if constant is None else constant, scores
        return None, ""

    def _are_scores(self, name: str) -> bool:
        """Whether a value is a product of matrices, perhaps times numbers, or something is added to that."""
        while True:
            node = self._alone(name, "Add", "Where", "Mul", "Div", "Reshape", "MatMul")
            if node is None or node.op in ("Add", "Where", "MatMul"):
                return node is not None
            name = next((other for other in node.inputs if other not in self.model.constants), "")

    def _left_out(self, node: Node) -> tuple[Array | None, str]:
        """The same of a choice, by a constant, between scores and a number so small that its power is 0."""
        chosen = self.model.constants.get(node.inputs[0])
        left, right = node.inputs[1:]
        for kept, scores, other in ((True, left, right), (False, right, left)):
            number = self.model.constants.get(other)
            if chosen is None or number is None or number.size != 1 or not number.reshape(-1)[0] <= _LEFT_OUT:
                continue
            least = np.float32(number.reshape(-1)[0])
            return np.where(chosen.astype(bool) == kept, np.float32(0), least), scores
        return None, ""

    def _shape(self, name: str) -> tuple[int, ...] | None:
        """Of a value of the model under way; None where it is not known."""
        if name in self.constants:
            return self.constants[name].shape
        return self.values[name].fixed if name in self.values else None

    def _is_float(self, name: str) -> bool:
        return self.model.value(name).dtype == np.float32

    def _replace(
        self, node: Node, found: _Found, shape: tuple[int, ...], more: Mapping[str, Any] | None = None
    ) -> None:
        batch, heads = batch_and_heads(shape)
        scores = self.model.value(found.gone[-1]).fixed
        if scores is None or scores[:-2] != shape[:-2] or not self._is_float(node.outputs[0]):
            return
        if any(
            len(self.model.value(name).fixed or ()) < 2 for name in (found.query, found.key, node.inputs[1])
        ):
            return
        candidates: list[list[Heads]] = []
        first = list(found.before)
        shared, times = dict[str, list[Heads]](), 0
        if not more:
            shared, times = shared_heads(self.model, (found.key, node.inputs[1]), shape, scores[-1])
        for name, tokens, size, turned in (
            (found.query, shape[-2], None, False),
            (found.key, scores[-1], None, True),
            (node.inputs[1], scores[-1], shape[-1], False),
        ):
            if name in shared:
                candidates.append(shared[name])
                continue
            last = (lambda a: a.swapaxes(-1, -2)) if turned else (lambda a: a)
            seen: list[Heads] = []
            for view in views_of(self.model, name, last):
                if view.shape[:-2] != shape[:-2] or view.shape[-2] != tokens:
                    break  # batches are broadcast
                if size is not None and view.shape[-1] != size:
                    break
                one = heads_of(view, batch, heads)
                if one is not None:
                    seen.append(one)
            if not seen and turned and scores[:-2] == shape[:-2]:
                rows = self._keys_as_rows(name, shape[-2], batch, heads, first)
                seen = [rows] if rows is not None else []
            if not seen:
                return
            candidates.append(seen)
        operands = self._operands(candidates)
        query, key, value = operands
        size = query.view.shape[-1]
        if key.view.shape[-1] != size or size % 2 != 0 or value.view.factor != 1:
            return
        if _words(query.view.shape[-2], scores[-1], size, shape[-1]) > LOCAL_BYTES // 4:
            return
        mask = self._mask(found.mask, batch, heads, shape)
        if found.mask is not None and mask is None:
            return
        if more and _words_mixed(query.view.shape[-2], scores[-1], size, shape[-1], heads) > LOCAL_BYTES // 4:
            return
        if shared:
            more = {"shared": times}
        self._write(node, found, operands, mask, shape, more or {}, first)

    def _operands(self, candidates: list[list[Heads]]) -> list[Heads]:
        """The operands as views of what lies furthest back. But where that is a product with constants of
        which something else is cut out, too, the parts, each of which the product then makes by itself."""
        passed = {name for seen in candidates for name in seen[-1].view.nodes}
        passed = {name for name in passed if len(self.model.makers[name].makes) == 1}
        passed |= {one.view.source for seen in candidates for one in seen}
        found: list[Heads] = []
        for seen in candidates:
            source = seen[-1].view.source
            parts = [one for one in seen[:-1] if self._is_cut(one.view.source, source)]
            apart = parts and rows_of_product(self.model, source) and self._is_read_beside(source, passed)
            found.append(parts[-1] if apart else seen[-1])
        return found

    def _is_read_beside(self, name: str, passed: set[str]) -> bool:
        """Whether more is made of a value than these."""
        consumers = self.model.consumers
        made = [one for node in consumers.get(name, ()) for one in node.makes if one not in passed]
        return any(node.outputs[0] not in passed for one in made for node in consumers.get(one, ()))

    def _is_cut(self, name: str, source: str) -> bool:
        maker = self.model.makers.get(name)
        return maker is not None and maker.is_a("Split", "Slice") and maker.inputs[0] == source

    def _keys_as_rows(
        self, name: str, queries: int, batch: int, heads: int, nodes: list[Node]
    ) -> Heads | None:
        """Keys that lie as columns (pixels, with channels before them), transposed by a node more, where that
        is less than the scores."""
        columns = self.model.value(name).fixed
        if columns is None or columns[-2] >= queries or name in self.constants:
            return None
        rows, rank = f"{name}:rows", len(columns)
        shape = (*columns[:-2], columns[-1], columns[-2])
        self.values[rows] = Value(rows, shape, np.dtype(np.float32))
        nodes.append(Node("Transpose", "", "", (name,), (rows,), {"perm": last_two_swapped(rank)}))
        strides = np.empty(shape, np.int8).strides
        return heads_of(View(rows, int(np.prod(shape)), shape, strides, 0, 1.0, ()), batch, heads)

    def _mask(
        self, name: str | None, batch: int, heads: int, shape: tuple[int, ...]
    ) -> tuple[str, tuple[int, ...]] | None:
        """The mask, and its shape with the layer's dimensions."""
        if name is None:
            return None
        own = self._shape(name)
        if own is None:
            return None
        lead = (*(1,) * (len(shape) - len(own)), *own)[: len(shape) - 2]
        last = (1, 1, *own)[-2:]
        if len(own) > len(shape):
            return None
        if len(shape) <= 3:  # all of it are heads of one batch, or one head
            return name, (1, *lead, *last) if lead else (1, 1, *last)
        if not _joins(lead[:-1], shape[:-3]):
            return None
        return name, (int(np.prod(lead[:-1])), lead[-1], *last)

    def _write(
        self,
        node: Node,
        found: _Found,
        operands: list[Heads],
        mask: tuple[str, tuple[int, ...]] | None,
        shape: tuple[int, ...],
        more: Mapping[str, Any],
        nodes: list[Node],
    ) -> None:
        """nodes: what stands before all that is written here."""
        batch, heads = batch_and_heads(shape)
        end = self._end(node, batch, heads, shape)
        packed = end.packed
        made = (batch, shape[-2], heads * shape[-1]) if packed else (batch, heads, *shape[-2:])
        wanted_as = [(h.view.source, h.shape, h.tokens_first) for h in operands]
        wanted_as += [(*mask, False)] if mask is not None else []
        shaped = {
            one: self._shaped(nodes, f"{end.name}:operand{i}", *one)
            for i, one in enumerate(dict.fromkeys(wanted_as))
        }
        inputs = [shaped[one] for one in wanted_as]
        query, key, _ = operands
        attributes = {
            "heads": heads,
            "size": query.view.shape[-1],
            "value_size": shape[-1],
            "from": [h.first for h in operands],
            "step": [h.step for h in operands],
            "apart": int(not packed),
            "scale": found.factor * query.view.factor * key.view.factor,
            **more,
        }
        if found.scales:
            rest = [1.0] * (_HEADS_SCALED - len(found.scales))
            attributes |= {"scaled": 1, "scales": [*found.scales, *rest]}
        wanted = self.model.value(end.name).fixed
        output = end.name if wanted == made and not end.tokens_first else f"{end.name}:heads"
        numbers = f"{output}:or_nan" if found.or_zero else output
        nodes.append(Node(ATTENTION, DOMAIN, node.name, tuple(inputs), (numbers,), attributes))
        if found.or_zero:
            # A row of scores that are all NaN makes a row of NaN.
            self.values[numbers] = Value(numbers, made, np.dtype(np.float32))
            nodes.append(Node(OR_ZERO, DOMAIN, "", (numbers,), (output,)))
        if output != end.name:
            self.values[output] = Value(output, made, np.dtype(np.float32))
            assert wanted is not None
            last = self._turned(nodes, f"{output}:turned", output, made) if end.tokens_first else output
            at = wanted.index(shape[-2]) if shape[-2] in wanted and wanted[-2:-1] != shape[-2:-1] else -2
            nodes.append(self._reshape(last, end.name, wanted, at))
        self.instead[end.name] = nodes
        passed = [name for h in operands for name in h.view.nodes]
        self.gone.update(found.gone, passed, [node.outputs[0]] if end.name != node.outputs[0] else [])

    def _end(self, node: Node, batch: int, heads: int, shape: tuple[int, ...]) -> _End:
        """The value that the layer makes: the result, or what lies behind transposes that bring a token's
        heads together."""
        name, passed = node.outputs[0], []
        whole = np.arange(int(np.prod(shape)) if np.prod(shape) <= 1 << 26 else 0, dtype=np.int32)
        if not whole.size:
            return _End(name, packed=False)
        tokens, size = shape[-2:]
        packed = whole.reshape(batch, heads, tokens, size).swapaxes(1, 2)
        wanted = {False: packed.reshape(-1)}
        if batch > 1 and tokens > 1:
            wanted[True] = packed.swapaxes(0, 1).reshape(-1)
        seen, best = whole.reshape(shape), _End(name) if heads == 1 else None
        while True:
            reader = self.model.only_reader(name)
            if reader is None:
                break
            after = self.model.value(reader.outputs[0]).fixed if reader.outputs else None
            if not reader.is_plain or after is None or reader.inputs[0] != name:
                break
            if reader.op == "Transpose":
                seen = seen.transpose([int(i) for i in reader.attributes.get("perm", range(seen.ndim)[::-1])])
            elif reader.op in RESHAPES:
                seen = seen.reshape(after)
            else:
                break
            passed.append(name)
            name = reader.outputs[0]
            for tokens_first, order in wanted.items():
                if np.array_equal(seen.reshape(-1), order):
                    best = _End(name, tokens_first)
        if best is not None:
            self.gone.update(passed[: passed.index(best.name)] if best.name in passed else passed)
        return _End(node.outputs[0], packed=False) if best is None else best

    def _turned(self, nodes: list[Node], turned: str, name: str, shape: tuple[int, ...]) -> str:
        """A value of a shape with its first two dimensions exchanged, under another name."""
        self.values[turned] = Value(turned, (shape[1], shape[0], shape[2]), np.dtype(np.float32))
        nodes.append(Node("Transpose", "", "", (name,), (turned,), {"perm": [1, 0, 2]}))
        return turned

    def _shaped(
        self, nodes: list[Node], stem: str, name: str, shape: tuple[int, ...], tokens_first: bool
    ) -> str:
        """A value in another shape, under another name where that is not its own."""
        if tokens_first:
            before = (shape[1], shape[0], shape[2])
            return self._turned(
                nodes, f"{stem}:turned", self._shaped(nodes, stem, name, before, False), before
            )
        if self._shape(name) == shape:
            return name
        if name in self.constants:
            self.constants[stem] = self.constants[name].reshape(shape)
            return stem
        self.values[stem] = Value(stem, shape, np.dtype(np.float32))
        nodes.append(self._reshape(name, stem, shape))
        return stem

    def _reshape(self, name: str, output: str, shape: tuple[int, ...], at: int = -2) -> Node:
        """at: which extent are tokens, of which a dynamic net may get fewer."""
        target, extents = f"{output}:shape", list(shape)
        if len(shape) > 1:
            extents[at] = -1
        self.constants[target] = np.array(extents, np.int64)
        return Node("Reshape", "", "", (name, target), (output,))


def _words(queries: int, keys: int, size: int, value: int) -> int:
    """32-bit words of a lane that the layer needs for one head and as few queries as it takes: the keys as
    they come, two turns' of everything else (one is loaded while the other is computed), and scores."""

    def rows(count: int, width: int) -> int:
        return -(-count // NPU_NUM) * -(-width // _LINE) * _LINE

    few = min(queries, NPU_NUM)
    turns = rows(few, size) + rows(size, keys) + rows(keys, value) + rows(few, value) + rows(few, keys)
    return rows(keys, size) + 2 * turns + 3 * rows(few, keys) + rows(few, value)


def _words_mixed(queries: int, keys: int, size: int, value: int, heads: int) -> int:
    """The same where all heads are mixed, so that none of them can be computed by itself."""
    score = -(-min(queries, NPU_NUM) // NPU_NUM) * -(-keys // _LINE) * _LINE
    return heads * (_words(queries, keys, size, value) - 3 * score) + (3 + 2 * heads) * score


def _mixes(heads: int, before: Array | None, after: _Mixed | None) -> dict[str, Any]:
    """The attributes that say how heads are mixed; none where they are not."""
    if before is None and after is None:
        return {}
    one, room = np.eye(heads), _HEADS_MIXED**2 - heads**2
    numbers = {
        "before": (one if before is None else before, room),
        "after": (one if after is None else after.factors, room),
        "added": (np.zeros(heads) if after is None else after.added, _HEADS_MIXED - heads),
    }
    return {"mixed": 1} | {
        name: [*(float(x) for x in array.reshape(-1)), *[0.0] * rest]
        for name, (array, rest) in numbers.items()
    }


def _joins(own: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether dimensions of a mask become one: all are there, or all broadcast."""
    return own == whole or all(extent == 1 for extent in own)
