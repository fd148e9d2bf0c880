"""The controller's C library but for its mathematics: memory, strings, numbers, the heap."""

from __future__ import annotations

import ctypes
import itertools
import random
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.paths import SOURCES as SOURCE_FILES
from tests.support import firmware_harness as fh
from tests.support import libc_harness as lh
from tests.support.examples import examples

POINTER = ctypes.c_void_p
LONG_BITS = 8 * ctypes.sizeof(ctypes.c_long)


@pytest.fixture(scope="module", params=fh.COMPILERS)
def libc(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lh.Libc:
    folder = tmp_path_factory.mktemp("libc")
    return lh.Libc(lh.build(request.param, folder, "libc_fixture.c", lh.SOURCES))


def test_it_compiles_for_the_controller(tmp_path: Path) -> None:
    sources = [*lh.SOURCES, SOURCE_FILES / "libc_fixture.c"]
    command = [*lh.ARM, *(flag for flag in lh.FLAGS if flag != "-fPIC"), "-c", *map(str, sources)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=lh.LIMIT)


def test_headers_can_be_included_alone_and_twice(tmp_path: Path) -> None:
    for header in sorted((fh.SDK / "libc" / "include").glob("*.h")):
        source = tmp_path / f"{header.stem}.c"
        source.write_text(f"#include <{header.name}>\n" * 2)
        subprocess.run(
            [*lh.ARM, *lh.FLAGS, "-Wpedantic", "-std=c11", "-c", str(source)],
            cwd=tmp_path,
            check=True,
            timeout=lh.LIMIT,
        )


# ---- memory ----


def _moved(libc: lh.Libc, name: str, size: int, to: int, start: int, n: int) -> None:
    memory = bytes(random.Random(n).randbytes(size))
    buffer = ctypes.create_string_buffer(memory, size)
    base = ctypes.addressof(buffer)
    assert libc.call(name, base + to, base + start, n, result=POINTER) == base + to
    assert buffer.raw == memory[:to] + memory[start : start + n] + memory[to + n :]


@examples(300)
@given(to=st.integers(0, 40), start=st.integers(0, 40), n=st.integers(0, 150), overlap=st.booleans())
def test_memory_is_copied(libc: lh.Libc, to: int, start: int, n: int, overlap: bool) -> None:
    _moved(libc, "memcpy", 500, to, 250 + start, n)
    _moved(libc, "memmove", 500, 250 + to, start, n)
    _moved(libc, "memmove", 200, to, start, n)


def test_every_alignment_of_a_copy(libc: lh.Libc) -> None:
    for to in range(4):
        for start in range(4):
            for n in range(70):
                _moved(libc, "memcpy", 256, to, 128 + start, n)
                _moved(libc, "memmove", 128, to + 9, start + 9, n)


@examples(200)
@given(start=st.integers(0, 20), n=st.integers(0, 150), value=st.integers(-300, 300))
def test_memset(libc: lh.Libc, start: int, n: int, value: int) -> None:
    buffer = ctypes.create_string_buffer(b"\x55" * 200, 200)
    base = ctypes.addressof(buffer)
    assert libc.call("memset", base + start, value, n, result=POINTER) == base + start
    assert buffer.raw == b"\x55" * start + bytes([value & 255]) * n + b"\x55" * (200 - start - n)


few = st.binary(max_size=40).map(lambda b: bytes(x & 0x81 for x in b))  # many equal bytes, both signs
texts = few.map(lambda b: b.replace(b"\0", b"\x02"))


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


@examples(300)
@given(a=few, b=few, byte=st.integers(-1, 300))
def test_memory_is_compared_and_searched(libc: lh.Libc, a: bytes, b: bytes, byte: int) -> None:
    n = min(len(a), len(b))
    assert _sign(libc.call("memcmp", a, b, n)) == (a[:n] > b[:n]) - (a[:n] < b[:n])
    buffer = ctypes.create_string_buffer(a, len(a) + 1)
    base = ctypes.addressof(buffer)
    found = a.find(bytes([byte & 255]))
    assert libc.call("memchr", base, byte, len(a), result=POINTER) == (base + found if found >= 0 else None)


# ---- strings ----


@examples(300)
@given(a=texts, b=texts, n=st.integers(0, 50))
def test_strings_are_measured_and_compared(libc: lh.Libc, a: bytes, b: bytes, n: int) -> None:
    assert libc.call("strlen", a, result=ctypes.c_size_t) == len(a)
    assert libc.call("strnlen", a, n, result=ctypes.c_size_t) == min(n, len(a))
    assert _sign(libc.call("strcmp", a, b)) == (a > b) - (a < b)
    assert _sign(libc.call("strncmp", a, b, n)) == (a[:n] > b[:n]) - (a[:n] < b[:n])
    assert libc.call("strcmp", a, bytes(a)) == 0


@examples(300)
@given(a=texts, b=texts, n=st.integers(0, 50))
def test_strings_are_copied_and_joined(libc: lh.Libc, a: bytes, b: bytes, n: int) -> None:
    def run(name: str, *args: object) -> bytes:
        buffer = ctypes.create_string_buffer(b + b"\0" + b"\xee" * (199 - len(b)), 200)
        base = ctypes.addressof(buffer)
        assert libc.call(name, base, *args, result=POINTER) == base
        return buffer.raw

    after = (b + b"\0" + b"\xee" * 200)[:200]
    for name, args, text in (
        ("strcpy", (a,), a + b"\0"),
        ("strncpy", (a, n), a[:n] + b"\0" * (n - len(a))),
        ("strcat", (a,), b + a + b"\0"),
        ("strncat", (a, n), b + a[:n] + b"\0"),
    ):
        assert run(name, *args) == text + after[len(text) :], name


@examples(300)
@given(
    a=texts,
    part=st.binary(max_size=4).map(lambda b: bytes(x & 0x80 or 1 for x in b)),
    byte=st.integers(0, 300),
)
def test_strings_are_searched(libc: lh.Libc, a: bytes, part: bytes, byte: int) -> None:
    buffer = ctypes.create_string_buffer(a, len(a) + 1)
    base = ctypes.addressof(buffer)

    def found(name: str, what: bytes | int) -> int:
        at = libc.call(name, base, what, result=POINTER)
        return -1 if at is None else int(at) - base

    character = bytes([byte & 255])
    assert found("strstr", part) == a.find(part)
    assert found("strchr", byte) == (a + b"\0").find(character)
    assert found("strrchr", byte) == (a + b"\0").rfind(character)


# ---- numbers ----


def test_integers(libc: lh.Libc) -> None:
    for value in (0, 1, -1, 7, -(1 << 31) + 1, (1 << 31) - 1):
        assert libc.call("abs", value) == abs(value)
        assert libc.call("labs", value, result=ctypes.c_long) == abs(value)
    assert libc.call("llabs", -(1 << 62), result=ctypes.c_longlong) == 1 << 62
    result = (ctypes.c_int * 6)()
    for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2), (0, 5)):
        libc.call("divided", result, a, b)
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        assert list(result) == [quotient, a - quotient * b] * 3


