"""From what a device traced to a profile: the clock's rule once more, with who waited for whom.

The times are those that the device counted (timeline.schedule has the rule); a test compares them. The
critical path is found backwards from the end of each batch: from a command to what it began behind, its own
engine's command before, the other engine's, or its issue by the controller, before which the controller
issued all commands of the batch that come earlier. So every cycle of a request is one command's, or the
launch's.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.checks.finding import Issued
from firmware_sim.device.trace import TracedBatch, TracedRequest
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa import timing
from firmware_sim.queues import ID_FIELDS, Segment, command_waits, first_id, other, replay_order
from firmware_sim.timeline import Order, schedule
from user_layers.profile.banks import conflicts
from user_layers.profile.forms import Forms
from user_layers.profile.model import ENGINES, Batch, Cause, Columns, Profile, Request

_LABEL = re.compile(r"(.+) \((\w+)\)")


def profile_of(requests: Iterable[TracedRequest], what: str = "") -> Profile:
    """What the requests of a device took, one after the other, without what the host did between them and
    without those that failed or issued no commands.

    what: names the run, by default its first request. DeviceError for commands that do not exist, and for
    engines that wait for one another; a device that ran them has said so.
    """
    maker = _Maker()
    for request in requests:
        if len(request) and not request.failed:
            maker.add(request)
    return maker.profile(what)


class _Maker:
    """Gathers columns."""

    def __init__(self) -> None:
        self._forms = Forms()
        self._sites: dict[Issued, int] = {}
        self._requests: list[Request] = []
        self._batches: list[Batch] = []
        self._parts: list[Columns] = []
        self._count = 0
        self._last = dict.fromkeys(ENGINES, 0)

    def add(self, request: TracedRequest) -> None:
        """Time one request."""
        begin = now = self._requests[-1].end if self._requests else 0.0
        first, read = self._count, 0
        sites = [self._site(one) for one in request.sites]
        self._last = dict.fromkeys(ENGINES, 0)
        for batch in request.batches:
            made = self._batch(batch, now, sites)
            now = made.end
            read += self._read(self._parts[-1])
        launch = timing.launch(read)
        self._requests.append(Request(request.what, begin, now + launch, launch, first, self._count))

    def profile(self, what: str) -> Profile:
        """All of them."""
        forms = tuple(self._forms.all)
        columns = _joined(self._parts)
        columns = replace(columns, conflict=conflicts(columns, forms))
        name = what or next((one.what for one in self._requests), "nothing")
        return Profile(name, tuple(self._requests), tuple(self._batches), tuple(self._sites), forms, columns)

    def _site(self, issued: Issued) -> int:
        # ids and instructions are the command's, not the site's; the firmware says a layer as "node (type)"
        plain = replace(issued, engine="", id=0, name="")
        label = _LABEL.fullmatch(issued.layer)
        if label is not None and not issued.node:
            plain = replace(plain, node=label[1], layer=label[2])
        return self._sites.setdefault(plain, len(self._sites))

    def _read(self, columns: Columns) -> int:
        """Bytes from DDR that count for the launch: the DMA engine's, as tpu.py has it."""
        found = (self._forms.all[number] for number in columns.form[columns.engine == 1].tolist())
        return sum(form.moved.ddr_read for form in found)

    def _batch(self, batch: TracedBatch, begin: float, sites: Sequence[int]) -> Batch:
        streams = batch.columns
        first = {engine: first_id(one, engine, self._last[engine], None) for engine, one in streams.items()}
        waits = {engine: command_waits(one, engine) for engine, one in streams.items()}
        segments = replay_order(waits, first[Engine.BD], first[Engine.GDMA], None)
        behind = {engine: np.maximum(waits[engine] - first[other(engine)], 0) for engine in ENGINES}
        order = Order(tuple(segments), {engine: one.tolist() for engine, one in behind.items()})
        numbers = {engine: self._forms.of(engine, one) for engine, one in streams.items()}
        cycles = {engine: [self._forms.all[n].cycles for n in one] for engine, one in numbers.items()}
        issue = 0.0 if batch.streamed else timing.issue()
        times = schedule(order, cycles, issue, begin)
        found = _Timed(begin, issue, segments, behind, times)
        self._last = {engine: first[engine] + len(one) for engine, one in streams.items()}
        made = Batch(
            len(self._requests),
            not batch.streamed,
            batch.group,
            begin,
            found.end,
            (found.idle(0), found.idle(1)),
        )
        self._parts.append(self._of(found, numbers, batch, np.asarray(sites, np.int64)))
        self._batches.append(made)
        self._count += len(self._parts[-1])
        return made

    def _of(
        self,
        found: _Timed,
        numbers: dict[Engine, list[int]],
        batch: TracedBatch,
        sites: npt.NDArray[np.int64],
    ) -> Columns:
        running, issuing = found.critical()
        base = {Engine.BD: self._count, Engine.GDMA: self._count + len(numbers[Engine.BD])}
        parts = []
        for number, engine in enumerate(ENGINES):
            stall, cause, at = found.stalls[engine]
            that = other(engine)
            blocker = np.where(cause == Cause.ENGINE, at + base[that], -1)
            if len(numbers[that]):
                copies = np.array([self._forms.all[number].moved.ddr > 0 for number in numbers[that]])
                waited = (cause == Cause.ENGINE) & copies[np.maximum(at, 0)]
                cause = np.where(waited, Cause.DDR, cause)
            n = len(stall)
            parts.append(
                Columns(
                    np.full(n, number),
                    batch.columns[engine][ID_FIELDS[engine][0]].astype(np.int64),
                    np.asarray(numbers[engine], np.int64),
                    sites[batch.issued[engine].astype(np.int64)] if n else np.zeros(0, np.int64),
                    np.full(n, len(self._batches)),
                    found.start[engine],
                    found.stop[engine],
                    stall,
                    cause,
                    blocker,
                    running[engine],
                    issuing[engine],
                    np.zeros(n),
                )
            )
        return _joined(parts)


