"""Calibration tables: what is written is read, the vendor's format too, and what is none is told so."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import TpulayerError
from user_layers.quantize.table import Range, Table, read_table, write_table, write_vendor_table
from user_layers.quantize.thresholds import METHODS, Statistics, method_of

TABLE = Table(
    {"x": Range(-1.5, 2.25, 2.0, 0.75, (0.5, -0.25), (2.25, 0.0)), "t 1": Range(0.0, 6.0, 6.0)},
    {"method": "mse"},
)


def test_json_and_back(tmp_path: Path) -> None:
    write_table(TABLE, tmp_path / "t.json")
    found = read_table(tmp_path / "t.json")
    assert found.about == TABLE.about and found.ranges["x"] == TABLE.ranges["x"]
    assert math.isnan(found.ranges["t 1"].power) and found.ranges["t 1"].mean_square == 4.0


def test_the_vendors_format(tmp_path: Path) -> None:
    """Names are the tensor's and its operation's."""
    path = tmp_path / "t"
    path.write_text("# a comment\nx 2.0 -1.5 2.25\n\nout_1_Relu 6.0000000 0.0 6.0\nother 1 -1 1\n")
    found = read_table(path).for_tensors({"x", "out_1"})
    assert found.ranges["out_1"].threshold == 6.0
    assert set(found.ranges) == {"x", "out_1", "other"}
    write_vendor_table(found, path)
    assert {n: r.threshold for n, r in read_table(path).ranges.items()} == {
        "x": 2.0,
        "out_1": 6.0,
        "other": 1.0,
    }


def test_small_numbers_in_the_vendors_format(tmp_path: Path) -> None:
    """Seven decimals, as the vendor's own tables have them, where these say it."""
    path = tmp_path / "t"
    write_vendor_table(Table({"a": Range(-1.5, 2.0, 2.0), "b": Range(0.0, 4.9876543e-9, 4.9876543e-9)}), path)
    assert path.read_text().splitlines()[1:] == [
        "a 2.0000000 -1.5000000 2.0000000",
        "b 4.9876543e-09 0.0000000 4.9876543e-09",
    ]
    assert read_table(path).ranges["b"].threshold == 4.9876543e-9


