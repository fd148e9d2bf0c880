"""Transposes of channels where there are fewer of them: before a product that makes more, behind one that
makes less.

Hybrids of transformers and convolutions go from tokens [N, T, C] to pictures [N, C, H, W] where channels are
most. A product with a constant matrix is a convolution of one tap on the picture, so that the narrow side of
it can be turned, and the wide one stays in local memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from user_layers.onnx.channels import Moved, moved, to_the_end
from user_layers.onnx.model import Model, Node, Rewriting, Value

Shape = tuple[int, ...]


def turn_narrow(model: Model) -> Model:
    """Move transposes from and to channels that come second over the products beside them."""
    pass_ = _Pass(model)
    for node in model.nodes:
        if not pass_.behind(node):
            pass_.before(node)
    return pass_.rewritten()


@dataclass
class _Pass(Rewriting):
    def behind(self, first: Node) -> bool:
        """A transpose of channels to the end goes behind the product that leaves least."""
        rank = to_the_end(self.model, first)
        if not rank:
            return False
        chain: list[Node] = []
        name, least, count = first.outputs[0], self._elements(first.outputs[0]), 0
        while True:
            node = self.model.only_reader(name)
            if node is None or not self._plain(node, rank) or moved(self.model, node, node.inputs[0]) is None:
                break
            chain.append(node)
            name = node.outputs[0]
            if self._elements(name) < least:
                least, count = self._elements(name), len(chain)
        chain = chain[:count]
        if not chain or any(one.outputs[0] in self.instead for one in (first, *chain)):
            return False
        source, picture = self._picture(first.inputs[0])
        made = self._moved(chain, source, picture)
        if made is None:
            return False
        end = chain[-1].outputs[0]
        shape = self._shape(end)
        self.instead.update((one.outputs[0], []) for one in (first, *chain))
        nodes, name = made, made[-1].outputs[0]
        if len(picture) != rank:
            row = (shape[0], shape[-1], *shape[1:-1])
            nodes.append(self._reshaped(name, row, (0, shape[-1], -1), f"{end}:flat"))
            name = f"{end}:flat"
        order = [0, *range(2, rank), 1]
        self.instead[end] = [*nodes, Node("Transpose", "", first.name, (name,), (end,), {"perm": order})]
        return True

    def before(self, last: Node) -> None:
        """A transpose of channels from the end to the second place goes before the product of least."""
        rank = len(self.model.value(last.outputs[0]).fixed or ()) if last.makes else 0
        back = [0, rank - 1, *range(1, rank - 1)]
        if last.op != "Transpose" or rank not in (3, 4) or not self._plain(last, rank):
            return
        if [int(i) for i in last.attributes.get("perm", ())] != back:
            return
        chain: list[Node] = []
        name, least, count = last.inputs[0], self._elements(last.outputs[0]), 0
        while self.model.only_reader(name) is not None:
            node = self.model.makers.get(name)
            if node is None or not self._plain(node, rank) or moved(self.model, node, node.inputs[0]) is None:
                break
            chain.append(node)
            name = self._source(node)
            if self._elements(name) < least:
                least, count = self._elements(name), len(chain)
        chain = chain[:count][::-1]
        if not chain or any(one.outputs[0] in self.instead for one in (last, *chain)):
            return
        source, end = self._source(chain[0]), last.outputs[0]
        shape = self._shape(source)
        turned = f"{end}:turned"
        self.values[turned] = self._value(turned, (shape[0], shape[-1], *shape[1:-1]))
        nodes = [Node("Transpose", "", last.name, (source,), (turned,), {"perm": back})]
        picture, gone = self._shape(end), [*chain, last]
        reader = self.model.only_reader(end)
        after = self.model.value(reader.outputs[0]).fixed if reader is not None and reader.makes else None
        if (
            reader is not None
            and reader.op == "Reshape"
            and self._plain(reader, 4)
            and after is not None
            and rank == 3
            and after[:2] == picture[:2]
        ):
            picture, gone, end = after, [*gone, reader], reader.outputs[0]
            wide = (*picture[:1], shape[-1], *picture[2:])
            given = self.model.constants.get(reader.inputs[-1])
            target = wide if given is None else (int(given[0]), shape[-1], *(int(n) for n in given[2:]))
            nodes.append(self._reshaped(turned, wide, target, f"{end}:picture"))
            turned = f"{end}:picture"
        made = self._moved(chain, turned, picture)
        if made is None:
            return
        made[-1] = replace(made[-1], outputs=(end,))
        self.instead.update((one.outputs[0], []) for one in gone)
        self.instead[end] = [*nodes, *made]

    def _picture(self, name: str) -> tuple[str, Shape]:
        """Where [N, C, T] is a picture seen as a row: the picture, if nothing else reads the row."""
        shape, maker = self._shape(name), self.model.makers.get(name)
        if maker is None or maker.op not in ("Reshape", "Flatten") or len(shape) != 3:
            return name, shape
        before = self.model.value(maker.inputs[0])
        alone = self.model.only_reader(name) is not None
        fits = before.fixed is not None and len(before.fixed) == 4 and before.fixed[:2] == shape[:2]
        if not (fits and alone and before.dtype == np.float32) or maker.mapped:
            return name, shape
        assert before.fixed is not None
        return maker.inputs[0], before.fixed

    def _moved(self, chain: Sequence[Node], source: str, picture: Shape) -> list[Node] | None:
        """The chain on channels that are second. picture: the shape of its source, but for the channels."""
        found: list[Moved] = []
        for node in chain:
            one = moved(self.model, node, source, len(picture) - 2)
            if one is None:
                return None
            found.append(one)
            source = one.node.outputs[0]
            channels = self._shape(node.outputs[0])[-1]
            self.values[source] = self._value(source, (picture[0], channels, *picture[2:]))
        for one in found:
            self.constants.update(one.constants)
        return [one.node for one in found]

    def _reshaped(self, source: str, shape: Shape, target: Shape, name: str) -> Node:
        """target: how ONNX writes the shape; extents that it leaves open may be others in a dynamic net."""
        self.constants[f"{name}:shape"] = np.array(target, np.int64)
        self.values[name] = self._value(name, shape)
        return Node("Reshape", "", name, (source, f"{name}:shape"), (name,))

    def _source(self, node: Node) -> str:
        """The only input that is no constant."""
        return next((n for n in node.inputs if n and n not in self.model.constants), node.inputs[0])

    def _plain(self, node: Node, rank: int) -> bool:
        """Whether it is an operation with one result of fp32 that has so many dimensions."""
        if not node.is_known or len(node.makes) != 1 or node.captured:
            return False
        value = self.model.value(node.outputs[0])
        inputs = [name for name in node.inputs if name and name not in self.model.constants]
        return (
            len(inputs) == 1
            and value.fixed is not None
            and len(value.fixed) == rank
            and value.dtype == np.float32
        )

    def _elements(self, name: str) -> int:
        return math.prod(self._shape(name))

    def _shape(self, name: str) -> Shape:
        return self.model.value(name).fixed or ()

    @staticmethod
    def _value(name: str, shape: Shape) -> Value:
        return Value(name, shape, np.dtype(np.float32))