def _parsed(text: str, base: int) -> tuple[int, int]:
    """The value before any limit, and the characters used."""
    at = len(text) - len(text.lstrip(" \t\n\v\f\r"))
    digits_at = at + (text[at : at + 1] in ("-", "+"))
    rest = text[digits_at:].lower()
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    if base in (0, 16) and rest.startswith("0x") and rest[2:3] and rest[2] in digits[:16]:
        base, digits_at = 16, digits_at + 2
    elif base == 0:
        base = 8 if rest.startswith("0") else 10
    end = digits_at
    while end < len(text) and text[end].lower() in digits[:base]:
        end += 1
    if end == digits_at:
        return 0, 0
    return (-1 if text[at] == "-" else 1) * int(text[digits_at:end], base), end


number_texts = st.one_of(
    st.text("0123456789abcxzXZ+- \t", max_size=12),
    st.integers(-(1 << 65), 1 << 65).map(str),
    st.sampled_from([1 << 31, 1 << 32, 1 << 63, 1 << 64]).flatmap(
        lambda edge: st.tuples(
            st.integers(edge - 2, edge + 2), st.sampled_from(["{}", "-{}", "{:#x}", "-{:#x}"])
        ).map(lambda pair: pair[1].format(pair[0]))
    ),
)


@examples(500)
@given(text=number_texts, base=st.sampled_from([0, 2, 8, 10, 16, 36]))
@example(text="0755", base=0)
@example(text="-0108", base=0)
@example(text="08", base=0)
def test_numbers_from_text(libc: lh.Libc, text: str, base: int) -> None:
    source = ctypes.create_string_buffer(text.encode())
    signed, unsigned = ctypes.c_longlong(), ctypes.c_ulonglong()
    ends = (ctypes.c_void_p * 2)()
    libc.call("parsed", source, base, ctypes.byref(signed), ctypes.byref(unsigned), ends)
    value, used = _parsed(text, base)
    start = ctypes.addressof(source)
    assert list(ends) == [start + used] * 2

    def near(bits: int) -> int:
        return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))

    def wrapped(bits: int) -> int:
        return value % (1 << bits) if abs(value) < 1 << bits else (1 << bits) - 1

    assert signed.value == near(64)
    assert unsigned.value == wrapped(64)
    assert libc.call("strtol", source, None, base, result=ctypes.c_long) == near(LONG_BITS)
    assert libc.call("strtoul", source, None, base, result=ctypes.c_ulong) == wrapped(LONG_BITS)
    if base == 10:
        assert libc.call("atoi", source) == near(32)
        assert libc.call("atol", source, result=ctypes.c_long) == near(LONG_BITS)
        assert libc.call("atoll", source, result=ctypes.c_longlong) == near(64)


