"""Calls and vector files as others write them: names in any order, damaged files, hostile values."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firmware_sim import vectors
from firmware_sim.errors import DeviceError, UsageError
from tests.support.damaged_arrays import OPEN_HEADER
from tests.support.golden_vectors import FOLDER, lines
from user_layers.cli.main import run as cli
from user_layers.encode import conformance, isa
from user_layers.encode.encoder import Encoder

RELU = {"dst_addr": 0, "src_addr": 4096, "shape": [1, 64, 4, 4], "dst_stride": None, "src_stride": None}
SELECT = next(e for e in lines("okk_encode") if e["fn"] == "okk_bdc_greater_select")["args"]
CONV = next(lines("bm_atomic"))["args"]
SET = {"dst_addr": 0, "C": "0x10", "shape": [1, 1, 1, 1], "dst_stride": None}
ARRAYS = dict[str, npt.NDArray[Any]]


@pytest.fixture(scope="module")
def encoder() -> Iterator[Encoder]:
    with Encoder() as opened:
        yield opened


def test_arguments_go_by_name(encoder: Encoder) -> None:
    turned = dict(reversed(RELU.items()))
    assert list(turned) != list(RELU)
    assert encoder.run([("okk_bdc_relu", turned)]) == encoder.run([("okk_bdc_relu", RELU)])


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        ("okk_bdc_relu", {**RELU, "src": 1}, "okk_bdc_relu takes ['dst_addr'"),
        ("okk_bdc_relu", {"dst_addr": 0}, "not ['dst_addr']"),
        ("okk_bdc_relu", {**RELU, "dst_addr": (1 << 32) + 128}, "dst_addr: 4294967424 is outside"),
        ("okk_bdc_relu", {**RELU, "dst_addr": -128}, "dst_addr: -128 is outside"),
        ("okk_bdc_relu", {**RELU, "dst_addr": 1.5}, "dst_addr: 1.5 is not an integer"),
        ("okk_bdc_relu", {**RELU, "shape": [1, 64, 4]}, "[1, 64, 4] is not null or a list of 4 numbers"),
        ("okk_bdc_relu", {**RELU, "shape": [1, 64, 4, 1 << 32]}, "shape: 4294967296 is outside"),
        ("okk_bdc_relu", {**RELU, "shape": "1"}, "shape: '1' is not null or a list"),
        ("okk_bdc_add_C", {**RELU, "C": "1"}, "C: '1' is not a number"),
        ("okk_bdc_add_C", {**RELU, "C": 1e39}, "C: float too large"),
        ("okk_gdma_8bit_set_C_local", {**SET, "C": "0x100"}, "C: 256 is outside 0..255"),
        ("okk_bdc_greater_select", {**SELECT, "src0": {"bits": "0"}}, "src0: {'bits': '0'} is not"),
        ("okk_bdc_greater_select", {**SELECT, "src0": {"is_addr": 2, "bits": "0"}}, "src0: 2 is outside"),
        ("bm_atomic_conv", {**CONV, "pad": [0, 0]}, "pad: [0, 0] is not a list of 4 numbers"),
        ("bm_atomic_conv", {**CONV, "output_c": -1}, "output_c: "),
        ("bm_atomic_conv", {**CONV, "extra": 1}, "fields ['extra'] are missing or not known"),
        ("okk_bdc_no_such", {}, "okk_bdc_no_such is not a function of the kernel API"),
        ("okk_poll", [1], "args is [1], not an object"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(encoder: Encoder, function: str, args: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        encoder.run([(function, args)])
    assert message in caught.value.message
    assert caught.value.message.startswith(function)


def test_a_refusal_names_the_function_and_no_file_of_this_toolkit(encoder: Encoder) -> None:
    with pytest.raises(DeviceError) as caught:
        encoder.run([("okk_bdc_relu", {**RELU, "dst_addr": 2})])
    assert caught.value.message == "okk_bdc_relu: destination address 0x2 is not a multiple of 4"


def test_encoded_sequences_have_what_each_call_issued(tmp_path: Path) -> None:
    known = list(lines("okk_sequences"))
    assert any(call["parallel"] and call["bd"] for line in known for call in line["seq"])
    source = tmp_path / "calls.jsonl"
    bare = [{"seq": [{"call": c["call"], "args": c["args"]} for c in line["seq"]]} for line in known]
    source.write_text("".join(json.dumps(line) + "\n" for line in bare))
    made = [json.loads(text) for text in isa.encoded(source)]
    assert [line["seq"] for line in made] == [line["seq"] for line in known]
    for line in made:
        assert line["bd"] == [d for call in line["seq"] for d in call["bd"]]
        assert len(line["order"]) == len(line["bd"]) + len(line["gdma"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"fn": "okk_poll"}', "calls.jsonl:1 has no args"),
        ('{"fn": 5, "args": {}}', "calls.jsonl:1: fn is 5, not the name of a function"),
        ('{"fn": ["okk_poll"], "args": {}}', "fn is ['okk_poll'], not the name of a function"),
        ('{"seq": 5}', "calls.jsonl:1: seq is not a list of calls"),
        ('{"seq": [5]}', "calls.jsonl:1: call 1 of the sequence is not an object"),
        ('{"seq": [{"fn": "okk_poll"}]}', "call 1 of the sequence has no call and no args"),
        ("[1]", "calls.jsonl:1: not a JSON object"),
    ],
)
def test_lines_that_are_no_calls(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "calls.jsonl").write_text(line + "\n")
    assert cli(["isa", "encode", str(tmp_path / "calls.jsonl")]) == 2
    assert message in capsys.readouterr().err


def test_an_empty_sequence_issues_nothing(tmp_path: Path) -> None:
    (tmp_path / "calls.jsonl").write_text('{"seq": []}\n')
    (made,) = (json.loads(text) for text in isa.encoded(tmp_path / "calls.jsonl"))
    assert made == {
        "seq": [], "gdma": [], "bd": [], "order": [], "ids_before": [0, 0], "ids_after": [0, 0]
    }  # fmt: skip


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    descriptor = next(e for e in lines("okk_encode") if e["fn"] == "okk_bdc_add")["bd"][0]
    for words in (["list"], ["show", "ar.add"], ["decode", descriptor]):
        assert cli(["isa", *words, "--json"]) == 0
        assert isinstance(json.loads(capsys.readouterr().out), dict)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes are not a number of descriptors of 128 bytes"),
        (b"\n", "1 bytes are not a number of descriptors of 128 bytes"),
        (b"00" * 128 + b"\nab12\n", ":2: 4 hex digits; a descriptor has 256"),
        (b"\x80" * 100, "100 bytes are not a number of descriptors"),
    ],
)
def test_files_that_are_no_descriptors(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "some.hex").write_bytes(content)
    assert cli(["isa", "decode", str(tmp_path / "some.hex")]) == 2
    assert message in capsys.readouterr().err


def test_ids_before_the_call_count(tmp_path: Path, encoder: Encoder) -> None:
    made = encoder.run([("okk_set_id_node", {"node": [3, 7, 0]}), ("okk_bdc_relu", RELU)])
    assert made.ids == [4, 7]
    vector = {"fn": "okk_bdc_relu", "args": RELU, "bd": made.bd, "gdma": [], "ids_before": [3, 7]}
    (tmp_path / "okk_encode.jsonl").write_text(json.dumps({**vector, "ids_after": [4, 7]}) + "\n")
    assert conformance.run(tmp_path, lambda _: None).as_json()["passed"] == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"fn": "okk_bdc_no_such", "args": {}}, "is not a function of the kernel API"),
        ({"fn": "okk_bdc_relu", "args": {"what": 1}}, "okk_bdc_relu takes"),
        ({"fn": "okk_poll", "args": {}}, "accepted"),
    ],
)
def test_a_call_that_cannot_be_made_is_not_a_refused_call(
    line: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "okk_encode_rejected.jsonl").write_text(json.dumps(line) + "\n")
    report = conformance.run(tmp_path, lambda _: None)
    assert report.failed == 1
    assert message in next(report.all()).failures[0]


# ---- executions ----


def _one_case(folder: Path, change: Callable[[ARRAYS], object] | None = None, meta: str = "") -> Path:
    """A folder with the first execution of the golden set, its arrays changed."""
    (folder / "exec").mkdir()
    with np.load(FOLDER / "exec" / "okk.npz") as whole:
        arrays: ARRAYS = {}
        for key in ("in", "out"):
            mine = whole[f"{key}_reg"][:, 0] == 0
            sizes = whole[f"{key}_reg"][:, 3]
            arrays[f"{key}_reg"] = whole[f"{key}_reg"][mine]
            arrays[f"{key}_bytes"] = whole[f"{key}_bytes"][np.repeat(mine, sizes)]
        mine = whole["desc_case"] == 0
        for key in ("desc", "desc_engine", "desc_case"):
            arrays[key] = whole[key][mine]
    if change is not None:
        change(arrays)
    with open(folder / "exec" / "some.npz", "wb") as file:
        np.savez(file, allow_pickle=True, **arrays)
    (folder / "exec" / "index_some.jsonl").write_text(meta or '{"case": 0, "cls": "first"}\n')
    return folder


def test_one_execution(tmp_path: Path) -> None:
    data = conformance.run(_one_case(tmp_path), lambda _: None).as_json()
    assert (data["passed"], data["failed"], data["refused"]) == (1, 0, 0)


def _set(key: str, at: tuple[int, ...], value: int) -> Callable[[ARRAYS], object]:
    return lambda arrays: arrays[key].__setitem__(at, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("in_reg", (0, 1), 3), "of space 3"),
        (_set("in_reg", (0, 1), -1), "of space -1"),
        (_set("out_reg", (0, 2), -4), "at -4 of space"),
        (_set("out_reg", (0, 2), 1 << 40), "is outside the"),
        (_set("out_reg", (0, 3), 1 << 40), "out_reg has a region of"),
        (_set("out_reg", (0, 3), 0), "out_bytes has"),
        (_set("out_reg", (0, 0), 9), "out_reg names case 9, which the index does not have"),
        (_set("desc_engine", (0,), 7), "desc_engine holds 7"),
        (_set("desc_case", (0,), 5), "desc_case names case 5"),
        (lambda a: a.update(desc=a["desc"][:, :100]), "not rows of 128 bytes"),
        (lambda a: a.update(desc=a["desc"].astype(float)), "desc is float64"),
        (lambda a: a.update(out_bytes=a["out_bytes"].astype(object)), "Object arrays cannot be loaded"),
        (lambda a: a.pop("in_reg"), "in_reg"),
        (lambda a: a.update(out_reg=a["out_reg"][:0], out_bytes=a["out_bytes"][:0]), "no memory after it"),
    ],
)
def test_damaged_executions(
    change: Callable[[ARRAYS], object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(["conformance", str(_one_case(tmp_path, change)), "--json"]) == 2
    said = capsys.readouterr()
    assert "some" in said.err and message in said.err
    assert not said.out


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ('{"cls": "first"}\n', "index_some.jsonl:1: no case"),
        ('{"case": 0, "cls": 5}\n', "index_some.jsonl:1: no case"),
        ('{"case": 0, "cls": "a"}\n{"case": 0, "cls": "a"}\n', "index_some.jsonl:2: case 0 is there twice"),
        ('{"case": 0, "cls": "a"}\n{"case": 1, "cls": "a"}\n', "case some[1] has no descriptor"),
    ],
)
def test_damaged_indices(meta: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        conformance.run(_one_case(tmp_path, None, meta), lambda _: None)
    assert message in caught.value.message


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"\x93NUMPY\x01\x00v\x00{}", None])
def test_files_that_are_no_archives(content: bytes | None, tmp_path: Path) -> None:
    path = _one_case(tmp_path) / "exec" / "some.npz"
    path.write_bytes(path.read_bytes()[:200] if content is None else content)
    with pytest.raises(UsageError, match="does not hold executions"):
        vectors.executions(tmp_path, "some")
    shutil.copy(path, tmp_path / "exec" / "l2_lut.npz")
    with pytest.raises(UsageError, match="does not hold the tables"):
        vectors.l2_tables(tmp_path)


def test_an_archive_whose_array_has_no_header(tmp_path: Path) -> None:
    path = _one_case(tmp_path) / "exec" / "some.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("desc.npy", OPEN_HEADER)
    with pytest.raises(UsageError, match="does not hold executions"):
        vectors.executions(tmp_path, "some")


def test_executions_that_unpack_to_more_than_any_have(tmp_path: Path) -> None:
    path = _one_case(tmp_path) / "exec" / "some.npz"
    with np.load(path) as found:
        arrays = dict(found)
    arrays["in_reg"] = np.zeros((1 << 23, 4), np.int64)
    np.savez_compressed(path, allow_pickle=False, **arrays)
    with pytest.raises(UsageError, match=r"its arrays have 2[0-9]+ bytes, at most 268435456"):
        vectors.executions(tmp_path, "some")


@pytest.mark.parametrize("absent", ["some.npz", "index_some.jsonl"])
def test_executions_lack_a_file(absent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (_one_case(tmp_path) / "exec" / absent).unlink()
    assert cli(["conformance", str(tmp_path)]) == 2
    assert f"has no {absent}" in capsys.readouterr().err


def test_the_folders_tables_are_those_that_its_executions_read(tmp_path: Path) -> None:
    """A lookup into a table of the folder's own."""
    with np.load(FOLDER / "exec" / "l2_lut.npz") as arrays:
        own = arrays["l2"].copy()
    own[0x400:0x800] = 0x11
    calls = {"dst_addr": 0, "src_addr": 4096, "shape": [1, 1, 1, 1]}
    with Encoder() as encoder:
        (descriptor,) = encoder.run([("okk_bdc_lookup_exp", calls)]).bd

    def lookup(arrays: ARRAYS) -> None:
        arrays["desc"] = np.frombuffer(bytes.fromhex(descriptor), np.uint8).reshape(1, 128)
        arrays["desc_engine"], arrays["desc_case"] = np.zeros(1, int), np.zeros(1, int)
        arrays["in_reg"], arrays["in_bytes"] = np.array([[0, 0, 4096, 4]]), np.zeros(4, np.uint8)
        arrays["out_reg"], arrays["out_bytes"] = np.array([[0, 0, 0, 4]]), np.full(4, 0x11, np.uint8)

    _one_case(tmp_path, lookup)
    assert conformance.run(tmp_path, lambda _: None).failed == 1
    np.savez(tmp_path / "exec" / "l2_lut.npz", l2=own)
    assert conformance.run(tmp_path, lambda _: None).as_json()["passed"] == 1


def test_words_that_are_nan_are_equal_and_bytes_behind_the_last_word_count() -> None:
    nans = np.array([0x7FC00000, 0xFFC00001], np.uint32).view(np.uint8)
    got, want = np.append(nans[:4], [1, 2]).astype(np.uint8), np.append(nans[4:], [1, 2]).astype(np.uint8)
    assert vectors.same_bits(got, want)
    assert not vectors.same_bits(got, np.append(nans[4:], [1, 3]).astype(np.uint8))
    assert not vectors.same_bits(got, want[:5])
