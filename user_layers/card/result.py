"""result.json, which the program check writes: read, checked, and as types. Nothing in it is trusted."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firmware_sim.errors import ModelError, UsageError
from firmware_sim.shown import count
from firmware_sim.wire import DType
from user_layers.card.pack import FORMAT as PACK
from user_layers.card.pack import MANIFEST, RESULT

RESULT_FILE = "result.json"
FORMAT = "tpulayer result"
VERSION = 1
MAX_BYTES = 64 << 20  # check writes at most 32 MiB of records
_MAX_TEXT = 4096
_MAX_OUTPUTS = 4096  # of a run
_ONCE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("pack", "device", "memory", "firmware", "end"), ()),
    **dict.fromkeys(("planned", "run", "times"), ("run",)),
    **dict.fromkeys(("model", "skipped"), ("model",)),
    "output": ("run", "output", "round"),
}
"""Records that are there once, by their kind; once for each value of these members."""


@dataclass(frozen=True)
class Difference:
    """How an output differs. max_*: of numbers on both sides; max_value: the largest expected one; first:
    some elements (flat index, expected bits, bits that came); axes: how many indices of each axis are
    concerned, and the first of them."""

    max_abs: float
    max_value: float
    max_ulp: int
    nan_missing: int
    nan_appeared: int
    nan_bits: int
    infinite: int
    zero_signs: int
    untouched: int
    first: tuple[tuple[int, int, int], ...]
    axes: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Output:
    """An output of a run. place: which of them; again: after the last launch, not the first. shape: as the
    runtime says."""

    name: str
    place: int
    again: bool
    dtype: DType
    shape: tuple[int, ...]
    shape_fits: bool
    sha256: str
    elements: int
    different: int
    how: Difference | None

    @property
    def equal(self) -> bool:
        """Whether it is what was expected, bit for bit."""
        return self.different == 0 and self.shape_fits


@dataclass(frozen=True)
class Planned:
    """What the pack wanted of a run: its kind as in a pack, its model's number, the names of its outputs."""

    what: str
    title: str
    model: int
    outputs: tuple[str, ...]


@dataclass
class RunResult:
    """One run. what: as in a pack; failed: calls that failed, with their status; *_us: of each launch."""

    what: str
    title: str
    outputs: list[Output] = field(default_factory=list)
    failed: list[tuple[str, int]] = field(default_factory=list)
    host_us: tuple[int, ...] = ()
    device_us: tuple[int, ...] = ()

    @property
    def good(self) -> bool:
        """Whether it ran, and all bits are equal."""
        return bool(self.outputs) and not self.failed and all(output.equal for output in self.outputs)


@dataclass
class Result:
    """All of it. failed: calls outside of any run; infos: what the device said of itself, by call; plan: the
    runs of the pack, by number; memory: bytes that came back wrong, of how many, in which call, its status;
    refused, skipped: files of models, by number; end: how the program ended, its exit code or signal, and the
    call it was in; missing: what a check that ended as it should would have recorded; foreign_pack: where it
    lies, if that is another pack than its own."""

    path: Path
    pack: str = ""
    tool: str = ""
    machine: str = ""
    planned: int = 0
    plan: dict[int, Planned] = field(default_factory=dict)
    load_firmware: bool = False
    firmware_path: str = ""
    firmware: int | None = None
    device: tuple[int, int] | None = None
    memory: tuple[int, int, str, int] | None = None
    libraries: list[tuple[str, str, str]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    infos: dict[str, int | str] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)
    runs: dict[int, RunResult] = field(default_factory=dict)
    failed: list[tuple[str, int]] = field(default_factory=list)
    end: tuple[str, int, str] = ("", 0, "")
    missing: list[str] = field(default_factory=list)
    foreign_pack: str = ""


def read_result(path: Path) -> Result:
    """The result at path: the file, its folder, or the pack in which it lies.

    Errors: UsageError when there is none; ModelError, with the record, for what is damaged, was cut off, is
    there twice, was not planned, or is of another version.
    """
    file = _find(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ModelError(f"{file} has {file.stat().st_size} bytes; a result has at most {MAX_BYTES}")
        raw = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from error
    try:
        whole = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file} is not a whole result: {error}", hint=_AGAIN) from error
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise ModelError(f"{file} is not a result of a pack", hint="the check of a pack writes result.json")
    if whole.get("version") != VERSION:
        raise ModelError(
            f"{file} is of version {_brief(whole.get('version'))}; this tpulayer reads version {VERSION}",
            hint="read it with the tpulayer that made the pack",
        )
    records = whole.get("records")
    if not isinstance(records, list):
        raise ModelError(f"{file} has no records", hint=_AGAIN)
    result = Result(file)
    seen: set[Hashable] = set()
    for number, value in enumerate(records):
        record = _Record(file, number, value)
        if (identity := record.identity()) is not None:
            if identity in seen:
                raise record.wrong("it is there twice")
            seen.add(identity)
        _add(result, record)
    if not result.end[0]:
        raise ModelError(f"{file} does not say how the check ended", hint=_AGAIN)
    if sorted(result.plan) != list(range(result.planned)):
        raise ModelError(
            f"{file} plans {count(len(result.plan), 'run')}, the pack has {result.planned}", hint=_AGAIN
        )
    result.missing = _missing(result)
    result.foreign_pack = _foreign(result)
    return result


