"""Context::SetDelegate, which the wheel refuses, with a runtime that honours it (mindspore_programs)."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import MissingError
from tests.paths import SOURCES
from user_layers.mindspore.command import difference
from user_layers.mindspore.programs import Programs, build_programs
from user_layers.mindspore.run import Job, Ran, convert, run_jobs
from user_layers.mindspore.wheel import RELEASE, VARIABLE, find_runtime

_MODEL = SOURCES / "mindspore" / "attention.ms"


@pytest.fixture(scope="module")
def honours(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The delegate, built for a release's folder: headers, and one library by a release's name."""
    folder = tmp_path_factory.mktemp("release")
    (folder / "include").symlink_to(programs.runtime.folder / "include")
    (folder / "lib").mkdir()
    source = SOURCES / "mindspore_programs" / "runtime.cc"
    words = programs.command(str(source), str(folder / "lib" / RELEASE))
    words = words[: words.index("-o") + 2]  # it stands in the place of what a program is linked with
    done = subprocess.run(
        [*words, "-shared", "-fPIC", "-Wall", f"-Wl,-soname,{RELEASE}"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        return build_programs(find_runtime())


def test_a_model_runs_with_the_delegate_that_the_context_has(programs: Programs, honours: Programs) -> None:
    assert honours.runtime.names == (RELEASE,) and honours.library != programs.library
    feeds = {"x": np.random.default_rng(0).uniform(-1, 1, (1, 5, 8)).astype(np.float32)}
    job = Job(_MODEL, feeds, delegate="", repeat=3)
    (plain,) = run_jobs(programs, [replace(job, delegate=None)])
    ours, alone = run_jobs(honours, [job, replace(job, delegate=None)])
    assert isinstance(plain, Ran) and isinstance(ours, Ran), (plain, ours)
    assert alone == "the model cannot be built"  # this runtime has no kernels: the delegate did it all
    assert not ours.kept and ours.partitions == 1 and ours.counters["runs"] == 3
    assert difference(plain.outputs, ours.outputs) < 1e-4


def test_new_shapes_and_errors_take_the_same_way(programs: Programs, honours: Programs) -> None:
    feeds = {"x": np.random.default_rng(0).uniform(-1, 1, (1, 8, 4, 3)).astype(np.float32)}
    path = _MODEL.with_name("cnn.ms")
    job = Job(path, feeds, {"x": (1, 8, 4, 3)}, delegate="")
    (plain,) = run_jobs(programs, [job])
    ours, none, wrong = run_jobs(honours, [job, replace(job, delegate="device=999"), replace(job, inputs={})])
    assert isinstance(plain, Ran) and isinstance(ours, Ran), (plain, ours)
    assert difference(plain.outputs, ours.outputs) == 0
    assert isinstance(none, str) and "the framework's kernels do everything: " in none
    assert wrong == "input x is not given"


def test_what_is_no_release_is_refused(honours: Programs, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="has no converter"):
        convert(honours, {Path("x.onnx"): tmp_path / "x.ms"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path))
        with pytest.raises(MissingError, match=r"there is no include/api/delegate\.h"):
            find_runtime()
        (tmp_path / "include").symlink_to(honours.runtime.folder / "include")
        (tmp_path / "lib").mkdir()
        with pytest.raises(MissingError, match=r"neither libmindspore-lite\.so nor"):
            find_runtime()
