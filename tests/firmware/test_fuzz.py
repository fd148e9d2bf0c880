"""Short runs of the fuzzers, and every case that once found something."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firmware_sim import wire
from firmware_sim.errors import DeviceCrash, DeviceError, MissingError
from tests.fuzz import guided
from tests.fuzz.__main__ import GUIDED, WHAT, main, target
from tests.fuzz.driver import CORPUS, Case, Finding, Target, attempt, fuzz, load, save
from tests.fuzz.guided import Guided, keep_inputs, kept, run_guided
from tests.fuzz.inputs import limited
from tests.fuzz.requests import SANITIZE, packed, unpacked

OFTEN = 10  # cases between two looks at a device

CASES = {"images": 15, "networks": 20, "link": 20, "descriptors": 800}
CASES |= {"bmodel": 40, "streams": 100, "vectors": 100, "onnx": 10, "messages": 40, "programs": 100}
CASES |= {"partitions": 300, "foreign": 200}


@pytest.mark.parametrize("what", CASES)
def test_short_run(what: str, tmp_path: Path) -> None:
    """Old cases and kept inputs first, then some new ones, always the same; all on the same device."""
    with target(what) as running:
        for path in sorted(CORPUS.glob(f"{what}-*.json")):
            known, case = load(path)
            assert known == what
            attempt(running, case)
            running.check()
        for number, data in enumerate(kept(what)):
            attempt(running, {"input": data.hex()})
            if number % OFTEN == 0:
                running.check()
        every = WHAT.get(what, OFTEN)
        report = fuzz(what, running, cases=CASES[what], seed=1, keep=tmp_path, check_every=every)
    assert report.findings == [] and report.tried, report.text()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["messages", "programs"])
def test_kept_requests_to_firmware_with_checks(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SANITIZE, "1")
    with target(what) as running:
        for case in [load(path)[1] for path in sorted(CORPUS.glob(f"{what}-*.json"))]:
            attempt(running, case)
        for data in kept(what):
            attempt(running, {"input": data.hex()})
        running.check()


def test_every_target_is_run_here() -> None:
    assert set(CASES) == {*GUIDED, *WHAT}
    assert all((CORPUS / f"{what}.zip").exists() for what in GUIDED)


# ---- coverage ----


class _Bytes(Guided):
    name = "bytes"
    words = (b'a"',)

    def seeds(self) -> list[bytes]:
        return [b"seed"]

    def one(self, data: bytes) -> str:
        return "taken"


def test_kept_inputs_are_those_that_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guided, "CORPUS", tmp_path)
    assert kept("bytes") == []
    first = keep_inputs("bytes", [b"bb", b"", b"a", b"bb"]).read_bytes()
    assert kept("bytes") == [b"", b"a", b"bb"]
    assert keep_inputs("bytes", [b"a", b"bb", b""]).read_bytes() == first


def test_without_the_fuzzer_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guided, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["fuzz", "bmodel"])
    assert main() == 3
    assert "needs the package atheris" in capsys.readouterr().err


def test_the_length_of_a_request_is_repaired() -> None:
    message = wire.REQUEST.pack(wire.Op.QUERY, 77, 0, 0) + b"four"
    repaired, ddr = unpacked(packed(message, b"ddr"))
    assert wire.REQUEST.unpack_from(repaired)[:2] == (wire.Op.QUERY, 4) and ddr == b"ddr"
    assert unpacked(struct.pack("<I", 1 << 31 | len(message)) + message)[0] == message
    assert wire.REQUEST.unpack_from(unpacked(packed(message), (wire.Op.SHAPE,))[0])[0] == wire.Op.SHAPE
    assert unpacked(b"") == (b"", b"")


_LIFE = """
import pathlib, sys
folder, lives = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
number = len(lives.read_text()) if lives.exists() else 0
lives.write_text("x" * (number + 1))
(folder / "stats.json").write_text('{"counts": {"taken": 5}, "slowest": 0.5}')
print(f"#5\tNEW    cov: {10 + number} ft: 3 corp: 2/9b lim: 4 exec/s: 0 rss: 30Mb")
if number < 3:
    kind = ("crash", "crash", "timeout")[number]
    (folder / f"{kind}-00{number}").write_bytes(b"bad" * (number + 1))
    why = "AddressSanitizer: SEGV at 0x%x" % number if number < 2 else "libFuzzer: timeout after 9 seconds"
    sys.exit("==1==ERROR: " + why)
