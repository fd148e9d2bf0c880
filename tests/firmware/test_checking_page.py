"""docs/checking.md shows what is printed, and the rules as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmware_sim.checks.rules import RULES, Kind
from tests.paths import ROOT
from tests.support.doc_blocks import blocks_of
from user_layers.cli.main import run
from user_layers.codegen import rules_page
from user_layers.toolchain.kernel import kernel_firmware

PAGE = ROOT / "docs" / "checking.md"


def test_the_table_is_that_of_the_rules() -> None:
    text = PAGE.read_text()
    assert rules_page.with_rules(text) == text, "run python -m user_layers.codegen.regenerate"
    assert all(f"| `{name}`" in text for name in RULES)


def test_every_word_is_explained() -> None:
    text = PAGE.read_text()
    assert all(f"\n| `{kind.value}` | " in text for kind in Kind)


def test_the_message(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    blocks = blocks_of(PAGE)
    [source] = [block for block in blocks if block.path == "examples/pipeline.c"]
    [shown] = [block for block in blocks if block.language == "text"]
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "pipeline.c").write_text(source.text)
    x = np.arange(65536, dtype=np.float32).reshape(256, 16, 16)
    np.save(tmp_path / "x.npy", x)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TPULAYER_CHECK", raising=False)
    kernel_firmware([Path("examples/pipeline.c")])
    capfd.readouterr()
    words = ["run_kernel", "--kernel", "examples/pipeline.c", "--name", "pipeline", "--in", "x_addr=x.npy"]
    assert run([*words, "--out", "y_addr=256x16x16:float32:y.npy"]) == 5
    said = capfd.readouterr().err
    if request.config.getoption("--update-golden"):
        PAGE.write_text(PAGE.read_text().replace(f"```text\n{shown.text}```", f"```text\n{said}```"))
    else:
        assert said == shown.text, "if that is meant, use --update-golden and review"
    assert np.array_equal(np.load("y.npy"), x + 1)