class _Timed:
    """One batch with its times: what the gaps between commands are, and which commands decide the end."""

    def __init__(
        self,
        begin: float,
        issue: float,
        segments: Sequence[Segment],
        behind: dict[Engine, npt.NDArray[np.int64]],
        times: dict[Engine, list[tuple[float, float]]],
    ) -> None:
        self.begin = begin
        self._order = [(engine, index) for engine, a, b in segments for index in range(a, b)]
        self._behind = behind
        pairs = {engine: np.array(one, np.float64).reshape(-1, 2) for engine, one in times.items()}
        self.start = {engine: one[:, 0] for engine, one in pairs.items()}
        self.stop = {engine: one[:, 1] for engine, one in pairs.items()}
        self.end = max([begin, *(float(one[-1]) for one in self.stop.values() if len(one))])
        # when the controller has issued each command, as schedule counts it
        self._clock = list(itertools.accumulate(itertools.repeat(issue, len(self._order)), initial=begin))
        self._place = {engine: np.zeros(len(one), np.int64) for engine, one in self.start.items()}
        for place, (engine, index) in enumerate(self._order):
            self._place[engine][index] = place
        self._issued = {
            engine: np.asarray(self._clock)[1 + one] if issue else np.full(len(one), begin)
            for engine, one in self._place.items()
        }
        self.stalls = {engine: self._stalls(engine) for engine in ENGINES}

    def idle(self, number: int) -> float:
        """From an engine's last command to the end of the batch."""
        stop = self.stop[ENGINES[number]]
        return self.end - (float(stop[-1]) if len(stop) else self.begin)

    def _stalls(
        self, engine: Engine
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Of each command the gap before it, its cause, and the index of the other engine's command."""
        start, stop = self.start[engine], self.stop[engine]
        before = np.concatenate([[self.begin], stop[:-1]]) if len(stop) else stop
        gap = start - before
        waited = gap > 0
        cause = np.where(
            waited, np.where(start == self._issued[engine], Cause.CONTROLLER, Cause.ENGINE), Cause.NONE
        )
        return gap, cause, np.where(cause == Cause.ENGINE, self._behind[engine] - 1, -1)

    def critical(self) -> tuple[dict[Engine, npt.NDArray[np.float64]], dict[Engine, npt.NDArray[np.float64]]]:
        """Of each command the cycles of the critical path in which it runs, and in which it is issued."""
        running = {engine: np.zeros(len(one)) for engine, one in self.start.items()}
        issuing = {engine: np.zeros(len(one)) for engine, one in self.start.items()}
        last = [engine for engine in ENGINES if len(self.stop[engine]) and self.stop[engine][-1] == self.end]
        if not last:
            return running, issuing
        engine, index = last[0], len(self.stop[last[0]]) - 1
        while index >= 0:
            running[engine][index] = self.stop[engine][index] - self.start[engine][index]
            _, cause, at = self.stalls[engine]
            if cause[index] == Cause.CONTROLLER:
                for place in range(int(self._place[engine][index]) + 1):
                    by, which = self._order[place]
                    issuing[by][which] = self._clock[place + 1] - self._clock[place]
                break
            if cause[index] == Cause.NONE:
                index -= 1
            else:
                engine, index = other(engine), int(at[index])
        return running, issuing


def _joined(parts: Sequence[Columns]) -> Columns:
    """One behind the other."""

    def column(name: str, kind: type) -> npt.NDArray[Any]:
        return np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in parts)])

    whole = ("engine", "id", "form", "site", "batch", "cause", "blocker")
    names = (field.name for field in fields(Columns))
    return Columns(*(column(name, np.int64 if name in whole else np.float64) for name in names))
