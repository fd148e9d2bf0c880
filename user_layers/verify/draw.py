"""Which samples are tried: number by number, the same for each seed whoever draws them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from user_layers.testing.cases import Case, Const, Input, Shape
from user_layers.testing.collect import Range
from user_layers.verify.sample import Fractions, Sample, base_case, shapes_of
from user_layers.verify.target import Target

ATTEMPTS = 8
"""How often a number's sample is drawn anew where the layer refuses it."""

_BATCHES = (1, 2, 3, 4, 5)
_CHANNELS = (1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 191, 193)  # around the chip's 64 lanes
_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 23, 31, 32, 33, 47, 64, 65, 97)
_LONG = (128, 129, 200, 255, 257, 509)  # that need slices
_ELEMENTS = 1 << 17  # of a tensor, as a rule
_MANY = 1 << 21  # of one of a sample that is to need slices
_MANY_EVERY = 24


def drawn(target: Target, seed: int, number: int, attempt: int, values: Sequence[str]) -> Sample:
    """The sample of this number. values: those that inputs may have besides their own. The first numbers
    are the target's own cases, cut at random. Errors: those of `base_case`."""
    rng = np.random.default_rng((seed, zlib.crc32(target.name.encode()), number, attempt))
    cases = len(target.cases)
    if number < cases and not attempt:
        case = target.cases[number]
        return Sample(
            number, (), shapes_of(case), dict(case.param), salt=number, cuts=_cuts(rng), around=_odds(rng, 2)
        )
    origin = int(rng.integers(cases))
    base: tuple[int, ...] = ()
    if target.random_case is not None and not _odds(rng, 4):
        base = (seed, number, attempt)
        case = base_case(target, origin, base)
        shapes, param = shapes_of(case), dict(case.param)
    else:
        case = target.cases[origin]
        shapes = _shapes(rng, case, _MANY if number % _MANY_EVERY == _MANY_EVERY - 1 else _ELEMENTS)
        param = _param(rng, target.cases, case, target.ranges)
    kind = str(rng.choice(list(values))) if values and _odds(rng, 3) else "drawn"
    return Sample(origin, base, shapes, param, kind, number, _cuts(rng), _odds(rng, 2))


def _odds(rng: np.random.Generator, one_in: int) -> bool:
    return bool(rng.integers(one_in) == 0)


def _shapes(rng: np.random.Generator, case: Case, most: int) -> tuple[Shape, ...]:
    """Extents that are equal in the case stay equal: at the same place of several inputs always, elsewhere
    in three samples of four. Half of them are those of the case. most: elements of each tensor."""
    before = shapes_of(case)
    fixed = [not _is_random(x) for x in case.inputs]
    anywhere = len(before) > 1 and not _odds(rng, 4)
    chosen: dict[tuple[int, int], int] = {}
    for shape, keeps in zip(before, fixed, strict=True):
        for axis, extent in enumerate(shape):
            key = (0 if anywhere else axis, extent)
            if keeps:  # an array's extents are what others that are equal must be
                chosen[key] = extent
    single = len(before) == 1
    found = []
    for shape, keeps in zip(before, fixed, strict=True):
        room = most
        made = []
        for axis, extent in enumerate(shape):
            key = (0 if anywhere else axis, extent)
            if single:
                key = (axis, -1)
            if key not in chosen:
                keep = _odds(rng, 2) if single or extent > 1 else not _odds(rng, 4)
                chosen[key] = extent if keep else _extent(rng, axis, len(shape), most > _ELEMENTS)
            value = extent if keeps else min(chosen[key], max(room, 1))
            room //= value
            made.append(value)
        found.append(tuple(made))
    return tuple(found)


def _extent(rng: np.random.Generator, axis: int, dims: int, long: bool) -> int:
    if dims == 1:
        return int(rng.choice((*_EXTENTS, *_CHANNELS, *_LONG, 4096, 4099)))
    choices: tuple[int, ...] = _BATCHES if axis == 0 else _CHANNELS if axis == 1 else _EXTENTS
    if axis > 1 and long:
        choices = _LONG
    return int(rng.choice(choices))


def _is_random(x: object) -> bool:
    return isinstance(x, Input) or (isinstance(x, Const) and isinstance(x.value, Input))


def _param(
    rng: np.random.Generator, cases: Sequence[Case], case: Case, ranges: Mapping[str, Range]
) -> dict[str, Any]:
    """The case's own fields; every other time some of them as another case has them; those with a range
    mostly within it."""
    found = dict(case.param)
    if _odds(rng, 2):
        for name in sorted({name for one in cases for name in one.param}):
            if _odds(rng, 2):
                other = cases[int(rng.integers(len(cases)))].param
                found.pop(name, None)
                found |= {name: other[name]} if name in other else {}
    for name, choices in sorted(ranges.items()):
        if not _odds(rng, 4):
            found[name] = _within(rng, choices)
    return found


def _within(rng: np.random.Generator, choices: Range) -> Any:
    if isinstance(choices, list):
        return choices[int(rng.integers(len(choices)))]
    least, most = choices
    if isinstance(least, int) and isinstance(most, int):
        return int(rng.integers(least, most, endpoint=True))
    return float(np.float32(rng.uniform(least, most)))


def _cuts(rng: np.random.Generator) -> Fractions:
    """None, one or two places along each axis."""

    def places() -> tuple[float, ...]:
        return tuple(sorted(round(float(x), 3) for x in rng.uniform(0.02, 0.98, int(rng.integers(3)))))

    return places(), places(), places()
