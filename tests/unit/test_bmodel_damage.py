"""Damaged, foreign and hostile bmodels: one ModelError each, in bounded time and memory."""

from __future__ import annotations

import importlib
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import ModelError
from tests.support.bmodel_samples import dynamic_net, static_net
from tests.support.examples import examples
from user_layers.bmodel import read, write
from user_layers.bmodel.generated.Binary import BinaryT
from user_layers.bmodel.generated.CpuParam import CpuParamT
from user_layers.bmodel.generated.Model import ModelT
from user_layers.bmodel.generated.Shape import ShapeT
from user_layers.bmodel.generated.SubNet import SubNetT

GOOD = write([static_net(2, 3), dynamic_net()], created=0)
TABLE_BYTES = struct.unpack_from("<4I", GOOD)[2]


def header(**changes: int) -> bytes:
    fields = dict(zip(("magic", "header", "table", "binary"), struct.unpack_from("<4I", GOOD), strict=True))
    return struct.pack("<4I", *(fields | changes).values()) + GOOD[16:]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "truncated bmodel: 0 bytes, its header alone has 64"),
        (GOOD[:3], "truncated bmodel: 3 bytes"),
        (b"\x7fELF" + bytes(100), "not a bmodel: starts with 0x464c457f, not 0xff55aaee"),
        (header(magic=0xFF55AAFF), "older bmtap2 kind"),
        (GOOD[:63], "truncated bmodel: 63 bytes"),
        (header(header=128), "header of 128 bytes, not 64"),
        (GOOD[: 64 + TABLE_BYTES - 1], f"flatbuffer to byte {64 + TABLE_BYTES}, file of {63 + TABLE_BYTES}"),
        (GOOD[:-1], "truncated bmodel: binary data to byte"),
        (GOOD + b"more", "4 bytes follow its end"),
        (header(table=4, binary=len(GOOD) - 68), "flatbuffer has only 4 bytes"),
        (header(table=0xFFFF_FFFF), "truncated bmodel: flatbuffer to byte 4294967359"),
    ],
)
def test_header(data: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(data)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "short.bmodel"
    path.write_bytes(GOOD[:10])
    with pytest.raises(ModelError, match=r"short\.bmodel: truncated bmodel: 10 bytes"):
        read(path)


def test_every_truncation_is_refused() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(ModelError):
            read(GOOD[:size])
        if size >= 64 + 8:  # the same flatbuffer cut, with a header that agrees
            table = min(size - 64, TABLE_BYTES - 1)
            with pytest.raises(ModelError):
                read(struct.pack("<4I48x", 0xFF55AAEE, 64, table, 0) + GOOD[64 : 64 + table])


def changed(change: Callable[[ModelT], None], monkeypatch: pytest.MonkeyPatch) -> bytes:
    """GOOD with its tables changed before they are packed."""
    pack = ModelT.Pack

    def changing(self: ModelT, builder: flatbuffers.Builder) -> Any:
        change(self)
        return pack(self, builder)

    monkeypatch.setattr(ModelT, "Pack", changing)
    return write([static_net(2, 3), dynamic_net()], created=0)


def _set(path: str, value: Any) -> Callable[[ModelT], None]:
    """Set an attribute such as "net.0.parameter.0.ctxSize"."""

    def change(model: ModelT) -> None:
        *steps, last = path.split(".")
        here: Any = model
        for step in steps:
            here = here[int(step)] if step.isdigit() else getattr(here, step)
        setattr(here, last, value)

    return change


def _shape(*dims: int) -> list[ShapeT]:
    shape = ShapeT()
    shape.dim = list(dims)
    return [shape]


def _cpu_subnet() -> SubNetT:
    subnet = SubNetT()
    subnet.subnetMode = 1
    param = CpuParamT()
    param.binaryParam = BinaryT()
    param.binaryParam.start, param.binaryParam.size = 0, 1 << 40
    subnet.cpuParam = [param]
    return subnet


P = "net.0.parameter.0"
S = f"{P}.subNet.0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("chip", "BM1684X"), "for the chip 'BM1684X'; this is a BM1684"),
        (_set("version", "2.3"), r"version 2\.3 is newer than what this tpulayer reads \(2\.0 to 2\.2\)"),
        (_set("version", "3.0"), "is newer"),
        (_set("version", "1.9"), "is older"),
        (_set("version", "two"), "version 'two'"),
        (_set("version", "2.2 v1.30"), "version '2.2 v1.30'"),
        (_set("version", "2.3+v1.30"), "is newer"),
        (_set("type", "A"), "bmodel of type 'A'"),
        (_set("net", []), "it has no net"),
        (_set("net", None), "net: required field is missing"),
        (_set("chip", None), "chip: required field is missing"),
        (_set("net.1.name", "twice"), "two nets have the same name"),
        (_set("net.0.parameter", None), "net 'twice' has no stage"),
        (
            _set(f"{P}.inputTensor", None),
            r"net\[0\]\.parameter\[0\]\.input_tensor: required field is missing",
        ),
        (_set(f"{P}.inputTensor.0.shape", None), "tensor 'x' has no shape"),
        (_set(f"{P}.inputTensor.0.shape", _shape(*[1] * 9)), r"input_tensor\[0\]: 9 dimensions, at most 8"),
        (_set(f"{P}.inputTensor.0.shape", _shape(2, 0)), r"tensor 'x' has the shape \[2, 0\]"),
        (_set(f"{P}.outputTensor.0.shape", _shape(1 << 63)), "tensor 'y' has the shape"),
        (_set(f"{P}.coeffMem.binaryCoeff.size", 1 << 63), r"coeff_mem\.binary_coeff: bytes 0 to 9223"),
        (_set(f"{P}.coeffMem.checkCode", [1] * 31), "31 bytes, a SHA-256 has 32"),
        (_set(f"{P}.coeffMem.checkCode", [1] * 32), "do not have their stored SHA-256"),
        (_set(f"{S}.cmdGroup.0.gdmaNum", 3), r"cmd_group\[0\]\.binary_gdma: 256 bytes, and 3 descriptors"),
        (_set(f"{S}.cmdGroup.0.bdcNum", 1), r"binary_bdc: 0 bytes, and 1 descriptors"),
        (_set(f"{P}.netStat.start", 1 << 40), r"net_stat: bytes 1099511627776 to"),
        (_set(f"{P}.ctxSizes", [1] * 65), "65 blocks, at most 64"),
        (_set(f"{P}.subNet", [_cpu_subnet()]), r"cpu_param\[0\]\.binary_param: bytes 0 to"),
        (_set("net.1.parameter.0.subNet.0.irLen", 1000), r"sub_net\[0\]: program to byte 4000 of binary_ir"),
    ],
)
def test_content(change: Callable[[ModelT], None], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = changed(change, monkeypatch)
    with pytest.raises(ModelError, match=message):
        read(data)


def _root() -> tuple[int, int, list[int]]:
    """Where in GOOD the root table's vtable begins, its size, and its fields' places in the table."""
    table = 64 + struct.unpack_from("<I", GOOD, 64)[0]
    vtable = table - struct.unpack_from("<i", GOOD, table)[0]
    (size,) = struct.unpack_from("<H", GOOD, vtable)
    return vtable, size, list(struct.unpack_from(f"<{size // 2 - 2}H", GOOD, vtable + 4))


def test_a_vtable_is_of_whole_entries() -> None:
    vtable, size, _ = _root()
    data = bytearray(GOOD)
    struct.pack_into("<H", data, vtable, size - 1)
    with pytest.raises(ModelError, match=f"vtable of Model at byte {vtable - 64} has size {size - 1}"):
        read(bytes(data))


def test_fields_lie_inside_their_table() -> None:
    vtable, _, slots = _root()
    last = max(slots)
    data = bytearray(GOOD)
    struct.pack_into("<H", data, vtable + 2, last + 3)  # the last field has 4 bytes
    with pytest.raises(ModelError, match=f"field at byte {last} of a table of {last + 3} bytes"):
        read(bytes(data))


def test_the_version_of_the_compiler_may_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    version = "2.2+v1.30.2-20260831"
    assert read(changed(_set("version", version), monkeypatch)).version == version


def test_lengths_of_programs_may_count_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    words = read(GOOD).nets[1].stages[0].subnets[0].ir_len
    data = changed(_set("net.1.parameter.0.subNet.0.irLen", 4 * words), monkeypatch)
    assert read(data).nets[1].stages[0].subnets[0].ir_len == words


def test_a_hash_of_constants_too_long_for_the_vendors_counter_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = changed(_set(f"{P}.coeffMem.checkCode", [1] * 32), monkeypatch)
    monkeypatch.setattr(importlib.import_module("user_layers.bmodel.read"), "UNCHECKED_BYTES", 32)
    assert read(data).nets[0].stages[0].coeff is not None


def _file(builder: flatbuffers.Builder, binary: bytes = b"") -> bytes:
    table = bytes(builder.Output())
    return struct.pack("<4I48x", 0xFF55AAEE, 64, len(table), len(binary)) + table + binary


class WiderBuilder(flatbuffers.Builder):  # type: ignore[misc]  # untyped package
    """Writes every table as a newer tool might: with one more field than the schema knows."""

    def StartObject(self, numfields: int) -> None:
        self.fields = numfields
        super().StartObject(numfields + 3)

    def EndObject(self) -> Any:
        self.PrependUint32Slot(self.fields + 2, 7, 0)
        return super().EndObject()


def test_unknown_fields_are_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flatbuffers, "Builder", WiderBuilder)
    wide = write([static_net(2, 3), dynamic_net()], created=0)
    assert len(wide) > len(GOOD)
    assert read(wide) == read(GOOD)


