"""The launches behind the published times: 20 kernels of a contest, recorded and made ready to be timed.

The kernels are not part of this repository; tests/oracle/test_public_kernels.py says where they come from.
They are built and run unmodified, and what they issue is written down instead of executed.
"""

from __future__ import annotations

import csv
import os
import pickle
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.batch import plan_keys
from firmware_sim.device.client import Device
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa import timing
from firmware_sim.isa.footprint import Access, Space, Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.processes.shared_memory import SharedMemory
from firmware_sim.queues import command_waits, first_id, replay_order
from firmware_sim.timeline import Order
from tests.oracle.test_public_kernels import kernels
from user_layers.toolchain.kernel import kernel_firmware

U32 = npt.NDArray[np.uint32]
Case = tuple[str, int]
"""Operation and number, as in the table of published times."""

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "benchmarks" / "data" / "published_times.csv"
OPERATIONS = ("conv2d", "depthwise", "matmul", "softmax")
MOST_COMMANDS = 120_000
"""Of a launch; those with more (three matrix products of 300,000) are several times slower than others."""
INEXACT = {("conv2d", case, who) for case in (11, 12, 13, 14) for who in (0, 2)}
"""Launches whose sums of thousands of products miss the contest's tolerance, so that their times, a tenth of
the published ones, did not count."""
_FILE_VARIABLE = "TPULAYER_BENCH_LAUNCH"


class Recorder:
    """A processor that writes the descriptors of each batch to a file, and executes nothing."""

    def __init__(self) -> None:
        self.cycles = 0.0
        self.filtered = 0
        self.place: memoryview[int] | list[int] = [0, 0]
        self._path = Path(os.environ[_FILE_VARIABLE])

    def execute(self, bd: U32, gdma: U32, *, where: object = None, streamed: bool = False) -> None:
        """Written as counts and bytes."""
        with self._path.open("ab") as file:
            file.write(struct.pack("<II", len(bd), len(gdma)) + bd.tobytes() + gdma.tobytes())

    def check(self, bd: U32, gdma: U32, *, where: object = None) -> None:
        """Anything goes."""

    def allow(self, seconds: float) -> None:
        """Nothing takes time."""

    def restart(self) -> None:
        """Ids are looked at later."""

    def end_launch(self) -> None:
        """A file holds one launch."""


def make(memory: SharedMemory) -> Recorder:
    """Entry of the device process."""
    return Recorder()


Call = tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]]
"""A function of isa/timing.py with what it was asked."""


@dataclass
class Launch:
    """What one kernel issues for one case. Commands are numbers of calls, by engine, batch after batch."""

    case: Case
    who: int
    published: float  # us
    calls: list[Call] = field(default_factory=list)
    batches: list[tuple[Order, dict[Engine, list[int]]]] = field(default_factory=list)
    read: int = 0

    @property
    def commands(self) -> int:
        """Of both engines."""
        return sum(len(numbers) for _, found in self.batches for numbers in found.values())


def published() -> dict[Case, Mapping[str, str]]:
    """The rows of the table for which there are kernels."""
    with TABLE.open() as file:
        return {(row["op"], int(row["case"])): row for row in csv.DictReader(file) if row["op"] in OPERATIONS}


def launches(kept: Path | None = None) -> list[Launch]:
    """All that count, slowly; kept: a file that has them after the first time."""
    if kept is not None and kept.is_file():
        found: list[Launch] = pickle.loads(kept.read_bytes())
        return found
    found = list(_recorded())
    if kept is not None:
        kept.write_bytes(pickle.dumps(found))
    return found


def _recorded() -> Iterator[Launch]:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    cases = published()
    with tempfile.TemporaryDirectory() as folder, _listening():
        path = Path(folder) / "launch"
        os.environ[_FILE_VARIABLE] = str(path)
        for operation in OPERATIONS:
            project, files = kernels(operation)
            for who, source in enumerate(files):
                image = kernel_firmware(source, [project / "include"], kind="native")
                for case, row in cases.items():
                    if case[0] != operation or (*case, who) in INEXACT:
                        continue
                    path.unlink(missing_ok=True)
                    with Device(image, processor=f"{__name__}:make", time_limit=600) as device:
                        device.launch(f"{operation}_contest", _arguments(device, row))
                    launch = Launch(case, who, float(row["best_us"]))
                    if path.is_file() and _batches(path.read_bytes(), launch):
                        print(f"{case[0]} {case[1]} {who}: {launch.commands} commands", file=sys.stderr)
                        yield launch


def _arguments(device: Device, row: Mapping[str, str]) -> bytes:
    """The packed struct of the kernel: sizes, then the addresses of output and inputs."""
    given = dict(word.split("=") for word in row["params"].split(";"))
    sizes = [int(n) for name, text in given.items() if name != "axis" for n in text.split("/")]
    inputs = [int(row["bytes_in"])] * (1 if row["op"] == "softmax" else 2)  # together so many, at most
    places = [device.malloc(nbytes) for nbytes in (int(row["bytes_out"]), *inputs)]
    return struct.pack(f"<{len(sizes)}i{len(places)}Q", *sizes, *places)


