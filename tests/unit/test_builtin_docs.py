"""docs/built-in-layers.md lists the built-in layers as they are."""

from __future__ import annotations

import re

from tests.paths import ROOT
from user_layers.toolkit import Toolkit

PAGE = ROOT / "docs" / "built-in-layers.md"


def test_the_table(toolkit: Toolkit) -> None:
    rows = re.findall(r"^\| `(TPU_\w+)` \| (yes)? ?\|", PAGE.read_text(), re.MULTILINE)
    listed = {name: local == "yes" for name, local in rows}
    assert listed == {op.op: op.has_local for op in toolkit.ops.values() if op.is_builtin}
    assert list(listed) == sorted(listed)
