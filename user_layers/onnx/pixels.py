"""Pictures in bytes at the beginning of a model, as one layer takes them: cut out, cast, channels first,
(x - mean) * scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from user_layers.onnx.model import DOMAIN, Array, Model, Node

PIXELS = "Pixels"  # what TPU_PIXELS does: an operation of this compiler alone
CHANNELS = 4  # at most
_BYTES = (np.dtype(np.uint8), np.dtype(np.int8))


def take_pixels(model: Model) -> Model:
    """One node in the place of a Cast (or DequantizeLinear) of bytes to float32 and what follows it: a
    Transpose that brings channels from the end, a Gather that turns their order around, Sub and Mul of
    constants for each; and of the Slice before it that cuts out a part. Bits stay what they are."""
    gone: set[str] = set()
    instead: dict[str, Node] = {}
    for node in model.nodes:
        taken = _Taken.at(model, node)
        if taken is not None:
            gone |= taken.gone
            instead[taken.last] = taken.node(model)
    nodes = (instead.get(n.outputs[0], n) for n in model.nodes if not n.outputs or n.outputs[0] not in gone)
    return replace(model, nodes=tuple(nodes)) if instead else model


@dataclass
class _Taken:
    """A chain that is being followed. source: the bytes; last: what it makes so far."""

    source: str
    last: str
    name: str
    channels: int
    planar: bool
    backwards: bool
    cut: tuple[int, int, int, int]  # top, bottom, left, right
    mean: Array | None
    scale: Array | None
    gone: set[str]

    @staticmethod
    def at(model: Model, cast: Node) -> _Taken | None:
        """The chain that a Cast begins; None for any other node, or what is no picture."""
        if not cast.is_a("Cast", "DequantizeLinear"):
            return None
        source, made = (model.value(name) for name in (cast.inputs[0], cast.outputs[0]))
        shape = source.fixed
        if source.dtype not in _BYTES or made.dtype != np.float32 or shape is None or len(shape) != 4:
            return None
        turn = model.only_reader(made.name)
        turns = turn is not None and turn.is_a("Transpose") and turn.attributes.get("perm") == [0, 3, 1, 2]
        channels = shape[3] if turns else shape[1]
        if not 1 <= channels <= CHANNELS or 0 in shape:
            return None
        taken = _Taken(
            source.name, made.name, cast.name, channels, not turns, False, (0, 0, 0, 0), None, None, set()
        )
        if cast.op == "DequantizeLinear" and not taken._grid(model, cast):
            return None
        taken._before(model)
        if turn is not None and turns:
            taken._to(turn)
        while (reader := model.only_reader(taken.last)) is not None and taken._takes(model, reader):
            taken._to(reader)
        return taken

    def node(self, model: Model) -> Node:
        """The one that stands for it."""
        shape = model.value(self.source).fixed
        assert shape is not None
        top, bottom, left, right = self.cut
        # Of channels that come last the runtime does not know which extents are height and width.
        attributes: dict[str, Any] = {
            "planar": int(self.planar),
            "backwards": int(self.backwards),
            "rows": 0 if self.planar else shape[1],
            "columns": 0 if self.planar else shape[2],
            "top": top,
            "bottom": bottom,
            "left": left,
            "right": right,
            "mean": _four(self.mean, 0.0),
            "scale": _four(self.scale, 1.0),
        }
        return Node(PIXELS, DOMAIN, self.name, (self.source,), (self.last,), attributes)

    def _grid(self, model: Model, node: Node) -> bool:
        """Whether the integers have one scale and one zero point, which are noted then."""
        numbers = [model.constants.get(name) for name in node.inputs[1:] if name]
        if any(one is None or one.size != 1 for one in numbers):
            return False
        scale, zero = (*(one for one in numbers if one is not None), np.zeros(1))[:2]
        self.mean, self.scale = (np.full(self.channels, float(one.reshape(-1)[0])) for one in (zero, scale))
        return True

    def _to(self, node: Node) -> None:
        self.gone.add(self.last)
        self.last = node.outputs[0]

    def _before(self, model: Model) -> None:
        """The Slice that makes the bytes, if nothing else reads it."""
        cut = model.makers.get(self.source)
        if cut is None or not cut.is_a("Slice") or model.only_reader(self.source) is None:
            return
        whole, part = (model.value(name).fixed for name in (cut.inputs[0], self.source))
        known = [model.constants.get(name) for name in cut.inputs[1:]]
        if whole is None or part is None or len(known) < 3 or any(one is None for one in known):
            return
        starts, _, axes, *steps = (one.reshape(-1).tolist() for one in known if one is not None)
        if any(step != 1 for step in (steps[0] if steps else [])):
            return
        extents = dict(zip((axis % 4 for axis in axes), starts, strict=True))
        first = [
            min(max(s + (n if s < 0 else 0), 0), n)
            for s, n in ((extents.get(i, 0), whole[i]) for i in range(4))
        ]
        rest = [n - m - s for n, m, s in zip(whole, part, first, strict=True)]
        h, w = (2, 3) if self.planar else (1, 2)
        if any(first[i] or rest[i] for i in range(4) if i not in (h, w)):
            return
        self.cut = first[h], rest[h], first[w], rest[w]
        self.gone.add(self.source)
        self.source = cut.inputs[0]

    def _takes(self, model: Model, node: Node) -> bool:
        """Whether a node that follows can be part of it; what it does is noted then."""
        if node.is_a("Gather"):
            order = model.constants.get(node.inputs[1])
            fits = order is not None and order.tolist() == list(range(self.channels))[::-1]
            if not fits or node.attributes.get("axis", 0) != 1 or self.backwards or self._counts:
                return False
            self.backwards = True
            return True
        if node.is_a("Sub") and not self._counts and node.inputs[0] == self.last:
            self.mean = self._numbers(model, node.inputs[1])
            return self.mean is not None
        if node.is_a("Mul") and self.scale is None:
            others = [name for name in node.inputs if name != self.last]
            self.scale = self._numbers(model, others[0]) if len(others) == 1 else None
            return self.scale is not None
        return False

    @property
    def _counts(self) -> bool:
        return self.mean is not None or self.scale is not None

    def _numbers(self, model: Model, name: str) -> Array | None:
        """A constant with one number for each channel, or one for all."""
        array = model.constants.get(name)
        if array is None or array.dtype != np.float32:
            return None
        if array.size == 1 and array.ndim <= 4:
            return np.repeat(array.reshape(-1), self.channels)
        whole = (1,) * (4 - array.ndim) + array.shape
        return array.reshape(-1) if whole == (1, self.channels, 1, 1) else None


def _four(values: Array | None, other: float) -> list[float]:
    found = [] if values is None else [float(value) for value in values]
    return found + [other] * (CHANNELS - len(found))
