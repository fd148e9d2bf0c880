"""The wheel: what it carries, that it works without this repository, and that the locked packages fit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.paths import ROOT
from tests.support.workspaces import environment
from user_layers import __version__

LIMIT = 240.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built("build_wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def _built(what: str, source: Path, folder: Path) -> Path:
    code = f"import sys; from hatchling.build import {what}; print({what}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


def test_what_the_wheel_carries(wheel: Path) -> None:
    assert wheel.name == f"tpulayer-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    source = {
        "user_layers/_sdk": ROOT / "sdk",
        "user_layers/scaffold/templates": ROOT / "user_layers" / "scaffold" / "templates",
        "user_layers/codegen/templates": ROOT / "user_layers" / "codegen" / "templates",
        "user_layers/card": ROOT / "user_layers" / "card",
        "firmware_sim/isa": ROOT / "firmware_sim" / "isa",
    }
    for place, folder in source.items():
        files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert files
        missing = {f"{place}/{path.relative_to(folder)}" for path in files} - held
        assert not missing
    for layer in ("crop", "double"):
        host = (f"host/bm_host_{layer}.h", f"host/bm_host_{layer}.cpp")
        for name in (f"device/bm_device_{layer}.c", *host, f"tests/test_{layer}.py"):
            assert f"user_layers/_demo/{name}" in held
    assert "user_layers/_demo/test/test_tpu_layer_cpp.cpp" in held
    assert {"tpulayer/__init__.py", "tpulayer/__main__.py"} <= held
    assert {f"{package}/py.typed" for package in ("tpulayer", "user_layers", "firmware_sim")} <= held
    assert not [name for name in held if name.startswith(("tests/", "docs/", "build/")) or ".so" in name]


def test_the_source_distribution_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = _built("build_sdist", ROOT, tmp_path)
    subprocess.run(["tar", "-xf", sdist, "-C", tmp_path], check=True, timeout=60)
    again = _built("build_wheel", tmp_path / f"tpulayer-{__version__}", tmp_path)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert set(one.namelist()) == set(other.namelist())


USER_PROGRAM = """
from pathlib import Path

import numpy as np
import tpulayer
from tpulayer import BINARY_MUL, CompiledNet, Graph, Output, UsageError, compile_onnx, load_bmodel, run_kernel
from typing_extensions import assert_type


def use(x: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> None:
    with Graph("BM1684", name="net") as graph:
        graph.add_input("x", x.shape)
        assert_type(graph.add_const_binary_layer("x", 2.0, "y", BINARY_MUL), str)
        assert_type(graph.compile(directory=Path("net")), CompiledNet)
        graph.compile(optt=2)  # type: ignore[call-arg]
    with load_bmodel("net") as nets:
        assert_type(nets, tpulayer.BModelRuntime)
        (y,) = nets.launch("net", {"x": x})
    assert_type(compile_onnx("m.onnx", "net", shapes={"x": (1, 3)}), CompiledNet)
    result = run_kernel("k.c", "k", {"x": x}, {"y": Output((1, 3))})
    assert_type(result, tpulayer.KernelResult)
    assert_type(tpulayer.__version__, str)
    tpulayer.Grahp()  # type: ignore[attr-defined]
    try:
        graph.close()
    except UsageError as error:
        assert_type(error.hint, str)
"""


def test_a_typed_program_of_a_user(wheel: Path, tmp_path: Path) -> None:
    """mypy --strict takes the types of the installed packages (py.typed), and sees mistakes."""
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    program = tmp_path / "user.py"
    program.write_text(USER_PROGRAM)

    def checked(*words: str) -> subprocess.CompletedProcess[str]:
        cache = ["--cache-dir", str(tmp_path / "cache")]
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", *cache, *words, str(program)],
            cwd=tmp_path,
            env=environment(PYTHONPATH=str(site)),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    done = checked()
    assert done.returncode == 0, done.stdout + done.stderr
    (site / "tpulayer" / "py.typed").unlink()
    alone = tmp_path / "python"  # does not see this repository, which its own Python has installed
    alone.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    alone.chmod(0o755)
    told = checked("--python-executable", str(alone)).stdout
    assert "module is installed, but missing library stubs or py.typed marker" in told


def test_a_workspace_with_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    env = environment(PYTHONPATH=f"{site}{os.pathsep}{sysconfig.get_path('purelib')}")
    for name in ("VIRTUAL_ENV", "TPULAYER_HOME"):
        env.pop(name, None)

    def run(*words: str, cwd: Path) -> str:
        # PYTHONPATH comes before an editable installation of this repository.
        code = (
            "import sys, tpulayer, user_layers; site = sys.argv.pop(1); "
            "assert all(m.__file__.startswith(site) for m in (tpulayer, user_layers)); "
            "from user_layers.cli.main import main; main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(site), *words],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    run("init", "w", cwd=tmp_path)
    ws = tmp_path / "w"
    run("add_layer", "crop", "1", cwd=ws)
    assert "installed install/firmware/firmware.so" in run("build_layers", cwd=ws)
    assert "crop  TPU_CROP = 0" in run("list_layers", cwd=ws)
    assert "are equal to golden" in run("test", "crop", cwd=ws)
    run("init", "demo", "--demo", cwd=tmp_path)
    demo = [path for folder in ("device", "host", "test") for path in (tmp_path / "demo" / folder).iterdir()]
    assert len(demo) == 7
    for path in [*demo, *(tmp_path / "demo" / "tests").glob("test_*.py")]:
        assert path.read_bytes() == (ROOT / path.relative_to(tmp_path / "demo")).read_bytes()
    assert (ws / "device" / "bm_device_crop.c").read_text() != (
        tmp_path / "demo" / "device" / "bm_device_crop.c"
    ).read_text()


# ---- the locked packages ----


def _locked(name: str) -> dict[str, list[str]]:
    """Package -> versions (several where they differ between Pythons) of a lock file."""
    found: dict[str, list[str]] = {}
    for match in re.finditer(r"^([a-z0-9-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE):
        found.setdefault(match[1], []).append(match[2])
    return found


_LOCKS = {  # others are in requirements.lock, which everybody installs
    "atheris": "requirements-fuzz.lock",
    "ai-edge-litert": "requirements-litert.lock",
    "executorch": "requirements-executorch.lock",
    "torch": "requirements-executorch.lock",
    **dict.fromkeys(("timm", "torchvision", "transformers", "ultralytics"), "requirements-models.lock"),
}


def test_the_lock_has_what_the_package_asks_for(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"tpulayer-{__version__}.dist-info/METADATA").decode()
    wanted = [Requirement(text) for text in re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)]
    assert {"numpy", "pytest", "matplotlib"} <= {requirement.name for requirement in wanted}  # extras too
    for requirement in wanted:
        name = requirement.name.lower().replace("_", "-")
        file = _LOCKS.get(name, "requirements.lock")
        locked = _locked(file)
        assert name in locked, f"{name} is not in {file}: refresh it as its first lines say"
        found = [version in requirement.specifier for version in locked[name]]
        assert any(found) if name == "atheris" else all(found)  # each Python has its own atheris


@pytest.mark.parametrize("name", [f"requirements{part}.lock" for part in ("", "-bootstrap", "-fuzz")])
def test_every_package_has_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text()
    for entry in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in entry, entry.splitlines()[0]
    assert "://" not in text
    assert "--index" not in text
