"""Moves static streams from their compile-time addresses to where their memory lies now.

GDMA descriptors hold DDR addresses: the source when they read system memory (S2L, S2S), the destination
when they write it (L2S, S2S). So do sorts, which travel in the BD stream (docs/isa.md). Addresses below the
start of the static context (L2, the firmware's own memory, the unused source of a constant fill) mean the
same everywhere and stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import DESCRIPTOR_BYTES, STATIC_CONTEXT_START
from firmware_sim.errors import ModelError
from firmware_sim.isa.codes import OtherEngine, Task
from firmware_sim.isa.layout import BD, GDMA, Layout

_S2L, _L2S, _S2S = 0, 1, 2
_SIDES = (("src", "source", (_S2L, _S2S)), ("dst", "destination", (_L2S, _S2S)))
# Addresses of a sort: low and high part, and the options with which it has them.
_SORT: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("opd0_addr", "opd0_n", {}),
    ("res0_addr", "res0_n", {}),
    ("res1_addr", "opd0_c", {"opt_res_add": 1}),
    ("opd1_addr", "opd1_n", {"opt_res_add": 1, "opt_left_tran": 0}),
)

Addresses = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Region:
    """Memory compiled for [start, start + size) that lies at moved_to now."""

    name: str
    start: int
    size: int
    moved_to: int
    writable: bool = True

    def holds(self, addr: int, nbytes: int = 1) -> bool:
        """Whether nbytes at a compile-time address lie in it."""
        return self.start <= addr and addr + nbytes <= self.start + self.size

    def text(self) -> str:
        """For messages: its name, first address, and the one behind it."""
        return f"{self.name} {self.start:#x}..{self.start + self.size:#x}"


def relocate_addr(addr: int, nbytes: int, regions: Sequence[Region], where: str) -> int:
    """Where `nbytes` at the compile-time address `addr` lie now. ModelError when in no region."""
    for region in regions:
        if region.holds(addr, nbytes):
            return addr - region.start + region.moved_to
    raise ModelError(f"{where}: {nbytes} bytes at {addr:#x} are outside {_listed(regions)}")


def relocate_stream(gdma: bytes, regions: Sequence[Region], where: str) -> bytes:
    """A GDMA stream (128 bytes per descriptor) with its DDR addresses moved.

    Raises ModelError, which names the descriptor by its position, for an address in no region and
    for a write into one that is not writable.
    """
    words = _words(gdma)
    columns = GDMA.columns(words)
    direction = columns["direction"]
    moved = {}
    for side, name, directions in _SIDES:
        addr = columns[f"{side}_start_addr_l32"] | (columns[f"{side}_start_addr_h8"] << np.uint64(32))
        what = f"the {name} of GDMA command"
        moved[side] = _moved(addr, np.isin(direction, directions), regions, where, what, side == "dst")
    for side, addr in moved.items():
        _put(words, GDMA, f"{side}_start_addr_l32", addr & np.uint64(0xFFFF_FFFF))
        _put(words, GDMA, f"{side}_start_addr_h8", addr >> np.uint64(32))
    return words.astype("<u4").tobytes()


def relocate_sorts(bd: bytes, regions: Sequence[Region], where: str) -> bytes:
    """A BD stream with the DDR addresses of its sorts moved; errors as those of relocate_stream."""
    words = _words(bd)
    columns = BD.columns(words)
    sorts = (columns["tsk_typ"] == Task.OTHER_ENGINE) & (columns["tsk_eu_typ"] == OtherEngine.SORT)
    if not sorts.any():
        return bd
    for low, high, options in _SORT:
        to_move = sorts.copy()
        for option, value in options.items():
            to_move &= columns[option] == value
        addr: Addresses = columns[low] | (columns[high] << np.uint64(32))
        moved = _moved(addr, to_move, regions, where, f"{low} of BD command", low.startswith("res"))
        rows = words[to_move]
        _put(rows, BD, low, moved[to_move] & np.uint64(0xFFFF_FFFF))
        _put(rows, BD, high, moved[to_move] >> np.uint64(32))
        words[to_move] = rows
    return words.astype("<u4").tobytes()


def _words(stream: bytes) -> npt.NDArray[np.uint32]:
    return np.frombuffer(stream, "<u4").reshape(-1, DESCRIPTOR_BYTES // 4).astype(np.uint32)


def _moved(
    addr: Addresses,
    to_move: npt.NDArray[np.bool_],
    regions: Sequence[Region],
    where: str,
    what: str,
    written: bool,
) -> Addresses:
    """The addresses where to_move is set, moved; what: names them in errors, before the command's number."""
    to_move = to_move & (addr >= STATIC_CONTEXT_START)
    new: Addresses = addr.copy()
    for region in regions:
        offset = addr - np.uint64(region.start)  # wraps round below the start, which the limit excludes
        inside = to_move & (offset < np.uint64(region.size))
        if not region.writable and written and inside.any():
            i = int(inside.argmax())
            command = what.rpartition(" of ")[2]
            raise ModelError(f"{where}: {command} {i + 1} writes to {int(addr[i]):#x} in {region.text()}")
        new[inside] = offset[inside] + np.uint64(region.moved_to)
        to_move &= ~inside
    if to_move.any():
        i = int(to_move.argmax())
        problem = f"{what} {i + 1}, {int(addr[i]):#x}, is outside {_listed(regions)}"
        raise ModelError(f"{where}: {problem}")
    return new


def _listed(regions: Sequence[Region]) -> str:
    return ", ".join(region.text() for region in regions)


def _put(words: npt.NDArray[np.uint32], layout: Layout, name: str, values: Addresses) -> None:
    """Store one value per descriptor in a field."""
    for word, shift, bits, place in layout[name].words:
        mask = (1 << bits) - 1
        part = ((values >> np.uint64(place)) & np.uint64(mask)).astype(np.uint32)
        words[:, word] = (words[:, word] & np.uint32(~(mask << shift) & 0xFFFF_FFFF)) | (
            part << np.uint32(shift)
        )
