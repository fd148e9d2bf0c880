"""`tpulayer check`: nets of bmodels under the checks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.bmodel_samples import static_net, unwritten_net
from tests.support.workspaces import outside_of_workspaces
from user_layers.bmodel import write
from user_layers.cli.main import run


@pytest.fixture(scope="module", autouse=True)
def outside_of_any_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with outside_of_workspaces(tmp_path_factory.mktemp("outside")):
        yield


@pytest.fixture(autouse=True)
def default_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPULAYER_CHECK", raising=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nets right (2 stages) and broken."""
    folder = tmp_path_factory.mktemp("model")
    right = replace(static_net(2, 3, name="right"), layers=())
    (folder / "compilation.bmodel").write_bytes(write([right, unwritten_net()]))
    return folder


def test_all_nets(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(model)]) == 5
    out, err = capfd.readouterr()
    lines = out.splitlines()
    checks = "memory,init,hazard,sync"
    assert lines[:2] == [
        f"net 'right' stage {stage}, static, random inputs of seed 1684: 2 commands, {checks}: nothing found"
        for stage in (0, 1)
    ]
    assert lines[2].endswith(f": 1 command, {checks}: 1 finding: 1 init") and len(lines) == 3
    assert "init.unwritten: " in err and "command group 1" in err and err.endswith("1 finding: 1 init\n")


def test_json_sarif_and_one_net(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sarif = tmp_path / "found.sarif"
    path = str(model / "compilation.bmodel")
    assert run(["check", path, "--net", "broken", "--json", "--sarif", str(sarif)]) == 5
    answer = json.loads(capfd.readouterr().out)
    assert answer["ok"] is False and [one["rule"] for one in answer["findings"]] == ["init.unwritten"]
    assert answer["runs"] == [
        {
            "net": "broken",
            "stage": 0,
            "dynamic": False,
            "inputs": "random inputs of seed 1684",
            "commands": 1,
            "checks": "memory,init,hazard,sync",
            "rules": ["init.unwritten"],
        }
    ]
    assert len(json.loads(sarif.read_text())["runs"][0]["results"]) == 1
    assert run(["check", path, "--net", "0", "--stage", "1", "--seed", "7"]) == 0
    assert "stage 1, static, random inputs of seed 7: " in capfd.readouterr().out
    assert run(["check", path, "--net", "broken", "--check", "off"]) == 0
    assert capfd.readouterr().out.endswith(", nothing checked\n")


def test_given_inputs(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = []
    for rows in (2, 3):
        files.append(str(tmp_path / f"{rows}.npz"))
        np.savez(files[-1], x=np.ones((rows, 4), np.float32))
    words = ["check", str(model), "--net", "right", "--input", files[0], "--input", files[1]]
    assert run(words) == 0
    out = capfd.readouterr().out
    assert f"stage 0, static, {files[0]}: 2 commands" in out and f"stage 1, static, {files[1]}: 2" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--net", "brokn"], "--net brokn: no such net; did you mean broken?"),
        (["--net", "2"], "--net 2: no such net"),
        (["--stage", "1"], "--stage 1: net 'broken' has 1 stages, counted from 0"),
        (["--input", "x.npz"], "--input is for one net, these are 2: right, broken"),
        (["--net", "right", "--input", "absent.npz"], "cannot read absent.npz"),
    ],
)
def test_what_does_not_fit(
    words: list[str], message: str, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", str(model), *words]) == 2
    assert message in capfd.readouterr().err


def test_bmrt_test_finds_it_too(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = str(model / "compilation.bmodel")
    words = ["bmrt_test", "--bmodel", path, "--net_idx", "1", "--thread_num", "2"]
    assert run(words) == 5
    out, err = capfd.readouterr()
    assert "output data #0 shape: [4 4 ]" in out and "init.unwritten: " in err
    assert err.endswith("1 finding: 1 init\n")
    assert run([*words[:3], "--net_idx", "0"]) == 0
    # a difference counts more
    (tmp_path / "compilation.bmodel").write_bytes(write([unwritten_net()]))
    (tmp_path / "input_ref_data.dat").write_bytes(bytes(32))
    (tmp_path / "output_ref_data.dat").write_bytes(np.full(16, 9, np.float32).tobytes())
    assert run(["bmrt_test", "--context_dir", str(tmp_path)]) == 1
    assert "init.unwritten: " in capfd.readouterr().err