_AGAIN = "copy it once more, or run the pack again"


def _find(path: Path) -> Path:
    if path.is_file():
        return path
    for file in (path / RESULT_FILE, path / RESULT / RESULT_FILE):
        if file.is_file():
            return file
    if (path / MANIFEST).is_file():
        raise UsageError(f"{path} has no result yet", hint="run ./run.sh in it on a machine with a card")
    raise UsageError(
        f"{path} is no result" if path.exists() else f"{path} is not there",
        hint="give result.json, the folder it lies in, or the pack",
    )


def _foreign(result: Result) -> str:
    """Where the result lies in a pack: that pack's name, if the result is of another one."""
    manifest = result.path.parent.parent / MANIFEST
    try:
        whole = json.loads(manifest.read_bytes()[:MAX_BYTES])
    except (OSError, ValueError, RecursionError):
        return ""
    if not isinstance(whole, dict) or whole.get("format") != PACK:
        return ""
    return str(manifest.parent) if whole.get("id") != result.pack else ""


def _missing(result: Result) -> list[str]:
    """What is not there, of a check that came to its end; nothing where a failed call tells why."""
    if result.end[0] != "finished" or result.failed or result.firmware:
        return []
    if result.device is None:
        return ["whether the device could be opened"]
    if result.device[1] != 0:
        return []
    if result.memory is None:
        return ["the copies to the device's memory and back"]
    if result.memory[0] or result.memory[3]:
        return []
    lines: list[str] = []
    for number, planned in sorted(result.plan.items()):
        run = result.runs.get(number)
        if run is not None and not run.failed:
            lines += [f"{planned.title}: {what}" for what in _missing_of(planned, run)]
        elif run is None and planned.model not in result.refused.keys() | result.skipped.keys():
            lines.append(f"{planned.title}: the whole run")
    return lines


def _missing_of(planned: Planned, run: RunResult) -> list[str]:
    """Outputs are recorded after the first launch, and after the last one where there are several."""
    launches = {False: "first", True: "last"} if len(run.host_us) > 1 else {False: "first"}
    there = {(output.place, output.again) for output in run.outputs}
    lines = [
        f"output {name} after the {which} launch"
        for again, which in launches.items()
        for place, name in enumerate(planned.outputs)
        if (place, again) not in there
    ]
    return lines if run.host_us else [*lines, "the times of its launches"]


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


class _Record:
    """One record, whose members are taken by their types. ModelError names what is wrong."""

    def __init__(self, file: Path, number: int, record: object) -> None:
        self._where = f"{file}: record {number}"
        if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
            raise ModelError(f"{self._where} is none", hint=_AGAIN)
        self._members: dict[str, Any] = record
        self.kind: str = record["kind"]
        self._where += f" ({_clean(self.kind)})"

    def wrong(self, what: str) -> ModelError:
        return ModelError(f"{self._where}: {what}", hint=_AGAIN)

    def number(self, key: str, least: int = 0, most: int = 1 << 62) -> int:
        value = self._members.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(f"{key} is {_brief(value)}")
        return value

    def status(self, key: str = "status") -> int:
        return self.number(key, -(1 << 31), (1 << 32) - 1)

    def real(self, key: str) -> float:
        value = self._members.get(key)
        if value is None:
            return math.inf
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise self.wrong(f"{key} is {_brief(value)}")
        return float(value)

    def flag(self, key: str) -> bool:
        value = self._members.get(key)
        if not isinstance(value, bool):
            raise self.wrong(f"{key} is {_brief(value)}")
        return value

    def identity(self) -> Hashable:
        """What no other record has; None where there may be several."""
        keys = _ONCE.get(self.kind)
        return None if keys is None else (self.kind, *(self.number(key) for key in keys))

    def text(self, key: str) -> str:
        """null is nothing."""
        value = self._members.get(key)
        if value is None and key in self._members:
            return ""
        if not isinstance(value, str):
            raise self.wrong(f"{key} is {_brief(value)}")
        return _clean(value[:_MAX_TEXT])

    def numbers(self, key: str, most: int) -> tuple[int, ...]:
        values = self._members.get(key)
        if not isinstance(values, list) or len(values) > most:
            raise self.wrong(f"{key} is {_brief(values)}")
        for value in values:
            if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 1 << 62:
                raise self.wrong(f"{key} has {_brief(value)}")
        return tuple(values)

    def texts(self, key: str, most: int) -> tuple[str, ...]:
        values = self._members.get(key)
        if not isinstance(values, list) or len(values) > most:
            raise self.wrong(f"{key} is {_brief(values)}")
        for value in values:
            if not isinstance(value, str):
                raise self.wrong(f"{key} has {_brief(value)}")
        return tuple(_clean(value[:_MAX_TEXT]) for value in values)

    def has(self, key: str) -> bool:
        return key in self._members


