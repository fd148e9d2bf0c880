"""The library of compiled loops: built once, taken when it is there, done without when it is not."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from firmware_sim import flush
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.loops import library, native
from firmware_sim.isa.codes import Eu, Task
from firmware_sim.isa.layout import BD
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support.isa_cases import LOCAL
from user_layers.toolchain import loops
from user_layers.toolchain.report import Reporter

pytestmark = pytest.mark.skipif(not flush.HARDWARE, reason="this processor does not flush as the chip does")

_NONE = np.zeros((0, 32), np.uint32)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the library would be in a cache that has none, and a process that has loaded none."""
    place = tmp_path / "loops" / "key" / "loops.so"
    for module in (library, native, loops):
        monkeypatch.setattr(module, "location", lambda: place)
    monkeypatch.setattr(native, "_library", None)
    monkeypatch.setattr(native, "_LOOK", 0.0)
    return place


def _additions(tpu: Tpu, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    fields = {"tsk_typ": Task.MD_SCALAR, "tsk_eu_typ": Eu.ADD, "res0_n": 1, "res0_c": 64, "res0_h": 2}
    fields |= {"res0_w": 8, "res0_addr": LOCAL, "opd0_addr": LOCAL + 0x80, "opd1_addr": LOCAL + 0x100}
    tpu.memory.local[:, 0x80:0x180].view(np.float32)[...] = np.arange(64)
    rows = [BD.encode(**{**BD.defaults, **fields, "cmd_id_tpu": i + 1}) for i in range(count)]
    return np.frombuffer(b"".join(rows), np.uint32).reshape(count, 32)


def test_without_the_library_references_run_until_it_comes(empty: Path) -> None:
    built = _real_location()
    assert not native.ready()
    tpu = Tpu(Memory.create(ddr_bytes=1 << 20))
    words = _additions(tpu, 3)
    tpu.execute(words, _NONE)
    before = tpu.memory.local[:, :0x80].copy()
    empty.parent.mkdir(parents=True)
    empty.write_bytes(built.read_bytes())
    tpu.restart()
    tpu.execute(words, _NONE)
    assert native.ready()
    assert before.any() and np.array_equal(before, tpu.memory.local[:, :0x80])


def _real_location() -> Path:
    from firmware_sim.cache_folder import cache_root

    return cache_root() / "loops" / library._key() / "loops.so"


def test_a_damaged_library_is_none(empty: Path) -> None:
    empty.parent.mkdir(parents=True)
    empty.write_bytes(b"\x7fELF and nothing else")
    assert not native.load() and not native.ready()


def test_two_builds_at_once_are_one(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def build(place: Path, compiler: object, report: Reporter) -> None:
        calls.append(library.is_being_built())
        time.sleep(0.2)
        place.write_bytes(b"")

    monkeypatch.setattr(loops, "_build", build)
    threads = [
        threading.Thread(target=loops.build_loops, kwargs={"report": Reporter(quiet=True)}) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    loops.build_loops()  # and a later one does nothing
    assert calls == [True]
    assert not library.is_being_built()


def test_a_slow_command_waits_for_a_build(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not native.wait()  # nobody builds it
    built = _real_location().read_bytes()
    monkeypatch.setattr(native, "_LOOK", 0.01)

    def build(place: Path, compiler: object, report: Reporter) -> None:
        building.set()
        time.sleep(0.2)
        place.write_bytes(built)

    building = threading.Event()
    monkeypatch.setattr(loops, "_build", build)
    thread = threading.Thread(target=loops.build_loops, kwargs={"report": Reporter(quiet=True)})
    thread.start()
    assert building.wait(60)
    assert native.wait() and native.ready()
    thread.join(60)


def test_a_build_beside_a_run_is_announced_once(
    empty: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(
        "user_layers.toolchain.loops.subprocess.Popen", lambda words, **_: started.append(words)
    )
    loops.start()
    assert len(started) == 1 and "`build_layers` does it ahead" in capsys.readouterr().err
    empty.parent.mkdir(parents=True)
    empty.write_bytes(b"")
    loops.start()
    assert len(started) == 1 and not capsys.readouterr().err


def test_a_loop_takes_memory_as_it_lies() -> None:
    turned = np.zeros((2, 3), np.int64).T
    with pytest.raises(ValueError, match=r"moves_copy: an array of shape \(3, 2\) that is not C-contiguous"):
        native.bound("moves_copy", turned, turned, turned, 1)


def test_memory_that_runs_out_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    tpu = Tpu(Memory.create(ddr_bytes=1 << 20))
    words = _additions(tpu, 3)
    monkeypatch.setattr(native, "run", lambda entries, count: count - 1)
    with pytest.raises(DeviceError, match=r"BD command 1 .*has not enough memory for it: a loop has"):
        tpu.execute(words[:1], _NONE)
    tpu.restart()
    with pytest.raises(DeviceError, match=r"BD command 3 .*has not enough memory"):
        tpu.execute(words, _NONE)
