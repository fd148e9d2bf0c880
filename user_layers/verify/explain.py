"""Which command made the first wrong element: from where it was read back to what wrote it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from firmware_sim.checks.finding import Issued
from firmware_sim.checks.text import command, place
from firmware_sim.device.commands import Command, Commands
from firmware_sim.device.trace import TracedRequest, traced
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Access, Space, Tensor, locate
from user_layers.net.compiled import CompiledNet, NetTensor
from user_layers.runtime.references import run_net
from user_layers.testing.cases import Array
from user_layers.verify.sample import Sample
from user_layers.verify.tried import Layer, Tried
from user_layers.verify.verdict import Failure, Verdict

if TYPE_CHECKING:
    from user_layers.toolkit import Toolkit

_Bases = dict[Access, int]
"""Where the first command of a run reads and writes DDR."""


def explained(layer: Layer, sample: Sample, failure: Failure) -> tuple[str, ...]:
    """Lines about the command to look at; none where nothing is known."""
    if failure.findings or failure.at is None:
        return found_at(failure)
    launch = Traced()
    tried = Tried(layer, sample, launch)
    tried.accept()
    for name, act, firmware in tried.acts():
        if (name, firmware) == (failure.during, failure.firmware):
            tried.attempt(Verdict(), name, firmware, act)
    lines = launch.about(*failure.at)
    if failure.during == "dynamic" and failure.shapes is not None:
        static = Traced()
        beside = Tried(layer, sample, static)
        beside.accept()
        beside.static(failure.shapes)
        lines = (*launch.unlike(static), *lines)
    return lines


def found_at(failure: Failure) -> tuple[str, ...]:
    """Lines about the command that a check names."""
    by = failure.findings[0].by if failure.findings else None
    return () if by is None else _lines("found at", by)


class Traced:
    """Runs nets, and keeps the commands and the names of the outputs of the newest run."""

    def __init__(self) -> None:
        self._requests: list[TracedRequest] = []
        self._outputs: list[NetTensor] = []
        self._shapes: list[tuple[int, ...]] = []

    def __call__(self, net: CompiledNet, toolkit: Toolkit, feeds: dict[str, Array]) -> list[Array]:
        """Run one; as `run_net`."""
        with traced() as trace:
            outputs = run_net(net, toolkit, feeds)
        self._requests = trace.requests
        self._outputs = list(net.stages[0].outputs)
        self._shapes = [array.shape for array in outputs]
        return outputs

    def unlike(self, static: Traced) -> tuple[str, ...]:
        """The first command that is not what a static net issues for the same shapes; none where all are."""
        mine, theirs = ([c for r in one._requests for c in Commands(r)] for one in (self, static))
        for engine in Engine:
            here, there = ([c for c in commands if c.engine is engine] for commands in (mine, theirs))
            bases = [_bases(commands) for commands in (here, there)]
            for one, other in itertools.zip_longest(here, there):
                if one is None or other is None:
                    return (f"{len(here)} commands of {engine.value}, in a static net {len(there)}",)
                what = _difference(one, other, *bases)
                if what:
                    return _lines(f"unlike in a static net ({what}):", one.issued)
        return ()

    def about(self, output: int, index: tuple[int, ...]) -> tuple[str, ...]:
        """Which commands made this element."""
        if output >= len(self._outputs):
            return ()
        for request in reversed(self._requests):
            tensors = {one.name: one for one in request.told.tensors}
            tensor = tensors.get(self._outputs[output].name)
            if tensor is None:  # another part of a net that computes on the host in between
                continue
            space, offset = locate(tensor.element(index, self._shapes[output]), tensor.name)
            found = Commands(request).origin(space, offset)
            if found:
                stored, made = found[0].issued, found[-1].issued
                if len(found) == 1:
                    return _lines("written by", made)
                return (*_lines("computed by", made), *_lines("stored by", stored)[:1])
        return ("no command has written it",)


def _tensors(one: Command) -> list[Tensor]:
    return [operand for operand in one.operands if isinstance(operand, Tensor)]


def _difference(one: Command, other: Command, bases: _Bases, others: _Bases) -> str:
    """How a command is not that of another run; places in DDR are counted from where each run's first
    command reads and writes there."""
    if one.issued.name != other.issued.name:
        return f"{other.issued.name} there"
    for a, b in zip(_tensors(one), _tensors(other), strict=False):
        here, there = (
            t.offset - base.get(t.access, 0) if t.space is Space.DDR else t.offset
            for t, base in ((a, bases), (b, others))
        )
        if here != there:
            return f"{a.name} at +0x{here:x}, there at +0x{there:x}"
        if (a.shape, a.strides, a.itemsize) != (b.shape, b.strides, b.itemsize):
            return f"{a.name} has another extent there"
    return ""


def _bases(commands: Sequence[Command]) -> _Bases:
    found: _Bases = {}
    for tensor in (tensor for one in commands for tensor in _tensors(one)):
        if tensor.space is Space.DDR:
            found.setdefault(tensor.access, tensor.offset)
    return found


def _lines(what: str, by: Issued) -> tuple[str, ...]:
    at = f" at {place(by.frames[0])}" if by.frames else ""
    return (f"{what} {command(by)}{at}", *(f"  called from {place(frame)}" for frame in by.frames[1:]))
