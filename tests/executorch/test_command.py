"""`tpulayer executorch`: its inputs and outputs, and the program that it builds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")
pytest.importorskip("executorch", reason="needs executorch: pip install executorch==1.5.1")

from executorch.exir import to_edge_transform_and_lower  # noqa: E402

from firmware_sim.errors import BuildError, UsageError  # noqa: E402
from tests.support.workspaces import outside_of_workspaces  # noqa: E402
from user_layers.delegates import build  # noqa: E402
from user_layers.executorch import runtime as finding  # noqa: E402
from user_layers.executorch.command import CompileOptions, compile_program, run_program  # noqa: E402
from user_layers.toolchain.compilers import choose  # noqa: E402

Module: Any = torch.nn.Module


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path) -> Iterator[None]:
    with outside_of_workspaces(tmp_path):
        yield


class Both(Module):  # type: ignore[misc]
    def forward(self, x: Any, y: Any) -> Any:
        return x + x, y, None, 3


def _program(folder: Path, *inputs: Any, shapes: Any = None) -> Path:
    """A program that ExecuTorch runs by itself."""
    exported = torch.export.export(Both(), inputs, dynamic_shapes=shapes)
    folder.mkdir(exist_ok=True)
    path = folder / "net.pte"
    path.write_bytes(bytes(to_edge_transform_and_lower(exported).to_executorch().buffer))
    return path


def test_inputs_that_do_not_fit_are_told(tmp_path: Path) -> None:
    batch = {0: torch.export.Dim("n", max=4)}
    x, y = torch.ones(3, 2), torch.ones(3, dtype=torch.int64)
    path, given = _program(tmp_path, x, y, shapes=(batch, batch)), tmp_path / "in.npz"
    for arrays, text in (
        ([x], "has 1 arrays, the program 2 inputs"),
        ([x, y.int()], "array 1 is int32; the program's input 1 is int64"),
        ([x.double(), y], "array 0 is float64; the program's input 0 is float32"),
        ([x[0], y], r"array 0 has the shape \[2\]; the program's input 0 has \[4, 2\], or at most"),
        ([torch.ones(5, 2), y], r"array 0 has the shape \[5, 2\]"),
    ):
        np.savez(given, *(array.numpy() for array in arrays))
        with pytest.raises(UsageError, match=text):
            run_program(path, given, None, print)
    static = _program(tmp_path / "static", x, y)
    np.savez(given, np.ones((2, 2), np.float32), y.numpy())
    with pytest.raises(UsageError, match=r"does not run on the shapes \[2, 2\], \[3\]"):
        run_program(static, given, None, print)
    np.savez(given, x.numpy().astype(">f4"), y.numpy())
    run_program(path, given, tmp_path / "out.npz", print)
    with np.load(tmp_path / "out.npz") as out:
        assert {name: out[name].tolist() for name in out} == {
            "output_0": [[2, 2]] * 3,
            "output_1": [1, 1, 1],
            "output_3": 3,
        }


def test_bfloat16_is_float32_in_files(tmp_path: Path) -> None:
    path = _program(tmp_path, torch.ones(3, dtype=torch.bfloat16), torch.ones(()))
    run_program(path, None, None, print)
    np.savez(tmp_path / "in.npz", np.array([1, 2.5, -3], np.float32), np.float32(7))
    run_program(path, tmp_path / "in.npz", tmp_path / "out.npz", print)
    with np.load(tmp_path / "out.npz") as out:
        assert out["output_0"].dtype == np.float32 and out["output_0"].tolist() == [2, 5, -6]
        assert out["output_1"].shape == () and out["output_1"] == 7


def test_nothing_is_written_where_a_module_does_not_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import executorch.exir

    (tmp_path / "net.py").write_text(
        "import torch\ndef make():\n    return torch.nn.ReLU(), (torch.ones(2, 3),)\n"
    )
    options = CompileOptions(f"{tmp_path}/net.py:make", tmp_path / "net.pte", report=tmp_path / "report.txt")
    compile_program(options, print)
    assert options.report is not None and "1 of 1 operations go" in options.report.read_text()
    options.report.unlink()

    def fail(*given: Any, **more: Any) -> None:
        to_edge_transform_and_lower(*given, **more)
        raise UsageError("after the partitions")

    monkeypatch.setattr(executorch.exir, "to_edge_transform_and_lower", fail)
    with pytest.raises(UsageError, match="after the partitions"):
        compile_program(options, print)
    assert not options.report.exists()


def test_a_runner_that_cannot_be_built_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that is there is as the compiler made it, whichever that is."""
    folder = tmp_path / "executorch"
    folder.mkdir()
    (folder / "runner.cpp").write_text("int main() { return missing; }\n")
    monkeypatch.setattr(finding, "delegate_dir", lambda: tmp_path)
    with pytest.raises(BuildError, match="missing"):
        finding.runner()
    (folder / "runner.cpp").write_text("int main() { return 0; }\n")
    made = finding.runner()
    assert made == finding.runner() and made.stat().st_mode & 0o111
    made.write_bytes(made.read_bytes()[:100])
    assert finding.runner().stat().st_size > 100, "half of a program is made anew"
    toolchain = choose()
    monkeypatch.setattr(build, "choose", lambda: Other(toolchain))
    assert finding.runner() != made


class Other:
    """The same compilers by another name."""

    def __init__(self, toolchain: Any) -> None:
        self.c, self.cxx, self.identity = toolchain.c, toolchain.cxx, f"{toolchain.identity} again"
