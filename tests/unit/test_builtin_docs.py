"""docs/built-in-layers.md lists the built-in layers as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firmware_sim.errors import SourceError
from tests.paths import ROOT
from user_layers.codegen.layer_page import layer_table
from user_layers.codegen.page_table import with_table
from user_layers.toolkit import Toolkit

PAGE = ROOT / "docs" / "built-in-layers.md"
DEVICE = ROOT / "sdk" / "layers" / "device"
SOURCE = """/* TPU_X: y = x.
 *
 * Inputs: x of
 *     any type, perhaps y
 * Makes: x
 */
__BM_PARAM__(TPU_X)
"""


def test_the_table(toolkit: Toolkit) -> None:
    rows = re.findall(r"^\| `(TPU_\w+)` \| (yes)? ?\|", PAGE.read_text(), re.MULTILINE)
    listed = {name: local == "yes" for name, local in rows}
    assert listed == {op.op: op.has_local for op in toolkit.ops.values() if op.is_builtin}
    assert list(listed) == sorted(listed)


def test_the_page_is_that_of_the_sources() -> None:
    text = PAGE.read_text()
    assert with_table(text, 4, layer_table(DEVICE)) == text, "run python -m user_layers.codegen.regenerate"


def test_a_row(tmp_path: Path) -> None:
    (tmp_path / "bm_device_x.c").write_text(SOURCE)
    (tmp_path / "bm_device_a.c").write_text(SOURCE.replace("TPU_X", "TPU_A") + "__BM_LOCAL__(TPU_A)\n")
    assert layer_table(tmp_path).splitlines() == [
        "| `TPU_A` | yes | x of any type, perhaps y | x |",
        "| `TPU_X` | | x of any type, perhaps y | x |",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" * Makes: x\n", "", "bm_device_x.c: the first comment has no line that begins with `Makes:`"),
        (" * Inputs: x of\n", " * Input: x of\n", "no line that begins with `Inputs:`"),
        ("/* TPU_X", "\n/* TPU_X", "bm_device_x.c: no comment at its start"),
        ("__BM_PARAM__", "__BM_SHAPE__", "bm_device_x.c: no __BM_PARAM__"),
    ],
)
def test_what_a_source_lacks(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "bm_device_x.c").write_text(SOURCE.replace(old, new))
    with pytest.raises(SourceError, match=re.escape(message)):
        layer_table(tmp_path)


def test_a_page_without_the_table() -> None:
    with pytest.raises(SourceError, match="0 tables of 4 columns"):
        with_table("# Nothing\n", 4, "| `TPU_X` | | x | y |\n")