@pytest.mark.parametrize("name", ["a b", "#a", "a\tb"])
def test_names_that_the_vendors_format_cannot_hold(tmp_path: Path, name: str) -> None:
    with pytest.raises(TpulayerError, match="has no place for a tensor called"):
        write_vendor_table(Table({"x": TABLE.ranges["x"], name: TABLE.ranges["x"]}), tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_names_that_go_on_are_other_tensors(tmp_path: Path) -> None:
    """A file's ranges of tensors that are gone are not those of tensors whose names theirs begin with, and in
    the vendor's tables only the operation is cut off, where the tensor has no range of its own."""
    lines = {"conv": 1.0, "conv_1": 2.0, "relu_Relu": 3.0, "conv_1_Conv": 4.0, "other_1_Conv": 5.0}
    ranges = {name: Range(-threshold, threshold, threshold) for name, threshold in lines.items()}
    names = {"conv", "relu", "other", "conv:part0"}
    plain = Table(ranges).for_tensors(names).ranges
    assert set(plain) == {*lines, "conv:part0"} and plain["conv"].threshold == 1.0
    path = tmp_path / "t"
    write_vendor_table(Table(ranges), path)
    write_table(read_table(path), tmp_path / "t.json")
    for table in (read_table(path), read_table(tmp_path / "t.json")):
        found = table.for_tensors(names).ranges
        assert found["conv"].threshold == 1.0 and found["relu"].threshold == 3.0 and "other" not in found


GOOD: dict[str, Any] = {
    "format": "tpulayer calibration table",
    "version": 1,
    "tensors": {"x": {"threshold": 1.0, "min": -1.0, "max": 1.0}},
}


def test_ranges_of_what_became_part_of_others(tmp_path: Path) -> None:
    """The vendor's name of a convolution with a normalisation behind it is the convolution's own."""
    path = tmp_path / "t"
    told = ("conv_Conv 6", "other_1_Conv 3", "norm_2_BatchNormalization 1", "t_Concat_relu 5", "x_Relu 2")
    path.write_text("".join(f"{line} 0 9\n" for line in told))
    norms = {"norm_1": ("conv", ""), "norm_2": ("other_1", ""), "norm_3": ("missing", "")}
    found = read_table(path).behind({**norms, "relu": ("t", "_relu"), "relu_2": ("conv", "_relu")}).ranges
    assert {name: one.threshold for name, one in found.items() if name not in read_table(path).ranges} == {
        "norm_1": 6.0,
        "relu": 5.0,
    }


@pytest.mark.parametrize("passed", ["picked", "tokens", "rows", "part1", "channels", "squares", "exchanged"])
def test_a_vendors_name_of_what_passes_made_of_it(tmp_path: Path, passed: str) -> None:
    """The tensor itself is not in the graph any more."""
    path = tmp_path / "t"
    path.write_text("r9_Reshape 6 0 6\n")
    assert read_table(path).for_tensors({f"r9:{passed}"}).ranges[f"r9:{passed}"].threshold == 6.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        (json.dumps(GOOD | {"format": "other"}), 'lacks "format"'),
        (json.dumps(GOOD | {"version": 2}), "has version 2"),
        (json.dumps(GOOD | {"tensors": {"x": 3}}), "in the calibration table, tensor 'x' is no object"),
        (json.dumps(GOOD | {"tensors": {"x": {"min": 0, "max": 1}}}), "'x' has no number 'threshold'"),
        (
            json.dumps(GOOD).replace('"threshold": 1.0', '"threshold": NaN'),
            "'x': a threshold or an end is not",
        ),
        (json.dumps(GOOD).replace('"threshold": 1.0', '"threshold": 0'), "the threshold 0 is not above 0"),
        (json.dumps(GOOD).replace('"threshold": 1.0', '"threshold": 1e-44'), "1e-44 is not between 1e-30"),
        (json.dumps(GOOD).replace('"threshold": 1.0', '"threshold": 1e300'), r"1e\+300 is not between 1e-30"),
        (json.dumps(GOOD).replace('"max": 1.0', '"max": -2'), "the least value -1 is above the greatest -2"),
        (
            json.dumps(GOOD).replace('"max": 1.0', '"max": 1.0, "peak": [1, "a"]'),
            "'x': 'peak' is no list of numbers",
        ),
        (
            json.dumps(GOOD).replace('"max": 1.0', '"max": 1.0, "peak": [1], "mean": [1, 0]'),
            "'x': 'mean' has 2 channels, 'peak' 1",
        ),
        (
            json.dumps(GOOD).replace('"max": 1.0', '"max": 1.0, "mean": [0, 1e30]'),
            r"'x': a 'mean' of 1e\+30 is beyond the least and the greatest value",
        ),
        (
            json.dumps(GOOD).replace('"max": 1.0', '"max": 1.0, "power": 2.0'),
            "'x': a 'power' of 2 is more than the square of the largest value",
        ),
        (
            json.dumps(GOOD).replace('"max": 1.0', '"max": 1.0, "power": 0'),
            "'x': the 'power' is 0 where values are not",
        ),
        (
            json.dumps(GOOD).replace('"max": 1.0', '"max": 1.0, "peak": [1, true]'),
            "'x': 'peak' is no list of numbers",
        ),
        (
            json.dumps(GOOD).replace('"max": 1.0', '"max": 1.0, "peak": [1, -1]'),
            "'x': a 'peak' or the 'power' is below 0",
        ),
        (
            json.dumps(GOOD).replace('"max": 1.0', '"max": 1.0, "power": -1'),
            "'x': a 'peak' or the 'power' is below 0",
        ),
        (json.dumps(GOOD).replace('"max": 1.0', f'"max": 1{"0" * 400}'), "'x' has no number 'max'"),
        (json.dumps(GOOD).replace('"max": 1.0', '"max": 1.0, "max": 2.0'), "is no JSON: 'max' comes twice"),
        (json.dumps(GOOD | {"tensors": {}}), "has no tensors"),
        ('{"tensors": ' + "[" * 100_000, "is no JSON"),
        ("x 1 -1 1\nx 2 -2 2\n", r"line 2 \(x\): another range for what an earlier line has"),
        ("x 1.0 2.0", "in the calibration table, line 1 is not NAME THRESHOLD MIN MAX"),
        ("# nothing\n", "the calibration table has no tensors"),
        ("x 0 0 0\n", r"line 1 \(x\): the threshold 0 is not above 0"),
        ("x F32\n", "belongs into --fp32"),
    ],
)
def test_what_is_no_table(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(TpulayerError, match=message) as caught:
        read_table(path)
    assert str(path) in caught.value.message


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TpulayerError, match="cannot read the calibration table"):
        read_table(tmp_path / "none")


