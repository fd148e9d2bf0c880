"""What load_firmware recorded is run when it is meant, and said; never in place of what was built since."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from firmware_sim.device.client import Device
from firmware_sim.errors import MissingError, UsageError
from firmware_sim.firmware.image import DDR_NAME, TCM_NAME
from firmware_sim.firmware.recorded import RECORD_NAME, Record, Records
from tests.support.workspaces import built_workspace, environment, make_workspace, tpulayer
from user_layers.toolchain.builtin import builtin_artifacts
from user_layers.toolchain.targets import build_layers
from user_layers.toolkit import Toolkit
from user_layers.workspace import Workspace

PAIR = (TCM_NAME, DDR_NAME)


@pytest.fixture(autouse=True)
def no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are where they are without TPULAYER_STATE; the user's are the test's."""
    monkeypatch.delenv("TPULAYER_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "users state"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return built_workspace(tmp_path_factory)


@pytest.fixture
def ws(built: Workspace, tmp_path: Path) -> Workspace:
    """A copy of its own, with its time stamps."""
    return Workspace(Path(shutil.copytree(built.root, tmp_path / "w", symlinks=True)))


IMAGES = [f"install/firmware/{name}" for name in PAIR]


def break_double(ws: Workspace) -> None:
    source = ws.device_dir / "bm_device_double.c"
    text = source.read_text()
    assert text.count("2.0f") > 0
    source.write_text(text.replace("2.0f", "3.0f"))


def test_a_layer_that_is_broken_after_load_firmware_is_not_green(ws: Workspace) -> None:
    tpulayer("load_firmware", *IMAGES, cwd=ws.root)
    assert sorted(path.name for path in (ws.root / ".tpulayer").iterdir()) == [".gitignore", "devices"]
    done = tpulayer("test_tpu_layer", "0", cwd=ws.root)
    assert done.stdout.count("equals numpy bit for bit; the controller ran") == 1
    said = [text for text in done.stderr.splitlines() if "load_firmware" in text]
    assert len(said) == 1 and said[0].startswith("device 0 runs the firmware recorded by load_firmware on ")
    assert said[0].endswith(f" from {ws.firmware.with_name(TCM_NAME)}")
    done = tpulayer("bmrt_test", "--context_dir", "tpulayer_static", cwd=ws.root)
    assert done.stderr.count("runs the firmware recorded by load_firmware") == 1

    break_double(ws)
    done = tpulayer("build_layers", cwd=ws.root)
    assert done.stderr.splitlines()[-2].startswith(
        "note: the firmware that load_firmware recorded for device 0"
    )
    again = f"load_firmware {ws.firmware.with_name(TCM_NAME)} {ws.firmware.with_name(DDR_NAME)} 0"
    for words in (
        ("test_tpu_layer", "0"),
        ("test_tpu_layer", "1"),
        ("bmrt_test", "--context_dir", "tpulayer_static"),
    ):
        done = tpulayer(*words, cwd=ws.root, code=3)
        assert (
            f"is not the one last built: {ws.root}, where it comes from, has been built again" in done.stderr
        )
        assert f"{again}; or end it: tpulayer load_firmware --forget 0" in done.stderr
        assert "equals" not in done.stdout
    assert "load_firmware" in tpulayer("doctor", cwd=ws.root).stdout
    tpulayer("test_tpu_layer", "0", "--firmware", "native", cwd=ws.root, code=1)
    tpulayer(*again.split(), cwd=ws.root)
    done = tpulayer("test_tpu_layer", "0", cwd=ws.root, code=1)
    assert "DIFFERS" in done.stdout and "the controller ran" in done.stdout
    assert tpulayer("load_firmware", "--forget", "0", cwd=ws.root).stdout == "device 0: forgotten\n"
    done = tpulayer("test_tpu_layer", "0", cwd=ws.root, code=1)
    assert "DIFFERS" in done.stdout and "the controller ran" not in done.stdout and done.stderr == ""


def test_the_program_in_c_keeps_to_the_same_place(ws: Workspace) -> None:
    program = ws.install_dir / "bin" / "load_firmware"
    env = environment(TPULAYER_PYTHON=sys.executable)
    command = [str(program), *IMAGES, "2"]
    subprocess.run(command, env=env, cwd=ws.root, check=True, capture_output=True, timeout=120)
    record = Records(ws.root).of(2)
    assert record is not None and record.files[0] == ws.firmware.with_name(TCM_NAME)
    assert (record.built_in, record.workspace) == (ws.root, ws.root) and Records(None).of(2) is None
    assert Records(ws.root).devices() == [2]


def keep(records: Records, folder: Path, dev_id: int = 0) -> Record:
    """Record the pair in a folder as load_firmware does, without booting it."""
    files = {name: folder / name for name in PAIR}
    return records.keep(dev_id, {name: path.read_bytes() for name, path in files.items()}, files)


@pytest.mark.slow
def test_clean_does_not_change_what_a_device_boots(ws: Workspace) -> None:
    """The record stays: without a build it is an error, and the same build again is the same pair."""
    keep(Records(ws.root), ws.firmware.parent)
    tpulayer("clean", cwd=ws.root)
    with pytest.raises(MissingError, match=f"{ws.root}, where it comes from, is not built now"):
        Records(ws.root).usable(0)
    build_layers(ws)
    assert Records(ws.root).usable(0) is not None


def test_each_workspace_has_its_own(ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_workspace(tmp_path / "other")
    keep(Records(ws.root), ws.firmware.parent)
    assert Records(other.root).of(0) is None and Records(None).of(0) is None
    monkeypatch.chdir(ws.device_dir)
    assert Records.here() == Records(ws.root)
    monkeypatch.chdir(tmp_path)
    assert Records.here() == Records(None)
    monkeypatch.setenv("TPULAYER_WORKSPACE", str(ws.root))
    assert Records.here() == Records(ws.root)
    monkeypatch.setenv("TPULAYER_WORKSPACE", str(tmp_path))
    with pytest.raises(UsageError, match="TPULAYER_WORKSPACE names"):
        Device()


def test_another_workspaces_is_refused(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a state folder that several use, and in a copy of a workspace; unless it is the same pair."""
    monkeypatch.setenv("TPULAYER_STATE", str(tmp_path / "shared"))
    other = make_workspace(tmp_path / "other")
    keep(Records(ws.root), ws.firmware.parent)
    with pytest.raises(MissingError, match=f"belongs to another workspace, {ws.root}, not to {other.root}"):
        Records(other.root).usable(0)
    monkeypatch.chdir(other.root)
    with pytest.raises(MissingError, match="belongs to another workspace"):
        Device()
    shutil.copytree(ws.firmware.parent, other.firmware.parent)
    with Device() as device:
        assert device.firmware.path.is_relative_to(tmp_path / "shared")
    assert capsys.readouterr().err.endswith(f" from {ws.firmware.with_name(TCM_NAME)}\n")
    monkeypatch.delenv("TPULAYER_STATE")
    keep(Records(ws.root), builtin_artifacts().directory)
    copy = Path(shutil.copytree(ws.root, tmp_path / "copy", symlinks=True))
    with pytest.raises(MissingError, match=f"belongs to another workspace, {ws.root}, not to {copy}"):
        Records(copy).usable(0)


@pytest.mark.slow
def test_a_pair_of_another_workspace_that_was_built_anew_since(
    ws: Workspace, built: Workspace, tmp_path: Path
) -> None:
    other = Workspace(Path(shutil.copytree(built.root, tmp_path / "other", symlinks=True)))
    tpulayer("build_layers", cwd=other.root)
    break_double(ws)
    tpulayer("build_layers", cwd=ws.root)
    tpulayer("load_firmware", *(str(other.root / image) for image in IMAGES), cwd=ws.root)
    tpulayer("test_tpu_layer", "0", cwd=ws.root)
    break_double(other)
    tpulayer("build_layers", cwd=other.root)
    done = tpulayer("test_tpu_layer", "0", cwd=ws.root, code=3)
    assert "is not the one last built" in done.stderr and str(other.root) in done.stderr


def test_a_build_says_that_something_else_runs(ws: Workspace, built: Workspace) -> None:
    elsewhere = environment(BMRUNTIME_FIRMWARE_PATH=str(built.firmware.parent))
    done = tpulayer("build_layers", cwd=ws.root, env=elsewhere)
    assert "what was built here is not what runs: BMRUNTIME_FIRMWARE_PATH names" in done.stderr
    here = environment(BMRUNTIME_FIRMWARE_PATH=str(ws.firmware.parent))
    assert "is not what runs" not in tpulayer("build_layers", cwd=ws.root, env=here).stderr


def test_a_device_boots_what_the_workspace_around_built(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ws.device_dir)
    with Device() as device:
        assert device.firmware.path == ws.firmware.resolve()


def test_a_pair_from_elsewhere_runs_and_says_so(ws: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """Loaded on purpose: whatever the workspace builds, and whatever happens to the files."""
    keep(Records(ws.root), builtin_artifacts().directory)
    for _ in range(2):  # said once in one process
        with Toolkit(ws) as toolkit:
            assert toolkit.device.firmware.kind == "arm"
    source = builtin_artifacts().directory / TCM_NAME
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.endswith(f" from {source} (not the one built in {ws.root})\n")
    with Toolkit(ws, firmware="native") as toolkit:
        assert toolkit.device.firmware.path == ws.firmware
    assert capsys.readouterr().err == ""


def test_a_workspace_that_was_moved_runs_what_it_had_loaded(ws: Workspace, tmp_path: Path) -> None:
    keep(Records(ws.root), ws.firmware.parent)
    moved = Path(shutil.move(ws.root, tmp_path / "moved"))
    assert Records(moved).usable(0) is not None
    (moved / "install" / "firmware" / DDR_NAME).write_bytes(b"built again")
    with pytest.raises(MissingError, match="belongs to another workspace"):
        Records(moved).usable(0)


def test_outside_any_workspace_the_users_are_used(ws: Workspace, tmp_path: Path) -> None:
    """... and a workspace that has built something else since is no less an error there."""
    tpulayer("load_firmware", *(str(ws.root / name) for name in IMAGES), "1", cwd=tmp_path)
    record = Records(None).usable(1)
    assert record is not None and (record.workspace, record.built_in) == (None, ws.root)
    assert record.folder.is_relative_to(os.environ["XDG_STATE_HOME"])
    (ws.firmware.with_name(DDR_NAME)).write_bytes(b"built again")
    with pytest.raises(MissingError, match="has been built again since") as caught:
        Records(None).usable(1)
    assert str(ws.firmware.with_name(TCM_NAME)) in caught.value.hint
    shutil.rmtree(ws.root)
    assert Records(None).usable(1) is not None  # there is nothing newer any more


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"sha256": {}, "files": []}', "\x00"])
def test_a_record_that_cannot_be_read(tmp_path: Path, text: str | None) -> None:
    """One of an older toolkit has none."""
    (tmp_path / "x").write_bytes(b"x")
    records = Records(None)
    place = records.keep(4, {"x": b"x"}, {"x": tmp_path / "x"}).folder / RECORD_NAME
    assert json.loads(place.read_text())["files"] == [str(tmp_path / "x")]
    place.unlink() if text is None else place.write_text(text)
    with pytest.raises(MissingError, match=r"record\.json is missing or damaged") as caught:
        records.usable(4)
    assert "--forget 4" in caught.value.hint
    assert records.forget(4) and records.usable(4) is None
