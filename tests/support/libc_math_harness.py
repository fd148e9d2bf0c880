"""math.h of the firmware over arrays, and what its results are measured with."""

from __future__ import annotations

import ctypes
import ctypes.util
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support import libc_harness as lh

Doubles = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

ONE = (
    *("fabs", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan"),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc"),
    *("floor", "ceil", "trunc", "round", "rint", "nearbyint", "logb"),
)
TWO = (*("pow", "atan2", "hypot", "fmod", "remainder", "fmin", "fmax", "fdim", "copysign", "nextafter"),)
SOURCES = [path for path in lh.SOURCES if path.name.startswith("math_") or path.name == "divide.c"]
TINY, MOST = 5e-324, 1.7976931348623157e308
_SIZES = (
    *(0, 1, 2, 3, 0.5, 1.5, 2.5, 0.25, np.inf, np.nan, TINY, 2.0**-1022, 2.0**-1022 - TINY, MOST, MOST / 2),
    *(1 + 2.0**-52, 1 - 2.0**-53, 0.1, 7, 10, 100, 1e5, 1e15, 1e22, 2.0**52 + 1, 2.0**53, 2.0**62, 2.0**63),
    *(2.0**31, 2.0**31 - 1, 2.0**52 + 0.5, 0.5 - 2.0**-54, np.pi, np.pi / 2, np.pi / 4, 709.8, 710.5, 745.2),
    *(2.0**-27, 2.0**-54, 2.0**-149, 2.0**127, 2.0**128, 2.0**-126, 1e-20, 2.0**52 + 1.5, 1023.5, 1074),
)
SPECIAL = np.array([*_SIZES, *(-x for x in _SIZES)])


