"""Who issues commands, and what kernels' C does in the engines' memory: the same from both firmwares."""

from __future__ import annotations

import json
import random
import re
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firmware_sim.firmware.image import KINDS, Kind
from tests.paths import ROOT
from tests.support.firmware_harness import CHOICES
from tests.support.watched_run import BUFFER
from user_layers.toolchain.kernel import kernel_firmware

SOURCE = ROOT / "tests" / "sources" / "watched_kernels.c"
BYTES = 4096
Batches = list[dict[str, Any]]


@pytest.fixture(scope="module", params=CHOICES)
def firmware(request: pytest.FixtureRequest) -> Iterator[dict[Kind, Path]]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param:
            patch.setenv("TPULAYER_CC", request.param)
        yield {kind: kernel_firmware(SOURCE, kind=kind) for kind in KINDS}


def run(firmware: Path, kernel: str, *more: bytes) -> dict[str, Any]:
    args = struct.pack("<Q", BUFFER) + b"".join(more)
    contents = f"0={random.Random(1).randbytes(BYTES).hex()}"
    command = [sys.executable, "-m", "tests.support.watched_run", str(firmware), kernel, args.hex(), contents]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["status"] == 0, answer
    return answer


def line(mark: str) -> int:
    return next(i for i, text in enumerate(SOURCE.read_text().splitlines(), 1) if f"[{mark}]" in text)


def frames(*places: tuple[str, str]) -> list[list[object]]:
    return [[SOURCE.name, line(mark), function] for mark, function in places]


@pytest.mark.parametrize("kind", KINDS)
def test_chains(kind: Kind, firmware: dict[Kind, Path]) -> None:
    first, second, *_ = run(firmware[kind], "chains")["batches"]
    direct, other = frames(("call", "chains")), frames(("indirect", "chains"))
    add = frames(("inlined", "twice"), ("into inlined", "both"))
    mul = frames(("plain", "both"))
    assert first["bd"][:4] == [add + direct, mul + direct, add + other, mul + other]
    deep = [frames(("deepest", "down")), *[frames(("recursion", "down"))] * 40]
    shallow = [*deep[:4], frames(("recursion begins", "chains"))]
    assert first["bd"][4] == [frame for part in shallow for frame in part]
    assert first["bd"][5] == [frame for part in deep[:16] for frame in part]  # as deep as is noted
    assert first["gdma"] == [frames(("load", "chains"))]
    assert second["gdma"] == [frames(("store", "chains"))]


def test_both_firmwares_issue_the_same(firmware: dict[Kind, Path]) -> None:
    """The native one is instrumented, the controller's is not."""
    native, arm = (run(firmware[kind], "chains")["commands"] for kind in KINDS)
    assert native == arm


def covered(accesses: list[dict[str, Any]]) -> dict[tuple[str, bool, int], set[int]]:
    """The bytes read and written by each line, in each memory."""
    found: dict[tuple[str, bool, int], set[int]] = defaultdict(set)
    for a in accesses:
        at = a["offset"]
        found[a["space"], a["write"], a["frames"][0][1]] |= set(range(at, at + a["nbytes"]))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_accesses(kind: Kind, firmware: dict[Kind, Path]) -> None:
    (batch, *_) = run(firmware[kind], "accesses")["batches"]
    accesses = batch["accesses"]
    found = covered(accesses)
    sort = line("qsort")
    # what is sorted is read by the comparison and by qsort itself, each byte told of whichever is first
    reads = {key for key in found if key[2] not in {line(m) for m in MARKS} or key[1:] == (False, sort)}
    assert {write for _, write, _ in reads} == {False}
    assert set().union(*map(found.pop, reads)) == set(range(13 * 256, 13 * 256 + 32))
    expected: dict[tuple[str, bool, int], set[int]] = {}
    for mark, (space, write, start, nbytes) in WANTED:
        expected.setdefault((space, write, line(mark)), set()).update(range(start, start + nbytes))
    assert found == expected
    (stored,) = (a for a in accesses if a["frames"][0][2] == "store")
    assert stored["frames"] == frames(("store byte", "store"), ("call store", "accesses"))


def ddr(place: int, nbytes: int, at: int = 0) -> tuple[str, bool, int, int]:
    return "DDR", False, 256 * place + at, nbytes


def ddr_written(place: int, nbytes: int, at: int = 0) -> tuple[str, bool, int, int]:
    return "DDR", True, 256 * place + at, nbytes


