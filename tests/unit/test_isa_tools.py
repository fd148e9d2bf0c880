"""`isa` and `conformance`: what they print, and what they say to bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firmware_sim.instructions.table import TABLE
from tests.support.golden_vectors import FOLDER, lines
from user_layers.cli.main import run as cli
from user_layers.encode import conformance, isa

HEX = next(e for e in lines("okk_encode") if e["fn"] == "okk_bdc_add")["bd"][0]


def test_the_list_has_every_row_and_says_why_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["isa", "list"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) == len(TABLE)
    assert "local_arrange" in text and "[unverified: " in text
    assert cli(["isa", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["instructions"]
    assert [r["name"] for r in rows] == [i.name for i in TABLE]
    assert all(r["reason"] for r in rows if r["status"] == "unverified")


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["isa", "show", "conv.int8"]) == 0
    text = capsys.readouterr().out
    assert "selected by opt_res0_prec in 0" in text
    assert "tsk_typ:4" in text and "reason" not in text
    assert cli(["isa", "show", "conv.int7"]) == 2
    assert "did you mean conv.int8" in capsys.readouterr().err


def test_show_says_why_a_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    refused = next(i for i in TABLE if i.reason)
    assert cli(["isa", "show", refused.name]) == 0
    assert f"status: {refused.status.value}\nreason: {refused.reason}\n" in capsys.readouterr().out


def test_decode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["isa", "decode", HEX]) == 0
    one = capsys.readouterr().out
    assert "add" in one and "res0=" in one
    raw, text = tmp_path / "raw.bin", tmp_path / "text.hex"
    raw.write_bytes(bytes.fromhex(HEX) * 2)
    text.write_text(f"{HEX}\n{HEX}\n")
    for path in (raw, text):
        assert cli(["isa", "decode", str(path)]) == 0
        assert capsys.readouterr().out == one * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["decode", "00ff"], "neither a file nor 256 hex digits"),
        (["decode", HEX, "--engine", "tiu"], "engine 'tiu' does not exist"),
        (["show"], "isa show needs one more word"),
        (["encode", "nothing.jsonl"], "cannot be read"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["isa", *words]) == 2
    assert message in capsys.readouterr().err


def test_encode_adds_what_the_kernel_api_makes(tmp_path: Path) -> None:
    calls = [e for e in lines("okk_encode") if e["fn"] in ("okk_bdc_exp", "okk_gdma_32bit_cpy_S2L")]
    calls += [next(iter(lines("bm_atomic"))), next(iter(lines("okk_encode_rejected")))]
    source = tmp_path / "calls.jsonl"
    source.write_text("".join(json.dumps({"fn": c["fn"], "args": c["args"]}) + "\n" for c in calls))
    made = [json.loads(text) for text in isa.encoded(source)]
    for got, want in zip(made[:-1], calls[:-1], strict=True):
        for key in ("bd", "gdma", "order", "ids_after"):
            assert got[key] == want[key], want["fn"]
    assert "is not a multiple of 128" in made[-1]["refused"]


def test_encode_writes_a_whole_file_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "calls.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"fn": "okk_poll", "args": {}}\n{"what": 1}\n')
    assert cli(["isa", "encode", str(source), "--out", str(out)]) == 2
    assert "calls.jsonl:2" in capsys.readouterr().err
    assert not out.exists()


def test_conformance_of_the_golden_set() -> None:
    report = conformance.run(FOLDER, lambda _: None)
    data = report.as_json()
    assert data["failed"] == 0
    assert data["passed"] == 3032
    assert not data["absent"]
    refused = {name for names in report.parts.values() for name, t in names.items() if t.refused}
    assert refused == {"bm_atomic_sort", "bm_atomic_gather_data", "okk_l2_sram_addr"}


def test_conformance_finds_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = next(e for e in lines("okk_encode") if e["fn"] == "okk_bdc_add")
    wrong = "00" + line["bd"][0][2:]
    (tmp_path / "okk_encode.jsonl").write_text(json.dumps({**line, "bd": [wrong]}) + "\n")
    assert cli(["conformance", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "okk_encode.jsonl:1: bd differ" in text
    assert "not in the folder: bm_atomic" in text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("okk_encode.jsonl", "{nonsense\n", "okk_encode.jsonl:1: not JSON"),
        ("okk_encode.jsonl", "{}\n", "okk_encode.jsonl:1: not a vector of this kind"),
        ("other.txt", "", "holds no vectors"),
    ],
)
def test_conformance_of_bad_folders(
    name: str, content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(content)
    assert cli(["conformance", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert cli(["conformance", str(tmp_path / "absent")]) == 2