def _pointer(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Math(lh.Libc):
    """A built library of tests/sources/libc_math_fixture.c."""

    def __init__(self, library: Path) -> None:
        super().__init__(library)
        self.machine = ctypes.CDLL(ctypes.util.find_library("m"))

    def sweep(self, loop: str, function: str, inputs: list[Array], *outputs: Any) -> list[Array]:
        """Run a loop of the fixture; outputs are dtypes."""
        arrays = [np.ascontiguousarray(a) for a in inputs]
        results = [np.empty(len(arrays[0]), dtype) for dtype in outputs]
        address = ctypes.c_void_p(self.addresses[function])
        count = ctypes.c_size_t(len(arrays[0]))
        getattr(self.lib, loop)(address, *map(_pointer, [*arrays, *results]), count)
        return results

    def __call__(self, function: str, *inputs: Array) -> Array:
        """A function of one to three doubles; of floats where the inputs are."""
        suffix = "f" if inputs[0].dtype == np.float32 else ""
        loop = f"sweep_{len(inputs)}{suffix}"
        return self.sweep(loop, function + suffix, list(inputs), inputs[0].dtype)[0]

    def exact(self, function: str, *inputs: Array) -> npt.NDArray[np.longdouble]:
        """The machine's long double function of the same name."""
        with np.errstate(invalid="ignore"):  # a signalling NaN among them
            arrays = [np.ascontiguousarray(a, np.float64) for a in inputs]
        result = np.empty(len(arrays[0]), np.longdouble)
        address = ctypes.cast(self.machine[function + "l"], ctypes.c_void_p)
        loop = getattr(self.lib, f"sweep_{len(arrays)}l")
        loop(address, *map(_pointer, [*arrays, result]), ctypes.c_size_t(len(result)))
        return result


def ulps(values: Array, exact: npt.NDArray[np.longdouble]) -> Doubles:
    """Errors in units of the exact value's last place; infinite where a special value is a wrong one."""
    digits, least, top = (24, -149, 128) if values.dtype == np.float32 else (53, -1074, 1024)
    with np.errstate(all="ignore"):
        one = np.longdouble(1)
        over = np.abs(exact) >= np.ldexp(one, top) - np.ldexp(one, top - digits - 1)
        measured = np.isfinite(exact) & ~over
        exponent = np.frexp(np.where(measured & (exact != 0), exact, 1))[1]
        unit = np.ldexp(one, np.maximum(exponent - digits, least))
        error = np.abs(values.astype(np.longdouble) - exact) / unit
        special = np.where(over, np.copysign(np.inf, exact), exact)
        right = (values == special) | (np.isnan(values) & np.isnan(special))
        error = np.where(measured, error, np.where(right, 0, np.inf))
        error = np.where(
            np.isnan(error) | (np.signbit(values) != np.signbit(exact)) & ~np.isnan(exact), np.inf, error
        )
    return error.astype(np.float64)


def samples(name: str, count: int) -> list[Doubles]:
    """Arguments that a function of one double is interesting for: `count` of each of a few kinds."""
    rng = np.random.default_rng(sum(map(ord, name)))

    def even(low: float, high: float) -> Doubles:
        return rng.uniform(low, high, count)

    def powers(low: float, high: float) -> Doubles:
        """Evenly by their logarithm, of both signs."""
        size: Doubles = np.exp2(rng.uniform(low, high, count))
        signed: Doubles = size * rng.choice([-1.0, 1.0], count)
        return signed

    positive = [np.abs(powers(-1074, 1023)), even(0.4, 2.1), 1 + powers(-53, -4)]
    angles = [
        even(-7, 7),
        even(-1000, 1000),
        powers(-40, 1023),
        rng.integers(1, 1 << 20, count) * (np.pi / 2),
    ]
    unit = [even(-1, 1), powers(-60, 0), 1 - np.abs(powers(-53, -1))]
    growth = [even(-750, 750), even(-2, 2), powers(-60, 10)]
    kinds = {
        **dict.fromkeys(("log", "log2", "log10", "sqrt"), positive),
        **dict.fromkeys(("sin", "cos", "tan"), angles),
        **dict.fromkeys(("asin", "acos", "atanh"), unit),
        **dict.fromkeys(("exp", "expm1", "sinh", "cosh", "tanh"), growth),
        "exp2": [even(-1080, 1030), powers(-1074, 11)],
        "log1p": [even(-1, 2), np.abs(powers(-1074, 1023)), powers(-80, -0.01)],
        "asinh": [even(-2, 2), powers(-60, 1023)],
        "acosh": [even(1, 3), 1 + np.abs(powers(-52, 1)), np.abs(powers(0, 1023))],
        "atan": [even(-3, 3), powers(-60, 70)],
        "cbrt": [even(-10, 10), powers(-1074, 1023)],
        "erf": [even(-7, 7), even(-1, 1), powers(-1074, 3)],
        "erfc": [even(-7, 28), even(-1, 1), powers(-60, 4)],
    }
    return kinds.get(name, [powers(-1074, 1023), even(-1e6, 1e6), rng.integers(-5000, 5000, count) / 2])


def pairs(name: str, count: int) -> list[tuple[Doubles, Doubles]]:
    """The same for functions of two doubles."""
    rng = np.random.default_rng(sum(map(ord, name)))

    def powers(low: float, high: float) -> Doubles:
        size: Doubles = np.exp2(rng.uniform(low, high, count))
        signed: Doubles = size * rng.choice([-1.0, 1.0], count)
        return signed

    near = (rng.uniform(-3, 3, count), rng.uniform(-3, 3, count))
    wide = (powers(-1074, 1023), powers(-1074, 1023))
    small = (powers(-1074, -1000), powers(-1074, -1000))
    whole = (np.rint(rng.uniform(-40, 40, count)), np.rint(rng.uniform(-40, 40, count)))
    if name == "pow":
        spread = (np.abs(powers(-5, 5)), rng.uniform(-200, 200, count))
        one = (1 + powers(-30, -2), powers(0, 40))
        return [spread, one, whole, (np.abs(powers(-1074, 1023)), rng.uniform(-2, 2, count))]
    return [near, wide, small, whole, (powers(-1, 1), powers(-60, 0))]


def operands(count: int) -> list[tuple[Doubles, Doubles]]:
    """Doubles for arithmetic: any bits, quotients and products near the smallest numbers, special ones."""
    rng = np.random.default_rng(count)

    def powers(low: float, high: float) -> Doubles:
        size: Doubles = np.exp2(rng.uniform(low, high, count))
        signed: Doubles = size * rng.choice([-1.0, 1.0], count)
        return signed

    bits = rng.integers(0, 1 << 64, (2, count), dtype=np.uint64).view(np.float64)
    special = [a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL)]
    return [
        (bits[0], bits[1]),
        (powers(-1074, -1000), powers(-70, 70)),
        (powers(-600, -500), powers(-600, -400)),
        (powers(-600, -500), powers(450, 600)),
        (powers(-149, -120), powers(-20, 20)),
        (powers(-80, -70), powers(-80, 80)),
        (powers(0, 3), powers(0, 3)),
        (special[0], special[1]),
    ]


def any_floats(count: int, seed: int) -> npt.NDArray[np.float32]:
    """Floats with random bits: every exponent, NaNs and denormals too."""
    return np.random.default_rng(seed).integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
