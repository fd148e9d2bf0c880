"""The controller's C library on an emulated ARM926EJ-S: the same answers as the native build."""

from __future__ import annotations

import ctypes
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.firmware.test_libc_math import everything, same
from tests.support import firmware_harness as fh
from tests.support import libc_arm as la
from tests.support import libc_harness as lh
from tests.support import libc_math_harness as mh

COMPILER = next(iter(fh.compilers()))


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> la.Arm:
    machine = la.Arm(la.link(tmp_path_factory.mktemp("arm"), "libc_fixture.c", lh.SOURCES))
    machine.watch_alignment()
    return machine


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> lh.Libc:
    return lh.Libc(lh.build(COMPILER, tmp_path_factory.mktemp("native"), "libc_fixture.c", lh.SOURCES))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O1", "-O2", "-Os"])
def test_mathematics_has_the_same_bits(level: str, tmp_path: Path) -> None:
    there = la.ArmMath(la.link(tmp_path, "libc_math_fixture.c", mh.SOURCES, level))
    here = mh.Math(lh.build(COMPILER, tmp_path, "libc_math_fixture.c", mh.SOURCES))
    want, got = everything(here, 300), everything(there, 300)
    assert [name for name in want if want[name] != got[name]] == []


@pytest.mark.slow
def test_more_mathematics_has_the_same_bits(tmp_path: Path) -> None:
    there = la.ArmMath(la.link(tmp_path, "libc_math_fixture.c", mh.SOURCES))
    here = mh.Math(lh.build(COMPILER, tmp_path, "libc_math_fixture.c", mh.SOURCES))
    rng = np.random.default_rng(8)
    x, y, z = (rng.integers(0, 1 << 64, 3000, dtype=np.uint64).view(np.float64) for _ in range(3))
    with np.errstate(over="ignore", invalid="ignore"):
        z[:1000] = -x[:1000] * y[:1000]
    e = rng.integers(-2300, 2300, 3000).astype(np.int32)
    sweeps: list[tuple[str, str, list[mh.Array], list[object]]] = [
        ("sweep_3", "fma", [x, y, z], [np.float64]),
        ("sweep_scale", "ldexp", [x, e], [np.float64]),
        ("sweep_frexp", "frexp", [x], [np.float64, np.int32]),
        ("sweep_modf", "modf", [x], [np.float64, np.float64]),
        ("sweep_integer", "llround", [np.concatenate([x, mh.SPECIAL])], [np.int64]),
        ("sweep_integer", "llrint", [np.concatenate([x, mh.SPECIAL])], [np.int64]),
        ("sweep_long", "lrint", [rng.uniform(-2e9, 2e9, 3000)], [np.int64]),
        ("sweep_ilogb", "ilogb", [x], [np.int64]),
    ]
    for loop, name, inputs, outputs in sweeps:
        want, got = (library.sweep(loop, name, inputs, *outputs) for library in (here, there))
        assert [a.tobytes() for a in want] == [a.tobytes() for a in got], name


def test_arithmetic_has_the_same_bits(tmp_path: Path) -> None:
    """Operators and conversions of doubles and floats, but for the sign and payload of new NaNs."""
    there = la.ArmMath(la.link(tmp_path, "libc_math_fixture.c", mh.SOURCES))
    here = mh.Math(lh.build(COMPILER, tmp_path, "libc_math_fixture.c", mh.SOURCES))
    rng = np.random.default_rng(9)
    ranges = {"i32": (-(2.0**31), 2.0**31 - 1), "u32": (0, 2.0**32 - 1), "i64": (-(2.0**63), 2.0**63 - 1024)}
    ranges["u64"] = (0, 2.0**64 - 4096)
    with np.errstate(all="ignore"):
        for x, y in mh.operands(2000):
            f, g = x.astype(np.float32), y.astype(np.float32)
            for name in ("plus", "minus", "times", "over"):
                same(there(name, x, y), here(name, x, y))
                same(there(name, f, g), here(name, f, g))
            same(there("through_float", x), here("through_float", x))
            ordered = [m.sweep("sweep_1", "ordered", [x], np.float64)[0] for m in (here, there)]
            same(*ordered)
        for kind, (low, high) in ranges.items():
            x = np.concatenate([rng.uniform(low, high, 2000), rng.uniform(max(low, -100), 100, 2000)])
            same(there(f"through_{kind}", x), here(f"through_{kind}", x))
            f = x.astype(np.float32)
            f = f[f.astype(np.float64) <= high]
            same(there(f"through_{kind}", f), here(f"through_{kind}", f))


def test_copies_of_every_alignment(arm: la.Arm) -> None:
    memory = random.Random(1).randbytes(256)
    for to in range(4):
        for start in range(4):
            for n in (*range(40), 63, 64, 65, 70):
                for name, source, target in (
                    ("memcpy", 128 + start, to),
                    ("memmove", start, to + 9),
                    ("memmove", start + 9, to),
                ):
                    arm.next = la.DATA
                    at = arm.place(memory)
                    assert arm.call(name, at + target, at + source, n) == at + target
                    want = memory[:target] + memory[source : source + n] + memory[target + n :]
                    assert arm.read(at, len(memory)) == want, (name, target, source, n)
    for to in range(4):
        for n in range(70):
            arm.write(at, memory)
            assert arm.call("memset", at + to, 0x1A5, n) == at + to
            assert arm.read(at, 256) == memory[:to] + b"\xa5" * n + memory[to + n :]
    assert arm.unaligned == []


