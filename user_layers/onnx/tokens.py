"""Between pictures [N, C, H, W] and tokens [N, T, C]: a transpose and the views beside it are one operation,
which has a layer for local memory. So is any transpose that turns matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from user_layers.onnx.columns import without_detours
from user_layers.onnx.fold import needed
from user_layers.onnx.model import DOMAIN, Model, Node, Rewriting, Value
from user_layers.onnx.views import RESHAPES

TURN = "Turn"  # an operation of this compiler alone; its layer is TPU_TURN
_DIMENSIONS = 4  # of a tensor in local memory
Shape = tuple[int, ...]


def turn_tokens(model: Model) -> Model:
    """Transposes that exchange channels and tokens, or channels and the pixels of a picture, as one node
    with the view before or behind them."""
    return _Pass(model).done()


@dataclass
class _Pass(Rewriting):
    def done(self) -> Model:
        """The model with all of them."""
        for node in self.model.nodes:
            self._try(node)
        if not self.instead:
            return self.model
        return needed(without_detours(self.rewritten()))

    def _try(self, node: Node) -> None:
        if not node.is_a("Transpose"):
            return
        before, after = self._shape(node.inputs[0]), self._shape(node.outputs[0])
        if not before or not after or self.model.value(node.outputs[0]).dtype != np.float32:
            return
        order = [int(i) for i in node.attributes.get("perm", range(len(before))[::-1])]
        found = _matrices(before, order)
        if found is None or found[0] not in (1, before[0]) or self._at_edge(node):
            return
        batches, rows, columns = found
        nodes: list[Node] = []
        source, gone = node.inputs[0], []
        picture = self._picture_before(source, batches, rows)
        if picture is not None:
            gone.append(source)
            source = picture
        elif before[:2] != (batches, rows) or len(before) > _DIMENSIONS:
            source = self._named(f"{node.outputs[0]}:matrix", (batches, rows, columns))
            nodes.append(
                self._view(node.inputs[0], source, (0 if batches == before[0] else 1, rows, columns))
            )
        end, side = node.outputs[0], after[2:] if len(after) == _DIMENSIONS else ()
        viewed = False
        if after == (batches, columns, rows):
            reader = self.model.only_reader(end)
            if reader is not None and self._makes_picture(reader, end, after[:2]):
                gone.append(end)
                end, side = reader.outputs[0], self._shape(reader.outputs[0])[2:]
        elif after[:2] != (batches, columns) or len(after) != _DIMENSIONS:
            end, side = self._named(f"{node.outputs[0]}:exchanged", (batches, columns, rows)), ()
            viewed = True
        nodes.append(self._turn(node, source, end, side))
        if viewed:
            nodes.append(
                self._view(end, node.outputs[0], (0 if batches == after[0] else after[0], *after[1:]))
            )
            end = node.outputs[0]
        self.instead.update((name, []) for name in gone)
        self.instead[end] = nodes

    def _at_edge(self, node: Node) -> bool:
        """Whether a node reads an input of the model or makes an output, perhaps through views. There nothing
        is in local memory, and integers can be moved as they are."""
        name: str = node.inputs[0]
        while (maker := self.model.makers.get(name)) is not None and maker.is_a(*RESHAPES):
            name = maker.inputs[0]
        ends = [node.outputs[0]]
        while (reader := self.model.only_reader(ends[-1])) is not None and reader.is_a(*RESHAPES):
            ends.append(reader.outputs[0])
        return self.model.makers.get(name) is None or ends[-1] in self.model.results

    def _picture_before(self, name: str, batches: int, rows: int) -> str | None:
        """The value of these batches and rows, in other dimensions, that a value read once is a view of."""
        maker = self.model.makers.get(name)
        if maker is None or not maker.is_a(*RESHAPES) or self.model.only_reader(name) is None:
            return None
        shape = self._shape(maker.inputs[0])
        fits = shape[:2] == (batches, rows) and 3 <= len(shape) <= _DIMENSIONS
        return maker.inputs[0] if fits and name not in self.instead else None

    def _makes_picture(self, reader: Node, name: str, lead: Shape) -> bool:
        """Whether a node gives a value the shape of a picture with the same first dimensions."""
        if not reader.is_a("Reshape", "Flatten") or reader.inputs[0] != name or len(reader.inputs) < 2:
            return False
        target, picture = self.model.constants.get(reader.inputs[1]), self._shape(reader.outputs[0])
        given = target is not None and target.size == _DIMENSIONS and (target.reshape(-1)[2:] > 0).all()
        return bool(given) and len(picture) == _DIMENSIONS and picture[:2] == lead

    def _turn(self, node: Node, source: str, made: str, side: Shape = ()) -> Node:
        height, width = side or (0, 0)
        return Node(TURN, DOMAIN, node.name, (source,), (made,), {"height": height, "width": width})

    def _view(self, source: str, made: str, target: Shape) -> Node:
        self.constants[f"{made}:shape"] = np.array(target, np.int64)
        return Node("Reshape", "", "", (source, f"{made}:shape"), (made,))

    def _named(self, name: str, shape: Shape) -> str:
        self.values[name] = Value(name, shape, np.dtype(np.float32))
        return name

    def _shape(self, name: str) -> Shape:
        return self.model.value(name).fixed or ()


def _matrices(shape: Shape, order: list[int]) -> tuple[int, int, int] | None:
    """(batches, rows, columns) of the matrices that a transpose turns; None where it does something else."""
    runs: list[list[int]] = []  # of dimensions that stay side by side
    for axis in (i for i in order if shape[i] != 1):
        skipped = [i for i in range(runs[-1][-1] + 1, axis) if shape[i] != 1] if runs else [axis]
        if runs and axis > runs[-1][-1] and not skipped:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    sizes = [math.prod(shape[i] for i in run) for run in runs]
    firsts = [run[0] for run in runs]
    if len(runs) == 2 and firsts[0] > firsts[1]:
        return 1, sizes[1], sizes[0]
    if len(runs) == 3 and firsts[0] < firsts[2] < firsts[1]:
        return sizes[0], sizes[2], sizes[1]
    return None
