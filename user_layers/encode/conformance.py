"""Running a folder of vectors: what passed, failed and was refused, per function and class."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim import vectors
from firmware_sim.chip import L2_TABLE_OFFSET
from firmware_sim.errors import DeviceCrash, DeviceError, TpulayerError, UsageError
from firmware_sim.firmware.image import Kind
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space
from firmware_sim.isa.layout import BD, GDMA
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from user_layers.encode.encoder import Encoder

_DDR_BYTES = 64 << 20
_NONE = np.zeros((0, 32), np.uint32)
_SHOWN = 3  # failures kept per function
_PROGRESS_SECONDS = 2.0


@dataclass
class Tally:
    """refused: this toolkit says that it does not do it; never counted as passed or failed."""

    passed: int = 0
    failed: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def fail(self, text: str) -> None:
        """Count a failure; the texts of the first few are kept."""
        self.failed += 1
        if len(self.failures) < _SHOWN:
            self.failures.append(text)

    def refuse(self, text: str) -> None:
        """Count a refusal; the texts of the first few different ones are kept."""
        self.refused += 1
        if text not in self.refusals and len(self.refusals) < _SHOWN:
            self.refusals.append(text)


@dataclass
class Report:
    """Tallies by part of the folder, then by function or class."""

    parts: dict[str, dict[str, Tally]] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)

    def tally(self, part: str, name: str) -> Tally:
        """The tally of a function or class, made when it is first asked for."""
        return self.parts.setdefault(part, {}).setdefault(name, Tally())

    def all(self) -> Iterator[Tally]:
        """The tallies of all parts."""
        for names in self.parts.values():
            yield from names.values()

    @property
    def failed(self) -> int:
        """Failures of all parts; refusals are none."""
        return sum(t.failed for t in self.all())

    def as_json(self) -> dict[str, Any]:
        """What `tpulayer conformance --json` prints: the sums, the absent files, and every tally."""
        return {
            "passed": sum(t.passed for t in self.all()),
            "failed": self.failed,
            "refused": sum(t.refused for t in self.all()),
            "absent": self.absent,
            "parts": {
                part: {name: vars(tally) for name, tally in names.items()}
                for part, names in self.parts.items()
            },
        }

    def text(self) -> str:
        """The table for the terminal, with the texts that the tallies kept."""
        out = [f"{'':44}{'passed':>8}{'failed':>8}{'refused':>8}"]
        for part, names in self.parts.items():
            total = Tally(*(sum(getattr(t, k) for t in names.values()) for k in _COUNTS))
            out.append(f"{part:44}{total.passed:8}{total.failed:8}{total.refused:8}")
            for name, t in names.items():
                out.append(f"  {name:42}{t.passed:8}{t.failed:8}{t.refused:8}")
                out += [f"      failed: {text}" for text in t.failures]
                out += [f"      refused: {text}" for text in t.refusals]
        if self.absent:
            out.append(f"not in the folder: {', '.join(self.absent)}")
        return "\n".join(out)


_COUNTS = ("passed", "failed", "refused")
_CALL_KEYS = ("bd", "gdma", "ids_after", "parallel")
Say = Callable[[str], None]


class _Progress:
    def __init__(self, say: Say) -> None:
        self._say = say
        self._next = time.monotonic() + _PROGRESS_SECONDS

    def step(self, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PROGRESS_SECONDS
            self._say(text)


def run(folder: Path, say: Say, kind: Kind | None = None) -> Report:
    """All vectors of the folder; progress goes to `say`; kind: of the firmware that encodes.

    Raises UsageError when there are none.
    """
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder", hint="give the folder that holds okk_encode.jsonl, exec/, ..."
        )
    report = Report()
    files = vectors.execution_files(folder)
    calls = [*vectors.ENCODINGS, *vectors.REJECTED, vectors.SEQUENCES, vectors.UTILITIES]
    report.absent = [n for n in calls if not vectors.has(folder, n)] + ([] if files else ["exec/"])
    if len(report.absent) == len(calls) + 1:
        raise UsageError(
            f"{folder} holds no vectors", hint="expected okk_encode.jsonl, bm_atomic.jsonl, exec/, ..."
        )
    progress = _Progress(say)
    if any(vectors.has(folder, n) for n in calls):
        with Encoder(kind=kind) as encoder:
            for name in calls:
                if vectors.has(folder, name):
                    for number, line in enumerate(vectors.lines(folder, name), 1):
                        progress.step(f"{name}: line {number}")
                        _line(report, encoder, name, number, line)
    if files:
        tpu = Tpu(Memory.create(ddr_bytes=_DDR_BYTES))
        tables = vectors.l2_tables(folder)
        for name in files:
            for case in vectors.executions(folder, name):
                _check_regions(tpu.memory, case)
                tpu.memory.flat(Space.L2)[L2_TABLE_OFFSET : L2_TABLE_OFFSET + len(tables)] = tables
                progress.step(f"exec/{case.name}")
                _execution(report.tally("executions", case.cls), tpu, case)
    return report


def _check_regions(memory: Memory, case: vectors.Execution) -> None:
    for region in (*case.before, *case.after):
        size = len(memory.flat(region.space))
        if not 0 <= region.offset <= size - len(region.data):
            raise UsageError(
                f"exec/{case.name}: a region of {len(region.data)} bytes at {region.offset} is outside the "
                f"{size} bytes of {region.space.name}"
            )


def _line(report: Report, encoder: Encoder, name: str, number: int, line: dict[str, Any]) -> None:
    where = f"{name}.jsonl:{number}"
    try:
        if name in vectors.ENCODINGS:
            _encoding(report.tally("encodings", line["fn"]), encoder, where, line)
        elif name in vectors.REJECTED:
            _rejected(report.tally("refused calls", line["fn"]), encoder, where, line)
        elif name == vectors.SEQUENCES:
            _sequence(report.tally("sequences", "sequences"), encoder, where, line)
        else:
            _utility(report.tally("utilities", line["fn"]), encoder, where, line)
    except (KeyError, TypeError) as error:
        raise UsageError(f"{where}: not a vector of this kind: {error!r}") from None


def _encoding(tally: Tally, encoder: Encoder, where: str, line: dict[str, Any]) -> None:
    known = {key: line[key] for key in ("bd", "gdma")}
    known |= {key: line[key] for key in ("order", "ids_after") if key in line}
    start = line.get("ids_before", [0, 0])
    calls = [(line["fn"], line["args"])]
    if start != [0, 0]:
        calls.insert(0, ("okk_set_id_node", {"node": [*start, 0]}))
    try:
        made = encoder.run(calls)
    except TpulayerError as error:
        tally.fail(f"{where}: refused: {error.message}")
        return
    got = {"bd": made.bd, "gdma": made.gdma, "order": made.order, "ids_after": made.ids}
    if wrong := [key for key, value in known.items() if got[key] != value]:
        tally.fail(f"{where}: {', '.join(wrong)} differ")
    else:
        tally.passed += 1


def _rejected(tally: Tally, encoder: Encoder, where: str, line: dict[str, Any]) -> None:
    try:
        encoder.run([(line["fn"], line["args"])])
    except (UsageError, DeviceCrash) as error:  # no call that could be refused, or one that was not
        tally.fail(f"{where}: {error.message}")
        return
    except DeviceError:
        tally.passed += 1
        return
    if line["fn"] in ("bm_atomic_sort", "bm_atomic_gather_data"):
        tally.refuse(f"{where}: encoded here, in a form of this toolkit's own")
    else:
        tally.fail(f"{where}: accepted")


def _sequence(tally: Tally, encoder: Encoder, where: str, line: dict[str, Any]) -> None:
    known = [(c["bd"], c["gdma"], c["ids_after"], c["parallel"]) for c in line["seq"]]
    try:
        made = encoder.run([(c["call"], c["args"]) for c in line["seq"]])
    except TpulayerError as error:
        tally.fail(f"{where}: refused: {error.message}")
        return
    for number, (call, want, issued) in enumerate(zip(line["seq"], known, made.calls, strict=True), 1):
        bd, gdma = ([d.hex() for d in stream] for stream in (issued.bd, issued.gdma))
        got = (bd, gdma, list(issued.ids), issued.parallel)
        if wrong := [key for key, a, b in zip(_CALL_KEYS, got, want, strict=True) if a != b]:
            tally.fail(f"{where}: call {number}, {call['call']}: {', '.join(wrong)} differ")
            return
    tally.passed += 1


def _utility(tally: Tally, encoder: Encoder, where: str, line: dict[str, Any]) -> None:
    want = line["result"] if "result" in line else line["result_offset"]
    try:
        got = encoder.utility(line["fn"], line["args"])
    except TpulayerError as error:
        tally.refuse(f"{where}: {error.message}")
        return
    if got == want:
        tally.passed += 1
    else:
        tally.fail(f"{where}: {got} instead of {want}")


def _execution(tally: Tally, tpu: Tpu, case: vectors.Execution) -> None:
    memory = tpu.memory
    try:
        for region in case.before:
            memory.flat(region.space)[region.offset : region.offset + len(region.data)] = region.data
        for engine, data in case.descriptors:
            tpu.restart()
            words = _numbered(engine, data)
            tpu.execute(*((words, _NONE) if engine is Engine.BD else (_NONE, words)))
        wrong = [
            region.space.name
            for region in case.after
            if not vectors.same_bits(
                memory.flat(region.space)[region.offset : region.offset + len(region.data)], region.data
            )
        ]
        if wrong:
            tally.fail(f"{case.name}: {wrong[0]} differs")
        else:
            tally.passed += 1
    except TpulayerError as error:
        tally.refuse(f"{case.name}: {error.message.splitlines()[0]}")
    finally:
        for region in (*case.before, *case.after):
            memory.flat(region.space)[region.offset : region.offset + len(region.data)] = 0


def _numbered(engine: Engine, data: bytes) -> Any:
    """The descriptor as the first of its engine: the stored ids count over a whole capture."""
    layout = BD if engine is Engine.BD else GDMA
    ids = ("cmd_id_tpu", "cmd_id_gdma") if engine is Engine.BD else ("cmd_id", "eng0_sync_id")
    fields = {**layout.decode(data), ids[0]: 1, ids[1]: 0}
    return np.frombuffer(layout.encode(**fields), np.uint32).reshape(1, 32)
