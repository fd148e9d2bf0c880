"""What goes wrong beside an unmodified LiteRT: it is told, and what comes next works."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import CompileError, DeviceError, MissingError
from tests.litert.running import assert_close, image, run
from tests.support.tflite_zoo import Layers
from tests.support.workspaces import built_workspace, environment
from user_layers.delegates.litert import LiteRtModel, compile_ahead, counters

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install 'ai-edge-litert==2.3.*'")


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No workspace: the built-in layers."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def ahead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions around an angle, which no layer computes, compiled."""
    folder = tmp_path_factory.mktemp("ahead")
    b = Layers()
    x = b.conv(b.given("image", 1, 16, 16, 3), 8, 3, 2, 1)
    x = b.net.op("ATAN2", [x, x], (1, 8, 8, 8))
    (folder / "model.tflite").write_bytes(b.file(y=b.mean(x, 1, 2, keep=False)))
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert compile_ahead(folder / "model.tflite", folder / "out.tflite").partitions == 2
    finally:
        os.chdir(before)
    return folder / "out.tflite"


def test_a_file_that_ends_too_early_is_an_error_of_loading(ahead: Path, tmp_path: Path) -> None:
    data, path = ahead.read_bytes(), tmp_path / "cut.tflite"
    program = data.index(b"TPLDPRG\0")
    for size in (len(data) - 1, program + 300, program + 10, program - 1, program // 2, 100, 8):
        path.write_bytes(data[:size])
        with pytest.raises(CompileError, match="LiteRT does not load it"):
            LiteRtModel(path)
    run(ahead, image((1, 16, 16, 3)))


def test_every_part_of_a_program_is_checked(ahead: Path, tmp_path: Path) -> None:
    """Bytes that are other ones are found when it is loaded, wherever they are."""
    data, path = ahead.read_bytes(), tmp_path / "other.tflite"
    program = data.index(b"TPLDPRG\0")
    for place in range(program, len(data) - 16, (len(data) - program) // 12):
        changed = bytearray(data)
        changed[place] ^= 0x41
        path.write_bytes(changed)
        with pytest.raises(CompileError, match="tpulayer: LiteRT: partition_"):
            LiteRtModel(path)


def test_environments_are_closed_one_after_the_other(ahead: Path) -> None:
    """Two in a process, of which the first goes while the second works."""
    first, second = LiteRtModel(ahead), LiteRtModel(ahead)
    want = first.run(image((1, 16, 16, 3)))
    first.close()
    assert_close(second.run(image((1, 16, 16, 3))), want)
    third = LiteRtModel(ahead)
    second.close()
    assert_close(third.run(image((1, 16, 16, 3))), want)
    third.close()


def test_versions_with_another_interface_are_named(ahead: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.1.4")
    for call in (lambda: LiteRtModel(ahead), lambda: compile_ahead(ahead, Path("out.tflite"))):
        with pytest.raises(MissingError, match=r"LiteRT 2\.1\.4 is installed; .* 2\.2 and 2\.3"):
            call()


def test_no_compiler_leaves_the_cpu_and_is_told(ahead: Path, tmp_path: Path) -> None:
    """The compiler's process cannot be started: LiteRT computes, and says why."""
    path = ahead.with_name("model.tflite")
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys; from user_layers.cli.main import main; sys.argv[0] = 'tpulayer'; main()",
            *("litert", "run", str(path), "--output", "out.npz"),
        ],
        env=environment(TPULAYER_PYTHON="/nowhere/python"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "nothing of this model ran on the TPU" in done.stdout
    assert "tpulayer: LiteRT: partition: the compiler cannot be started" in done.stdout
    with np.load("out.npz") as made:
        assert made["y"].shape == (1, 8)


@pytest.mark.parametrize("times", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_models_come_and_go_without_a_leak(ahead: Path, times: int) -> None:
    """LiteRT itself keeps a few bytes of each environment; other tests leave the heap in pieces."""
    given = image((1, 16, 16, 3))
    for _ in range(10):
        run(ahead, given)
    files, size = _open_files(), _resident()
    for _ in range(times):
        run(ahead, given)
    assert _open_files() <= files
    assert _resident() - size < (8 << 20) + 1024 * times, "memory grows"


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


_BOMB = """
import sys
from pathlib import Path
import numpy as np
from firmware_sim.errors import CompileError
from user_layers.delegates.litert import LiteRtModel, compile_ahead, counters

for path in sys.argv[1:]:
    try:
        compile_ahead(Path(path), Path("out.tflite"))
        print("ahead")
    except CompileError as error:
        print(" | ".join(str(error).splitlines()))
    try:
        with LiteRtModel(Path(path)) as model:
            (name, (shape, _)), = model.inputs.items()
            made = model.run({name: np.ones(shape, np.float32)})
            print(counters().runs, made["y"].max())
    except CompileError as error:
        print(" | ".join(str(error).splitlines()))
"""


@pytest.mark.slow  # builds a workspace
def test_a_users_kernel_that_crashes_is_told_and_the_next_model_works(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """The layer crashes where its input has 3 rows; kernels run when a model is compiled."""
    ws, paths = built_workspace(tmp_path_factory, ("double",), "delegate_layers"), []
    for rows in (4, 3, 2):
        b = Layers()
        x = b.net.op("TPU_BOMB", [b.given("x", rows, 8)], (rows, 8), custom=True, at=3)
        paths.append(tmp_path / f"{rows}.tflite")
        paths[-1].write_bytes(b.file(y=b.each("RELU", x)))
    done = subprocess.run(
        [sys.executable, "-c", _BOMB, *map(str, paths)],
        env=environment(TPULAYER_WORKSPACE=str(ws.root)),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [lines[i] for i in (0, 1, 4, 5)] == ["ahead", "1 2.0", "ahead", "2 2.0"], lines
    assert "crashed" in lines[2] and "TPU_BOMB" in lines[3], lines


def _device_processes() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if parent == os.getpid() and b"user_layers.bmrt.bmrt_server" in words:
            found.append(int(folder.name))
    return found


def test_a_device_that_dies_fails_one_run(ahead: Path) -> None:
    """A run of one model fails; it and another model work after it."""
    with LiteRtModel(ahead) as one, LiteRtModel(ahead) as two:
        want = one.run(image((1, 16, 16, 3)))
        failures = counters().failures
        (process,) = _device_processes()
        os.kill(process, signal.SIGKILL)
        with pytest.raises(DeviceError, match=r"tpulayer: LiteRT: partition_\d: "):
            two.run(image((1, 16, 16, 3)))
        assert counters().failures == failures + 1
        for model in (one, two):
            assert_close(model.run(image((1, 16, 16, 3))), want)