@examples(200)
@given(values=st.lists(st.integers(-20, 20), max_size=60), key=st.integers(-25, 25))
def test_sorting_and_searching(libc: lh.Libc, values: list[int], key: int) -> None:
    array = (ctypes.c_int32 * len(values))(*values)
    libc.call("sort_words", array, len(values))
    assert list(array) == sorted(values)
    found = libc.call("search_words", ctypes.byref(ctypes.c_int32(key)), array, len(values), result=POINTER)
    assert (found is not None) == (key in values)
    if found is not None:
        assert ctypes.c_int32.from_address(found).value == key
    triples = [bytes([(v * v) & 255, v & 255, 7]) for v in values]
    buffer = ctypes.create_string_buffer(b"".join(triples), 3 * len(values) + 1)
    libc.call("sort_triples", buffer, len(values))
    assert buffer.raw[:-1] == b"".join(sorted(triples))


def test_random_numbers_repeat_after_their_seed(libc: lh.Libc) -> None:
    libc.call("srand", 12)
    first = [libc.call("rand") for _ in range(2000)]
    libc.call("srand", 12)
    assert [libc.call("rand") for _ in range(2000)] == first
    libc.call("srand", 13)
    assert [libc.call("rand") for _ in range(2000)] != first
    assert all(0 <= value < 1 << 31 for value in first)
    for bit in range(31):  # 6 sigma of a fair coin
        assert abs(sum(value >> bit & 1 for value in first) - 1000) < 6 * 500**0.5, bit


def test_abort_ends_the_request(libc: lh.Libc) -> None:
    assert "abort" in libc.failure("abort")


# ---- the heap ----

HEAP_BYTES = 16384


class Heap:
    """A heap in memory of the test, with what a correct one must hold."""

    def __init__(self, libc: lh.Libc, size: int = HEAP_BYTES, shift: int = 3) -> None:
        self.libc, self.blocks = libc, dict[int, bytes]()
        self.memory = ctypes.create_string_buffer(size + 64)
        self.start = ctypes.addressof(self.memory) + shift
        self.end = self.start + size
        libc.call("fw_heap_init", self.start, size)

    def fill(self, at: int, content: bytes) -> None:
        assert at % 16 == 0
        assert self.start <= at and at + len(content) <= self.end
        ctypes.memmove(at, content, len(content))
        self.blocks[at] = content

    def check(self) -> None:
        for at, content in self.blocks.items():
            assert ctypes.string_at(at, len(content)) == content
        places = sorted((at, at + len(content)) for at, content in self.blocks.items())
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(places))


@examples(60)
@given(seed=st.integers(0, 1 << 32), shift=st.integers(0, 15))
def test_the_heap_keeps_every_block_apart(libc: lh.Libc, seed: int, shift: int) -> None:
    random_ = random.Random(seed)
    heap = Heap(libc, shift=shift)
    largest = libc.call("malloc", HEAP_BYTES - 80, result=POINTER)
    assert largest is not None
    libc.call("free", largest)
    for _ in range(300):
        size = random_.choice((0, 1, 15, 16, 17, 100, 1000))
        action = random_.randrange(5)
        if action <= 1:
            name = ("malloc", "calloc")[action]
            at = libc.call(name, *((size,) if name == "malloc" else (size, 1)), result=POINTER)
            if at is None:
                assert sum(map(len, heap.blocks.values())) > HEAP_BYTES // 8
                continue
            if name == "calloc":
                assert ctypes.string_at(at, size) == bytes(size)
            heap.fill(at, random_.randbytes(size))
        elif heap.blocks:
            old = random_.choice(list(heap.blocks))
            content = heap.blocks[old]
            if action == 2:
                at = libc.call("realloc", old, size, result=POINTER)
                if at is None:
                    continue
                kept = min(size, len(content))
                assert ctypes.string_at(at, kept) == content[:kept]
                del heap.blocks[old]
                heap.fill(at, random_.randbytes(size))
            else:
                del heap.blocks[old]
                libc.call("free", old)
        heap.check()
    for at in random_.sample(list(heap.blocks), len(heap.blocks)):
        libc.call("free", at)
    assert libc.call("malloc", HEAP_BYTES - 80, result=POINTER) == largest, (
        "freed memory became one block again"
    )


