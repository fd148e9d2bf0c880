"""Calls of layers' functions as the firmware announces them: what each was given, as areas of memory.

The firmware tells of a call before it begins and when it has ended, with its tensors as they are then
(`tell_call` of sdk/firmware/fw_layers.c): hexadecimal numbers, then the layer's label.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from firmware_sim import chip
from firmware_sim.checks.objects import ALL_LANES, BOTH, KERNEL_AREAS, L2_LOOKUP, L2_TABLES, Area
from firmware_sim.checks.records import READS, WRITES, Runs
from firmware_sim.errors import DeviceError
from firmware_sim.isa.footprint import Space, locate
from firmware_sim.wire import DType, StoreMode, TType

BEGINS, ENDED = 1, 2
GLOBAL, LOCAL = 1, 2
_COMPACT = (TType.COEFF, TType.COEFF_NEURON)


@dataclass(frozen=True)
class CallTensor:
    """One tensor of a call; address: absolute, or of a tile the offset in each lane. values: it is given as
    numbers, not as memory. shape: of the whole tensor; extents: of the tile."""

    address: int
    ttype: int
    dtype: DType
    store_mode: StoreMode
    values: bool
    shape: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor, continuous."""
        shape, size = self._stored(self.shape)
        return math.prod(shape) * size

    def element(self, offset: int) -> str:
        """Which element of the whole tensor lies at a byte of it: "[0, 3, 0, 1]"."""
        at, places = offset // self.dtype.itemsize, list[int]()
        if self.store_mode is not StoreMode.N1:
            return f"{at} in memory"
        for extent in reversed(self.shape):
            places.append(at % extent)
            at //= extent
        return str(places[::-1])

    def tile(self, operand: int) -> tuple[Runs, ...]:
        """Where a tile's elements lie, without what fills up aligned rows: those of full rounds of lanes, and
        those of the channels that are left. In 2N and 4N all of the words."""
        (n, *_), size = self._stored(self.extents)
        return tuple(self._tile(operand, 0, n, size))

    def tile_elements(self, operand: int) -> tuple[Runs, ...]:
        """The same without what fills up the last words in 2N and 4N, where no batch is."""
        size = self.dtype.itemsize
        words, rest = divmod(self.extents[0] if self.extents else 1, self.store_mode.together)
        full = self._tile(operand, 0, words, size * self.store_mode.together) if words else ()
        return *full, *(self._tile(operand, words, 1, rest * size) if rest else ())

    def _tile(self, operand: int, first: int, n: int, used: int) -> Iterator[Runs]:
        """n batches (or words of them) from `first` on, of each word the first `used` bytes."""
        (_, c, h, w), size = self._stored(self.extents)
        plane = self.plane
        rounds, rest = divmod(c, chip.NPU_NUM)
        batch = (rounds + bool(rest)) * plane
        run, words = (h * w * size, ()) if used == size else (used, ((h * w, size),))
        batches = ((n, batch),) if n > 1 else ()
        slots = ((rounds, plane),) if rounds > 1 else ()
        start = self.address + first * batch
        if rounds:
            yield Runs(operand, WRITES, Space.LOCAL, ALL_LANES, start, run, (*words, *slots, *batches))
        if rest:
            lanes = (1 << rest) - 1
            yield Runs(operand, WRITES, Space.LOCAL, lanes, start + rounds * plane, run, (*words, *batches))

    def whole_elements(self, space: Space, start: int) -> tuple[Runs, ...]:
        """Where the elements of the whole tensor lie in system memory, without what fills up the last words
        in 2N and 4N."""
        (n, *rest), size = self._stored(self.shape)
        together = self.store_mode.together
        batch, left = math.prod(rest), (self.shape[0] if self.shape else 1) % together
        full = (n - bool(left)) * batch * size
        found = [Runs(0, WRITES, space, 0, start, full)] if full else []
        if left:
            found.append(
                Runs(0, WRITES, space, 0, start + full, left * self.dtype.itemsize, ((batch, size),))
            )
        return tuple(found)

    @property
    def plane(self) -> int:
        """Bytes from one channel of a tile to the next in its lane."""
        (_, _, h, w), size = self._stored(self.extents)
        used = h * w * size
        return used if self.ttype in _COMPACT else -(-used // chip.ALIGN_BYTES) * chip.ALIGN_BYTES

    def tile_areas(self, like: Area) -> list[Area]:
        """Where a tile lies, with what fills up aligned rows; like: their name, role and rights."""
        found: list[Area] = []
        parts = [(int(at), runs.lanes) for runs in self.tile(0) for at in runs.starts()]
        for start, lanes in sorted(parts):
            if found and found[-1].lanes == lanes and found[-1].end == start:
                found[-1] = replace(found[-1], nbytes=found[-1].nbytes + self.plane)
            else:
                found.append(replace(like, space=Space.LOCAL, start=start, nbytes=self.plane, lanes=lanes))
        return found

    def _stored(self, shape: tuple[int, ...]) -> tuple[tuple[int, int, int, int], int]:
        """[n, c, h, w] as it lies in memory, and bytes of an element there: in 2N and 4N several batches
        share a word."""
        n, c, h, *rest = shape if len(shape) > 3 else (*shape, 1, 1, 1, 1)[:4]
        together = self.store_mode.together
        return (-(-n // together), c, h, math.prod(rest)), self.dtype.itemsize * together


@dataclass(frozen=True)
class LayerCall:
    """One call of a layer's function. key: the label's address, by which commands name it; function: code
    address of the function, 0 unknown; kind: GLOBAL or LOCAL; buffer: address (of a local function: offset in
    each lane) and bytes."""

    key: int
    kind: int
    label: str
    function: int
    buffer: tuple[int, int]
    inputs: tuple[CallTensor, ...]
    outputs: tuple[CallTensor, ...]

    @cached_property
    def areas(self) -> tuple[Area, ...]:
        """All that the call may use."""
        found = list(KERNEL_AREAS if self.kind == GLOBAL else (L2_TABLES, L2_LOOKUP))
        found += (area for i, t in enumerate(self.outputs) for area in self._given(t, "output", i, BOTH))
        found += (area for i, t in enumerate(self.inputs) for area in self._given(t, "input", i, READS))
        address, nbytes = self.buffer
        if nbytes and self.kind == LOCAL:
            found.append(Area("the work buffer", "buffer", Space.LOCAL, address, nbytes, BOTH, ALL_LANES))
        elif nbytes:
            found += _system(address, nbytes, Area("the work buffer", "buffer", Space.DDR, 0, 0))
        return tuple(found)

    def is_output(self, block: Runs) -> bool:
        """Whether a block that is written has something in common with an output."""
        return bool(block.access & WRITES) and any(
            area.role == "output"
            and area.space is block.space
            and area.start < block.end
            and block.start < area.end
            for area in self.areas
        )

    def is_tile(self, tensor: CallTensor) -> bool:
        """Whether it lies in local memory; the others lie in DDR or L2."""
        return self.kind == LOCAL and tensor.address < chip.LOCAL_BYTES

    def in_place(self, output: CallTensor) -> bool:
        """Whether the output lies where an input begins, or holds one (parts of a concatenation)."""
        alike = (t for t in self.inputs if not t.values and self.is_tile(t) == self.is_tile(output))
        end = self._end(output)
        return any(t.address < end and output.address < self._end(t) for t in alike)

    def _end(self, tensor: CallTensor) -> int:
        """Behind its last byte, of a tile in any lane."""
        if not self.is_tile(tensor):
            return tensor.address + tensor.nbytes
        return max(int(runs.starts()[-1]) for runs in tensor.tile(0)) + tensor.plane

    def _given(self, tensor: CallTensor, role: str, number: int, rights: int) -> Iterator[Area]:
        if tensor.values and (self.kind == LOCAL or tensor.address < chip.DDR_BASE):
            return  # nothing but numbers
        like = Area(f"{role} {number}", role, Space.DDR, 0, 0, rights, number=number)
        if self.is_tile(tensor):
            for area in tensor.tile_areas(like):
                # What fills up rows and lanes is nobody else's: a layer may work on all lanes of a tile, and
                # a convolution clears those behind an odd number of channels that it reads.
                yield replace(area, lanes=ALL_LANES)
                if rights == READS and area.lanes != ALL_LANES:
                    yield replace(area, rights=BOTH, lanes=ALL_LANES ^ area.lanes)
        else:
            yield from _system(tensor.address, tensor.nbytes, like)


def _system(address: int, nbytes: int, like: Area) -> Iterator[Area]:
    try:
        space, offset = locate(address, like.name)
    except DeviceError:
        return  # no memory at all: using it is refused
    yield replace(like, space=space, start=offset, nbytes=nbytes)


def parsed(text: str) -> tuple[int, LayerCall]:
    """BEGINS or ENDED, and the call. ValueError for a text that the firmware does not send."""
    head, _, label = text.partition(";")
    numbers = iter([int(word, 16) for word in head.split()])

    def tensor() -> CallTensor:
        address, ttype, dtype, mode, values, dims = (next(numbers) for _ in range(6))
        shape = tuple(next(numbers) for _ in range(dims))
        extents = tuple(next(numbers) for _ in range(dims))
        return CallTensor(address, ttype, DType(dtype), StoreMode(mode), bool(values), shape, extents)

    try:
        phase, key, kind, function, address, nbytes, ins, outs = (next(numbers) for _ in range(8))
        inputs, outputs = (tuple(tensor() for _ in range(count)) for count in (ins, outs))
    except (StopIteration, RuntimeError) as error:
        raise ValueError(f"a layer call of {len(head.split())} numbers") from error
    return phase, LayerCall(key, kind, label, function, (address, nbytes), inputs, outputs)
