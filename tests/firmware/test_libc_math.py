"""The firmware's math.h: how exact it is, its special values, and the same bits from every build."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.paths import SOURCES as SOURCE_FILES
from tests.support import firmware_harness as fh
from tests.support import libc_harness as lh
from tests.support import libc_math_harness as mh
from tests.support.examples import examples

MEASURED_ONE = mh.ONE[1:24]  # sqrt to erfc
MEASURED_TWO = ("pow", "atan2", "hypot")
DOUBLES, FLOATS = 1 << 16, 1 << 20
DOUBLE_ULPS, FLOAT_ULPS = 1.0, 0.50001  # as math.h promises


@pytest.fixture(scope="module", params=fh.COMPILERS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> mh.Math:
    folder = tmp_path_factory.mktemp("math")
    return mh.Math(lh.build(request.param, folder, "libc_math_fixture.c", mh.SOURCES))


def _measure(errors: mh.Doubles, limit: float, name: str, *inputs: mh.Array) -> None:
    worst = int(errors.argmax())
    assert errors[worst] <= limit, f"{name}{tuple(float(x[worst]) for x in inputs)}: {errors[worst]} ulp"


# ---- exactness ----


@pytest.mark.parametrize("name", MEASURED_ONE)
def test_double_functions(library: mh.Math, name: str) -> None:
    for x in [*mh.samples(name, DOUBLES), mh.SPECIAL]:
        _measure(mh.ulps(library(name, x), library.exact(name, x)), DOUBLE_ULPS, name, x)


@pytest.mark.parametrize("name", MEASURED_TWO)
def test_double_functions_of_two(library: mh.Math, name: str) -> None:
    for x, y in mh.pairs(name, DOUBLES):
        _measure(mh.ulps(library(name, x, y), library.exact(name, x, y)), DOUBLE_ULPS, name, x, y)


@pytest.mark.parametrize("name", MEASURED_ONE)
def test_float_functions(library: mh.Math, name: str) -> None:
    with np.errstate(over="ignore"):
        kinds = [x.astype(np.float32) for x in mh.samples(name, FLOATS // 4)]
        special = mh.SPECIAL.astype(np.float32)
    for x in [mh.any_floats(FLOATS, 3), special, *kinds]:
        _measure(mh.ulps(library(name, x), library.exact(name, x)), FLOAT_ULPS, name, x)


@pytest.mark.parametrize("name", MEASURED_TWO)
def test_float_functions_of_two(library: mh.Math, name: str) -> None:
    x, y = mh.any_floats(FLOATS, 4), mh.any_floats(FLOATS, 5)
    if name == "pow":
        x, y = (
            np.abs(x),
            np.concatenate([y[: FLOATS // 4], np.linspace(-50, 50, FLOATS * 3 // 4, dtype=np.float32)]),
        )
    _measure(mh.ulps(library(name, x, y), library.exact(name, x, y)), FLOAT_ULPS, name, x, y)


def test_exact_powers_and_logarithms(library: mh.Math) -> None:
    whole = np.arange(1, 41, dtype=np.float64)
    for power in range(1, 9):
        assert np.array_equal(library("pow", whole, np.full(40, float(power))), whole**power)
    exponents = np.arange(-1074, 1024, dtype=np.float64)
    assert np.array_equal(library("exp2", exponents), np.ldexp(1.0, exponents.astype(int)))
    assert np.array_equal(library("log2", library("exp2", exponents)), exponents)
    tens = np.arange(0, 23, dtype=np.float64)
    assert np.array_equal(library("log10", np.array([float(10**n) for n in range(23)])), tens)
    assert np.array_equal(library("cbrt", whole**3), whole)
    assert library("hypot", np.array([3.0, 5.0]), np.array([-4.0, 12.0])).tolist() == [5, 13]


# ---- functions without an error ----


def same(got: mh.Array, want: mh.Array) -> None:
    """Bit for bit, but for the sign and payload of NaNs."""
    got, want = (np.where(np.isnan(a), np.nan, a) for a in (got, want))
    different = np.flatnonzero((got != want) & ~np.isnan(want) | (np.signbit(got) != np.signbit(want)))
    assert not len(different), (different[:5], got[different[:5]], want[different[:5]])
    assert np.array_equal(np.isnan(got), np.isnan(want))


ROUNDINGS: dict[str, Callable[[mh.Array], mh.Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
}
ROUNDINGS |= {"fabs": np.abs, "sqrt": np.sqrt}


@pytest.mark.parametrize("name", ROUNDINGS)
def test_exact_functions(library: mh.Math, name: str) -> None:
    halves = np.arange(-5000, 5000) / 4
    with np.errstate(all="ignore"):
        for x in [
            *mh.samples(name, DOUBLES),
            mh.SPECIAL,
            halves,
            mh.any_floats(FLOATS, 6),
            mh.SPECIAL.astype("f"),
        ]:
            same(library(name, x), ROUNDINGS[name](x))


def _rounded(x: mh.Array) -> mh.Array:
    """Halves away from 0."""
    with np.errstate(all="ignore"):
        down = np.trunc(x)
        return np.copysign(np.where(np.abs(x - down) >= 0.5, down + np.copysign(1, x), down), x).astype(
            x.dtype
        )


def test_rounding_halves_away(library: mh.Math) -> None:
    for x in [
        *mh.samples("round", DOUBLES),
        mh.SPECIAL,
        np.arange(-5000, 5000) / 4,
        mh.any_floats(FLOATS, 7),
    ]:
        same(library("round", x), _rounded(x))


@pytest.mark.parametrize(
    ("name", "loop"), [("llround", "integer"), ("lround", "long"), ("llrint", "integer"), ("lrint", "long")]
)
def test_rounding_to_integers(library: mh.Math, name: str, loop: str) -> None:
    bits = 64 if loop == "integer" else 8 * ctypes.sizeof(ctypes.c_long)
    for x in [*mh.samples(name, DOUBLES), mh.SPECIAL, np.arange(-5000, 5000) / 4]:
        got = library.sweep(f"sweep_{loop}", name, [x], np.int64)[0]
        whole = _rounded(x) if "round" in name else np.rint(x)
        for value, result in zip(whole.tolist()[:20000], got.tolist()[:20000], strict=True):
            low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
            if math.isnan(value):
                assert result == 0
            elif math.isinf(value):
                assert result == (high if value > 0 else low)
            else:
                assert result == max(low, min(high, int(value)))


def _expected_fdim(x: mh.Array, y: mh.Array) -> mh.Array:
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0)).astype(x.dtype)


def _expected_fmin(x: mh.Array, y: mh.Array) -> mh.Array:
    return np.where((x == y) & np.signbit(x), x, np.where((x == y) & np.signbit(y), y, np.fmin(x, y)))


def _expected_fmax(x: mh.Array, y: mh.Array) -> mh.Array:
    return -_expected_fmin(-x, -y)


def _expected_remainder(x: mh.Array, y: mh.Array) -> mh.Array:
    def one(a: float, b: float) -> float:
        invalid = math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0
        return math.nan if invalid else math.remainder(a, b)

    return np.array([one(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)], x.dtype)


PAIRS: dict[str, Callable[[mh.Array, mh.Array], mh.Array]] = {
    "fmod": np.fmod,
    "remainder": _expected_remainder,
    "fmin": _expected_fmin,
    "fmax": _expected_fmax,
}
PAIRS |= {"fdim": _expected_fdim, "copysign": np.copysign, "nextafter": np.nextafter}


@pytest.mark.parametrize("name", PAIRS)
def test_exact_functions_of_two(library: mh.Math, name: str) -> None:
    special = [a.ravel() for a in np.meshgrid(mh.SPECIAL, mh.SPECIAL)]
    floats = [mh.any_floats(1 << 16, 8), mh.any_floats(1 << 16, 9)]
    quotients = [np.arange(-300, 300) / 8, np.resize([0.25, 0.5, 0.75, 1, 3], 600)]
    with np.errstate(all="ignore"):
        float_special = [a.astype(np.float32) for a in special]
        for x, y in [*mh.pairs(name, 1 << 14), special, floats, quotients, float_special]:
            same(library(name, x, y), PAIRS[name](x, y))


def test_taking_numbers_apart(library: mh.Math) -> None:
    x = np.concatenate([*mh.samples("frexp", DOUBLES), mh.SPECIAL])
    with np.errstate(all="ignore"):
        mantissa, exponent = library.sweep("sweep_frexp", "frexp", [x], np.float64, np.int32)
        same(mantissa, np.frexp(x)[0])
        finite = np.isfinite(x)
        assert np.array_equal(exponent[finite], np.frexp(x)[1][finite])
        rest, whole = library.sweep("sweep_modf", "modf", [x], np.float64, np.float64)
        same(rest, np.modf(x)[0])
        same(whole, np.modf(x)[1])
        same(library("logb", x), np.array([library.exact("logb", x)], np.float64)[0])
    ilogb = library.sweep("sweep_ilogb", "ilogb", [x], np.int64)[0]
    plain = finite & (x != 0)
    assert np.array_equal(ilogb[plain], np.frexp(x)[1][plain] - 1)
    assert set(ilogb[np.isinf(x)]) == {(1 << 31) - 1}
    assert set(ilogb[np.isnan(x) | (x == 0)]) == {-(1 << 31)}


def test_scaling(library: mh.Math) -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([*mh.samples("ldexp", DOUBLES), np.repeat(mh.SPECIAL, 30)])
    e = rng.integers(-2300, 2300, len(x)).astype(np.int32)
    e[:1000] = rng.choice([-(1 << 31), (1 << 31) - 1, 0], 1000)
    with np.errstate(all="ignore"):
        same(library.sweep("sweep_scale", "ldexp", [x, e], np.float64)[0], np.ldexp(x, e))
        same(library.sweep("sweep_scale", "scalbn", [x, e], np.float64)[0], np.ldexp(x, e))
        f, e = mh.any_floats(1 << 16, 10), np.resize(e, 1 << 16) // 5
        same(library.sweep("sweep_scalef", "ldexpf", [f, e], np.float32)[0], np.ldexp(f, e))


def _nearest(value: Fraction, digits: int, least: int, top: float) -> float:
    """A rational number rounded once to so many binary digits, the last of them 2**least or more."""
    sign = -1 if value < 0 else 1
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()  # this or one less
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    rounded = round(size / unit) * unit
    return sign * float(rounded) if rounded <= top else sign * math.inf


def _expected_fma(x: float, y: float, z: float, digits: int, least: int, top: float) -> float:
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y + z
    if not math.isfinite(z):
        return z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact != 0:
        return _nearest(exact, digits, least, top)
    opposite = math.copysign(1, x) * math.copysign(1, y) != math.copysign(1, z)
    return 0.0 if opposite else math.copysign(0, z)


DOUBLE, FLOAT = (53, -1074, mh.MOST), (24, -149, (2 - 2.0**-23) * 2.0**127)


finite = st.floats(allow_nan=False, allow_infinity=False)
near = st.builds(math.ldexp, st.integers(-(1 << 53), 1 << 53), st.integers(-1074, 100))


@examples(500)
@given(x=finite | near, y=finite | near, z=finite | near, back=st.sampled_from([0, 1, -1, 2.0**-53, None]))
@example(x=2.0**-537, y=2.0**-538, z=0.0, back=None)
@example(x=2.0**-537, y=-(2.0**-537), z=5e-324, back=None)
def test_fma(library: mh.Math, x: float, y: float, z: float, back: float | None) -> None:
    if back is not None and math.isfinite(x * y):
        z = -(x * y) * (1 + back)  # cancels all or nearly all
    if not math.isfinite(z):
        z = 1.0
    got = library("fma", *(np.array([v]) for v in (x, y, z)))
    same(got, np.array([_expected_fma(x, y, z, *DOUBLE)]))


floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


@examples(400)
@given(x=floats, y=floats, z=floats, cancels=st.booleans())
def test_fmaf(library: mh.Math, x: float, y: float, z: float, cancels: bool) -> None:
    with np.errstate(all="ignore"):
        if cancels and np.isfinite(np.float32(x * y)):
            z = float(-np.float32(x * y))
        got = library("fma", *(np.array([v], np.float32) for v in (x, y, z)))
        same(got, np.array([_expected_fma(x, y, z, *FLOAT)], np.float32))


def test_fma_of_special_values(library: mh.Math) -> None:
    for kind, dtype in ((DOUBLE, np.float64), (FLOAT, np.float32)):
        numbers = np.array([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, kind[2], 2.0 ** kind[1]])
        x, y, z = (a.ravel() for a in np.meshgrid(numbers, numbers, numbers))
        want = [
            _expected_fma(a, b, c, *kind) for a, b, c in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)
        ]
        got = library("fma", *(a.astype(dtype) for a in (x, y, z)))
        with np.errstate(invalid="ignore"):
            same(got, np.array(want, dtype))


def test_the_controllers_division(library: mh.Math) -> None:
    with np.errstate(all="ignore"):
        for x, y in mh.operands(1 << 17):
            same(library.sweep("sweep_2", "fw_divide", [x, y], np.float64)[0], x / y)
            f, g = x.astype(np.float32), y.astype(np.float32)
            same(library.sweep("sweep_2f", "fw_divide_float", [f, g], np.float32)[0], f / g)
        f, g = mh.any_floats(FLOATS, 12), mh.any_floats(FLOATS, 13)
        same(library.sweep("sweep_2f", "fw_divide_float", [f, g], np.float32)[0], f / g)


# ---- special values ----


def test_special_values_of_two(library: mh.Math) -> None:
    x, y = (a.ravel() for a in np.meshgrid(mh.SPECIAL, mh.SPECIAL))
    for name in ("atan2", "hypot"):
        _measure(mh.ulps(library(name, x, y), library.exact(name, x, y)), DOUBLE_ULPS, name, x, y)
    with np.errstate(all="ignore"):  # numpy's own error comes to ours
        power = np.power(x, y).astype(np.longdouble)
    _measure(mh.ulps(library("pow", x, y), power), 1 + DOUBLE_ULPS, "pow", x, y)


def test_an_invalid_operation_gives_one_nan(library: mh.Math) -> None:
    for name, x in (
        ("sqrt", -1.0),
        ("log", -1.0),
        ("sin", math.inf),
        ("acos", 2.0),
        ("acosh", 0.5),
        ("atanh", -2.0),
    ):
        assert library(name, np.array([x])).view(np.uint64)[0] == 0x7FF8 << 48, name
        assert library(name, np.array([x], np.float32)).view(np.uint32)[0] == 0x7FC0 << 16, name
    for name, x, y in (("pow", -1.0, 0.5), ("fmod", 1.0, 0.0), ("remainder", math.inf, 1.0)):
        assert library(name, np.array([x]), np.array([y])).view(np.uint64)[0] == 0x7FF8 << 48, name


def test_macros_and_constants(library: mh.Math) -> None:
    for x in mh.SPECIAL:
        denormal = 0 < abs(x) < 2.0**-1022
        kind = 0 if math.isnan(x) else 1 if math.isinf(x) else 2 if x == 0 else 3 if denormal else 4
        common = (
            math.isnan(x) << 4 | math.isinf(x) << 5 | math.isfinite(x) << 6 | (math.copysign(1, x) < 0) << 7
        )
        want = kind | common | (kind == 4) << 8 | (x == math.inf) << 9 | math.isnan(x) << 10 | (x < 0) << 11
        assert library.call("classified", ctypes.byref(ctypes.c_double(x))) == want, x
    for x, kind, rest in (
        (2.0**-149, 3, 1 << 6),
        (math.inf, 1, 1 << 5 | 1 << 9 | 1 << 11),
        (-1.0, 4, 1 << 6 | 1 << 7 | 1 << 8),
    ):
        assert library.call("classified_float", ctypes.byref(ctypes.c_float(x))) == kind | rest | 1 << 10
    numbers = [
        math.e,
        1 / math.log(2),
        1 / math.log(10),
        math.log(2),
        math.log(10),
        math.pi,
        math.pi / 2,
        math.pi / 4,
    ]
    numbers += [1 / math.pi, 2 / math.pi, 2 / math.sqrt(math.pi), math.sqrt(2), math.sqrt(0.5)]
    got = library.sweep("sweep_1", "constant", [np.arange(float(len(numbers)))], np.float64)[0]
    assert np.abs(got / numbers - 1).max() < 3e-16


# ---- the same bits ----


def everything(library: mh.Math, count: int) -> dict[str, bytes]:
    """Results of all functions, on a few times `count` arguments each."""
    results = {}
    with np.errstate(all="ignore"):
        for name in mh.ONE:
            x = np.concatenate([*mh.samples(name, count), mh.SPECIAL])
            results[name] = library(name, x).tobytes() + library(name, x.astype(np.float32)).tobytes()
        for name in mh.TWO:
            special = [a.ravel() for a in np.meshgrid(mh.SPECIAL, mh.SPECIAL)]
            for i, (x, y) in enumerate([*mh.pairs(name, count), special]):
                f = library(name, x.astype(np.float32), y.astype(np.float32))
                results[f"{name} {i}"] = library(name, x, y).tobytes() + f.tobytes()
    return results


LEVELS = (("-O0",), ("-O1",), ("-O2",), ("-O3", "-march=native"))
EVERY = [(compiler, level) for compiler in fh.compilers() for level in LEVELS]
FEW = [EVERY[0], EVERY[3], EVERY[-2]]  # the first compiler's least and most, and another one


@pytest.mark.slow
@pytest.mark.parametrize("builds", [FEW, EVERY], ids=("few", "every"))
def test_every_compiler_and_level_gives_the_same_bits(
    tmp_path: Path, builds: list[tuple[str, tuple[str, ...]]]
) -> None:
    libraries = []
    for compiler, level in builds:
        folder = tmp_path / f"{compiler}{level[0]}"
        folder.mkdir()
        libraries.append(mh.Math(lh.build(compiler, folder, "libc_math_fixture.c", mh.SOURCES, *level)))
    first, *rest = (everything(library, 2000) for library in libraries)
    assert len(first) > 80
    for other in rest:
        assert [name for name in first if first[name] != other[name]] == []


def test_no_undefined_behaviour(tmp_path: Path) -> None:
    """The undefined-behaviour sanitizer's traps stay silent on all those arguments."""
    compiler = next(iter(fh.compilers()))
    trap = {"gcc": "-fsanitize-undefined-trap-on-error"}.get(compiler, "-fsanitize-trap=undefined")
    flags = ("-fsanitize=undefined", "-fno-sanitize=float-divide-by-zero", trap, "-fno-wrapv")
    library = mh.Math(lh.build(compiler, tmp_path, "libc_math_fixture.c", mh.SOURCES, *flags))
    assert len(everything(library, 2000)) > 80


def test_it_compiles_for_the_controller(tmp_path: Path) -> None:
    sources = [*mh.SOURCES, SOURCE_FILES / "libc_math_fixture.c"]
    command = [*lh.ARM, *(flag for flag in lh.FLAGS if flag != "-fPIC"), "-c", *map(str, sources)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=lh.LIMIT)
