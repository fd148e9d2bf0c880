"""Which values of a group share memory: what is computed in place, and concatenations that are elided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firmware_sim.chip import NPU_NUM
from firmware_sim.wire import TType
from user_layers.compiler.concat import concat_channels
from user_layers.compiler.tiles import CutGroup
from user_layers.compiler.tiling import Tiling


@dataclass
class Storage:
    """Memory of one value, or of several that overwrite one another or are parts of one.

    first, last: steps of one tile in which it is in use; values: with the channels on each NPU that lie
    before them; load: the value that is loaded, by a transfer or by the layer that makes it; store: the one
    that is stored, made in step `made`; moved: the last step in which a copy of it to elsewhere begins.
    """

    size: int
    first: int
    last: int
    values: list[tuple[int, int]]
    once: bool = False
    load: int | None = None
    store: int | None = None
    made: int = -1
    moved: int = -1
    concat: int | None = None  # the value whose parts the others are


@dataclass(frozen=True)
class Move:
    """Input `index` of node `node`, a concatenation, is copied to its channels from `channel` on; or the node
    runs on the DMA engine (LayerAttributes.turns).

    step: of one tile, in which the copy begins.
    """

    node: int
    index: int
    channel: int
    step: int


class _Sharing:
    """The storages of a group under construction, in the order of its steps."""

    def __init__(self, cut: CutGroup) -> None:
        self.cut = cut
        self.storages: list[Storage] = []
        self.moves: list[Move] = []
        self._where: dict[int, Storage] = {}
        self._makers: dict[int, int] = {}  # step that makes a value by a layer
        steps: dict[int, list[int]] = {}
        for (k, _), v in cut.read.items():
            steps.setdefault(v, []).append(cut.steps[k])
        self._reads = {v: (min(found), max(found)) for v, found in steps.items()}

    def run(self) -> None:
        for v, value in enumerate(self.cut.values):
            if value.loaded:
                self._new(v, *self._reads[v]).load = v
        for step, k in enumerate(self.cut.nodes):
            channels = concat_channels(self.cut.described, k)
            for out in self.cut.described.net.nodes[k].outputs:
                v = self.cut.made[out]
                if channels is not None:
                    s = self._concat(step, k, v, channels)
                elif self.cut.described.attrs[k].gathers:
                    s = self._new(v, step, self._last_read(v, step))
                    s.load = v
                elif k in self.cut.scatterers:
                    s = self._scattered(step, k, v)
                elif self.cut.described.attrs[k].turns:
                    s = self._turned(step, k, v)
                else:
                    self._makers[v] = step
                    s = self._made_by_layer(step, k, v)
                if self.cut.values[v].stored:
                    s.store, s.made = v, step

    def _new(self, v: int, first: int, last: int) -> Storage:
        s = Storage(self.cut.values[v].nbytes, first, last, [(v, 0)], self.cut.values[v].once)
        self.storages.append(s)
        self._where[v] = s
        return s

    def _last_read(self, v: int, otherwise: int) -> int:
        return self._reads[v][1] if v in self._reads else otherwise

    def _turned(self, step: int, k: int, v: int) -> Storage:
        u = self.cut.read[k, 0]
        s, source = self._new(v, step, self._last_read(v, step)), self._where[u]
        begins = min(self._makers[u] + 1, step) if u in self._makers else step
        self.moves.append(Move(k, 0, 0, begins))
        s.first = min(s.first, begins)
        source.moved = max(source.moved, begins)
        return s

    def _scattered(self, step: int, k: int, v: int) -> Storage:
        """The memory of what the layer takes, which is stored as what it makes."""
        s = self._where[self.cut.read[k, 0]]
        s.values.append((v, 0))
        s.last = max(s.last, step)
        self._where[v] = s
        return s

    def _made_by_layer(self, step: int, k: int, v: int) -> Storage:
        s = self._inplace_source(step, k)
        last = self._last_read(v, step)
        if s is None:
            return self._new(v, step, last)
        s.values.append((v, 0))
        s.last = max(s.last, last)
        if s.concat is not None:
            s.concat = v
        self._where[v] = s
        return s

    def _concat(self, step: int, k: int, v: int, channels: Sequence[int]) -> Storage:
        """Memory for all inputs one after the other. Those that a layer of the group makes are made there if
        they begin on the first NPU; the others are copied."""
        s = self._new(v, step, self._last_read(v, step))
        s.concat = v
        tensor = self.cut.described.net.tensors[self.cut.values[v].tensor]
        together = tensor.format.together  # one batch of words
        single = all(part.made[tensor.name].extent <= together for part in self.cut.tiling.n)
        for i, channel in enumerate(channels):
            u = self.cut.read[k, i]
            part = self._where[u]
            if (
                single
                and channel % NPU_NUM == 0
                and part is not s
                and not part.once
                and part.load is None
                and part.store is None
                and part.size == self.cut.values[u].nbytes
                and (part.concat is None or part.concat == u)
            ):
                self.storages.remove(part)
                s.first, s.last, s.moved = (
                    min(s.first, part.first),
                    max(s.last, part.last),
                    max(s.moved, part.moved),
                )
                for x, slot in part.values:
                    s.values.append((x, slot + channel // NPU_NUM))
                    self._where[x] = s
            else:
                begins = min(self._makers[u] + 1, step) if u in self._makers else step
                self.moves.append(Move(k, i, channel, begins))
                s.first = min(s.first, begins)
                part.moved = max(part.moved, begins)
        return s

    def _inplace_source(self, step: int, k: int) -> Storage | None:
        """The storage of an input that the layer's only output may overwrite: the descriptor allows it,
        nothing needs the input afterwards, and its tiles have the shape and type of the output's."""
        net, attrs = self.cut.described.net, self.cut.described.attrs[k]
        node = net.nodes[k]
        if len(node.outputs) != 1:
            return None
        target = net.tensors[node.outputs[0]]
        for i, name in enumerate(node.inputs):
            if (k, i) not in self.cut.read:
                continue
            v = self.cut.read[k, i]
            source, s = net.tensors[name], self._where[v]
            if (
                self.cut.values[v].ttype == TType.NEURON
                and not self.cut.values[v].once
                and not self.cut.values[v].stored
                and self._last_read(v, step) == step
                and (source.dtype, source.store_mode) == (target.dtype, target.store_mode)
                and source.nchw[1] == target.nchw[1]
                and (attrs.views or _same_regions(self.cut.tiling, k, i, node.outputs[0]))
                and attrs.can_inplace(source.dtype)
                and (s.concat is None or (s.concat == v and self._is_last(s, step)))
            ):
                return s
        return None

    def _is_last(self, s: Storage, step: int) -> bool:
        """Whether nothing needs the parts of a storage after this step."""
        return s.store is None and all(self._last_read(x, -1) <= step for x, _ in s.values)


def share_memory(cut: CutGroup) -> tuple[list[Storage], list[Move]]:
    """The storages of all values, and the copies into concatenated ones."""
    sharing = _Sharing(cut)
    sharing.run()
    return sharing.storages, sharing.moves


def _same_regions(tiling: Tiling, k: int, i: int, out: str) -> bool:
    return all(
        part.read[k, i].extent == part.made[out].extent
        for axis in (tiling.n, tiling.h, tiling.w)
        for part in axis
    )
