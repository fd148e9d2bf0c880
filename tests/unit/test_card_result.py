"""Results of a card: what is read, what is refused, and what is said of them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from firmware_sim.errors import ModelError, TpulayerError, UsageError
from user_layers.card.explain import as_json, as_text, explain
from user_layers.card.result import MAX_BYTES, Result, read_result

Record = dict[str, Any]
HASH = "ab" * 32
GOOD: list[Record] = [
    {
        "kind": "pack",
        "id": "abc",
        "tool": "tpulayer 1",
        "runs": 3,
        "repeats": 5,
        "load_firmware": False,
        "load_first": False,
        "firmware_path": None,
        "machine": "aarch64",
    },
    {"kind": "library", "name": "bmrt", "path": "/opt/libbmrt.so", "bytes": 5, "sha256": HASH},
    {"kind": "file", "path": "/proc/bmsophon/driver_version", "text": "release version: 0.5.1\u000a"},
    {"kind": "device", "device": 2, "status": 0},
    {"kind": "info", "call": "bm_get_chipid", "status": 0, "value": 0x1684},
    {"kind": "info", "call": "bm_get_fan", "status": 9},
    {"kind": "memory", "call": "bm_memcpy_d2s_partial", "status": 0, "bytes": 1024, "different": 0},
    {"kind": "model", "model": 0, "file": "models/0.bmodel", "loaded": True, "us": 4},
]


def output(run: int, again: int = 0, **changes: Any) -> Record:
    return {
        "kind": "output",
        "run": run,
        "output": 0,
        "round": again,
        "name": "y",
        "dtype": 0,
        "shape": [1, 128, 2, 2],
        "shape_fits": True,
        "sha256": HASH,
        "elements": 512,
        "different": 0,
        **changes,
    }


def different(run: int, again: int = 0, **changes: Any) -> Record:
    """Channels 3 and 67, one element of each."""
    names = ("nan_missing", "nan_appeared", "nan_bits", "infinite", "zero_signs", "untouched")
    how = {
        **dict.fromkeys(names, 0),
        "different": 2,
        "max_abs": 0.5,
        "max_value": 2.0,
        "max_ulp": 1 << 22,
        "first_index": [12, 268],
        "first_expected_bits": [0x3FC00000, 0],
        "first_got_bits": [0x40000000, 1],
        "axis0_count": 1,
        "axis0": [0],
        "axis1_count": 2,
        "axis1": [3, 67],
        "axis2_count": 1,
        "axis2": [0],
        "axis3_count": 1,
        "axis3": [0],
    }
    return output(run, again, **{**how, "sha256": "cd" * 32, **changes})


def planned(number: int, what: str) -> Record:
    title = f"{number:03d} thing (TPU_THING)" if what == "layer" else what
    about = {"what": what, "net": title, "stage": 0, "title": title, "outputs": ["y"]}
    return {"kind": "planned", "run": number, "model": 0, **about}


def run(number: int, what: str, *outputs: Record, times: bool = True) -> list[Record]:
    """Of one launch or of three, as its outputs are."""
    launches = 3 if any(output["round"] for output in outputs) else 1
    us = {"host_us": [5, 3, 4][:launches], "device_us": [2] * launches}
    ending = [{"kind": "times", "run": number, **us}] if times else []
    return [planned(number, what), {"kind": "run", "run": number}, *outputs, *ending]


def end(reason: str = "finished", number: int = 0, step: str = "bm_dev_free") -> Record:
    return {"kind": "end", "reason": reason, "number": number, "step": step}


def whole(*records: Record) -> dict[str, Any]:
    """With as many runs in the pack as there are planned."""
    count = sum(record["kind"] == "planned" for record in records)
    pack = {**GOOD[0], "runs": count}
    return {"format": "tpulayer result", "version": 1, "records": [pack, *GOOD[1:], *records]}


def result_of(tmp_path: Path, *records: Record) -> Result:
    (tmp_path / "result.json").write_text(json.dumps(whole(*records)))
    return read_result(tmp_path)


def said(tmp_path: Path, *records: Record) -> str:
    """All that compare prints; not equal."""
    found = explain(result_of(tmp_path, *records))
    assert not found.good and not json.loads(as_json(found))["equal"]
    return as_text(found)


EQUAL = [
    *run(0, "layer", output(0), output(0, 1)),
    *run(1, "whole", output(1)),
    *run(2, "net", output(2), output(2, 1)),
]


def test_equal(tmp_path: Path) -> None:
    found = explain(result_of(tmp_path, *EQUAL, end()))
    assert found.good and found.verdict == "equal: all bits of 3 runs"
    text = as_text(found)
    assert "device 2: chipid 0x1684\n" in text and "driver_version: release version: 0.5.1\n" in text
    assert "net: 0.004 ms on the host's clock, median of 3; 0.002 ms on the device's" in text
    assert "send back" not in text and not found.advice


def test_the_first_layer_is_named(tmp_path: Path) -> None:
    text = said(
        tmp_path,
        *run(0, "layer", output(0)),
        *run(1, "layer", different(1)),
        *run(2, "layer", different(2)),
        *run(3, "whole", different(3)),
        end(),
    )
    assert text.startswith("the first layer that differs: 001 thing (TPU_THING)\n")
    assert "output y [1, 128, 2, 2] float32: 2 of 512 elements differ" in text
    assert "n: all 1; c: 2 of 128 (3, 67); h: 1 of 2 (0); w: 1 of 2 (0)" in text
    assert "lanes: 3 of 64" in text
    assert "at [0, 3, 0, 0]: expected 1.5 (0x3fc00000), got 2 (0x40000000)" in text
    assert "2 layers of 3 by itself: 001 thing (TPU_THING), 002 thing (TPU_THING);" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_ulp": 1, "max_abs": 1e-7}, "how: rounding, at most 1 ulp and 1e-07 apart"),
        ({"max_ulp": 5, "max_abs": 1e-6}, "how: small differences"),
        ({}, "how: other values altogether"),
        ({"untouched": 2}, "how: nobody wrote there"),
        ({"zero_signs": 2, "max_abs": 0, "max_ulp": 0}, "how: only the signs of zeros\n"),
        ({"nan_bits": 2, "max_abs": 0}, "how: only the bits of NaN\n"),
        ({"nan_appeared": 1}, "how: NaN where numbers were expected"),
        ({"nan_missing": 1}, "how: numbers where NaN was expected"),
        ({"infinite": 1, "max_abs": None}, "how: infinities on one side only"),
        ({"dtype": 2, "max_abs": 3.0, "first_got_bits": [0x80, 255]}, "how: integers, at most 3 apart"),
        ({"dtype": 2, "first_got_bits": [0x80, 255]}, "got -128"),
        ({"dtype": 1, "first_got_bits": [0x3E00, 255]}, "got 1.5 (0x3e00)"),
        ({"shape_fits": False}, "not the shape that was expected"),
    ],
)
def test_how_it_differs(tmp_path: Path, changes: Record, words: str) -> None:
    assert words in said(tmp_path, *run(0, "net", different(0, **changes)), end())


@pytest.mark.parametrize(
    ("runs", "advice"),
    [
        ([("layer", output), ("whole", output), ("net", different)], "look at groups in local memory"),
        ([("layer", output), ("whole", different), ("net", different)], "each layer by itself is right"),
        ([("net", different)], "compile with layers=True"),
    ],
)
def test_where_to_look(tmp_path: Path, runs: list[tuple[str, Any]], advice: str) -> None:
    records = [record for i, (what, make) in enumerate(runs) for record in run(i, what, make(i))]
    text = said(tmp_path, *records, end())
    assert advice in text and "send back:" in text


def test_bits_that_vary(tmp_path: Path) -> None:
    text = said(tmp_path, *run(0, "net", output(0), different(0, 1)), end())
    assert "y: other bits in a later launch of the same net on the same inputs" in text
    assert "the same launch gives different bits" in text


def test_what_did_not_finish(tmp_path: Path) -> None:
    hang = end("step limit", 9, "bm_thread_sync after net 'net', stage 0")
    text = said(tmp_path, *EQUAL[:4], *run(1, "whole", times=False), hang)
    assert text.startswith(
        "first failed: whole; the check was stopped because one call did not return in: bm_"
    )
    assert "it did not come to an end" in text and "--step-limit" in text and "dmesg" in text
    assert "3 of" not in said(tmp_path, end("signal", 11, "bmrt_create"))
    assert said(tmp_path, end("exit", 1, "bmrt_create")).startswith(
        "nothing was run; the check ended by itself"
    )
    stopped = (*EQUAL[:5], planned(1, "whole"), planned(2, "net"), end("lost"))
    assert said(tmp_path, *stopped).startswith("1 run of 3 equal; the check ended: lost")


def test_devices_and_models_that_fail(tmp_path: Path) -> None:
    refused = {"kind": "model", "model": 1, "file": "models/1.bmodel", "loaded": False, "us": 4}
    assert said(tmp_path, refused, end()).startswith("not run: models/1.bmodel was not loaded")
    bad = copy.deepcopy(GOOD)
    bad[6]["different"] = 3
    bad[0]["runs"] = 3
    (tmp_path / "result.json").write_text(json.dumps({**whole(), "records": [*bad, *EQUAL, end()]}))
    assert "3 of 1024 bytes came back wrong" in explain(read_result(tmp_path)).verdict
    firmware = {"kind": "firmware", "status": 2}
    assert "okkernel_load_firmware failed (status 2)" in said(tmp_path, *EQUAL, firmware, end())
    skipped = {"kind": "skipped", "model": 1, "file": "models/1.bmodel"}
    assert "dynamic nets were left out (models/1.bmodel)" in said(tmp_path, *EQUAL, skipped, end())


def test_of_another_pack(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": "tpulayer pack", "id": "xyz"}')
    folder = tmp_path / "result"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps(whole(*EQUAL, end())))
    found = explain(read_result(tmp_path))
    assert not found.good and not json.loads(as_json(found))["equal"]
    assert (
        found.verdict == f"not comparable: this result is of another pack than {tmp_path}, in which it lies"
    )
    assert found.advice == ["copy the result into its own pack, or give result.json alone"]
    for other in ('{"id": "xyz"}', '{"format": "tpulayer pack", "id": "abc"}', "[]", "no JSON"):
        (tmp_path / "manifest.json").write_text(other)
        assert explain(read_result(tmp_path)).good


def test_kinds_of_later_versions_are_passed_over(tmp_path: Path) -> None:
    assert explain(result_of(tmp_path, *EQUAL, {"kind": "weather", "sun": True}, end())).good


# ---- what is missing, and what is there twice ----


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [
        (
            {"kind": "output", "run": 0, "round": 0},
            ["000 thing (TPU_THING): output y after the first launch"],
        ),
        ({"kind": "output", "run": 2, "round": 1}, ["net: output y after the last launch"]),
        ({"kind": "output", "run": 1}, ["whole: output y after the first launch"]),
        ({"kind": "times", "run": 1}, ["whole: the times of its launches"]),
        ({"run": 2}, ["net: the whole run"]),
        (
            {"kind": "output"},
            [
                "000 thing (TPU_THING): output y after the first launch",
                "000 thing (TPU_THING): output y after the last launch",
                "whole: output y after the first launch",
                "net: output y after the first launch",
                "net: output y after the last launch",
            ],
        ),
        ({"kind": "memory"}, ["the copies to the device's memory and back"]),
        ({"kind": "device"}, ["whether the device could be opened"]),
    ],
)
def test_missing_records(tmp_path: Path, left_out: Record, missing: list[str]) -> None:
    records = [
        record
        for record in whole(*EQUAL, end())["records"]
        if record["kind"] == "planned" or not left_out.items() <= record.items()
    ]
    (tmp_path / "result.json").write_text(json.dumps({**whole(), "records": records}))
    found = explain(read_result(tmp_path))
    assert not found.good and json.loads(as_json(found))["missing"] == missing
    many = f"{len(missing)} record{'s' * (len(missing) > 1)}"
    assert found.verdict == f"incomplete: {many} missing in result.json, first: {missing[0]}"
    assert all(f"\n  {line}" in as_text(found) for line in missing) and not found.differences
    assert any("copy result.json once more" in line for line in found.advice)


def test_a_difference_is_told_before_what_is_missing(tmp_path: Path) -> None:
    text = said(tmp_path, *run(0, "net", different(0)), planned(1, "net"), end())
    assert text.startswith("first differs: net\n") and "missing:\n  net: the whole run" in text


def test_runs_of_a_model_that_was_refused_are_not_missing(tmp_path: Path) -> None:
    refused = {"kind": "model", "model": 1, "file": "models/1.bmodel", "loaded": False, "us": 4}
    other = {**planned(3, "net"), "model": 1}
    assert not result_of(tmp_path, *EQUAL, other, refused, end()).missing
    skipped = {"kind": "skipped", "model": 1, "file": "models/1.bmodel"}
    assert not result_of(tmp_path, *EQUAL, other, skipped, end()).missing
    assert result_of(tmp_path, *EQUAL, other, end()).missing == ["net: the whole run"]
    firmware = {"kind": "firmware", "status": 2}
    assert not result_of(tmp_path, *EQUAL, other, firmware, end()).missing


def test_records_that_are_there_twice(tmp_path: Path) -> None:
    """Each of those of which there is one."""
    records = whole(*EQUAL, {"kind": "firmware", "status": 0}, end())["records"]
    several = ("library", "file", "info")
    for index, record in enumerate(records):
        twice = [*records[: index + 1], record, *records[index + 1 :]]
        (tmp_path / "result.json").write_text(json.dumps({**whole(), "records": twice}))
        if record["kind"] in several:
            assert explain(read_result(tmp_path)).good
        else:
            with pytest.raises(
                ModelError, match=rf"record {index + 1} \({record['kind']}\): it is there twice"
            ):
                read_result(tmp_path)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (output(0, output=1), "output 1, 'y', was not planned"),
        (output(1, 1, name="z"), "output 0, 'z', was not planned"),
        (output(7), "there is no run 7"),
        ({"kind": "run", "run": 3}, "run 3 was not planned"),
        ({"kind": "times", "run": 9, "host_us": [1], "device_us": []}, "there is no run 9"),
    ],
)
def test_records_of_nothing_planned(tmp_path: Path, record: Record, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        result_of(tmp_path, *EQUAL, record, end())
    assert words in caught.value.message


@pytest.mark.parametrize("numbers", [(0, 1), (0, 1, 3), (0, 1, 2, 3), ()])
def test_plans_that_are_not_the_packs(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    records = [{**GOOD[0], "runs": 3}, *GOOD[1:], *(planned(number, "net") for number in numbers), end()]
    (tmp_path / "result.json").write_text(json.dumps({**whole(), "records": records}))
    with pytest.raises(ModelError, match=rf"plans {len(numbers)} runs?, the pack has 3"):
        read_result(tmp_path)


# ---- what is refused ----


def test_nothing_there(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "is no result"), (tmp_path / "absent", "is not there")):
        with pytest.raises(UsageError, match=words):
            read_result(path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(UsageError, match="has no result yet"):
        read_result(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a whole result"),
        ("\x00\xff", "is not a whole result"),
        ("[" * 200_000, "is not a whole result"),
        ('{"format":"tpulayer result","version":1,"records":[{"kind":"pa', "is not a whole result"),
        ("9" * 10_000, "is not a"),
        ("[]", "is not a result of a pack"),
        ("null", "is not a result of a pack"),
        ('{"format": "tpulayer pack", "version": 1}', "is not a result of a pack"),
        ('{"format": "tpulayer result", "version": 2}', "is of version 2; this tpulayer reads version 1"),
        ('{"format": "tpulayer result", "version": {}}', "is of version {}"),
        ('{"format": "tpulayer result", "version": 1}', "has no records"),
        ('{"format": "tpulayer result", "version": 1, "records": [7]}', "record 0 is none"),
        ('{"format": "tpulayer result", "version": 1, "records": []}', "does not say how the check ended"),
        (
            '{"format": "tpulayer result", "version": 1, "records": [{"kind": "\xff"}]}',
            "is not a whole result",
        ),
    ],
)
def test_no_results(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError) as caught:
        read_result(file)
    assert words in caught.value.message and len(caught.value.message) < 400


def test_a_file_without_end(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    with file.open("wb") as sparse:
        sparse.truncate(MAX_BYTES + 1)
    with pytest.raises(ModelError, match="a result has at most"):
        read_result(file)


NONSENSE: list[Any] = [
    None,
    -1,
    1 << 70,
    1e300,
    "x",
    "\x1b[31mred",
    [],
    [1] * 3000,
    {"a": 1},
    True,
    float("nan"),
]


def test_every_member_may_be_nonsense(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One at a time, and missing: an error of one line, or an explanation that a terminal can show."""
    folder = tmp_path_factory.mktemp("nonsense")
    good = whole(*run(0, "layer", different(0)), end())["records"]
    tried = 0
    for index, record in enumerate(good):
        for key in record:
            for value in [*NONSENSE[tried % 2 :: 2], ...]:
                broken = {k: v for k, v in record.items() if k != key} | (
                    {} if value is ... else {key: value}
                )
                records = [*good[:index], broken, *good[index + 1 :]]
                (folder / "result.json").write_text(json.dumps({**whole(), "records": records}))
                tried += 1
                try:
                    text = as_text(explain(read_result(folder)))
                except TpulayerError as error:
                    text = str(error)
                    assert error.exit_code in (1, 2) and error.message.count("\n") == 0
                assert "\x1b" not in text
    assert tried > 400