"""


def test_what_ends_the_process_is_kept_and_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four lives: two crashes of one kind, a timeout, and the rest of the time."""
    monkeypatch.setattr(guided, "require_atheris", lambda: None)
    monkeypatch.setattr(guided, "CORPUS", tmp_path / "corpus")

    def command(self: Any, *options: str) -> list[str]:
        assert "-max_total_time" in options[0] and Path(options[1], "seed-0000").read_bytes() == b"seed"
        return [sys.executable, "-c", _LIFE, str(self._folder), str(tmp_path / "lives")]

    monkeypatch.setattr(guided._Run, "command", command)
    said: list[str] = []
    report = run_guided(_Bytes(), seconds=100, seed=1, keep=tmp_path / "keep", say=said.append)
    assert (report.tried, report.edges, report.counts["taken"], report.slowest) == (20, 13, 20, 0.5)
    assert len(report.findings) == len(said) == 2
    assert "SEGV" in said[0] and "timeout after 9" in said[1]
    found = sorted(load(path)[1]["input"] for path in (tmp_path / "keep").iterdir())
    assert found == [b"bad".hex(), b"badbadbad".hex()]


def test_a_process_that_ends_without_a_reason_is_no_fuzzing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guided, "require_atheris", lambda: None)
    end = [sys.executable, "-c", "import sys; sys.exit('no such target')"]
    monkeypatch.setattr(guided._Run, "command", lambda *_: end)
    with pytest.raises(MissingError, match="no such target"):
        run_guided(_Bytes(), seconds=100, seed=1, keep=tmp_path)


# ---- our own driver ----


def test_cases_are_the_same_for_the_same_seed() -> None:
    with target("descriptors") as running:
        one, two = (running.make(random.Random("descriptors 1 7")) for _ in range(2))
    assert one == two and one != {"bd": [], "gdma": []}


class _Fake(Target):
    crashes_are_findings = True

    def __init__(self, do: Callable[[int], str]) -> None:
        self._do = do
        self._made = 0

    def make(self, rng: random.Random) -> Case:
        self._made += 1
        return {"number": self._made}

    def run(self, case: Case) -> str:
        return self._do(case["number"])

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


def _raise(error: Exception) -> str:
    raise error


@pytest.mark.parametrize(
    ("error", "finding"),
    [
        (ValueError("what"), True),
        (RuntimeError("internal"), True),
        (DeviceCrash("kernel x crashed: SIGSEGV (invalid)"), True),
        (Finding("written outside"), True),
        (DeviceError("refused"), False),
    ],
)
def test_what_is_a_finding(error: Exception, finding: bool, tmp_path: Path) -> None:
    fake = _Fake(lambda number: _raise(error) if number == 3 else "fine")
    report = fuzz("fake", fake, cases=5, seed=1, keep=tmp_path)
    assert len(report.findings) == finding
    if finding:
        [path] = tmp_path.iterdir()
        assert load(path) == ("fake", {"number": 3})
        with pytest.raises(Finding, match=str(error).split("(")[0]):
            attempt(fake, load(path)[1])
    else:
        assert report.counts["DeviceError"] == 1
    assert f"{len(report.findings)} findings" in report.text()


def test_an_input_has_limits() -> None:
    with pytest.raises(Finding, match="hang: more than 0"), limited(0.05, 100):
        while True:
            pass
    with pytest.raises(MemoryError), limited(60, 100):
        bytearray(200 << 20)
    assert len(bytearray(200 << 20)) == 200 << 20


def test_saved_cases_come_back(tmp_path: Path) -> None:
    path = save(tmp_path / "new", "programs", {"a": [1, "x"]}, "because")
    assert load(path) == ("programs", {"a": [1, "x"]})
