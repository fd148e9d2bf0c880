"""Synthetic scenes for a small detector: flat shapes on textured grounds, with their boxes and classes.

A scene follows from its number and size alone. Those below FIRST_OF_TRAINING are not trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

FIRST_OF_TRAINING = 1_000_000

# An object's longer side before it is turned, as parts of the scene's side.
SMALLEST, LARGEST = 0.16, 0.5
# Boxes may have this part of the smaller one in common, so that no object hides another.
OVERLAP = 0.2


class Scene(NamedTuple):
    """A picture and what is in it."""

    image: Floats  # [3, size, size]: red, green, blue, 0 to 1
    boxes: (
        Floats  # [objects, 4]: left, top, right, bottom in pixels; the whole object, what is covered included
    )
    classes: NDArray[np.int64]  # [objects]: numbers in CLASSES


# Shapes: the distance in pixels from points (u, v) to the outline, negative inside, of a shape that fills
# -a to a and -b to b. Exact where it matters, within a pixel of the outline.


def _disk(u: Floats, v: Floats, a: float, b: float) -> Floats:
    """An ellipse's distance to first order: the function over its gradient's length."""
    f = np.sqrt((u / a) ** 2 + (v / b) ** 2)
    slope = np.sqrt((u / a**2) ** 2 + (v / b**2) ** 2)
    distance: Floats = f * (f - 1) / np.maximum(slope, np.float32(1e-6))
    return np.where(f < np.float32(1e-3), np.float32(-min(a, b)), distance)


def _square(u: Floats, v: Floats, a: float, b: float) -> Floats:
    distance: Floats = np.maximum(np.abs(u) - np.float32(a), np.abs(v) - np.float32(b))
    return distance


def _triangle(u: Floats, v: Floats, a: float, b: float) -> Floats:
    """Its base is at the bottom (v = b), its tip at (0, -b)."""
    slant = np.float32(np.hypot(a, 2 * b))
    sides = (2 * b * np.abs(u) - a * (v + b)) / slant
    distance: Floats = np.maximum(sides, v - np.float32(b))
    return distance


def _cross(u: Floats, v: Floats, a: float, b: float) -> Floats:
    arm = 0.33 * min(a, b)
    return np.minimum(_square(u, v, a, arm), _square(u, v, arm, b))


def _ring(u: Floats, v: Floats, a: float, b: float) -> Floats:
    return np.maximum(_disk(u, v, a, b), -_disk(u, v, 0.55 * a, 0.55 * b))


_SHAPES: dict[str, Callable[[Floats, Floats, float, float], Floats]] = {
    "disk": _disk,
    "square": _square,
    "triangle": _triangle,
    "cross": _cross,
    "ring": _ring,
}
CLASSES = tuple(_SHAPES)


def scene(number: int, size: int = 160) -> Scene:
    """The scene of this number, `size` pixels wide and high, with up to 7 objects."""
    random = np.random.default_rng([size, number])
    image = _ground(random, size)
    for _ in range(random.integers(0, 4)):
        _add_stroke(random, image)
    boxes: list[Floats] = []
    classes: list[int] = []
    wanted = int(random.integers(3, 8))
    for _ in range(20 * wanted):  # places are tried; a full scene ends with fewer
        if len(boxes) == wanted:
            break
        kind = int(random.integers(len(CLASSES)))
        coverage, left, top = _drawn(random, CLASSES[kind], size)
        box = _box(coverage, left, top)
        if any(_shared(box, other) > OVERLAP for other in boxes):
            continue
        _paint(random, image, coverage, left, top)
        boxes.append(box)
        classes.append(kind)
    noise = random.standard_normal(image.shape, dtype=np.float32)
    image += noise * np.float32(random.uniform(0, 0.02))
    return Scene(np.clip(image, 0, 1), np.stack(boxes), np.array(classes, np.int64))


def _shared(a: Floats, b: Floats) -> float:
    """How much of the smaller of two boxes lies in the other, 0 to 1."""
    common = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0).prod()
    return float(common / min((a[2:] - a[:2]).prod(), (b[2:] - b[:2]).prod()))


def _drawn(random: np.random.Generator, kind: str, size: int) -> tuple[Floats, int, int]:
    """A shape somewhere in the scene: how much of each pixel it covers [h, w], and where that begins."""
    a = size / 2 * float(np.exp(random.uniform(np.log(SMALLEST), np.log(LARGEST))))
    b = a * float(random.uniform(0.7, 1))
    angle = float(random.uniform(0, 2 * np.pi))
    reach = int(np.ceil(np.hypot(a, b))) + 1  # in any direction, from the middle
    at = np.arange(-reach, reach + 1, dtype=np.float32)
    x, y = at[None, :], at[:, None]
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    coverage = np.clip(0.5 - _SHAPES[kind](cos * x + sin * y, cos * y - sin * x, a, b), 0, 1)
    rows, columns = (np.flatnonzero(coverage.max(axis=axis) > 0) for axis in (1, 0))
    coverage = coverage[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    height, width = coverage.shape
    left, top = (int(random.integers(0, size - n + 1)) for n in (width, height))
    return coverage, left, top


def _box(coverage: Floats, left: int, top: int) -> Floats:
    """The edges, between the pixels too: a column that is covered in part counts in part."""
    across, down = coverage.max(axis=0), coverage.max(axis=1)
    edges = (left + 1 - across[0], top + 1 - down[0])
    ends = (left + len(across) - 1 + across[-1], top + len(down) - 1 + down[-1])
    return np.array([*edges, *ends], np.float32)


def _paint(random: np.random.Generator, image: Floats, coverage: Floats, left: int, top: int) -> None:
    """Colours the shape unlike what it lies on; a little lighter to one side."""
    height, width = coverage.shape
    part = image[:, top : top + height, left : left + width]
    under = part.mean(axis=(1, 2))
    colour = random.random(3, dtype=np.float32)
    while np.abs(colour - under).max() < 0.3:
        colour = random.random(3, dtype=np.float32)
    slope = random.uniform(-0.15, 0.15, 2)
    light = slope[0] * np.linspace(-1, 1, height)[:, None] + slope[1] * np.linspace(-1, 1, width)[None, :]
    shaded = colour[:, None, None] + light[None].astype(np.float32)
    part += coverage * (shaded - part)


def _ground(random: np.random.Generator, size: int) -> Floats:
    """A coloured texture [3, size, size]: smooth noise of three finenesses, or stripes over it."""
    image = np.broadcast_to(random.uniform(0.2, 0.8, (3, 1, 1)), (3, size, size)).astype(np.float32)
    for cells, strength in ((3, 0.25), (9, 0.12), (40, 0.08)):
        grid = random.uniform(-1, 1, (3, cells + 1, cells + 1)).astype(np.float32)
        weights = _smooth(cells, size)
        image += np.float32(strength * random.random()) * (weights @ grid @ weights.T)
    if random.random() < 0.4:
        angle, period = random.uniform(0, np.pi), random.uniform(0.03, 0.15) * size
        at = np.arange(size, dtype=np.float32)
        phase = (np.cos(angle) * at[None, :] + np.sin(angle) * at[:, None]) * (2 * np.pi / period)
        colour = random.uniform(-0.15, 0.15, (3, 1, 1))
        image += (colour * np.sin(phase)[None]).astype(np.float32)
    return image


@cache
def _smooth(cells: int, size: int) -> Floats:
    """[size, cells + 1]: what a line's pixels take from a grid's points, smoothly from one to the next."""
    at = np.linspace(0, cells, size, endpoint=False, dtype=np.float32)
    before = np.floor(at).astype(np.int64)
    t = at - before
    t = t * t * (3 - 2 * t)
    weights = np.zeros((size, cells + 1), np.float32)
    weights[np.arange(size), before] = 1 - t
    weights[np.arange(size), before + 1] = t
    return weights


def _add_stroke(random: np.random.Generator, image: Floats) -> None:
    """A thin line across the ground, which is no object."""
    size = image.shape[1]
    angle, thick = random.uniform(0, np.pi), random.uniform(0.5, 0.01 * size + 0.5)
    x0, y0 = random.uniform(0, size, 2)
    at = np.arange(size, dtype=np.float32)
    across = np.cos(angle) * (at[None, :] - x0) + np.sin(angle) * (at[:, None] - y0)
    coverage = np.clip(0.5 + thick - np.abs(across), 0, 1).astype(np.float32)
    colour = random.random((3, 1, 1), dtype=np.float32)
    image += coverage * np.float32(0.7) * (colour - image)