def _batches(data: bytes, launch: Launch) -> bool:
    """Fills in the launch; False where it has too many commands."""
    known: dict[tuple[Engine, bytes], tuple[int, int]] = {}
    numbers: dict[Call, int] = {}
    at = total = 0
    last = dict.fromkeys(Engine, 0)
    while at < len(data):
        counts = struct.unpack_from("<II", data, at)
        at += 8
        total += sum(counts)
        if total > MOST_COMMANDS:
            return False
        words = {}
        for engine, count in zip((Engine.BD, Engine.GDMA), counts, strict=True):
            words[engine] = np.frombuffer(data, np.uint32, count * 32, at).reshape(count, 32)
            at += count * 128
        columns = {engine: LAYOUTS[engine].columns(found) for engine, found in words.items()}
        first = {engine: first_id(found, engine, last[engine], None) for engine, found in columns.items()}
        waits = {engine: command_waits(found, engine) for engine, found in columns.items()}
        segments = replay_order(waits, first[Engine.BD], first[Engine.GDMA], None)
        others = {Engine.BD: first[Engine.GDMA], Engine.GDMA: first[Engine.BD]}
        order = Order(
            tuple(segments),
            {engine: np.maximum(found - others[engine], 0).tolist() for engine, found in waits.items()},
        )
        found_calls: dict[Engine, list[int]] = {}
        for engine, found in columns.items():
            mine = found_calls[engine] = []
            for i, key in enumerate(plan_keys(engine, found)):
                if (engine, key) not in known:
                    call, read = _learn(engine, found.row(i))
                    known[engine, key] = numbers.setdefault(call, len(numbers)), read
                number, read = known[engine, key]
                mine.append(number)
                launch.read += read
            last[engine] = first[engine] + len(found)
        launch.batches.append((order, found_calls))
    launch.calls = list(numbers)
    return True


_heard: list[Call] = []


@contextmanager
def _listening() -> Iterator[None]:
    """Meanwhile _heard gets what timing.py is asked."""
    plain = {name: found for name, found in vars(timing).items() if _of_commands(found)}
    try:
        for name, function in plain.items():
            setattr(timing, name, _listened(name, function))
        yield
    finally:
        for name, function in plain.items():
            setattr(timing, name, function)


def _listened(name: str, function: Callable[..., timing.Cycles]) -> Callable[..., timing.Cycles]:
    @wraps(function)
    def listening(*given: Any, **named: Any) -> timing.Cycles:
        _heard.append((name, given, tuple(named.items())))
        return function(*given, **named)

    return listening


def _learn(engine: Engine, row: Row) -> tuple[Call, int]:
    """What the command asks of timing.py, and the bytes that it reads from DDR."""
    semantics = lookup(engine, row).semantics
    assert semantics is not None
    _heard.clear()
    semantics.cycles(row)
    [call] = _heard
    if engine is Engine.BD:
        return call, 0
    tensors = [t for t in semantics.operands(row) if isinstance(t, Tensor)]
    return call, sum(t.nbytes for t in tensors if t.space is Space.DDR and Access.READ in t.access)


def _of_commands(found: object) -> bool:
    return callable(found) and getattr(found, "__annotations__", {}).get("return") == "Cycles"


def critical(launch: Launch, cycles: list[float], issue: float) -> tuple[float, Counter[int], int]:
    """Cycles of the launch's commands, when those of each call are `cycles`; and what they are the sum of:
    how often each call, and the issue of how many commands."""
    whole = 0.0
    path: Counter[int] = Counter()
    issues = 0
    for order, numbers in launch.batches:
        ends = {engine: [0.0] for engine in Engine}
        why: dict[Engine, list[tuple[Engine, int]]] = {engine: [] for engine in Engine}
        place: dict[Engine, list[int]] = {engine: [] for engine in Engine}
        issued, done = 0.0, 0
        for engine, first, last in order.segments:
            other = Engine.GDMA if engine is Engine.BD else Engine.BD
            own, others, waits = ends[engine], ends[other], order.waits[engine]
            for index in range(first, last):
                issued += issue
                done += 1
                start, cause = own[-1], (engine, index)
                if others[waits[index]] > start:
                    start, cause = others[waits[index]], (other, waits[index])
                if issued > start:
                    start, cause = issued, (engine, 0)
                own.append(start + cycles[numbers[engine][index]])
                why[engine].append(cause)
                place[engine].append(done)
        at = max(Engine, key=lambda engine: ends[engine][-1])
        whole += ends[at][-1]
        count = len(ends[at]) - 1
        while count:
            path[numbers[at][count - 1]] += 1
            before, earlier = why[at][count - 1]
            if earlier == 0:
                issues += place[at][count - 1]
            at, count = before, earlier
    return whole, path, issues
