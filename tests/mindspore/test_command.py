"""`tpulayer mindspore` as its users meet it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import MissingError, ModelError, TpulayerError, UsageError
from tests.paths import SOURCES
from user_layers.mindspore.command import RunOptions, run, setup
from user_layers.mindspore.programs import Programs, build_programs
from user_layers.mindspore.wheel import find_runtime
from user_layers.toolchain import compilers

_MODEL = SOURCES / "mindspore" / "attention.ms"


def test_a_run_is_told_as_text_and_as_one_object(programs: Programs, tmp_path: Path) -> None:
    said: list[str] = []
    assert run(RunOptions(_MODEL, output=tmp_path / "out.npz", report=True), said.append) == 0
    text = "\n".join(said)
    assert re.search(r"^TPU: (\d+) of \1 operations in 1 partitions$", text, re.MULTILINE), text
    assert "100.0% of " in text and "1 runs, " in text
    with np.load(tmp_path / "out.npz") as arrays:
        assert set(arrays) == {"y"}
    said.clear()
    assert run(RunOptions(_MODEL, json=True, repeat=2), said.append) == 0
    told = json.loads(said.pop())
    assert not said and told["good"] and told["taken"] == told["operations"] > 3
    assert told["taken_macs"] == told["macs"] > 0 and told["kept"] == []
    assert len(told["seconds"]) == len(told["framework_seconds"]) == 2
    assert told["counters"]["runs"] == 2 and told["outputs"][0]["difference"] < 1e-4


def test_a_quantized_model_is_measured_in_signal_and_noise() -> None:
    said: list[str] = []
    model = SOURCES / "mindspore_quantised" / "integers.ms"
    assert run(RunOptions(model), said.append) == 0
    assert re.fullmatch(r"add14_0 float32 .*: \d\d\.\d dB of signal over what parts it from .*", said[0])
    assert said[2] == "100.0% of 0.039 million multiplications"
    assert run(RunOptions(model, json=True), said.append) == 0
    assert 15 < json.loads(said.pop())["outputs"][0]["sqnr"] < 60


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"model": Path("none.ms")}, UsageError, "none.ms cannot be read"),
        ({"model": Path("some.txt")}, UsageError, "expected a .ms, .mindir, .onnx or .tflite file"),
        ({"model": Path("text.ms")}, ModelError, "is not a model of MindSpore Lite"),
        ({"model": Path("text.onnx")}, ModelError, "converter does not take text.onnx"),
        ({"resize": ("x=1x2",)}, UsageError, "has 3 dimensions, such as [1, 5, 8]; given is [1, 2]"),
        ({"resize": ("z=1x2",)}, UsageError, "has no input 'z'"),
        ({"given": Path("text.onnx")}, UsageError, "is not a .npz file with an array per input"),
        ({"given": Path("none.npz")}, UsageError, "cannot read none.npz"),
        ({"given": Path("other.npz")}, UsageError, "there is no array 'x' in the inputs"),
    ],
)
def test_what_is_wrong_is_said_in_one_message(
    programs: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, object],
    error: type[TpulayerError],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("some.txt", "text.ms", "text.onnx"):
        Path(name).write_text("no model")
    np.savez("other.npz", z=np.zeros(3))
    options = replace(RunOptions(_MODEL, output=tmp_path / "out.npz"), **change)  # type: ignore[arg-type]
    with pytest.raises(error, match=re.escape(text)):
        run(options, pytest.fail)
    assert not (tmp_path / "out.npz").exists()


def test_without_the_wheel_or_gnus_compiler_setup_says_what_to_do(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = compilers.choose()
    with monkeypatch.context() as patch:
        zig = replace(chosen, cxx=replace(chosen.cxx, family="zig"))
        patch.setattr("user_layers.mindspore.programs.choose", lambda: zig)
        with pytest.raises(MissingError, match="GNU's C\\+\\+ library") as caught:
            build_programs(find_runtime())
        assert "install g++" in str(caught.value.hint)
    monkeypatch.setenv("TPULAYER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(MissingError, match=r"mindspore-lite==2\.0\.0 cannot be fetched") as caught:
        setup(pytest.fail)
    assert "pip and a network" in str(caught.value.hint)
    assert not (tmp_path / "cache" / "tpulayer" / "mindspore" / "2.0.0").exists()
