"""Sums over the commands of a profile: by source line, function, layer, node, operation and instruction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from firmware_sim.checks.finding import Frame, Issued
from firmware_sim.instructions.instruction import Engine
from user_layers.profile.model import ENGINES, STALLS, Cause, Numbers, Profile, Times

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Total:
    """Commands together.

    time: cycles of the critical path that are theirs; issuing: of these, in which the controller issues them.
    commands, busy: of each of ENGINES. stalls: cycles that engines did nothing before them, by cause.
    computing, moving: the least cycles for their operations and for their bytes from and to DDR. conflict:
    cycles in which both engines touch one bank.
    """

    time: float = 0.0
    issuing: float = 0.0
    commands: tuple[int, int] = (0, 0)
    busy: tuple[float, float] = (0.0, 0.0)
    stalls: Mapping[Cause, float] = field(default_factory=dict)
    ddr_read: int = 0
    ddr_written: int = 0
    l2: int = 0
    local: int = 0
    operations: int = 0
    computing: float = 0.0
    moving: float = 0.0
    conflict: float = 0.0

    @property
    def stalled(self) -> float:
        """Of both engines, whatever the cause."""
        return sum(self.stalls.values())

    @property
    def least(self) -> float:
        """The roofline: the longer of computing and moving."""
        return max(self.computing, self.moving)

    @property
    def bound(self) -> str:
        """What decides that."""
        if not self.least:
            return ""
        return "DDR" if self.moving > self.computing else "computing"

    @property
    def efficiency(self) -> float | None:
        """The roofline in parts of the time of the busier engine; None where nothing has to be done."""
        busier = max(self.busy)
        return self.least / busier if busier and self.least else None

    @property
    def cause(self) -> Cause:
        """What most of its waiting is for."""
        return max(self.stalls, key=lambda one: self.stalls[one]) if self.stalled else Cause.NONE


@dataclass(frozen=True)
class Function:
    """own: commands that it issued itself; all: also those of functions that it called."""

    file: str
    name: str
    own: Total
    all: Total


@dataclass(frozen=True)
class Sums:
    """All of them, first what takes most of the critical path. lines: by the line that issued; through: also
    the lines that called it. The frame of unknown lines has no file."""

    total: Total
    lines: tuple[tuple[Frame, Total], ...]
    through: Mapping[Frame, Total]
    functions: tuple[Function, ...]
    layers: tuple[tuple[str, Total], ...]
    nodes: tuple[tuple[str, Total], ...]
    operations: tuple[tuple[str, Total], ...]
    instructions: tuple[tuple[str, Total], ...]


UNKNOWN = Frame("", 0)


def sums(profile: Profile) -> Sums:
    """Of a whole profile."""
    values = _values(profile)
    sites, of_site = profile.sites, _matrix(values, profile.columns.site, len(profile.sites))
    of_form = _matrix(values, profile.columns.form, len(profile.forms))
    names = [form.name for form in profile.forms]
    kinds = ["copies of the DMA engine" if f.engine is Engine.GDMA else f.kind.value for f in profile.forms]
    through = dict(_sorted(of_site, [tuple(dict.fromkeys(_frames(one))) for one in sites]))
    return Sums(
        _total(of_form.sum(axis=0)),
        _sorted(of_site, [_frames(one)[:1] for one in sites]),
        through,
        _functions(of_site, sites),
        _sorted(of_site, _said(sites, lambda one: one.layer)),
        _sorted(of_site, _said(sites, lambda one: one.node)),
        _sorted(of_form, [(kind,) for kind in kinds]),
        _sorted(of_form, [(name,) for name in names]),
    )


def hottest(profile: Profile, number: int) -> list[int]:
    """The commands that take most of the critical path, as places in the columns."""
    time = profile.columns.time
    order = np.argsort(-time, kind="stable")[:number]
    return [int(index) for index in order if time[index] > 0]


def _frames(site: Issued) -> tuple[Frame, ...]:
    return site.frames or (UNKNOWN,)


def _said(sites: Sequence[Issued], word: Callable[[Issued], str]) -> list[tuple[str, ...]]:
    """One group for each site, and none where no site says anything."""
    found = [word(one) for one in sites]
    return [(one or "(none)",) if any(found) else () for one in found]


def _functions(of_site: Times, sites: Sequence[Issued]) -> tuple[Function, ...]:
    def name(frame: Frame) -> tuple[str, str]:
        return frame.file, frame.function

    own = dict(_sorted(of_site, [(name(_frames(one)[0]),) for one in sites]))
    called = _sorted(of_site, [tuple(dict.fromkeys(map(name, _frames(one)))) for one in sites])
    return tuple(Function(*key, own.get(key, Total()), total) for key, total in called)


def _values(profile: Profile) -> list[Times]:
    """The numbers of each command that are added up, in the order in which `_total` takes them."""
    c, forms = profile.columns, profile.forms
    engines = [(c.engine == number).astype(np.float64) for number, _ in enumerate(ENGINES)]
    return [
        c.time,
        c.issuing,
        *engines,
        *(c.busy * one for one in engines),
        *(c.stall * (c.cause == cause) for cause in STALLS),
        profile.by_form([form.moved.ddr_read for form in forms]),
        profile.by_form([form.moved.ddr_written for form in forms]),
        profile.by_form([form.moved.l2_read + form.moved.l2_written for form in forms]),
        profile.by_form([form.moved.local_read + form.moved.local_written for form in forms]),
        profile.by_form([form.operations for form in forms]),
        profile.by_form([form.computing for form in forms]),
        profile.by_form([form.moved.ddr_cycles for form in forms]),
        c.conflict,
    ]


def _matrix(values: Sequence[Times], of: Numbers, count: int) -> Times:
    """[count, values]: the sums of each group."""
    return np.stack([np.bincount(of, weights=one, minlength=count) for one in values], axis=1)


def _total(row: Times) -> Total:
    n = row.tolist()
    stalls = dict(zip(STALLS, n[6 : 6 + len(STALLS)], strict=True))
    read, written, l2, local, operations, computing, moving, conflict = n[6 + len(STALLS) :]
    return Total(
        n[0],
        n[1],
        (round(n[2]), round(n[3])),
        (n[4], n[5]),
        {cause: cycles for cause, cycles in stalls.items() if cycles},
        round(read),
        round(written),
        round(l2),
        round(local),
        round(operations),
        computing,
        moving,
        conflict,
    )


def _sorted(rows: Times, keys: Iterable[tuple[K, ...]]) -> tuple[tuple[K, Total], ...]:
    """The rows of each key together; a row may belong to several."""
    members: dict[K, list[int]] = {}
    for index, found in enumerate(keys):
        for key in found:
            members.setdefault(key, []).append(index)
    totals = [(key, _total(rows[of].sum(axis=0))) for key, of in members.items()]
    totals = [one for one in totals if any(one[1].commands)]
    return tuple(sorted(totals, key=lambda one: (-one[1].time, -sum(one[1].busy), str(one[0]))))