def collected(values: list[np.ndarray[Any, Any]]) -> Statistics:
    made = Statistics()
    for one in values:
        made.add(one.astype(np.float32))
    return made


def test_statistics_of_several_runs() -> None:
    """Whatever order they come in, and with room for larger values that come later."""
    rng = np.random.default_rng(0)
    runs = [rng.standard_normal((2, 3, 5, 5)) * 10.0**power for power in (-2, 0, 1)]
    first, second = (collected(one).range(METHODS["minmax"]) for one in (runs, runs[::-1]))
    together = np.concatenate(runs).astype(np.float32)
    for found in (first, second):
        assert found is not None
        assert (found.low, found.high) == (together.min(), together.max())
        assert found.threshold == pytest.approx(np.abs(together).max(), rel=1e-3)
        assert found.power == pytest.approx(np.square(together).mean(), rel=1e-6)
        assert np.allclose(found.mean, together.mean((0, 2, 3), np.float64), atol=1e-6)
        assert found.peaks == ()  # of so few values


def test_peaks_of_few_values() -> None:
    """None of too few; of few, what more would reach; of many, what was seen."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((4096, 3))
    made = [collected([values[:many]]).range(METHODS["mse"]) for many in (255, 256, 1024, 4096)]
    none, least, few, enough = (one.peaks if one else () for one in made)
    assert none == () and made[0] is not None and len(made[0].mean) == 3
    assert np.allclose(least, np.abs(values[:256]).max(0) * np.sqrt(1.5))
    assert np.allclose(few, np.abs(values[:1024]).max(0) * np.sqrt(1.2))
    assert np.allclose(enough, np.abs(values).max(0))
    longer = collected([values, values]).range(METHODS["mse"])
    assert longer is not None and longer.peaks == enough


def test_peaks_of_few_normal_values_hold_for_more() -> None:
    """One value in some 4,096 others is larger than what 256 say, not one in 256."""
    rng = np.random.default_rng(1)
    found = collected([rng.standard_normal((256, 500))]).range(METHODS["mse"])
    assert found is not None
    beyond = float((np.abs(rng.standard_normal((4096, 500))) > np.array(found.peaks)).mean())
    assert beyond < 1 / 1500


def test_what_has_no_scale() -> None:
    """Nothing but zeros, or no number at all."""
    assert collected([np.zeros((2, 3))]).range(METHODS["mse"]) is None
    assert collected([np.full((2, 3), np.nan)]).range(METHODS["mse"]) is None


@pytest.mark.parametrize("name", METHODS)
def test_thresholds(name: str) -> None:
    """Of normal numbers with one far away: all methods but the ends leave that out, none what is common."""
    values = np.random.default_rng(1).standard_normal(100_000)
    values[7] = 15.0
    found = collected([values]).range(method_of(name))
    assert found is not None
    assert found.threshold == pytest.approx(15.0) if name == "minmax" else 2.5 < found.threshold < 12


def test_an_unknown_method() -> None:
    with pytest.raises(TpulayerError, match="no calibration method 'mes'; did you mean mse"):
        method_of("mes")