def test_strings(arm: la.Arm) -> None:
    at = arm.place(b"the controller\0", 1)
    assert arm.call("strlen", at) == 14
    assert arm.call("strchr", at, ord("c")) == at + 4
    assert arm.call("strrchr", at, ord("o")) == at + 9
    assert arm.call("strstr", at, arm.place(b"troll\0", 3)) == at + 7
    assert arm.call("strcmp", at, arm.place(b"the contrary\0", 2)) == 1
    assert arm.call("memcmp", at, arm.place(b"the\xff", 2), 4) == (1 << 32) - 1
    assert arm.call("atoi", arm.place(b" -77x\0")) == (1 << 32) - 77
    assert arm.call("strtoul", arm.place(b"0xffffffff\0"), 0, 0) == (1 << 32) - 1
    assert arm.call("strtol", arm.place(b"-99999999999\0"), 0, 0) == 1 << 31
    words = [random.Random(2).randrange(-50, 50) for _ in range(40)]
    base = arm.place(struct.pack("<40i", *words))
    arm.call("sort_words", base, 40)
    assert list(struct.unpack("<40i", arm.read(base, 160))) == sorted(words)
    assert arm.unaligned == []


def test_formatting(arm: la.Arm, native: lh.Libc) -> None:
    rng = random.Random(3)
    doubles = [0.0, -0.0, 1 / 3, 1e300, 5e-324, float("inf"), float("nan"), 0.5, 1234.5]
    doubles += [rng.uniform(-1, 1) * 10.0 ** rng.randrange(-30, 30) for _ in range(40)]
    cases: list[tuple[str, str, bytes]] = []
    for value in doubles:
        for form in ("%f", "%.3f", "%e", "%g", "%+12.5g|", "%-15.0f|", "%#.10G", "%010.2E"):
            cases.append(("format_double", form, struct.pack("<d", value)))
    for bits in (0, 1, 77, 255, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1):
        for form in ("%lld", "%llu", "%llx", "%#llo", "%+20.5jd|", "%-20jX|"):
            cases.append(("format_wide", form, struct.pack("<Q", bits)))
    for function, form, argument in cases:
        arm.next = la.DATA
        text = arm.place(bytes(512))
        length = arm.call(function, text, 512, arm.place(form.encode() + b"\0"), arm.place(argument))
        buffer = ctypes.create_string_buffer(512)
        want = native.call(function, buffer, 512, form.encode(), argument)
        assert (length, arm.text(text)) == (want, buffer.value.decode()), (form, argument)
    text = arm.place(bytes(512))
    assert arm.call("format_many", text) == 48
    assert arm.text(text) == "-1 -2 3 123456789abcdef0 -4 text  2.50|ab    |c%"
    assert arm.call("format_ints", text, 512, arm.place(b"%ld %zx\0"), (1 << 32) - 5, 0xABC) == 6
    assert arm.text(text) == "-5 abc"
    assert arm.unaligned == []


def test_the_log(arm: la.Arm) -> None:
    arm.write(arm.symbols["logged"], b"\0")
    assert arm.call("log_text", arm.place(b"<%s>\n\0"), arm.place(b"text\0")) == 7
    arm.call("puts", arm.place(b"100%\0"))
    arm.call("putchar", ord("!"))
    assert arm.text(arm.symbols["logged"]) == "<text>\n100%\n!"


def test_the_heap_gives_the_same_places(arm: la.Arm, native: lh.Libc) -> None:
    """Headers have the same size, so that what fits natively fits on the controller."""
    size = 8192
    arm.next = la.DATA
    there = arm.place(bytes(size))
    memory = ctypes.create_string_buffer(size + 16)
    here = (ctypes.addressof(memory) + 15) & ~15
    arm.call("fw_heap_init", there, size)
    native.call("fw_heap_init", here, size)
    rng = random.Random(4)
    blocks: list[int] = []

    def both(name: str, block: int | None, *arguments: int) -> int | None:
        """The offset of the result in the heap, if there is one."""
        first = () if block is None else (block,)
        got = arm.call(name, *(there + b for b in first), *arguments)
        want = native.call(name, *(here + b for b in first), *arguments, result=ctypes.c_void_p)
        if name == "free":
            return None
        assert (got - there if got else None) == (want - here if want else None)
        return got - there if got else None

    for _ in range(500):
        n = rng.choice((0, 1, 16, 17, 100, 700))
        action = rng.randrange(4) if blocks else 0
        block = blocks.pop(rng.randrange(len(blocks))) if action > 1 else None
        if action == 0:
            moved = both("malloc", None, n)
        elif action == 1:
            moved = both("calloc", None, n, 3)
        elif action == 2:
            moved = both("realloc", block, n)
            moved = block if moved is None else moved
        else:
            moved = both("free", block)
        if moved is not None:
            blocks.append(moved)
    arm.call("made_to_fail", arm.functions["free"], there + 24)
    assert (
        arm.text(arm.symbols["failed"]) == "free: the pointer did not come from malloc, or was freed before"
    )
    assert arm.unaligned == []
