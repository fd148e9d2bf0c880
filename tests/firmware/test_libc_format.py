"""Formatting: printf's conversions against Python's % operator and the machine's own snprintf."""

from __future__ import annotations

import ctypes
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import firmware_harness as fh
from tests.support import libc_harness as lh
from tests.support.examples import examples

CAPACITY = 4096
system = ctypes.CDLL(None)


@pytest.fixture(scope="module", params=fh.COMPILERS)
def libc(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lh.Libc:
    folder = tmp_path_factory.mktemp("libc")
    return lh.Libc(lh.build(request.param, folder, "libc_fixture.c", lh.SOURCES))


def formatted(libc: lh.Libc, function: str, form: str, *args: object) -> str:
    buffer = ctypes.create_string_buffer(b"\xee" * CAPACITY, CAPACITY)
    length = libc.call(function, buffer, CAPACITY, form.encode(), *args)
    assert buffer.value == buffer.raw[:length]
    return buffer.value.decode("latin-1")


def systems(form: str, *args: object) -> str:
    buffer = ctypes.create_string_buffer(CAPACITY)
    system.snprintf(buffer, ctypes.c_size_t(CAPACITY), form.encode(), *args)
    return buffer.value.decode("latin-1")


flags = st.lists(st.sampled_from("-+ #0"), max_size=3).map("".join)
widths = st.one_of(st.just(""), st.integers(1, 40).map(str))
precisions = st.one_of(st.just(""), st.just("."), st.integers(0, 40).map(".{}".format))
doubles = st.one_of(
    st.floats(),
    st.floats(-1000, 1000),
    st.integers(-10000, 10000).map(lambda n: n / 8),  # halves to round
    st.integers(-400, 400).map(lambda n: float(f"1e{n}")),
    st.integers(0, (1 << 64) - 1).map(lambda bits: struct.unpack("d", struct.pack("Q", bits))[0]),
)


@examples(1500)
@given(value=doubles, flag=flags, width=widths, precision=precisions, kind=st.sampled_from("fFeEgG"))
def test_floats(libc: lh.Libc, value: float, flag: str, width: str, precision: str, kind: str) -> None:
    form = f"[%{flag}{width}{precision}{kind}]"
    got = formatted(libc, "format_double", form, ctypes.byref(ctypes.c_double(value)))
    assert got == systems(form, ctypes.c_double(value))
    if not math.isnan(value):  # Python shows no sign of one, and of an infinity no spaces for zeros
        assert got == (form % value if math.isfinite(value) or "0" not in flag else got)


@pytest.mark.parametrize(
    "value", [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.5, 2.5, 0.0, 1 / 3]
)
@pytest.mark.parametrize(
    "form", ["%.1100f", "%.0f", "%.1080e", "%.3000g", "%#.0e", "%#.0f", "%#.0g", "%+.800g"]
)
def test_all_digits(libc: lh.Libc, value: float, form: str) -> None:
    pointer = ctypes.byref(ctypes.c_double(value))
    assert formatted(libc, "format_double", form, pointer) == systems(form, ctypes.c_double(value))


integers = st.one_of(
    st.integers(0, 300), st.integers(0, (1 << 64) - 1), st.integers(0, 64).map(lambda n: (1 << n) - 1)
)
LENGTHS = {"hh": "c_byte", "h": "c_short", "": "c_int", "l": "c_long", "ll": "c_longlong", "j": "c_longlong"}
LENGTHS |= {"z": "c_ssize_t", "t": "c_ssize_t"}


@examples(1000)
@given(
    value=integers,
    flag=flags,
    width=widths,
    precision=precisions,
    length=st.sampled_from(list(LENGTHS)),
    kind=st.sampled_from("diuxXo"),
)
def test_integers(
    libc: lh.Libc, value: int, flag: str, width: str, precision: str, length: str, kind: str
) -> None:
    form = f"[%{flag}{width}{precision}{length}{kind}]"
    function, argument = "format_wide", ctypes.byref(ctypes.c_uint64(value))
    got = formatted(libc, function, form, argument)
    assert got == systems(form, ctypes.c_uint64(value))
    if kind in "di":
        number = getattr(ctypes, LENGTHS[length])(value).value
        assert int(got[1:-1] or "0") == number if precision not in (".", ".0") else True


@examples(300)
@given(
    text=st.one_of(st.none(), st.binary(max_size=30).map(lambda b: b.replace(b"\0", b"x"))),
    minus=st.sampled_from(["", "-"]),
    width=widths,
    precision=precisions,
)
def test_text(libc: lh.Libc, text: bytes | None, minus: str, width: str, precision: str) -> None:
    form = f"[%{minus}{width}{precision}s]"
    got = formatted(libc, "format_text", form, text)
    assert got == systems(form, text)
    if text is not None:
        assert got.encode("latin-1") == form.encode() % text


@examples(100)
@given(value=st.integers(0, (1 << 64) - 1), width=widths, minus=st.sampled_from(["", "-"]))
def test_pointers_and_characters(libc: lh.Libc, value: int, width: str, minus: str) -> None:
    wide = ctypes.byref(ctypes.c_uint64(value))
    assert formatted(libc, "format_wide", f"%{minus}{width}p", wide) == systems(
        f"%{minus}{width}p", ctypes.c_void_p(value)
    )
    character = value % 255 + 1
    assert formatted(libc, "format_ints", f"%{minus}{width}c%c", character, 66) == systems(
        f"%{minus}{width}c%c", character, 66
    )


@examples(100)
@given(width=st.integers(-50, 50), precision=st.integers(-5, 50), value=st.floats(-1e9, 1e9))
def test_stars(libc: lh.Libc, width: int, precision: int, value: float) -> None:
    numbers = (ctypes.c_int * 2)(width, precision)
    number = ctypes.c_double(value)
    got = formatted(libc, "format_starred", "[%*.*e]", numbers, ctypes.byref(number))
    assert got == systems("[%*.*e]", ctypes.c_int(width), ctypes.c_int(precision), number)


@examples(100)
@given(text=st.text("abc", max_size=20), width=st.integers(1, 60), capacity=st.integers(0, 50))
def test_what_does_not_fit_is_counted(libc: lh.Libc, text: str, width: int, capacity: int) -> None:
    buffer = ctypes.create_string_buffer(b"\xee" * 64, 64)
    form = f"<%{width}s>"
    length = libc.call("format_text", buffer, capacity, form.encode(), text.encode())
    whole = form % text
    assert length == len(whole)
    written = (whole[: capacity - 1] + "\0").encode() if capacity else b""
    assert buffer.raw == written + b"\xee" * (64 - len(written))


def test_limits(libc: lh.Libc) -> None:
    buffer = ctypes.create_string_buffer(8)
    for form in (b"%999999999s", b"%.999999999s", b"%99999999999999999999s"):
        assert libc.call("format_text", buffer, 8, form, b"x") == -1
    assert libc.call("format_text", buffer, 8, b"%134217728s", b"x") == 1 << 27
    assert libc.call("format_same", buffer, 8, b"%134217728d" * 15, 1) == 15 << 27
    assert libc.call("format_same", buffer, 8, b"%134217728d" * 16, 1) == -1
    numbers = (ctypes.c_int * 2)(-(1 << 31), 3)
    value = ctypes.c_double(1)
    assert libc.call("format_starred", buffer, 8, b"%*.*f", numbers, ctypes.byref(value)) == -1
    numbers = (ctypes.c_int * 2)(3, (1 << 31) - 1)
    assert libc.call("format_starred", buffer, 8, b"%*.*f", numbers, ctypes.byref(value)) == -1


def test_mixed_and_unknown_conversions(libc: lh.Libc) -> None:
    buffer = ctypes.create_string_buffer(200)
    length = libc.call("format_many", buffer)
    assert buffer.value == b"-1 -2 3 123456789abcdef0 -4 text  2.50|ab    |c%"
    assert length == len(buffer.value)
    for form in ("100%", "a%y %s", "%5", "%-+ #05.3llq%s"):
        assert formatted(libc, "format_text", form, b"x") == form


def test_the_log(libc: lh.Libc) -> None:
    libc.text("logged")
    assert libc.call("log_text", b"<%s>\n", b"text") == 7
    assert libc.call("puts", b"100% puts") >= 0
    assert libc.call("putchar", 0x141) == 0x41
    assert libc.call("putchar", 0) == 0
    assert libc.text("logged") == "<text>\n100% puts\nA"
    long = "0123456789" * 45
    assert libc.call("log_text", b"%s", long.encode()) == 450
    assert libc.text("logged") == long
