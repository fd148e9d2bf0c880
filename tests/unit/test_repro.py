"""What --save-repro keeps: written whole, read, run again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import DeviceError, UsageError
from tests.paths import ROOT
from tests.support.workspaces import make_workspace
from user_layers.repro import Content, Repro, load, replay, run_again, save, workspace_files

KEPT = Repro(("okk", "no_such_function"), 2, "no such function", {"seed": 3}, {"TPULAYER_CHECK": "all"})


def test_saved_and_read(tmp_path: Path) -> None:
    """Contents of every kind; a name that is taken gets a number; nothing else is in the parent."""
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a.txt").write_text("a")
    files: dict[str, Content] = {
        "x.npy": np.arange(6, dtype=np.int16).reshape(2, 3),
        "deep/text.txt": "text",
        "bytes": b"\0\1",
        "file": tmp_path / "from" / "a.txt",
        "folder": tmp_path / "from",
    }
    parent = tmp_path / "kept"
    assert save(parent, "one", KEPT, files) == parent / "one"
    assert save(parent, "one", KEPT, {}) == parent / "one-2"
    assert sorted(path.name for path in parent.iterdir()) == ["one", "one-2"]
    made = parent / "one" / "files"
    assert np.load(made / "x.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (made / "deep" / "text.txt").read_text() == "text" and (made / "bytes").read_bytes() == b"\0\1"
    assert (made / "file").read_text() == (made / "folder" / "a.txt").read_text() == "a"
    assert "tpulayer repro one" in (parent / "one" / "README.txt").read_text()
    assert load(parent / "one") == load(parent / "one-2") == KEPT


def test_nothing_half_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere cannot be kept"):
        save(tmp_path / "kept", "one", KEPT, {"a": "a", "b": tmp_path / "nowhere"})
    assert not list((tmp_path / "kept").iterdir())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 9}, "it has version 9, this toolkit reads 1"),
        ({"command": []}, "no command"),
        ({"exit_code": "x"}, "invalid literal"),
        (None, "cannot be read"),
    ],
)
def test_no_repro(change: dict[str, object] | None, told: str, tmp_path: Path) -> None:
    folder = save(tmp_path, "one", KEPT, {})
    record = folder / "repro.json"
    if change is None:
        record.unlink()
    else:
        record.write_text(json.dumps({**json.loads(record.read_text()), **change}))
    with pytest.raises(UsageError, match=told):
        load(folder)


def test_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the code that the command ends with now; what differs is said."""
    said: list[str] = []
    assert replay(save(tmp_path, "one", KEPT, {}), said.append) == 2
    assert said == ["no such function", "tpulayer okk no_such_function", "exit code 2, as when it was kept"]
    assert "no_such_function" in capfd.readouterr().err
    other = Repro(("okk", "okk_poll"), 1, "it failed", release="0.0.1")
    assert replay(save(tmp_path, "other", other, {}), said.append) == 0
    assert said[-1] == "exit code 0; it was 1 when it was kept, by tpulayer 0.0.1"
    monkeypatch.setattr(run_again, "LIMIT", 0.01)
    with pytest.raises(DeviceError, match="has not ended after 0 s"):
        replay(tmp_path / "other", said.append)


def test_a_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its sources are kept, with the kernels that its layers call; it is built before the command runs,
    whatever workspace the environment names."""
    monkeypatch.setenv("TPULAYER_WORKSPACE", str(tmp_path / "nowhere"))
    ws = make_workspace(tmp_path / "ws", layers=("double",), config=f"BMKERNEL_PATH = {ROOT}/bmkernel_demo\n")
    (ws.root / "tests").mkdir()
    (ws.root / "tests" / "test_double.py").write_text("X = 1\n")
    (ws.root / "device" / "bm_device_double.c").unlink()
    kept = workspace_files(ws)
    folder = save(tmp_path, "one", Repro(("list_layers",), 0, "a workspace"), kept)
    files = {str(p.relative_to(folder / "files")) for p in (folder / "files").rglob("*") if p.is_file()}
    assert {"host/bm_host_double.h", "tests/test_double.py", "bmkernel/include/scale_add.h"} <= files
    assert "BMKERNEL_PATH = bmkernel" in (folder / "files" / "config" / "Makefile.config").read_text()
    said: list[str] = []
    assert replay(folder, said.append) == 1
    assert said[-1] == "build_layers ended with code 1"
    assert "in device/" in capfd.readouterr().err


def test_settings_beside_the_folders(tmp_path: Path) -> None:
    """The vendor's workspaces have them there."""
    ws = make_workspace(tmp_path / "ws")
    (ws.root / "config" / "Makefile.config").replace(ws.root / "Makefile.config")
    assert workspace_files(ws)["Makefile.config"] == b""
