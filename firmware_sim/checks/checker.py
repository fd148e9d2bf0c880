"""All checks of one device: what the device process shows them, and what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from firmware_sim.checks.finding import Finding, Frame, Issued
from firmware_sim.checks.hazard import Hazard
from firmware_sim.checks.init import Init, Stored
from firmware_sim.checks.rules import Kind
from firmware_sim.checks.sequence import ENGINES, Records, Sequence
from firmware_sim.checks.shadow import Shadow
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space
from firmware_sim.tpu import Batch

_MOST = 1000  # different findings of a request that are kept


@dataclass(frozen=True)
class Site:
    """Which code issued a command: frames of the user's functions, innermost first; the layer."""

    frames: tuple[Frame, ...] = ()
    layer: str = ""


class Found:
    """Findings of one request; equal ones are counted."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[object, ...], Finding] = {}

    def add(self, findings: Iterable[Finding]) -> None:
        """More of them."""
        for finding in findings:
            known = self._by_key.get(finding.key)
            if known is not None:
                self._by_key[finding.key] = replace(known, count=known.count + 1)
            elif len(self._by_key) < _MOST:
                self._by_key[finding.key] = finding

    def take(self) -> list[Finding]:
        """All of them; none are left."""
        found, self._by_key = list(self._by_key.values()), {}
        return found


class Checker:
    """Watches a `Tpu`.

    site: which code issued a command of the batch that is executed now, None where nobody knows; group: of
    a static net, which command group that is, from 1.
    """

    def __init__(self, kinds: frozenset[Kind], shadow: Shadow | None = None) -> None:
        """shadow: what another one knew of the same memories."""
        self.kinds = kinds
        self.site: Callable[[Engine, int], Site] | None = None
        self.group = 0
        self.shadow = shadow or Shadow()
        self._records = Records()
        self._found = Found()
        self._requests = 0
        self._stored: list[tuple[int, Stored]] = []
        self._init = Init(self.shadow, self.named) if Kind.INIT in kinds else None
        self._hazard = Hazard(self.named) if Kind.HAZARD in kinds else None

    def named(self, space: Space, at: int) -> str:
        """The object that a byte belongs to, "" for none."""
        return ""

    def begin(self) -> None:
        """A request begins."""
        self.group = 0
        self.site = None
        self._requests += 1
        self._found.take()
        if self._init is not None:
            self._init.begin()

    def wrote(self, start: int, nbytes: int) -> None:
        """The host wrote a range of DDR, given by its offset."""
        self.shadow.write(Space.DDR, start, nbytes)

    def anew(self, start: int, nbytes: int) -> None:
        """A range of DDR was handed out, or given back."""
        self._stored = [one for one in self._stored if not one[1].overlaps(start, nbytes)]
        self.shadow.clear_range(start, nbytes)

    def before(self, batch: Batch) -> None:
        """Look at a batch that is about to be executed."""
        sequence = self._records.sequence(batch)
        if not len(sequence):
            return
        self._found.add(self._findings(sequence, batch))

    def _findings(self, sequence: Sequence, batch: Batch) -> Iterator[Finding]:
        def issued(k: int) -> Issued:
            return self._issued(sequence, k)

        if self._hazard is not None:
            yield from self._hazard.check(sequence, issued)
        if self._init is not None:
            yield from self._init.check(sequence, batch, issued)

    def _issued(self, sequence: Sequence, k: int) -> Issued:
        engine, index = ENGINES[sequence.engine[k]], int(sequence.index[k])
        site = self.site(engine, index) if self.site is not None else Site()
        return Issued(
            *(engine.value, int(sequence.id[k]), sequence.records[k].name, site.frames, site.layer),
            group=self.group,
        )

    def end(self) -> tuple[list[Finding], list[tuple[int, Stored]]]:
        """The request has ended: what was found, and what in DDR must not be read, each with the number of
        the request that stored it."""
        fresh = self._init.stored() if self._init is not None else []
        before = [(n, part) for n, one in self._stored for part in self._still(one)]
        self._stored = [*((self._requests, one) for one in fresh), *before]
        return self._found.take(), list(self._stored)

    def _still(self, one: Stored) -> Iterator[Stored]:
        """The parts of it over which nothing was written since."""
        at = (
            one.start
            + np.nonzero(~self.shadow.written(Space.DDR, np.arange(one.start, one.start + one.nbytes)))[0]
        )
        for part in np.split(at, np.nonzero(np.diff(at) != 1)[0] + 1):
            if len(part):
                yield replace(one, start=int(part[0]), nbytes=len(part))
