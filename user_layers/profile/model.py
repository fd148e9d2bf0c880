"""A profile: every command of a run with its times, what it waited for and who issued it.

Times are modelled cycles of chip.CLOCK_HZ from the begin of the first request on. Commands lie in columns, a
number each, because nets have many thousands; `Profile.command` shows one of them whole.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from firmware_sim import shown
from firmware_sim.checks.finding import Issued
from firmware_sim.chip import CLOCK_HZ
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa import timing
from user_layers.profile.forms import Form, Moved

Numbers = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]
ENGINES = (Engine.BD, Engine.GDMA)
"""What the numbers of the column `engine` mean."""


class Cause(enum.IntEnum):
    """What an engine waits for while it does nothing. A cycle counts for what lasts longest of all that a
    command waits for: the one that decides when it begins."""

    NONE = 0
    DDR = 1
    ENGINE = 2
    CONTROLLER = 3
    BATCH = 4
    LAUNCH = 5

    @property
    def words(self) -> str:
        """What tables call it."""
        return _WORDS[self]


_WORDS = {
    Cause.NONE: "",
    Cause.DDR: "a copy from or to DDR",
    Cause.ENGINE: "the other engine",
    Cause.CONTROLLER: "the controller",
    Cause.BATCH: "the end of a batch",
    Cause.LAUNCH: "the launch",
}
STALLS = tuple(cause for cause in Cause if cause is not Cause.NONE)


@dataclass(frozen=True)
class Columns:
    """One number for each command, in the order of requests and batches, in a batch BD before GDMA.

    engine: index in ENGINES; id: that of its engine; form, site: indices in the profile's lists; batch: its
    number, over all requests. start, end; stall: cycles that its engine did nothing before it; cause: a
    Cause; blocker: the command that it waited for, -1 without one. running, issuing: cycles of the critical
    path in which it runs, and in which the controller issues it. conflict: cycles of it in which a command
    of the other engine touches a bank of local memory that it touches too.
    """

    engine: Numbers
    id: Numbers
    form: Numbers
    site: Numbers
    batch: Numbers
    start: Times
    end: Times
    stall: Times
    cause: Numbers
    blocker: Numbers
    running: Times
    issuing: Times
    conflict: Times

    __repr__ = shown.brief

    def __len__(self) -> int:
        return len(self.engine)

    @property
    def busy(self) -> Times:
        """Cycles of each command on its engine."""
        return self.end - self.start

    @property
    def time(self) -> Times:
        """Cycles of the critical path that are each command's."""
        return self.running + self.issuing


@dataclass(frozen=True)
class Batch:
    """Commands that both engines work on together; it ends when both are done. request: its index; issued:
    the controller issues the commands one by one, else the engines read them; group: of a static net, from
    1, else 0. idle: cycles from the last command of each of ENGINES to the end."""

    request: int
    issued: bool
    group: int
    begin: float
    end: float
    idle: tuple[float, float]


@dataclass(frozen=True)
class Request:
    """One launch. what: whose; begin, end: with what it costs beside its commands (launch), which is counted
    behind them; first, last: its commands, [first, last)."""

    what: str
    begin: float
    end: float
    launch: float
    first: int
    last: int

    @property
    def cycles(self) -> float:
        """All of it."""
        return self.end - self.begin


@dataclass(frozen=True)
class Command:
    """One command whole; see `Columns` and `Form`."""

    index: int
    engine: Engine
    id: int
    name: str
    start: float
    end: float
    stall: float
    cause: Cause
    blocker: int | None
    issued: Issued
    moved: Moved
    operands: tuple[str, ...]
    computing: float
    critical: float
    conflict: float
    shares_banks: bool

    @property
    def cycles(self) -> float:
        """How long its engine works on it."""
        return self.end - self.start

    @property
    def bandwidth(self) -> float:
        """Its bytes from and to DDR, in parts of what DDR does at best in that time."""
        return self.moved.ddr_cycles / self.cycles if self.cycles else 0.0

    @property
    def efficiency(self) -> float:
        """The least that its operations or its bytes take, in parts of its time."""
        return max(self.computing, self.moved.ddr_cycles) / self.cycles if self.cycles else 0.0


@dataclass(frozen=True, repr=False)
class Profile:
    """What `profile_of` makes of a trace. what: names the run; sites: who issued commands, as numbers of
    Columns.site say; forms: see `Form`."""

    what: str
    requests: tuple[Request, ...]
    batches: tuple[Batch, ...]
    sites: tuple[Issued, ...]
    forms: tuple[Form, ...]
    columns: Columns

    def __repr__(self) -> str:
        time = f"{self.cycles / CLOCK_HZ * 1e3:.3f} ms at 550 MHz ({timing.modelled()})"
        return (
            f"<Profile of {self.what}: {shown.count(len(self.requests), 'request')}, "
            f"{shown.count(len(self.columns), 'command')}, {time}>"
        )

    def _repr_html_(self) -> str:
        from user_layers.profile.page import notebook  # with it comes what pictures need

        return notebook(self)

    @property
    def cycles(self) -> float:
        """From the begin of the first request to the end of the last."""
        return self.requests[-1].end if self.requests else 0.0

    def command(self, index: int) -> Command:
        """One command, by its place in the columns. IndexError."""
        c = self.columns
        if not 0 <= index < len(c):
            raise IndexError(f"command {index} of {len(c)}")
        form = self.forms[int(c.form[index])]
        blocker = int(c.blocker[index])
        return Command(
            index,
            form.engine,
            int(c.id[index]),
            form.name,
            float(c.start[index]),
            float(c.end[index]),
            float(c.stall[index]),
            Cause(int(c.cause[index])),
            None if blocker < 0 else blocker,
            self.sites[int(c.site[index])],
            form.moved,
            form.operands,
            form.computing,
            float(c.running[index] + c.issuing[index]),
            float(c.conflict[index]),
            form.shares_banks,
        )

    def commands(self) -> Iterator[Command]:
        """All of them, in the order of the columns."""
        return map(self.command, range(len(self.columns)))

    def by_form(self, value: Sequence[float]) -> Times:
        """One number for each command, of one for each form."""
        return np.asarray(value, np.float64)[self.columns.form]

    @cached_property
    def stalls(self) -> dict[Engine, dict[Cause, float]]:
        """Cycles that each engine did nothing, by cause. With those that it worked they are all there are."""
        c = self.columns
        found: dict[Engine, dict[Cause, float]] = {}
        for number, engine in enumerate(ENGINES):
            of = c.engine == number
            sums = np.bincount(c.cause[of], weights=c.stall[of], minlength=len(Cause))
            found[engine] = {cause: float(sums[cause]) for cause in STALLS}
            found[engine][Cause.BATCH] += sum(batch.idle[number] for batch in self.batches)
            found[engine][Cause.LAUNCH] += sum(one.launch for one in self.requests)
        return found

    @cached_property
    def busy(self) -> dict[Engine, float]:
        """Cycles that each engine worked."""
        c = self.columns
        return {e: float(c.busy[c.engine == number].sum()) for number, e in enumerate(ENGINES)}
