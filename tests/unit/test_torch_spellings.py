"""ATen operators in ONNX's words, without PyTorch: what onnxruntime gives is what numpy gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError
from tests.paths import ROOT
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor
from user_layers.spelling.spell import spell
from user_layers.torch.regenerate import PAGE, with_operators
from user_layers.torch.spellings import TORCH

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")


def _random(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _run(
    kind: str, arrays: Sequence[Array | None], attributes: Mapping[str, Any], outputs: Sequence[Array]
) -> list[Array]:
    """One operator on computed inputs; outputs: whose shapes and types are those of the results."""
    names = [None if array is None else f"x{i}" for i, array in enumerate(arrays)]
    made = [f"y{i}" for i in range(len(outputs))]
    given = {n: a for n, a in zip(names, arrays, strict=True) if n is not None and a is not None}
    tensors = {n: Tensor(a.shape, a.dtype) for n, a in given.items()}
    tensors |= {n: Tensor(a.shape, a.dtype) for n, a in zip(made, outputs, strict=True)}
    operation = Operation(f"aten.{kind}", "it", tuple(names), tuple(made), attributes)
    model = ForeignModel("PyTorch", "one", tensors, tuple(given), tuple(made), (operation,))
    session = onnxruntime.InferenceSession(spell(model, TORCH).proto.SerializeToString())
    found: list[Array] = session.run(None, given)
    return found


X, Y = _random(2, 3, 4), _random(3, 1)
WHOLE = np.arange(-6, 6).reshape(3, 4)
NARROW = np.arange(-7, 7, dtype=np.int8)
BYTES = np.arange(250, dtype=np.uint8)
CASES: dict[str, tuple[str, list[Array | None], dict[str, Any], Callable[..., Any]]] = {
    "alpha": ("add.Tensor", [X, Y], {"alpha": 3}, lambda x, y: x + 3 * y),
    "a number from a tensor": ("rsub.Scalar", [X], {"other": 2, "alpha": 1}, lambda x: 2 - x),
    "whole numbers divided": (
        "div.Scalar_mode",
        [WHOLE],
        {"rounding_mode": "trunc", "other": 4},
        lambda x: np.trunc(x / 4).astype(np.int64),
    ),
    "narrow whole numbers divided": ("floor_divide.default", [NARROW], {"other": 3}, lambda x: x // 3),
    "what remains of narrow whole numbers": ("remainder.Scalar", [NARROW], {"other": -3}, lambda x: x % -3),
    "what remains of bytes": ("fmod.Scalar", [BYTES], {"other": 7}, lambda x: x % 7),
    "a tensor of whole numbers and a fraction": (
        "gt.Scalar",
        [WHOLE],
        {"other": -1.5},
        lambda x: x > -1.5,
    ),
    "truth values": ("bitwise_and.Tensor", [X > 0, X > 1], {}, lambda x, y: x & y),
    "where": ("where.self", [X > 0, X, Y], {}, np.where),
    "softmax": (
        "_softmax.default",
        [X],
        {"dim": -2, "half_to_float": False},
        lambda x: np.exp(x) / np.exp(x).sum(-2, keepdims=True),
    ),
    "mean": ("mean.dim", [X], {"dim": (0, -1), "keepdim": True}, lambda x: x.mean((0, 2), keepdims=True)),
    "variance": ("var.correction", [X], {"dim": (1,), "correction": 1}, lambda x: x.var(1, ddof=1)),
    "addmm": (
        "addmm.default",
        [Y[:, 0][None, :1], X[0], X[1].T.copy()],
        {"alpha": 2, "beta": 1},
        lambda b, x, w: b + 2 * x @ w,
    ),
    "a slice backwards from the end": (
        "slice_copy.Tensor",
        [X],
        {"dim": -1, "start": -3, "end": 1 << 62, "step": 2},
        lambda x: x[..., -3::2],
    ),
    "select": ("select_copy.int", [X], {"dim": 1, "index": -1}, lambda x: x[:, -1]),
    "permute": ("permute_copy.default", [X], {"dims": (-1, 0, 1)}, lambda x: x.transpose(2, 0, 1)),
    "flip": ("flip.default", [X], {"dims": (0, -1)}, lambda x: x[::-1, :, ::-1]),
    "pad": (
        "constant_pad_nd.default",
        [X],
        {"pad": (1, 0, 0, 2), "value": 5},
        lambda x: np.pad(x, ((0, 0), (0, 2), (1, 0)), constant_values=5),
    ),
    "cumulative": ("cumsum.default", [X], {"dim": 1}, lambda x: x.cumsum(1)),
    "gelu": (
        "gelu.default",
        [X],
        {"approximate": "tanh"},
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
    "means over unequal windows": (
        "_adaptive_avg_pool2d.default",
        [_random(1, 2, 5, 7)],
        {"output_size": (3, 7)},
        lambda x: np.stack([x[:, :, i * 5 // 3 : -(-(i + 1) * 5 // 3)].mean(2) for i in range(3)], 2),
    ),
    "indices for neighbouring dimensions": (
        "index.Tensor",
        [_random(2, 5, 4, 3), None, np.asarray([[0], [4]]), np.asarray([1, 3, 3])],
        {},
        lambda x, _, i, j: x[:, i, j],
    ),
    "clipped at six": ("relu6.default", [5 * X], {}, lambda x: x.clip(0, 6)),
    "exponential less one": ("expm1.default", [X], {}, np.expm1),
    "as many results as elements": (
        "conv1d.padding",
        [_random(1, 1, 6), _random(1, 1, 4)],
        {"padding": "same"},
        lambda x, w: np.correlate(np.pad(x[0, 0], (1, 2)), w[0, 0])[None, None],
    ),
    "means over windows with their padding": (
        "avg_pool1d.default",
        [_random(1, 1, 4)],
        {"kernel_size": (2,), "padding": (1,)},
        lambda x: np.pad(x[0, 0], 1).reshape(1, 1, 3, 2).mean(3),
    ),
    "rolled": (
        "roll.default",
        [X],
        {"shifts": (1, -2), "dims": (1, 2)},
        lambda x: np.roll(x, (1, -2), (1, 2)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_gives_what_numpy_gives(name: str) -> None:
    kind, arrays, attributes, reference = CASES[name]
    want = np.asarray(reference(*arrays))
    want = want.astype(np.float32) if want.dtype == np.float64 else want
    (got,) = _run(kind, arrays, attributes, [want])
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_results_that_nothing_takes_are_not_made() -> None:
    x = _random(1, 1, 4, 4)
    attributes = {"kernel_size": (2, 2), "stride": (), "padding": (0, 0), "dilation": (1, 1)}
    with pytest.raises(CompileError, match="nothing makes it"):
        _run("max_pool2d_with_indices.default", [x], attributes, [x[..., :2, :2], x[..., :2, :2]])


@pytest.mark.parametrize(
    ("kind", "attributes", "reason"),
    [
        ("native_dropout.default", {"train": True}, "drops elements at random"),
        ("no_such_operator.default", {}, "there is no such operation here"),
        ("linalg_vector_norm.default", {"ord": 3}, "its power is 3"),
        ("cos_but_wrong.out", {}, "there is no such operation here"),
    ],
)
def test_what_cannot_be_said_is_told(kind: str, attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(CompileError, match=reason):
        _run(kind, [X], attributes, [X])


def test_the_page_lists_the_operators_of_the_code() -> None:
    assert PAGE == ROOT / "docs" / "executorch.md"
    assert with_operators(PAGE.read_text()) == PAGE.read_text(), "python -m user_layers.torch.regenerate"
