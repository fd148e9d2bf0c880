"""LiteRT's C interface with the TPU: the compiler's options, measurements, runs in the background."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.litert.running import image, run
from tests.support.tflite_zoo import Layers

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install 'ai-edge-litert==2.3.*'")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two partitions around an angle, which no layer computes, outside of any workspace."""
    monkeypatch.chdir(tmp_path)
    b = Layers()
    x = b.conv(b.conv(b.given("image", 1, 16, 16, 3), 8, 3, 2, 1), 8, 3, 1, 1)
    path = tmp_path / "model.tflite"
    path.write_bytes(b.file(y=b.mean(b.net.op("ATAN2", [x, x], (1, 8, 8, 8)), 1, 2, keep=False)))
    return path


def test_options_measurements_and_two_runtimes_in_one_process(
    model: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from tests.litert.c_api import CModel

    want, _ = run(model, image((1, 16, 16, 3)), tpu=False)
    found = []
    for told in ("", "opt = 0", "# small ones\noperations = 1\n\n  opt=1 # a level\n"):
        made = CModel(model, told)
        for background in (False, True):
            got, later = made.run(image((1, 16, 16, 3))["image"], (1, 8), background=background)
            assert not later  # it has ended when LiteRT's function returns
            np.testing.assert_allclose(got, want["y"], rtol=0, atol=1e-5)
        got = run(model, image((1, 16, 16, 3)))[0]["y"]  # by the other copy of LiteRT, in its Python package
        np.testing.assert_allclose(got, want["y"], rtol=0, atol=1e-5)
        found.append(made.metrics(image((1, 16, 16, 3))["image"], (1, 8)))
        made.close()
    usual, plain, small = found
    assert usual["tpulayer_runs"] == plain["tpulayer_runs"] == 2 and small["tpulayer_runs"] == 3
    assert usual["tpulayer_modelled_ns"] < plain["tpulayer_modelled_ns"]
    assert usual["tpulayer_bytes_in"] == 4 * (16 * 16 * 3 + 8 * 8 * 8)
    capfd.readouterr()
    for told, why in (
        ("opt = 7", "tpulayer: LiteRT: opt is a number from 0 to 2, not 7"),
        ("opt = -1", "opt is a number from 0 to 2, not -1"),
        ("optimum = 1", "the option optimum = 1 is not known; known are operations and opt"),
    ):
        made = CModel(model, told)  # by LiteRT's CPU kernels alone
        assert not made.metrics(image((1, 16, 16, 3))["image"], (1, 8))
        made.close()
        assert why in capfd.readouterr().err
    monkeypatch.setenv("TPULAYER_LITERT_OPT", "0")
    made = CModel(model)
    found_ns = made.metrics(image((1, 16, 16, 3))["image"], (1, 8))["tpulayer_modelled_ns"]
    assert abs(found_ns - plain["tpulayer_modelled_ns"]) <= 2  # of two partitions, rounded
    made.close()
