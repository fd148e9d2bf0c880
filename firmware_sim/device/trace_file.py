"""In the device process: a trace as a file, so that what was issued before a crash is there too.

A record is a line of JSON and the bytes that it announces: descriptors of both engines, for each the number
of its issuer, and what the controller wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.checks.checker import Site
from firmware_sim.chip import DESCRIPTOR_BYTES
from firmware_sim.errors import DeviceError
from firmware_sim.firmware.controller_log import ControllerAccess
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space
from firmware_sim.processes.shared_memory import SharedMemory

U32 = npt.NDArray[np.uint32]

MOST_TRACED = 1 << 22
"""Commands of a request: 512 MiB of descriptors."""
_ENGINES = (Engine.BD, Engine.GDMA)


class TraceFile:
    """In the device process: writes what `Begun.end` reads."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("wb")  # noqa: SIM115  # until `close`
        self._sites: dict[object, int] = {}
        self._commands = 0
        self._written: list[tuple[Space, int, bytes]] = []
        self._calls: list[str] = []
        self._complete = True

    def accessed(self, accesses: Sequence[ControllerAccess], memory: SharedMemory, *, lost: bool) -> None:
        """What the controller's code did; memory: as it left it."""
        self._complete &= not lost
        spaces = {Space.DDR: memory.ddr, Space.LOCAL: memory.local, Space.L2: memory.l2}
        for one in accesses:
            if one.write:
                data = spaces[one.space][one.offset : one.offset + one.nbytes].tobytes()
                self._written.append((one.space, one.offset, data))

    def unwatched(self) -> None:
        """Nobody tells what the controller's code does."""
        self._complete = False

    def announced(self, text: str) -> None:
        """A layer is called."""
        self._calls.append(text)

    def batch(
        self,
        bd: U32,
        gdma: U32,
        group: int,
        keys: tuple[Sequence[object], Sequence[object]] | None,
        site: Callable[[Engine, int], Site],
    ) -> None:
        """Commands about to be executed. keys: of each engine's commands, equal where the same code issued
        them; None where nobody did, the engines read a stored stream. DeviceError beyond MOST_TRACED."""
        self._commands += len(bd) + len(gdma)
        if self._commands > MOST_TRACED:
            raise DeviceError(
                f"more than {MOST_TRACED} commands in one request are not traced", hint="give it less to do"
            )
        fresh: list[dict[str, Any]] = []
        issued = []
        for engine, count, own in zip(_ENGINES, (len(bd), len(gdma)), keys or ((), ()), strict=True):
            numbers = np.zeros(count, np.uint32)
            for index in range(count):
                key = own[index] if keys else None
                if key not in self._sites:
                    self._sites[key] = len(self._sites)
                    fresh.append(asdict(site(engine, index) if keys else Site()))
                numbers[index] = self._sites[key]
            issued.append(numbers)
        self._write(bd, gdma, group, keys is None, fresh, issued)

    def close(self) -> None:
        """The request is over; what the controller wrote at last is a batch without commands."""
        none = np.zeros((0, DESCRIPTOR_BYTES // 4), np.uint32)
        if self._written or self._calls or not self._complete:
            self._write(none, none, 0, False, [], [none[:, 0], none[:, 0]])
        self._file.close()

    def _write(
        self, bd: U32, gdma: U32, group: int, streamed: bool, fresh: list[dict[str, Any]], issued: list[U32]
    ) -> None:
        head = {
            "commands": [len(bd), len(gdma)],
            "streamed": streamed,
            "group": group,
            "sites": fresh,
            "written": [[int(space), offset, len(data)] for space, offset, data in self._written],
            "calls": self._calls,
            "complete": self._complete,
        }
        self._file.write(json.dumps(head).encode() + b"\n")
        for part in (bd, gdma, *issued):
            self._file.write(part.tobytes())
        for _, _, data in self._written:
            self._file.write(data)
        self._file.flush()  # a crash may come next
        self._written, self._calls, self._complete = [], [], True
