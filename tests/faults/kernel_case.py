"""A free kernel of tests/faults/kernels with the buffers and sizes that it is launched with."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Shape = tuple[int, ...]

FOLDER = Path(__file__).with_name("kernels")
POINTERS = ("out", "out2", "in", "in2", "in3", "scratch")  # args_t of faults.h, which begins with these
SIZES = ("n", "c", "h", "w", "oc", "k")


@dataclass(frozen=True)
class Result:
    """An array that the kernel writes; it is allocated and not filled."""

    shape: Shape
    dtype: str = "float32"


@dataclass(frozen=True)
class Kernel:
    """name: of the C function. given: arrays by member of args_t, with `out` among them where it holds
    something before; results: by member too. scratch: bytes. launches: sizes that differ from `sizes`, one
    mapping per launch. freed: members that the host frees before the first launch; between: those it frees
    between launches, and allocates again if renewed. checks: as `--check` has them, None the default ones.
    expected: makes the results (those in `results`, in order) from the given arrays (in the order of args_t);
    None where a mistake leaves nothing to compare."""

    name: str
    given: Mapping[str, Array]
    results: Mapping[str, Result]
    sizes: Mapping[str, int]
    scratch: int = 0
    launches: Sequence[Mapping[str, int]] = ({},)
    freed: tuple[str, ...] = ()
    checks: str | None = None
    expected: Callable[..., Any] | None = None
    tolerance: float = 0.0
    between: tuple[str, ...] = ()
    renewed: bool = False

    def arguments(self, places: Mapping[str, int], changed: Mapping[str, int]) -> bytes:
        """The bytes of args_t."""
        sizes = {**self.sizes, **changed}
        pointers = (places.get(name, 0) for name in POINTERS)
        return struct.pack("<6Q6i", *pointers, *(sizes.get(name, 0) for name in SIZES))


def random(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    """fp32 numbers that depend on the shape alone."""
    return np.random.default_rng([len(shape), *shape]).uniform(low, high, shape).astype(np.float32)


def integers(*shape: int, low: int = -50, high: int = 50, dtype: str = "int8") -> Array:
    """Integers from low to high - 1 that depend on the shape alone."""
    return np.random.default_rng([len(shape), *shape]).integers(low, high, shape).astype(dtype)


def _result(given: Result | Shape) -> Result:
    return given if isinstance(given, Result) else Result(given)


def kernel(
    name: str,
    *,
    x: Array | None = None,
    y: Array | None = None,
    z: Array | None = None,
    held: Array | None = None,
    out: Result | Shape | None = None,
    out2: Result | Shape | None = None,
    scratch: int = 0,
    launches: Sequence[Mapping[str, int]] = ({},),
    freed: tuple[str, ...] = (),
    checks: str | None = None,
    expected: Callable[..., Any] | None = None,
    tolerance: float = 0.0,
    between: tuple[str, ...] = (),
    renewed: bool = False,
    sizes: Mapping[str, int] | None = None,
    **more: int,
) -> Kernel:
    """x, y, z: what `in`, `in2`, `in3` hold; held: what `out` holds before, which then has that shape. sizes
    and more: n, c, h, w, oc, k."""
    given = {"out": held, "in": x, "in2": y, "in3": z}
    results = {
        "out": Result(held.shape, held.dtype.name) if held is not None and out is None else out,
        "out2": out2,
    }
    return Kernel(
        name,
        {member: array for member, array in given.items() if array is not None},
        {member: _result(result) for member, result in results.items() if result is not None},
        {**(sizes or {}), **more},
        scratch,
        launches,
        freed,
        checks,
        expected,
        tolerance,
        between,
        renewed,
    )
