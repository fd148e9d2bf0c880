"""One command, one kind of call, one n: run it with that call failing and judge what comes of it."""

from __future__ import annotations

import mmap
import random
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.failures.commands import Command, Place, State
from user_layers.toolchain.compilers import choose

KINDS = (
    *("write", "create", "rename", "mkdir", "link", "unlink", "fsync", "truncate", "lock"),
    *("open", "memfd", "fork", "thread", "mmap", "malloc"),
)
FIRST = 6  # of each kind, these are all tried
_CODES = (0, 1, 2, 3)
_INTERRUPTED = 130
_PAGE = struct.Struct("<32s3q")


@dataclass
class Result:
    """Of one command. calls: how many of each kind it makes. outcomes: by exit code and what was left.
    findings: kind, n and what is wrong."""

    calls: dict[str, int] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    tried: int = 0
    longest: float = 0.0


class Injector:
    """Holds the library, and the file by which it is told what fails."""

    def __init__(self, folder: Path) -> None:
        self._page = folder / "page"
        self._library = folder / "inject.so"
        source = Path(__file__).with_name("inject.c")
        flags = (
            "-shared",
            "-fPIC",
            "-O1",
            "-U_FORTIFY_SOURCE",
            str(source),
            "-o",
            str(self._library),
            "-ldl",
        )
        subprocess.run([*choose().c.argv, *flags], check=True, timeout=300)

    def arm(self, kind: str, nth: int) -> dict[str, str]:
        """The environment in which the nth call of a kind fails."""
        self._page.write_bytes(_PAGE.pack(kind.encode(), nth, 0, 0).ljust(mmap.PAGESIZE, b"\0"))
        return {"LD_PRELOAD": str(self._library), "TPULAYER_FAULT_PAGE": str(self._page)}

    def counted(self) -> int:
        """How many calls of the kind there were."""
        found: int = _PAGE.unpack_from(self._page.read_bytes())[2]
        return found


def sweep(
    command: Command,
    place: Place,
    injector: Injector,
    kinds: tuple[str, ...],
    most: int,
    say: Callable[[str], None],
) -> Result:
    """At most `most` runs of each kind."""
    result = Result()
    old = place.restore(command)
    ran = place.run(command, {})
    if ran.code != 0:
        raise RuntimeError(f"{command.name} does not work: {ran.text}")
    new = ran.state
    for kind in kinds:
        place.restore(command)
        place.run(command, injector.arm(kind, 0))
        result.calls[kind] = injector.counted()
        for nth in _chosen(result.calls[kind], most, f"{command.name} {kind}"):
            start = time.monotonic()
            if place.restore(command) != old:
                raise RuntimeError(f"{command.name} starts from another state")
            ran = place.run(command, injector.arm(kind, nth))
            result.tried += 1
            result.longest = max(result.longest, time.monotonic() - start)
            left = _left(ran.state, old, new, command.file_by_file)
            problem = _problem(ran.code, ran.text, left, command, place, new)
            result.outcomes[f"{ran.code} {left}"] += 1
            if problem:
                result.findings.append(f"{command.name}: {kind} {nth}: {problem}")
                say(f"  {result.findings[-1]}\n{_indented(ran.text)}")
    return result


def _chosen(calls: int, most: int, seed: str) -> list[int]:
    """The first calls, and others at random."""
    first = range(1, min(calls, FIRST, most) + 1)
    rest = range(len(first) + 1, calls + 1)
    return [*first, *sorted(random.Random(seed).sample(rest, min(len(rest), most - len(first))))]


def _left(state: State, old: State, new: State, file_by_file: bool) -> str:
    if state == new:
        return "new"
    if state == old:
        return "old"
    names = {*state, *old, *new}
    if file_by_file and all(state.get(name) in (old.get(name), new.get(name)) for name in names):
        return "some new"
    return "neither"


def _problem(code: int | None, text: str, left: str, command: Command, place: Place, new: State) -> str:
    if code == _INTERRUPTED and "OpenBLAS" in text:  # which interrupts its process when it gets no thread
        return ""
    if code not in _CODES:
        return "did not end" if code is None else f"exit code {code}"
    if "Traceback (most recent call last)" in text:
        return "a traceback"
    if left == "neither":
        now = place.state()
        differs = sorted(name for name in {*now, *new} if now.get(name) != new.get(name))
        return f"neither the old nor the new state: {differs}"
    if code == 0 and left != "new":
        return f"exit code 0, and the state is {left}"
    if command.file_by_file and left != "new":
        again = place.run(command, {})
        if again.code != 0 or again.state != new:
            return f"the next run ends with {again.code} and does not mend it: {again.text[-300:]}"
    return ""


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-12:])
