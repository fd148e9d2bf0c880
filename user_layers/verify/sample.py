"""A sample: one random case, as a value that can be drawn, made smaller, stored and run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from firmware_sim.errors import SourceError, TpulayerError, UsageError
from user_layers.testing.cases import Array, Case, Const, Input, Shape
from user_layers.verify.target import Target

Fractions = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]

VALUES = ("drawn", "zeros", "large", "denormals", "nan", "ones", "ramp")
"""What inputs hold: the case's own numbers, or among them every other one a zero, a large number, a denormal
or a NaN; all ones; 1, 2, 3, ... up to 7 and again."""

_LARGE = 1e4  # of floats without a range: its square and long sums of it are far from the end of fp32
_SMALLEST = 1e-40  # a denormal of fp32


@dataclass(frozen=True)
class Sample:
    """origin: the number in the target's cases; drawn: instead what `random_case` draws from. shapes: of all
    inputs; param: fields by name; values: of VALUES; salt: tells its numbers from others'. cuts: where the
    output is cut along n, h and w, in parts of it; around: other layers stand before and behind."""

    origin: int
    drawn: tuple[int, ...]
    shapes: tuple[Shape, ...]
    param: Mapping[str, Any] = field(default_factory=dict)
    values: str = "drawn"
    salt: int = 0
    cuts: Fractions = ((), (), ())
    around: bool = False

    def case(self, target: Target) -> Case:
        """As `tpulayer test` knows it. Errors: those of `base_case`."""
        return base_case(target, self.origin, self.drawn).like(self.shapes, self.param)

    def arrays(self, case: Case, shapes: Sequence[Shape] | None = None, more: int = 0) -> list[Array]:
        """The values of all inputs. shapes: of those that are drawn, where not the case's; more: another
        number gives other ones."""
        found = case.arrays(None if shapes is None else tuple(shapes), salt=(self.salt << 4) + more)
        return [_special(self.values, x, array) for x, array in zip(case.inputs, found, strict=True)]

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return dict(self.__dict__)

    def to_json(self) -> str:
        """For a file."""
        return json.dumps(self.as_dict()) + "\n"

    @staticmethod
    def from_json(text: str) -> Sample:
        """Errors: UsageError for another text."""
        try:
            data = json.loads(text)
            n, h, w = (tuple(map(float, axis)) for axis in data["cuts"])
            found = Sample(
                int(data["origin"]),
                tuple(map(int, data["drawn"])),
                tuple(tuple(map(int, shape)) for shape in data["shapes"]),
                dict(data["param"]),
                str(data["values"]),
                int(data["salt"]),
                (n, h, w),
                bool(data["around"]),
            )
            if found.values not in VALUES:
                raise ValueError(f"{found.values!r} are no values")
            return found
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"this is no case of `tpulayer verify`: {error}") from error


def base_case(target: Target, origin: int, drawn: Sequence[int]) -> Case:
    """The case that a sample is made of. Errors: SourceError where `random_case` fails, or makes no Case;
    UsageError for a number that is none."""
    if not drawn:
        if not 0 <= origin < len(target.cases):
            raise UsageError(f"{target.name} has {len(target.cases)} cases, and no case {origin}")
        return target.cases[origin]
    assert target.random_case is not None
    try:
        case = target.random_case(np.random.default_rng(tuple(drawn)))
    except TpulayerError as error:
        raise SourceError(f"{target.path}: random_case: {error.message}", hint=error.hint) from error
    except Exception as error:
        raise SourceError(f"{target.path}: random_case: {type(error).__name__}: {error}") from error
    if not isinstance(case, Case):
        raise SourceError(f"{target.path}: random_case returned {type(case).__name__}, not a Case")
    return case


def shapes_of(case: Case) -> tuple[Shape, ...]:
    """Of all inputs."""
    found = []
    for x in case.inputs:
        value = x.value if isinstance(x, Const) else x
        found.append(tuple(value.shape))
    return tuple(found)


def _special(values: str, x: Array | Input | Const, array: Array) -> Array:
    """The array of an input with these values; constants and arrays keep their own."""
    if values == "drawn" or not isinstance(x, Input):
        return array
    flat = array.reshape(-1).copy()
    floats = array.dtype.kind == "f"
    low, high = _ends(x, array)
    if values in ("ones", "ramp"):
        steps = np.ones(flat.size) if values == "ones" else np.arange(flat.size) % 7 + 1
        flat[:] = np.clip(steps, low, high).astype(flat.dtype)
    elif values == "zeros":
        flat[::2] = np.clip(0, low, high)
    elif values == "large":
        flat[::2] = high
        flat[::4] = low
    elif values == "denormals" and floats and low <= _SMALLEST <= high:
        flat[::2] = _SMALLEST
    elif values == "nan" and floats:
        flat[::2] = np.nan
    shaped: Array = flat.reshape(array.shape)
    return shaped


def _ends(x: Input, array: Array) -> tuple[float, float]:
    """The least and the greatest number that an input may have, as its `draw` means them."""
    unsigned = array.dtype.kind == "u"
    if array.dtype.kind == "f":
        least, most = (-_LARGE, _LARGE) if x.low is None and x.high is None else (0.0, 0.0)
    elif x.scale is not None:
        least, most = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
    else:
        least, most = 0 if unsigned else -100, 100
    return least if x.low is None else x.low, most if x.high is None else x.high
