"""Windows that are cut out of pictures whose channels come second, and put back: channels go to the end by
themselves, and windows are rows that move.

A model does both with one transpose. Two are better: the DMA engine turns channels and pixels in local
memory, and rows are moved once for several such transposes (row_orders.py); where one puts windows back into
a picture and the next one cuts others out of it, channels stay last in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from user_layers.graph.prepared import free_name
from user_layers.onnx.fold import needed
from user_layers.onnx.model import Model, Node, Rewriting, Value
from user_layers.onnx.views import RESHAPES

_TO_THE_END, _BACK = [0, 2, 3, 1], [0, 3, 1, 2]
_PICTURE = 4  # dimensions
Shape = tuple[int, ...]


def channels_by_themselves(model: Model) -> Model:
    """Put two transposes in the place of one that cuts windows out of a picture, or puts them back."""
    pass_ = _Pass(model)
    for node in model.nodes:
        pass_.take(node)
    return needed(pass_.rewritten()) if pass_.instead else model


@dataclass
class _Pass(Rewriting):
    def take(self, node: Node) -> None:
        """A node that may be such a transpose."""
        before = self._shape(node.inputs[0]) if node.is_a("Transpose") else ()
        if len(before) <= _PICTURE or self.model.value(node.outputs[0]).dtype != np.float32:
            return
        order = [int(d) for d in node.attributes.get("perm", range(len(before))[::-1])]
        if order[0] == 0 and order[-1] == 1:
            self._cut_out(node, before, order)
        elif order[0] == 0 and order[1] == len(before) - 1:
            self._put_back(node, before, order)

    def _cut_out(self, node: Node, before: Shape, order: list[int]) -> None:
        maker = self.model.makers.get(node.inputs[0])
        if maker is None or not maker.is_a(*RESHAPES):
            return
        source = maker.inputs[0]
        picture = self._shape(source)
        if not _is_cut(picture, before):
            return
        last = self._back_from(source)
        nodes: list[Node] = []
        if last is None:
            last = self._named(f"{source}:last", (picture[0], *picture[2:], picture[1]))
            nodes.append(Node("Transpose", "", node.name, (source,), (last,), {"perm": _TO_THE_END}))
        view = self._named(f"{node.outputs[0]}:last", (*before[:1], *before[2:], before[1]))
        nodes.append(self._view(last, view))
        places = [0, *(d - 1 for d in order[1:-1]), len(before) - 1]
        nodes.append(Node("Transpose", "", node.name, (view,), node.outputs, {"perm": places}))
        self.instead[node.outputs[0]] = nodes

    def _put_back(self, node: Node, before: Shape, order: list[int]) -> None:
        reader = self.model.only_reader(node.outputs[0])
        if reader is None or not reader.is_a(*RESHAPES):
            return
        made = reader.outputs[0]
        picture, after = self._shape(made), self._shape(node.outputs[0])
        if not _is_cut(picture, after):
            return
        moved = self._named(f"{node.outputs[0]}:last", (after[0], *after[2:], after[1]))
        last = self._named(f"{made}:last", (picture[0], *picture[2:], picture[1]))
        places = [0, *order[2:], len(before) - 1]
        self.instead[node.outputs[0]] = []
        self.instead[made] = [
            Node("Transpose", "", node.name, node.inputs, (moved,), {"perm": places}),
            self._view(moved, last),
            Node("Transpose", "", node.name, (last,), (made,), {"perm": _BACK}),
        ]

    def _back_from(self, name: str) -> str | None:
        """The picture with channels last that a value was made of."""
        written = self.instead.get(name)
        maker = written[-1] if written else self.model.makers.get(name)
        if maker is None or not maker.is_a("Transpose") or maker.attributes.get("perm") != _BACK:
            return None
        return maker.inputs[0]

    def _view(self, source: str, made: str) -> Node:
        shape = self.values[made].fixed or ()
        target = self._free(f"{made}:shape")
        self.constants[target] = np.array([0, *shape[1:]], np.int64)
        return Node("Reshape", "", "", (source, target), (made,))

    def _free(self, stem: str) -> str:
        return free_name(stem, self.model.values, self.model.constants, self.values, self.constants)

    def _named(self, stem: str, shape: Shape) -> str:
        name = self._free(stem)
        self.values[name] = Value(name, shape, np.dtype(np.float32))
        return name

    def _shape(self, name: str) -> Shape:
        return self.model.value(name).fixed or ()


def _is_cut(picture: Shape, shape: Shape) -> bool:
    """Whether a shape is that of a picture whose height and width are several dimensions each."""
    if len(picture) != _PICTURE or len(shape) <= _PICTURE or shape[:2] != picture[:2]:
        return False
    heights = (math.prod(shape[2:d]) for d in range(3, len(shape)))
    return picture[2] in heights and math.prod(shape) == math.prod(picture)
