"""Every TFLite operation through LiteRT's plugin: what it selects computes what LiteRT's kernels do.

The options of operations reach the compiler by LiteRT's functions here, not from the file.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.litert.cases import CASES
from tests.litert.test_spellings import run_litert, with_shapes
from tests.support.tflite_models import to_bytes
from user_layers.delegates.litert import LiteRtModel, counters

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install 'ai-edge-litert==2.3.*'")
TRIED = int(os.environ.get("TPULAYER_LITERT_EXAMPLES", "2"))
# What no layer does, or LiteRT does not tell a plugin enough about, or is computed before it runs.
NOT_ON_TPU = {"LOCAL_RESPONSE_NORMALIZATION", "ZEROS_LIKE"}


@pytest.mark.parametrize("kind", CASES)
def test_an_operation_on_the_tpu(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # no workspace: the built-in layers
    ran = 0
    for seed in range(TRIED):
        net = CASES[kind](np.random.default_rng(seed))
        try:
            runner, fed, want = run_litert(to_bytes(net))
        except (RuntimeError, ValueError):  # LiteRT refuses these attributes
            continue
        signature = {f"x{i}": t for i, t in enumerate(net.inputs)}
        signature |= {f"y{i}": t for i, t in enumerate(net.outputs)}
        with_shapes(net, runner)
        path = tmp_path / f"{seed}.tflite"
        path.write_bytes(to_bytes(net, signature=signature))
        before = counters().runs
        with LiteRtModel(path) as model:
            assert not model.said, (seed, net.ops)
            got = model.run({f"x{i}": x for i, x in enumerate(fed)})
        ran += counters().runs - before
        for i, expected in enumerate(want):
            largest = np.abs(expected).max(initial=1e-3)
            np.testing.assert_allclose(
                got[f"y{i}"], expected, rtol=0, atol=1e-4 * largest, err_msg=f"seed {seed}: {net.ops}"
            )
    assert (ran > 0) == (kind not in NOT_ON_TPU)
