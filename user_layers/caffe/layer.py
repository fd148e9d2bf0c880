"""A layer that Caffe does not have, as the function gets it that says what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firmware_sim.shown import count as counted
from user_layers.caffe.message import Message
from user_layers.spelling.foreign import Array


class CaffeLayer(Message):
    """A layer of a prototxt as its function gets it. Its fields are read as those of a message; what every
    layer of Caffe has (name, type, bottom, top, param, include, ...) is not among them.

    type, name: as the prototxt has them. bottoms: names of tensors in the graph, tops: names that the
    function must give to outputs of layers; shapes: of the bottoms, in elements. where: "FILE:LINE", for
    messages. again: it is asked for once more, for the net, after its shapes.
    """

    def __init__(
        self,
        type: str,
        name: str,
        bottoms: Sequence[str],
        tops: Sequence[str],
        shapes: Sequence[Sequence[int]],
        fields: Mapping[str, Any],
        weights: Sequence[Array] = (),
        where: str = "",
        again: bool = False,
    ) -> None:
        super().__init__(f"{f'{where}: ' if where else ''}layer {name!r} ({type})", fields)
        self.type = type
        self.name = name
        self.bottoms = tuple(bottoms)
        self.tops = tuple(tops)
        self.shapes = tuple(tuple(shape) for shape in shapes)
        self.where = where
        self.again = again
        self._weights = tuple(weights)
        self._weights_read = False

    def __repr__(self) -> str:
        return f"<CaffeLayer {self.name!r} ({self.type}): {list(self.bottoms)} -> {list(self.tops)}>"

    @property
    def weights(self) -> tuple[Array, ...]:
        """Its blobs in the caffemodel, float32 arrays. Where there are some and nobody looks at them, that is
        an error."""
        self._weights_read = True
        return self._weights

    def expect(
        self,
        *,
        bottoms: int | tuple[int, int] | None = None,
        tops: int | tuple[int, int] | None = None,
        weights: int | tuple[int, int] | None = None,
    ) -> None:
        """Refuse a layer with another number of these: exactly so many, or from the fewest to the most."""
        if weights is not None:
            self._weights_read = True
        for one, many, found, wanted in (
            ("bottom", "bottoms", len(self.bottoms), bottoms),
            ("top", "tops", len(self.tops), tops),
            ("blob of weights", "blobs of weights", len(self._weights), weights),
        ):
            fewest, most = (wanted, wanted) if isinstance(wanted, int) else wanted or (found, found)
            if not fewest <= found <= most:
                number = str(most) if fewest == most else f"{fewest} to {most}"
                raise self.error(f"it has {found} {one if found == 1 else many}; expected {number}")

    def check_read(self, by: str) -> None:
        """Refuse fields, and weights, that nobody has read. by: who reads."""
        super().check_read(by)
        if self._weights and not self._weights_read:
            raise self.error(
                f"{by} does not read its {counted(len(self._weights), 'blob')} of weights",
                hint="they are in layer.weights; layer.expect(weights=0) refuses layers that have some",
            )

    def placed(
        self,
        bottoms: Sequence[str],
        tops: Sequence[str],
        shapes: Sequence[Sequence[int]],
        *,
        again: bool = False,
    ) -> CaffeLayer:
        """The same layer between other tensors, of which nothing has been read yet."""
        return CaffeLayer(
            self.type, self.name, bottoms, tops, shapes, self._fields, self._weights, self.where, again
        )