def _clean(text: str) -> str:
    """Text that a terminal may show: nothing that moves the cursor."""
    return "".join(c if c.isprintable() else " " for c in text).strip()


def _add(result: Result, record: _Record) -> None:
    """Put one record in its place; kinds of later versions are passed over."""
    kind = record.kind
    if kind == "pack":
        result.pack, result.tool = record.text("id"), record.text("tool")
        result.machine, result.planned = record.text("machine"), record.number("runs")
        result.load_firmware, result.firmware_path = (
            record.flag("load_firmware"),
            record.text("firmware_path"),
        )
    elif kind == "planned":
        result.plan[record.number("run")] = Planned(
            record.text("what"),
            record.text("title"),
            record.number("model"),
            record.texts("outputs", _MAX_OUTPUTS),
        )
    elif kind == "library":
        hash_ = record.text("sha256") if record.has("sha256") else ""
        result.libraries.append((record.text("name"), record.text("path"), hash_))
    elif kind == "version":
        result.texts.append(("libbmrt_version", record.text("text")))
    elif kind == "file":
        result.texts.append((record.text("path"), record.text("text")))
    elif kind == "device":
        result.device = record.number("device"), record.status()
    elif kind == "info":
        if record.status() == 0:
            call = record.text("call")
            result.infos[call] = record.text("text") if record.has("text") else record.status("value")
    elif kind == "memory":
        result.memory = (
            record.number("different"),
            record.number("bytes"),
            record.text("call"),
            record.status(),
        )
    elif kind == "firmware":
        result.firmware = record.status()
    elif kind == "model":
        if not record.flag("loaded"):
            result.refused[record.number("model")] = record.text("file")
    elif kind == "skipped":
        result.skipped[record.number("model")] = record.text("file")
    elif kind == "run":
        number = record.number("run")
        if number not in result.plan:
            raise record.wrong(f"run {number} was not planned")
        result.runs[number] = RunResult(result.plan[number].what, result.plan[number].title)
    elif kind == "output":
        output, planned = _output(record), result.plan.get(record.number("run"))
        if planned is not None and output.name not in planned.outputs[output.place : output.place + 1]:
            raise record.wrong(f"output {output.place}, {_brief(output.name)}, was not planned")
        _run(result, record).outputs.append(output)
    elif kind == "times":
        run = _run(result, record)
        run.host_us, run.device_us = record.numbers("host_us", 1000), record.numbers("device_us", 1000)
    elif kind == "failed":
        runs = list(result.runs.values())
        (runs[-1].failed if runs and not runs[-1].host_us else result.failed).append(
            (record.text("call"), record.status())
        )
    elif kind == "end":
        result.end = record.text("reason"), record.status("number"), record.text("step")


def _run(result: Result, record: _Record) -> RunResult:
    number = record.number("run")
    if number not in result.runs:
        raise record.wrong(f"there is no run {number}")
    return result.runs[number]


def _output(record: _Record) -> Output:
    shape = record.numbers("shape", 8)
    different = record.number("different")
    code = record.number("dtype")
    if code not in DType.__members__.values():
        raise record.wrong(f"dtype is {code}")
    return Output(
        name=record.text("name"),
        place=record.number("output"),
        again=record.number("round", most=1) > 0,
        dtype=DType(code),
        shape=shape,
        shape_fits=record.flag("shape_fits"),
        sha256=record.text("sha256"),
        elements=record.number("elements", most=1 << 32),
        different=different,
        how=_difference(record, len(shape)) if different else None,
    )


def _difference(record: _Record, axes: int) -> Difference:
    first = [record.numbers(f"first_{key}", 16) for key in ("index", "expected_bits", "got_bits")]
    if len({len(part) for part in first}) != 1:
        raise record.wrong("its lists of elements are not of one length")
    return Difference(
        max_abs=record.real("max_abs"),
        max_value=record.real("max_value"),
        first=tuple(zip(*first, strict=True)),
        axes=tuple(
            (record.number(f"axis{axis}_count"), record.numbers(f"axis{axis}", 64))
            for axis in range(axes)
            if record.has(f"axis{axis}_count")
        ),
        **{
            key: record.number(key)
            for key in (
                "max_ulp",
                "nan_missing",
                "nan_appeared",
                "nan_bits",
                "infinite",
                "zero_signs",
                "untouched",
            )
        },
    )
