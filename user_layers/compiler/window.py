"""The part of a tensor along one axis that a tile of a group has in local memory."""

from __future__ import annotations

from typing import NamedTuple


class Window(NamedTuple):
    """`extent` elements from `first`, inside the tensor; `pad`: elements that the layer's window has below
    index 0."""

    first: int
    extent: int
    pad: int = 0

    @property
    def end(self) -> int:
        """The first element behind it."""
        return self.first + self.extent

    @property
    def region(self) -> tuple[int, int]:
        """(first, extent): what has to lie in local memory, whatever the layer pads."""
        return self.first, self.extent