def test_a_heap_that_is_full_or_absent(libc: lh.Libc) -> None:
    heap = Heap(libc, 256)
    for size in (257, 1 << 31, (1 << 32) + 8, (1 << 64) - 1, (1 << 64) - 16):
        assert libc.call("malloc", size, result=POINTER) is None
    assert libc.call("calloc", 1 << 33, 1 << 33, result=POINTER) is None
    block = libc.call("realloc", None, 8, result=POINTER)
    heap.fill(block, b"12345678")
    assert libc.call("realloc", block, 1 << 20, result=POINTER) is None
    heap.check()
    rest = libc.call("malloc", 160, result=POINTER)  # what was tried for the larger block is free again
    assert rest is not None
    libc.call("free", rest)
    libc.call("free", None)
    libc.call("fw_heap_init", heap.start, 20)
    assert libc.call("malloc", 1, result=POINTER) is None


def test_wrong_use_of_the_heap_is_noticed(libc: lh.Libc) -> None:
    heap = Heap(libc)
    a, b, c = (libc.call("malloc", 40, result=POINTER) for _ in range(3))
    assert libc.failure("free", b) == ""
    assert libc.failure("free", b) == "free: the block was freed before"
    assert libc.failure("realloc", b, 8) == "realloc: the block was freed before"
    foreign = ctypes.create_string_buffer(64)
    for pointer in (ctypes.addressof(foreign), a + 16, a + 1, heap.start - 16, heap.end + 32):
        assert (
            libc.failure("free", pointer) == "free: the pointer did not come from malloc, or was freed before"
        )
    assert libc.failure("free", a) == ""  # grows over b
    assert libc.failure("free", b) == "free: the pointer did not come from malloc, or was freed before"
    ctypes.memset(c, 0xAA, 41)  # one byte further than was asked for
    assert libc.failure("realloc", c, 8) == "realloc: memory was written beyond a block"
    assert libc.failure("free", c) == "free: memory was written beyond a block"
    assert libc.failure("fw_heap_check") == "malloc: memory was written beyond a block"


@pytest.mark.parametrize("size", [1, 16, 40, 100, 480])
@pytest.mark.parametrize("neighbour", ["none", "used", "free"])
def test_a_byte_beyond_a_block_is_noticed(libc: lh.Libc, size: int, neighbour: str) -> None:
    heap = Heap(libc)  # whose memory must live as long
    at = libc.call("malloc", size, result=POINTER)
    if neighbour != "none":
        behind, _ = (libc.call("malloc", 100, result=POINTER) for _ in range(2))
        if neighbour == "free":
            libc.call("free", behind)
    ctypes.memset(at, 0, size)
    assert libc.failure("fw_heap_check") == ""
    ctypes.memset(at + size, 0, 1)
    assert "written beyond" in libc.failure("fw_heap_check")
    assert "written beyond" in libc.failure("free", at)
    assert heap.start <= at < heap.end


def test_memory_that_is_written_after_it_was_freed(libc: lh.Libc) -> None:
    heap = Heap(libc)  # whose memory must live as long
    a, b, c, _ = (libc.call("malloc", 100, result=POINTER) for _ in range(4))
    libc.call("free", a)
    libc.call("free", c)
    ctypes.memset(a, 0x41, 16)
    assert "written beyond" in libc.failure("free", b)
    assert heap.start <= b < heap.end


def test_texts_are_copied_into_the_heap(libc: lh.Libc) -> None:
    heap = Heap(libc)  # whose memory must live as long
    copy = libc.call("strdup", b"some text", result=POINTER)
    assert ctypes.string_at(copy) == b"some text" and heap.start <= copy < heap.end
    assert ctypes.string_at(libc.call("strndup", b"some text", 4, result=POINTER)) == b"some"
    assert ctypes.string_at(libc.call("strndup", b"some text", 40, result=POINTER)) == b"some text"


def test_time_does_not_grow_with_the_number_of_blocks(libc: lh.Libc) -> None:
    """Of processor time; a heap that looks at every block would take 64 times as long."""
    heap = Heap(libc, 14 << 20)

    def seconds(count: int) -> float:
        begin = time.process_time()
        blocks = [libc.call("malloc", 16, result=POINTER) for _ in range(count)]
        for at in blocks[::2] + blocks[1::2]:
            libc.call("free", at)
        return (time.process_time() - begin) / count

    few = min(seconds(1000) for _ in range(3))
    assert seconds(64_000) < 16 * few
    assert heap.blocks == {}
