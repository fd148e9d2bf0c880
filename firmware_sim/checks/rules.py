"""The table of what checks find: one row per rule, with the words that every finding of it shares."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from firmware_sim.variables import CHECK, CHECK_LIMIT


class Kind(enum.Enum):
    """What a check looks at; its value is the word that `--check` takes.

    WAITS looks for superfluous waits of static nets, SCHEDULE executes every batch in other legal orders.
    """

    MEMORY = "memory"
    INIT = "init"
    HAZARD = "hazard"
    SYNC = "sync"
    NUMERIC = "numeric"
    WAITS = "waits"
    SCHEDULE = "schedule"


DEFAULT: frozenset[Kind] = frozenset({Kind.MEMORY, Kind.INIT, Kind.HAZARD, Kind.SYNC})
ALL: frozenset[Kind] = frozenset(Kind) - {Kind.WAITS, Kind.SCHEDULE}
NONE: frozenset[Kind] = frozenset()


@dataclass(frozen=True)
class Rule:
    """name: its stable identifier; title: what is wrong, in a few words; hint: what to do about it;
    advice: it costs time but no result, and does not make a run fail."""

    name: str
    kind: Kind
    title: str
    hint: str
    advice: bool = False


def _rules(*rows: tuple[str, str, str] | tuple[str, str, str, bool]) -> dict[str, Rule]:
    return {row[0]: Rule(row[0], Kind(row[0].partition(".")[0]), *row[1:]) for row in rows}


RULES: dict[str, Rule] = _rules(
    (
        "memory.outside",
        "memory that belongs to nobody",
        "give the command the address and the extents of the buffer that it is for",
    ),
    (
        "memory.beyond",
        "an access that leaves its buffer",
        "compare shape and strides with the size of the buffer",
    ),
    (
        "memory.freed",
        "memory that was freed",
        "free a buffer when the last kernel that uses it is done",
    ),
    (
        "memory.read_only",
        "a write to an input or a constant",
        "write to the layer's outputs and buffer only, or declare the layer as working in place",
    ),
    (
        "memory.foreign",
        "memory that the layer was not given",
        "use the addresses of the layer's own inputs, outputs and buffer",
    ),
    (
        "memory.no_buffer",
        "a buffer that was never asked for",
        "return the bytes that it needs from get_global_buffer_size or get_local_buffer_size",
    ),
    (
        "memory.too_much",
        "more written than the output's type and shape hold",
        "compare the element size of the commands with the output's declared data type",
    ),
    (
        "memory.not_written",
        "an output that is not written, or in part",
        "write every element of the output",
    ),
    (
        "init.unwritten",
        "a read of memory that nothing wrote",
        "load or fill the operand before it is used; check addresses, strides and extents",
    ),
    (
        "hazard.raw",
        "a read beside a write of the other engine (RAW)",
        "end the parallel section between them, or use different memory (ping-pong)",
    ),
    (
        "hazard.war",
        "a write beside a read of the other engine (WAR)",
        "end the parallel section between them, or use different memory (ping-pong)",
    ),
    (
        "hazard.waw",
        "two writes beside each other (WAW)",
        "end the parallel section between them, or use different memory (ping-pong)",
    ),
    (
        "hazard.overlap",
        "a result over an operand that the command still reads",
        "use other memory for the result, or exactly the operand's, where the function may work in place",
    ),
    (
        "hazard.controller",
        "the controller uses memory that an engine still works on",
        "call okk_poll between the commands and the C code that uses their memory",
    ),
    (
        "hazard.order",
        "results that depend on the order of the engines",
        "make every command wait for those whose results it uses, and for those that use what it writes",
    ),
    (
        "hazard.untried",
        "other legal orders that were not tried",
        "a smaller batch of commands, or less memory written in it, can be executed in other orders",
        True,
    ),
    (
        "sync.never",
        "a wait for a command that never comes",
        "wait only for commands that were issued, and that do not wait for this one",
    ),
    (
        "sync.ids",
        "ids that do not count up",
        "every command takes the next id of its engine; okk_initialize begins at 1",
    ),
    (
        "sync.no_poll",
        "commands behind the last poll",
        "call okk_poll before the kernel returns: the host may read too early",
    ),
    (
        "sync.superfluous",
        "a wait that orders nothing",
        "without it both engines work side by side",
        True,
    ),
    (
        "numeric.nan",
        "NaN from finite inputs",
        "look at the operands named: a difference of infinities, 0/0, or a number out of range",
    ),
    (
        "numeric.infinite",
        "infinity from finite inputs",
        "look at the operands named: a division by zero, or an overflow",
    ),
    (
        "numeric.saturated",
        "results at the end of their type's range",
        "a larger right shift, or another scale, keeps them apart",
        True,
    ),
    (
        "numeric.denormal",
        "denormals that become zero",
        "the chip has no denormals: scale numbers up if they matter",
        True,
    ),
    (
        "numeric.unseen",
        "a command that is too large to look at its numbers",
        "a command of fewer elements is looked at",
        True,
    ),
)


def chosen(text: str | None) -> frozenset[Kind]:
    """The checks that a text names ("off", or kinds with commas between, "all" for `ALL`); of None what the
    environment's TPULAYER_CHECK says, else the default ones. UsageError for another word."""
    kinds = CHECK.get() if text is None else CHECK.value(text, "--check")
    if kinds is None:
        return DEFAULT
    return frozenset(map(Kind, kinds))


def limit(given: int | None) -> int:
    """How many findings a request tells in full: as given, else TPULAYER_CHECK_LIMIT, else 10."""
    return given if given is not None else CHECK_LIMIT.get() or 10
