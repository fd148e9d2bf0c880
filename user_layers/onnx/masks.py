"""What is added to the scores of an attention: several values and constants become one mask."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from user_layers.onnx.model import Array, Node, Value
from user_layers.onnx.views import broadcasts

Shape = tuple[int, ...]


@dataclass
class Masks:
    """The masks of one attention, from the last that is added on.

    stem: of names, an own one for each attention; values, constants: of the model under way, which get what
    is written here; nodes: what makes the mask, in order.
    """

    stem: str
    values: dict[str, Value]
    constants: dict[str, Array]
    nodes: list[Node] = field(default_factory=list)
    _mask: str | Array | None = None
    _instead: bool = False  # what there is stands in the place of scores: nothing else is added to it

    def add(self, mask: str | Array, instead: bool) -> bool:
        """Whether it can be added. instead: it is given in the place of scores, which the sum only resembles
        where nothing else is so small."""
        if self._instead or (instead and self._mask is not None):
            return False
        self._instead = instead
        if self._mask is None:
            self._mask = mask
        elif isinstance(mask, str) or isinstance(self._mask, str):
            return self._add_values(mask, self._mask)
        else:
            with np.errstate(over="ignore"):
                self._mask = np.asarray(self._mask + mask)
        return True

    def reshape(self, after: Shape, before: Shape | None) -> bool:
        """Whether what is added behind a change of shape can be added before it."""
        if before is None:
            return False
        if self._mask is None:
            return True
        own = self._shape(self._mask)
        if own is None or len(own) > len(after) or not broadcasts(own, after):
            return False  # scores are broadcast against it
        if not isinstance(self._mask, str):
            self._mask = np.broadcast_to(self._mask, after).reshape(before)
            return True
        own = (*(1,) * (len(after) - len(own)), *own)
        kept = next(d for d in range(len(after) + 1) if after[: d + 1] != before[: d + 1] or d == len(after))
        if own[kept:] != after[kept:]:
            return False  # it would be repeated in DDR
        name, shape = f"{self.stem}:masks{len(self.nodes)}", (*own[:kept], *before[kept:])
        self.constants[f"{name}:shape"] = np.array(shape, np.int64)
        self.nodes.append(Node("Reshape", "", "", (self._mask, f"{name}:shape"), (name,)))
        self._mask = self._made(name, shape)
        return True

    def name(self, scores: str) -> str | None:
        """The value to add; None if there is none."""
        if self._mask is None or isinstance(self._mask, str):
            return self._mask
        self.constants[f"{scores}:mask"] = self._mask
        return f"{scores}:mask"

    def _add_values(self, left: str | Array, right: str | Array) -> bool:
        """Add two masks of which one is computed by the model."""
        shapes = [self._shape(left), self._shape(right)]
        if shapes[0] is None or shapes[1] is None:
            return False
        names = [self._named(left), self._named(right)]
        try:
            shape = np.broadcast_shapes(shapes[0], shapes[1])
        except ValueError:  # the model's own shapes contradict one another
            return False
        name = f"{self.stem}:masks{len(self.nodes)}"
        self.nodes.append(Node("Add", "", "", (names[0], names[1]), (name,)))
        self._mask = self._made(name, shape)
        return True

    def _named(self, mask: str | Array) -> str:
        if isinstance(mask, str):
            return mask
        name = f"{self.stem}:masks{len(self.nodes)}:given"
        self.constants[name] = mask
        return name

    def _made(self, name: str, shape: Shape) -> str:
        self.values[name] = Value(name, shape, np.dtype(np.float32))
        return name

    def _shape(self, mask: str | Array) -> Shape | None:
        if not isinstance(mask, str):
            return mask.shape
        return self.values[mask].fixed if mask in self.values else None
