"""TPU_PIXELS: pictures as nets take them, bit for bit as numpy computes it in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.layer_checks import Array, check, refused, run, same
from user_layers.toolkit import Toolkit

MEAN, SCALE = (123.675, 116.28, 103.53, 7.5), (0.0171, 0.0175, -0.0174, 1.0)


def param(**changes: Any) -> dict[str, Any]:
    return {
        "planar": 0, "backwards": 0, "rows": 0, "columns": 0, "top": 0, "bottom": 0, "left": 0,
        "right": 0, "mean": MEAN, "scale": SCALE, **changes,
    }  # fmt: skip


def pictures(*shape: int) -> Array:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def taken(x: Array, p: dict[str, Any]) -> Array:
    """What the layer makes."""
    first = x if p["planar"] else x.transpose(0, 3, 1, 2)
    first = first[:, ::-1] if p["backwards"] else first
    _, c, h, w = first.shape
    cut = first[:, :, p["top"] : h - p["bottom"], p["left"] : w - p["right"]].astype(np.float32)
    mean, scale = (np.array(p[name][:c], np.float32).reshape(1, c, 1, 1) for name in ("mean", "scale"))
    found: Array = np.ascontiguousarray((cut - mean) * scale)
    return found


@pytest.mark.parametrize("planar", [0, 1])
@pytest.mark.parametrize(
    ("extents", "changes"),
    [
        ((1, 5, 7, 3), {}),
        ((2, 64, 33, 3), {"backwards": 1}),
        ((1, 130, 40, 1), {"top": 1, "bottom": 2, "left": 3}),
        ((3, 67, 9, 4), {"left": 2, "right": 5, "backwards": 1}),
        ((1, 225, 224, 3), {"top": 1}),
        ((1, 2, 9000, 3), {}),
        ((1, 700, 150, 2), {}),
    ],
)
def test_pixels(toolkit: Toolkit, planar: int, extents: tuple[int, ...], changes: dict[str, int]) -> None:
    n, h, w, c = extents
    p = param(planar=planar, **changes)
    x = pictures(n, c, h, w) if planar else pictures(n, h, w, c)
    check(toolkit, "TPU_PIXELS", p, x, taken(x, p))


def test_signed_bytes(toolkit: Toolkit) -> None:
    p = param(mean=(-1.0,) * 4)
    x = pictures(2, 9, 70, 3).view(np.int8)
    check(toolkit, "TPU_PIXELS", p, x, taken(x, p))


def test_smaller_pictures_than_compiled(toolkit: Toolkit) -> None:
    x = pictures(1, 6, 11, 3)
    (got,) = run(toolkit, "TPU_PIXELS", param(top=1), [x], compiled=[(2, 9, 13, 3)], dynamic=True)
    same(got, taken(x, param(top=1)))


@pytest.mark.parametrize(
    ("x", "changes"),
    [
        (pictures(1, 4, 4, 5), {}),
        (pictures(4, 4, 3), {}),
        (pictures(1, 4, 4, 3).astype(np.float32), {}),
        (pictures(1, 4, 4, 3), {"top": 2, "bottom": 2}),
        (pictures(1, 4, 4, 3), {"left": -1}),
        (pictures(1, 4, 4, 3), {"rows": 5}),
        (pictures(1, 4, 4, 3), {"columns": 3}),
    ],
)
def test_what_are_no_pictures(toolkit: Toolkit, x: Array, changes: dict[str, int]) -> None:
    refused(toolkit, "TPU_PIXELS", param(**changes), x)
