"""examples/digits: the page's commands with the network that is kept, and how many digits are read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.paths import ROOT
from tests.support.doc_blocks import RUN, blocks_of

pytest.importorskip("onnx", reason="the network is an ONNX model")

pytestmark = pytest.mark.thorough  # all tests read what one long walk through the page printed
EXAMPLE = ROOT / "examples" / "digits"
PAGE = EXAMPLE / "README.md"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the page's blocks ran, and what they printed."""
    folder = tmp_path_factory.mktemp("digits")
    env = dict(os.environ, NO_COLOR="1", TERM="dumb", TPULAYER=str(ROOT))
    env["PATH"] = os.pathsep.join((str(ROOT / "tool"), str(Path(sys.executable).parent), env["PATH"]))
    for name in ("BMCOMPILER_PLUGIN_PATH", "BMRUNTIME_FIRMWARE_PATH", "TPULAYER_WORKSPACE"):
        env.pop(name, None)
    text = ""
    for block in blocks_of(PAGE):
        if block.excerpt is not None:
            continue
        assert block.language in RUN, f"{PAGE.name}:{block.line}: a block that no test runs"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{PAGE.name}:{block.line}\n{done.stdout}\n{done.stderr}"
        text += done.stdout
    return folder, text


def right(said: str, net: str) -> int:
    """Of 540 digits, by what score.py printed."""
    found = re.search(rf"^{net}: (\d+) of 540 right", said, re.MULTILINE)
    assert found is not None, said
    return int(found.group(1))


def test_the_integers_read_as_float_does(said: tuple[Path, str]) -> None:
    """What the page measured of float; integers may come out otherwise when quantising changes."""
    folder, text = said
    assert right(text, "float32") == 529
    assert min(right(text, "int8"), right(text, "int8_own")) >= 522
    assert "540 samples" in text and "of 540 labels" in text
    read, labels = np.load(folder / "read.npz"), np.load(folder / "trained" / "test.npz")["labels"]
    for net in ("float32", "int8", "int8_own"):
        assert int((read[net] == labels).sum()) == right(text, net)
        assert int((read[net] == read["float32"]).sum()) >= 532


def test_the_layer_of_ones_own_runs(said: tuple[Path, str]) -> None:
    """Its test passes, and all layers of the net are in integers with it."""
    folder, text = said
    assert re.search(r"^test: all \d+ are equal to golden$", text, re.MULTILINE)
    assert text.count("8 bits: 8 of 8 layers, 100.0% of the MACs") == 2
    nets = {net: (folder / net / "compilation.bmodel").read_bytes() for net in ("int8", "int8_own")}
    assert b"TPU_LEAKY8" in nets["int8_own"] and b"TPU_LEAKY8" not in nets["int8"]


def test_what_is_kept_is_small() -> None:
    assert (EXAMPLE / "trained" / "digits.onnx").stat().st_size < 100_000
    assert (EXAMPLE / "wrong.png").stat().st_size < 60_000