WANTED = (
    ("store byte", ddr_written(0, 1)),
    ("half", ddr_written(1, 2)),
    ("wide", ddr(2, 8)),
    ("unaligned", ddr(3, 4, 1)),
    ("copy from", ddr(4, 40)),
    ("copy to", ddr_written(5, 40)),
    ("memset", ddr_written(6, 24)),
    ("memcpy", ddr_written(7, 100)),
    ("memcpy", ddr(8, 100)),
    ("memmove", ddr_written(9, 40)),
    ("memmove", ddr(9, 40, 4)),
    ("memcmp", ddr(10, 1)),  # up to the first difference
    ("memcmp", ddr(11, 1)),
    ("strcpy", ddr_written(12, 5)),
    ("strlen", ddr(12, 5)),
    ("another", ddr_written(12, 5, 64)),
    ("strchr", ddr(12, 3, 64)),
    ("snprintf", ddr_written(15, 4)),
    ("qsort", ddr_written(13, 32)),
    ("loop", ddr(14, 240)),
    ("local", ("LOCAL", True, 2 * 524288 + 16, 1)),
    ("l2", ("L2", False, 64, 4)),
)
MARKS = [mark for mark, _ in WANTED]


@pytest.mark.parametrize("kind", KINDS)
def test_commands_that_are_pending(kind: Kind, firmware: dict[Kind, Path]) -> None:
    batches: Batches = run(firmware[kind], "pending")["batches"]
    seen = [(a["frames"][0][1], a["pending"]) for batch in batches for a in batch["accesses"]]
    marks = {"none": [0, 0], "one": [0, 1], "three": [2, 1], "polled": [0, 0]}
    assert seen == [(line(mark), counts) for mark, counts in marks.items()]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_the_engines_memory_is_not_noted(kind: Kind, firmware: dict[Kind, Path]) -> None:
    assert not any(batch["accesses"] for batch in run(firmware[kind], "nothing")["batches"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "kept", "lost"), [(9000, 9000, False), (70000, 65536, True)])
def test_many_accesses(kind: Kind, count: int, kept: int, lost: bool, firmware: dict[Kind, Path]) -> None:
    """More than the block between firmware and device has room for, and more than is kept."""
    if kind == "arm" and lost:
        pytest.skip("the same class keeps them; a unit test has its limit")
    (batch, *_) = run(firmware[kind], "strided", struct.pack("<i", count))["batches"]
    assert [a["offset"] for a in batch["accesses"]] == [256 * i for i in range(kept)]
    assert batch["lost"] is lost


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_joined_accesses_say_the_same_as_single_ones(
    kind: Kind, seed: int, firmware: dict[Kind, Path]
) -> None:
    steps = random_steps(random.Random(seed))
    data = struct.pack("<i", len(steps)) + bytes(number for step in steps for number in step)
    (batch, *_) = run(firmware[kind], "replay", data)["batches"]
    lines = {line(mark): int(mark[-1]) for mark in ("write 0", "read 1", "write 2", "read 3")}
    entries = [(lines[a["frames"][0][1]], a["offset"], a["nbytes"]) for a in batch["accesses"]]
    assert len(entries) < len(steps)
    assert history(entries) == history([(place, at, 1) for place, at in steps])


def random_steps(chance: random.Random) -> list[tuple[int, int]]:
    """Runs of accesses from four places in the code, as loops make them, and jumps."""
    steps, at = list[tuple[int, int]](), [0, 0, 0, 0]
    for _ in range(800):
        place = chance.randrange(4)
        if chance.random() < 0.1:
            at[place] = chance.randrange(200)
        for _ in range(chance.randrange(1, 4)):
            steps.append((place, at[place]))
            at[place] = (at[place] + 1) % 256
    return steps


def history(entries: list[tuple[int, int, int]]) -> tuple[object, object]:
    """What checks conclude from a log: which bytes were read, which written, and which of them read before
    anything was written there."""
    touched: dict[bool, set[int]] = defaultdict(set)
    written, early = set[int](), set[int]()
    for place, at, nbytes in entries:
        span = set(range(at, at + nbytes))
        reads = place % 2 == 1
        touched[reads] |= span
        if reads:
            early |= span - written
        else:
            written |= span
    return touched, early


def test_the_names_of_the_c_library_are_those_that_have_twins() -> None:
    sdk = ROOT / "sdk" / "firmware"
    names = re.findall(r"redefine_extname (\w+) fw_watched_\1", (sdk / "fw_watched_names.h").read_text())
    source = (sdk / "fw_native_watch_libc.c").read_text()
    twins = re.findall(r"^TWIN\([^,]+, (\w+),|^int fw_watched_(\w+)\(", source, re.MULTILINE)
    assert names == [one or other for one, other in twins]
