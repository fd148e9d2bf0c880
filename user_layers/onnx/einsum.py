"""Einsum in other operations: sums, transposes and one product of matrices for each two operands.

A product without a summed letter is a multiplication. Reshapes put letters together where a product has
several of a kind; leading extents, and the first of what they put together, follow the input's in a dynamic
net.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from user_layers.onnx.load import infer_values
from user_layers.onnx.lower import Unsupported
from user_layers.onnx.model import Array, Model, Node, Value

_AXES_ARE_INPUTS = 13  # the opset since which ReduceSum has its axes as an input


@dataclass(frozen=True)
class _Operand:
    """A value and the letter of each dimension; those of an ellipsis are numbers, counted from the last."""

    name: str
    letters: tuple[str, ...]


def write_einsum(model: Model) -> Model:
    """Every Einsum that this can write is written in other operations; the others stay (see `terms_of`)."""
    constants, values = dict(model.constants), dict(model.values)
    nodes: list[Node] = []
    for node in model.nodes:
        if node.is_a("Einsum"):
            try:
                terms, made, extents = terms_of(model, node)
            except Unsupported:
                nodes.append(node)
                continue
            writer = _Writer(model, node, extents, constants, values)
            nodes += writer.written(terms, made)
        else:
            nodes.append(node)
    return replace(model, nodes=tuple(nodes), constants=constants, values=values)


def without_single_letters(model: Model) -> Model:
    """The model with dimensions of one element taken out of Einsum's operands where another operand has more
    for their letter. ONNX infers the result's shape from the first operand that has a letter, so what is
    behind such a node has wrong shapes, and is inferred again."""
    constants, values = dict(model.constants), dict(model.values)
    nodes: list[Node] = []
    wrong: set[str] = set()
    for node in model.nodes:
        terms, result = _single_letters(model, node)
        if not wrong.isdisjoint(node.reads):
            wrong.update(node.makes)
        if not any(gone for _, gone in terms):
            nodes += [node]
            continue
        wrong.update(node.makes)
        inputs = []
        for i, (name, (_, gone)) in enumerate(zip(node.inputs, terms, strict=True)):
            if gone:
                shape = model.value(name).fixed
                assert shape is not None
                made = f"{node.outputs[0]}:einsum/{i}"
                target = tuple(extent for axis, extent in enumerate(shape) if axis not in gone)
                constants[f"{made}:shape"] = np.array(target, np.int64)
                nodes.append(Node("Reshape", "", node.name, (name, f"{made}:shape"), (made,)))
                values[made] = Value(made, target, model.value(name).dtype)
                name = made
            inputs.append(name)
        equation = f"{','.join(term for term, _ in terms)}->{result}"
        more = {**node.attributes, "equation": equation}
        nodes.append(replace(node, inputs=tuple(inputs), attributes=more, proto=None))
    if not wrong:
        return model
    values |= {name: replace(values[name], shape=None) for name in wrong if name in values}
    outputs = tuple(values.get(value.name, value) for value in model.outputs)
    changed = replace(model, nodes=tuple(nodes), constants=constants, values=values, outputs=outputs)
    return infer_values(changed)


def _single_letters(model: Model, node: Node) -> tuple[list[tuple[str, list[int]]], str]:
    """Of each operand of an Einsum the letters that stay and the axes that go, and the result's letters;
    nothing for a node where no axis needs to go or is known to."""
    text = str(node.attributes.get("equation", "")).replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if not node.is_a("Einsum") or len(terms) != len(node.inputs):
        return [], ""
    shapes = [model.value(name).fixed for name in node.inputs]
    found: list[list[tuple[str, int, int]]] = []  # of each operand: letter, axis, extent
    for term, shape in zip(terms, shapes, strict=True):
        letters = None if shape is None else _letters(term, len(shape))
        if shape is None or letters is None or len(letters) != len(shape):
            return [], ""
        found.append([(x, i, n) for i, (x, n) in enumerate(zip(letters, shape, strict=True)) if x.isalpha()])
    every = [one for operand in found for one in operand]
    most = {x: max(n for y, _, n in every if x == y) for x, _, _ in every}
    gone = [
        [(x, i) for x, i, n in operand if n == 1 < most[x] and term.count(x) == 1]
        for term, operand in zip(terms, found, strict=True)
    ]
    once = sorted(x for x in most if sum(term.count(x) for term in terms) == 1)
    result = right if arrow else ("..." if "..." in left else "") + "".join(once)
    kept = [
        ("".join(x for x in term if x not in [y for y, _ in out]), [i for _, i in out])
        for term, out in zip(terms, gone, strict=True)
    ]
    return kept, result


def terms_of(model: Model, node: Node) -> tuple[list[_Operand], tuple[str, ...], dict[str, int]]:
    """The operands of an Einsum, the letters of its result, and each letter's extent. Raises Unsupported
    for what is not written in other operations."""
    text = str(node.attributes.get("equation", "")).replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(node.inputs) or not all(node.inputs):
        raise Unsupported(f"the equation {text!r} for {len(node.inputs)} operands")
    operands, extents = [], dict[str, int]()
    for name, term in zip(node.inputs, terms, strict=True):
        value = model.value(name)
        if value.dtype != np.float32:
            raise Unsupported(f"{name!r} is {value.what}; only float32 is computed")
        if value.fixed is None:
            raise Unsupported(f"the shape of {name!r} is not known")
        letters = _letters(term, len(value.fixed))
        if letters is None or len(letters) != len(value.fixed):
            raise Unsupported(f"the equation {text!r} for a {len(value.fixed)}-dimensional {name!r}")
        if len(set(letters)) < len(letters):
            raise Unsupported(f"a letter twice in one operand, in {text!r}")
        for letter, extent in zip(letters, value.fixed, strict=True):
            known = extents.setdefault(letter, extent)
            if 1 not in (known, extent) and known != extent:
                raise Unsupported(f"{letter!r} has {known} and {extent} elements in {text!r}")
            extents[letter] = max(known, extent)
        operands.append(_Operand(name, letters))
    dots = sorted((letter for letter in extents if letter.isdigit()), key=int, reverse=True)
    once = sorted(letter for letter in extents if letter.isalpha() and left.count(letter) == 1)
    made = _letters(right, len(right.replace("...", "")) + len(dots)) if arrow else (*dots, *once)
    if made is None or len(set(made)) < len(made) or not set(dots) <= set(made) <= set(extents):
        raise Unsupported(f"the result of {text!r}")
    inferred, shape = model.value(node.outputs[0]).fixed, tuple(extents[letter] for letter in made)
    if inferred != shape:  # ONNX goes by the first operand that has a letter (`without_single_letters`)
        raise Unsupported(f"its result has the shape {shape}, not {inferred} as ONNX infers")
    return operands, made, extents


def _letters(term: str, rank: int) -> tuple[str, ...] | None:
    """The letters of a term of this many dimensions; None where it is none."""
    before, dots, after = term.partition("...")
    if not all(part.isascii() and part.isalpha() for part in (before, after) if part):
        return None
    hidden = rank - len(before) - len(after) if dots else 0
    return (*before, *(str(i) for i in reversed(range(hidden))), *after)


class _Writer:
    """The nodes in the place of one. constants, values: of the model, to which new ones are added."""

    def __init__(
        self,
        model: Model,
        node: Node,
        extents: dict[str, int],
        constants: dict[str, Array],
        values: dict[str, Value],
    ) -> None:
        self.model, self.node, self.extents = model, node, extents
        self.constants, self.values = constants, values
        self.weights = {name for n in model.nodes if n.op == "Softmax" for name in n.makes}
        self.nodes: list[Node] = []

    def written(self, terms: Sequence[_Operand], made: tuple[str, ...]) -> list[Node]:
        left = [self._stretched(term) for term in terms]
        whole = left[0]
        for i, other in enumerate(left[1:], 2):
            later = {letter for term in left[i:] for letter in term.letters}
            whole = self._product(whole, other, {*made, *later}, made if i == len(left) else ())
        whole = self._summed(whole, set(made))
        whole = self._turned(whole, made)
        if whole.name in self.constants or not self.nodes:
            self._step("Identity", (whole.name,), made)
        self.nodes[-1] = replace(self.nodes[-1], outputs=self.node.outputs)
        return self.nodes

    def _shape(self, letters: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.extents[letter] for letter in letters)

    def _constant(self, array: Array) -> str:
        name = f"{self.node.outputs[0]}:einsum{len(self.constants)}"
        self.constants[name] = np.ascontiguousarray(array)
        return name

    def _step(
        self,
        op: str,
        inputs: tuple[str, ...],
        letters: Sequence[str],
        shape: Sequence[int] = (),
        **more: object,
    ) -> _Operand:
        """A node that makes a value with these letters; shape: its extents where they are not theirs."""
        name = f"{self.node.outputs[0]}:einsum{len(self.constants)}/{len(self.nodes)}"
        self.nodes.append(Node(op, "", self.node.name, inputs, (name,), more))
        self.values[name] = Value(name, tuple(shape) or self._shape(letters), np.dtype(np.float32))
        return _Operand(name, tuple(letters))

    def _stretched(self, term: _Operand) -> _Operand:
        """Without dimensions of one element that have more in other operands."""
        shape = self.model.value(term.name).fixed or ()
        kept = [x for x, extent in zip(term.letters, shape, strict=True) if extent == self.extents[x]]
        return self._reshaped(term, kept, shape, self._shape(kept))

    def _summed(self, term: _Operand, kept: set[str]) -> _Operand:
        axes = [i for i, letter in enumerate(term.letters) if letter not in kept]
        if not axes:
            return term
        letters = [letter for letter in term.letters if letter in kept]
        if self.model.opset < _AXES_ARE_INPUTS:
            return self._step("ReduceSum", (term.name,), letters, axes=axes, keepdims=0)
        inputs = (term.name, self._constant(np.array(axes, np.int64)))
        return self._step("ReduceSum", inputs, letters, keepdims=0)

    def _turned(self, term: _Operand, letters: Sequence[str]) -> _Operand:
        order = [term.letters.index(letter) for letter in letters]
        if order == sorted(order):
            return term
        if term.name in self.constants:
            return _Operand(self._constant(self.constants[term.name].transpose(order)), tuple(letters))
        return self._step("Transpose", (term.name,), letters, perm=order)

    def _reshaped(
        self, term: _Operand, letters: Sequence[str], before: Sequence[int], after: Sequence[int]
    ) -> _Operand:
        """The same elements as another shape; letters: what its dimensions are then called."""
        if tuple(before) == tuple(after):
            return _Operand(term.name, tuple(letters))
        if term.name in self.constants:
            return _Operand(self._constant(self.constants[term.name].reshape(after)), tuple(letters))
        lead = 0
        while lead < min(len(before), len(after)) and before[lead] == after[lead]:
            lead += 1
        target = [*[0] * lead, *[-1][: len(after) - lead], *after[lead + 1 :]]
        inputs = (term.name, self._constant(np.array(target, np.int64)))
        return self._step("Reshape", inputs, letters, after)

    def _product(self, left: _Operand, right: _Operand, kept: set[str], order: tuple[str, ...]) -> _Operand:
        """kept: letters that somebody reads; order: in which the result should have them, if there is one."""
        left = self._summed(left, kept | set(right.letters))
        right = self._summed(right, kept | set(left.letters))
        natural = order or (*left.letters, *(x for x in right.letters if x not in left.letters))
        both = [x for x in natural if x in left.letters and x in right.letters and x in kept]
        rows, columns = (
            [x for x in natural if x in one.letters and x not in other.letters]
            for one, other in ((left, right), (right, left))
        )
        if (
            rows
            and columns
            and self._is_first(right, left, natural.index(columns[0]) < natural.index(rows[0]))
        ):
            left, right, rows, columns = right, left, columns, rows
        sums = [x for x in left.letters if x in right.letters and x not in kept]
        if not sums:
            return self._multiplied(left, right, [x for x in natural if x in (*both, *rows, *columns)])
        return self._multiplied_matrices(left, right, both, rows, columns, sums)

    def _is_first(self, term: _Operand, other: _Operand, otherwise: bool) -> bool:
        """Whether an operand should be the left one. The weights of attention are, which is looked for like
        that; and as the largest of all they should not be turned for others."""
        weights = [one.name in self.weights for one in (term, other)]
        return weights[0] if weights[0] != weights[1] else otherwise

    def _multiplied(self, left: _Operand, right: _Operand, letters: Sequence[str]) -> _Operand:
        """Element by element."""
        names = []
        for term in (left, right):
            own = [letter for letter in letters if letter in term.letters]
            along = [self.extents[x] if x in own else 1 for x in letters]
            turned = self._turned(term, own)
            names.append(self._reshaped(turned, letters, self._shape(own), along).name)
        return self._step("Mul", (names[0], names[1]), letters)

    def _multiplied_matrices(
        self,
        left: _Operand,
        right: _Operand,
        both: list[str],
        rows: list[str],
        columns: list[str],
        sums: list[str],
    ) -> _Operand:
        """Matrices of `rows` by `sums` and of `sums` by `columns`, for each of `both`."""
        batches = self._shape(both)
        count, across, inner = (int(np.prod(self._shape(some))) for some in (rows, columns, sums))
        # One right matrix for all: rows need not be put together.
        lead = self._shape(rows) if rows and not both else (*batches, count)
        left = self._turned(left, [*both, *rows, *sums])
        left = self._reshaped(left, left.letters, self._shape(left.letters), (*lead, inner))
        right = self._turned(right, [*both, *sums, *columns])
        right = self._reshaped(right, right.letters, self._shape(right.letters), (*batches, inner, across))
        letters = [*both, *rows, *columns]
        product = self._step("MatMul", (left.name, right.name), letters, (*lead, across))
        return self._reshaped(product, letters, (*lead, across), self._shape(letters))
