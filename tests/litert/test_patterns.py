"""The patterns of LiteRT's accelerator test suite, a C++ program, made again: its operations that work
element by element, on rows or on shapes with 1 to 6 dimensions, and its layers of transformers.

Its convolutions, pools, products of matrices and the rest are among the random ones of test_operations.py.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.litert.running import assert_close, run
from tests.support.tflite_zoo import Layers, transformer_layer
from user_layers.delegates.litert import left_on_cpu
from user_layers.toolkit import Toolkit

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install 'ai-edge-litert==2.3.*'")
UNARY = (
    *("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LOG", "LOGISTIC", "NEG", "RELU"),
    *("RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "TANH"),
    *("ZEROS_LIKE", "SOFTMAX", "LOG_SOFTMAX"),
)
BINARY = ("ADD", "DIV", "FLOOR_DIV", "MAXIMUM", "MINIMUM", "MUL", "POW", "SQUARED_DIFFERENCE", "SUB")
REDUCED = ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
LEFT = {"ZEROS_LIKE"}  # computed before anything runs
TOLD: dict[str, Any] = {
    "GELU": {"approximate": False},
    "SOFTMAX": {"beta": 1.0},
    **{kind: {"fused_activation_function": 0} for kind in ("ADD", "DIV", "MUL", "SUB")},
}


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No workspace: the built-in layers."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("rank", [*(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 6)), 6])
def test_operations_with_so_many_dimensions(rank: int, tmp_path: Path, toolkit: Toolkit) -> None:
    b, shape = Layers(), (2, 3, 2, 3, 2, 2)[:rank]
    x, y = b.given("x", *shape), b.given("y", *shape)
    made = {kind: b.each(kind, x, **TOLD.get(kind, {})) for kind in UNARY}
    made |= {kind: b.net.op(kind, [x, y], shape, **TOLD.get(kind, {})) for kind in BINARY}
    made |= {kind: b.mean(x, rank - 1, keep=False, kind=kind) for kind in REDUCED}
    made["PRELU"] = b.net.op("PRELU", [x, b.net.const(np.full(shape[1:] or (1,), 0.3, np.float32))], shape)
    made["TRANSPOSE"] = b.transpose(x, *reversed(range(rank)))
    made["CONCATENATION"] = b.concat([x, y], 0)
    pads = b.net.const([[1, 0]] * rank, "int32")
    made["PAD"] = b.net.op("PAD", [x, pads], [n + 1 for n in shape])
    path = tmp_path / "patterns.tflite"
    path.write_bytes(b.file(**made))
    assert {line.split()[1] for line in left_on_cpu(path, toolkit)} == LEFT
    rng = np.random.default_rng(rank)
    given = {name: rng.uniform(0.3, 2, shape).astype(np.float32) for name in ("x", "y")}
    want, _ = run(path, given, tpu=False)
    got, did = run(path, given)
    assert_close(got, want)
    assert did.runs == len(made) - len(LEFT)  # nothing but the inputs connects them


@pytest.mark.slow
@pytest.mark.parametrize(("grouped", "root", "gated"), [*product([False, True], repeat=3)])
def test_layers_of_transformers(
    grouped: bool, root: bool, gated: bool, tmp_path: Path, toolkit: Toolkit
) -> None:
    path = tmp_path / "layer.tflite"
    path.write_bytes(transformer_layer(grouped=grouped, root=root, gated=gated))
    given = {"x": np.random.default_rng(0).uniform(-1, 1, (1, 10, 32)).astype(np.float32)}
    want, _ = run(path, given, tpu=False)
    got, did = run(path, given)
    assert_close(got, want)
    assert did.runs == 1
    assert left_on_cpu(path, toolkit) == []
