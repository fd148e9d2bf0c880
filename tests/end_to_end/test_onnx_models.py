"""Whole architectures against onnxruntime; `python -m tests.onnx_light` runs all nine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.onnx_light import NAMES, randomized, run
from user_layers.onnx.check import TOLERANCE
from user_layers.toolkit import Toolkit


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ["squeezenet", pytest.param("shufflenet", marks=pytest.mark.slow)])
def test_a_light_model(name: str, dynamic: bool, toolkit: Toolkit, tmp_path: Path) -> None:
    assert len(NAMES) == 9
    for found in run(randomized(name, tmp_path), toolkit, dynamic):
        assert found.relative <= TOLERANCE, found
