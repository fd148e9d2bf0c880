"""The narrow YOLOv3 that examples/yolov3/train.py made: compiled, judged on scenes, drawn."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.support.workspaces import make_workspace
from user_layers.toolchain.targets import build_layers

pytest.importorskip("onnx", reason="Caffe's models are converted by way of ONNX")
pytest.importorskip("google.protobuf", reason="Caffe's files are messages of protobuf")

EXAMPLE = ROOT / "examples" / "yolov3"
pytestmark = pytest.mark.slow  # compiles a large network; small ones in test_yolov3.py, test_manual_yolov3.py
LEAST = 0.6  # of the mean average precision in the first 8 scenes


def _run(words: list[str], cwd: Path) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BMCOMPILER_", "BMRUNTIME_"))}
    env["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the detector's layer, and the trained network compiled in it as `net`."""
    ws = make_workspace(tmp_path_factory.mktemp("scenes") / "workspace", ())
    for folder in ("device", "host", "include", "caffe"):
        shutil.copytree(EXAMPLE / folder, ws.root / folder, dirs_exist_ok=True)
    build_layers(ws)
    model = EXAMPLE / "trained" / "yolov3"
    files = ["--model", f"{model}.prototxt", "--weight", f"{model}.caffemodel"]
    _run(["-m", "user_layers.cli.main", "bmnetu", *files, "--target=BM1684", "--outdir", "net"], ws.root)
    return ws.root


def test_detections_are_good(workspace: Path) -> None:
    said = _run([str(EXAMPLE / "evaluate.py"), "net", "--scenes", "8"], workspace)
    (mean,) = re.findall(r"^mean +([\d.]+)", said, re.MULTILINE)
    assert float(mean) > LEAST, said


def test_drawn(workspace: Path) -> None:
    """The picture of the documentation, by its command."""
    said = _run([str(EXAMPLE / "draw.py"), "net", "found.jpg", "--scenes", "16", "41"], workspace)
    assert len(re.findall(r"^\w+ 0\.\d\d|^\w+ 1\.00", said, re.MULTILINE)) == 2, said
    assert (workspace / "found.jpg").read_bytes().startswith(b"\xff\xd8")


def test_a_picture_of_another_size(workspace: Path) -> None:
    _run(
        [str(EXAMPLE / "draw.py"), "net", "photo.png", "--image", str(ROOT / "docs/images/before.jpg")],
        workspace,
    )
    assert (workspace / "photo.png").read_bytes().startswith(b"\x89PNG")
