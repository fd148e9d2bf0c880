"""Moves static streams from their compile-time addresses to where their memory lies now.

Only GDMA descriptors hold DDR addresses: the source when they read system memory (S2L, S2S), the
destination when they write it (L2S, S2S). Addresses below the start of the static context (L2, the
firmware's own memory, the unused source of a constant fill) mean the same everywhere and stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import DESCRIPTOR_BYTES, STATIC_CONTEXT_START
from firmware_sim.errors import ModelError
from firmware_sim.isa.layout import GDMA

_S2L, _L2S, _S2S = 0, 1, 2
_SIDES = (("src", "source", (_S2L, _S2S)), ("dst", "destination", (_L2S, _S2S)))


@dataclass(frozen=True)
class Region:
    """Memory compiled for [start, start + size) that lies at moved_to now."""

    name: str
    start: int
    size: int
    moved_to: int
    writable: bool = True

    def holds(self, addr: int, nbytes: int = 1) -> bool:
        return self.start <= addr and addr + nbytes <= self.start + self.size

    def text(self) -> str:
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
    words = np.frombuffer(gdma, "<u4").reshape(-1, DESCRIPTOR_BYTES // 4).astype(np.uint32)
    columns = GDMA.columns(words)
    direction = columns["direction"]
    moved: dict[str, npt.NDArray[np.uint64]] = {}
    for side, name, directions in _SIDES:
        low, high = columns[f"{side}_start_addr_l32"], columns[f"{side}_start_addr_h8"]
        addr = low | (high << np.uint64(32))
        to_move = np.isin(direction, directions) & (addr >= STATIC_CONTEXT_START)
        new = addr.copy()
        for region in regions:
            offset = addr - np.uint64(region.start)  # wraps round below the start, which the limit excludes
            inside = to_move & (offset < np.uint64(region.size))
            if not region.writable and side == "dst" and inside.any():
                i = int(inside.argmax())
                raise ModelError(
                    f"{where}: GDMA command {i + 1} writes to {int(addr[i]):#x} in {region.text()}"
                )
            new[inside] = offset[inside] + np.uint64(region.moved_to)
            to_move &= ~inside
        if to_move.any():
            i = int(to_move.argmax())
            problem = f"the {name} of GDMA command {i + 1}, {int(addr[i]):#x}, is outside {_listed(regions)}"
            raise ModelError(f"{where}: {problem}")
        moved[side] = new
    for side, addr in moved.items():
        _put(words, f"{side}_start_addr_l32", addr & np.uint64(0xFFFF_FFFF))
        _put(words, f"{side}_start_addr_h8", addr >> np.uint64(32))
    return words.astype("<u4").tobytes()


def _listed(regions: Sequence[Region]) -> str:
    return ", ".join(region.text() for region in regions)


def _put(words: npt.NDArray[np.uint32], name: str, values: npt.NDArray[np.uint64]) -> None:
    """Store one value per descriptor in a field."""
    for word, shift, bits, place in GDMA[name].words():
        mask = (1 << bits) - 1
        part = ((values >> np.uint64(place)) & np.uint64(mask)).astype(np.uint32)
        words[:, word] = (words[:, word] & np.uint32(~(mask << shift) & 0xFFFF_FFFF)) | (
            part << np.uint32(shift)
        )
