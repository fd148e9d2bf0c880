"""A replay with named tensors: what is in them at a command, and who wrote what is wrong there."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace

from firmware_sim.device.commands import Command
from firmware_sim.device.current_trace import NamedTensor
from firmware_sim.device.replay import Array, Replay
from firmware_sim.errors import UsageError
from firmware_sim.isa.footprint import locate
from firmware_sim.suggest import did_you_mean
from user_layers.runtime.store_mode import separate, stored_shape
from user_layers.testing.compare import Difference, difference

_ROWS = 6  # commands shown on either side of the next one


@dataclass(frozen=True)
class Blamed:
    """A tensor that is not what it must be. commands: which brought the first wrong element there, the newest
    first, as of `Commands.origin`; none where no command of this request did."""

    name: str
    difference: Difference
    commands: tuple[Command, ...]

    def __str__(self) -> str:
        if not self.commands:
            return f"{self.name}: {self.difference}; no command so far wrote that element"
        stored, made = (f"command {one.number}, {one.place}" for one in (self.commands[0], self.commands[-1]))
        if len(self.commands) == 1:
            return f"{self.name}: {self.difference}; written by {stored}"
        return f"{self.name}: {self.difference}; computed by {made}; stored by {stored}"


class Stepper(Replay):
    """Walks through a request of `traced(memories=True)`, command by command."""

    def named(self, name: str) -> NamedTensor:
        """Where a tensor lies. UsageError for a name that none of the request has."""
        known = {one.name: one for one in self.request.told.tensors}
        if name not in known:
            raise UsageError(
                f"there is no tensor {name}{did_you_mean(name, list(known))}",
                hint=f"there are {', '.join(known) or 'none'}",
            )
        return known[name]

    def tensor(self, name: str, shape: tuple[int, ...] | None = None) -> Array:
        """What is in a tensor now, its batches taken apart (2N, 4N). shape: of one that a dynamic net makes,
        where the largest is known."""
        one = self.named(name)
        wanted = one.shape if shape is None else shape
        stored = self.array(one.address, stored_shape(wanted, one.together), one.dtype)
        return separate(stored, wanted, one.together)

    def blame(
        self, name: str, expected: Array, atol: float | None = None, rtol: float | None = None
    ) -> Blamed | None:
        """Where a tensor is not now what it must be, and who wrote that; None where it is. Tolerances: as of
        `difference`. UsageError for another shape or type."""
        one = self.named(name)
        if one.varies:  # who expects something knows which shape the request gave it
            one = replace(one, shape=expected.shape)
        got = self.tensor(name, one.shape)
        if got.shape != expected.shape or got.dtype != expected.dtype:
            raise UsageError(
                f"{name} is {list(got.shape)} {got.dtype}, what it must be {list(expected.shape)} "
                f"{expected.dtype}"
            )
        found = difference(got, expected, atol, rtol)
        if found is None:
            return None
        space, offset = locate(one.element(found.index), name)
        return Blamed(name, found, self.origin(space, offset, got.itemsize, self.position))

    def _repr_html_(self) -> str:
        """For Jupyter: the commands around the next one."""
        first = max(self.position - _ROWS, 0)
        rows = []
        for number in range(first, min(self.position + _ROWS + 1, len(self))):
            command = self[number]
            words = (str(number), command.engine.value, command.issued.name, command.place, command.text)
            style = ' style="font-weight: bold"' if number == self.position else ""
            rows.append(f"<tr{style}>{''.join(f'<td>{html.escape(word)}</td>' for word in words)}</tr>")
        return f"<p>{html.escape(repr(self)[1:-1])}</p><table>{''.join(rows)}</table>"
