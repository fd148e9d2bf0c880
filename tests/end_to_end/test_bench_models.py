"""The benchmark of models on the smallest ones: files, processes, table, and going on where it was."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from benchmarks import bench_models
from benchmarks.models.table import GROUPS, MODELS, TINY
from user_layers.onnx.check import TOLERANCE


def test_the_path_of_the_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, folder = tmp_path / "results.json", tmp_path / "files"
    words = [*TINY, "--json", str(results), "--folder", str(folder), "--repeat", "1"]
    assert bench_models.main([*words, "--opt", "0", "--opt", "2"]) == 0
    text = capsys.readouterr().out
    rows = json.loads(results.read_text())["models"]
    assert rows.keys() == TINY.keys()
    for name, row in rows.items():
        assert row["difference"] <= TOLERANCE and row["host_nodes"] == 0
        assert 0 < row["efficiency"] <= 1 and row["ms_opt2"] <= row["ms_opt0"]
        assert row["efficiency"] == pytest.approx(row["roofline_ms"] / row["ms"])
        assert row["compile_cpu_s"] > 0 and row["peak_mb"] > 10 and row["emulated_ratio"] > 0
        (line,) = (line for line in text.splitlines() if line.startswith(name))
        assert f"{row['ms']:.3f}" in line and f"{row['efficiency']:.1%}" in line
    assert rows["tiny_cnn"]["macs"] == 20 * 32 * 32 * 27 + 20 * 16 * 16 * 9
    mean = math.exp(sum(math.log(row["efficiency"]) for row in rows.values()) / len(rows))
    assert f"all: 3 of 3 measured, eff {mean:.3g} of 3" in text
    # What is there is not measured again; another file is, and other settings are refused.
    changed = json.loads(results.read_text())
    changed["models"]["tiny_silu"]["ms"] = 123.0
    results.write_text(json.dumps(changed))
    assert bench_models.main(["tiny_silu", *words[3:], "--opt", "0", "--opt", "2"]) == 0
    assert "123.000" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        bench_models.main([*words, "--opt", "1"])
    assert "give another file" in capsys.readouterr().err


def test_what_does_not_work_is_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tiny_cnn.onnx").write_bytes(b"no model")
    words = ["--folder", str(tmp_path), "--repeat", "1", "--json", str(tmp_path / "r.json")]
    assert bench_models.main(["tiny_cnn", *words]) == 1
    assert "ModelError" in capsys.readouterr().out
    assert bench_models.main(["tiny_silu", *words, "--limit", "0.01"]) == 1
    text = capsys.readouterr().out
    assert "no result in 0 s" in text and "0 of 1 measured" not in text
    assert not list(tmp_path.glob("*.*.json"))


def test_a_python_without_the_packages_says_so(tmp_path: Path) -> None:
    said = bench_models.build("pointnet", tmp_path, sys.executable, 60)
    if isinstance(said, Path):  # this Python has torch
        assert said.stat().st_size > 1000
    else:
        assert said.startswith("pointnet: ") and "install the extra `models`" in said
        assert not list(tmp_path.iterdir())


def test_the_table_names_builders() -> None:
    """Without the packages the builders cannot be imported: their names stand in the source."""
    source = (Path(bench_models.__file__).parent / "models" / "networks.py").read_text()
    assert all(f'    "{name}": ' in source for name in MODELS)
    assert source.count('": ') >= len(MODELS) >= 30
    assert {*MODELS.values(), *TINY.values()} <= set(GROUPS)