def test_objects_shared_over_and_over_are_refused_quickly() -> None:
    """A small file in which every vector holds one object a thousand times would unfold to 10^9 tables."""
    builder = flatbuffers.Builder(0)

    def many(offset: int) -> int:
        builder.StartVector(4, 1000, 4)
        for _ in range(1000):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    def table(slots: int, **at: int) -> int:
        builder.StartObject(slots)
        for slot, offset in at.items():
            builder.PrependUOffsetTRelativeSlot(int(slot[1:]), offset, 0)
        return int(builder.EndObject())

    texts = {name: builder.CreateString(name) for name in ("B", "2.2", "now", "BM1684", "n")}
    tensor = table(13, s0=texts["n"])
    tensors = many(tensor)
    parameters = many(table(20, s0=tensors, s1=tensors))
    nets = many(table(6, s0=texts["n"], s3=parameters))
    root = table(9, s0=texts["B"], s1=texts["2.2"], s2=texts["now"], s3=texts["BM1684"], s4=nets)
    builder.Finish(root)
    start = time.process_time()
    with pytest.raises(ModelError, match="objects are shared over and over"):
        read(_file(builder))
    assert time.process_time() - start < 5


def test_pieces_that_overlap_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(model: ModelT) -> None:
        group = model.net[0].parameter[0].cmdGroup[0]
        groups = []
        for start in range(100):
            made = type(group)()
            made.gdmaNum = 3
            made.binaryGdma = type(group.binaryGdma)()
            made.binaryGdma.start, made.binaryGdma.size = start, 3 * 128
            groups.append(made)
        model.net[0].parameter[0].cmdGroup = groups

    data = changed(change, monkeypatch)
    with pytest.raises(ModelError, match="overlap over and over"):
        read(data)


def _reads_or_refuses(data: bytes) -> None:
    start = time.process_time()
    try:
        read(data)
    except ModelError as error:
        assert len(str(error)) < 2000
    assert time.process_time() - start < 10


@examples(400)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_bytes_set_anywhere(changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    for at, value in changes:
        data[at] = value
    _reads_or_refuses(bytes(data))


@examples(400)
@given(
    st.integers(0, TABLE_BYTES // 4 - 1),
    st.one_of(
        st.integers(0, 64),
        st.integers(0, 0xFFFF_FFFF),
        st.sampled_from([0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF]),
    ),
)
def test_words_of_the_flatbuffer_set(word: int, value: int) -> None:
    data = bytearray(GOOD)
    struct.pack_into("<I", data, 64 + 4 * word, value)
    _reads_or_refuses(bytes(data))


@examples(100)
@given(st.binary(max_size=400))
def test_any_bytes_as_flatbuffer(table: bytes) -> None:
    _reads_or_refuses(struct.pack("<4I48x", 0xFF55AAEE, 64, len(table), 0) + table)
