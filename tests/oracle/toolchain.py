"""The vendor's compiler, model_tool and runtime, where they are installed.

    python -m tests.oracle.toolchain    installs them into a cache (2 GB, needs Python 3.10)

Nothing of the project needs them. They run in processes of their own with their own Python; what they compile
stays in the same cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from tests.oracle.client import PACKAGE, Refused, Unavailable, cache
from user_layers.bmrt.reference_data import save_npz

Array = npt.NDArray[np.generic]
_NAME, _, VERSION = PACKAGE.partition("==")
_SITE = "lib/python3.10/site-packages"
_COMPILE_SECONDS, _RUN_SECONDS, _INSTALL_SECONDS = 240, 600, 1800
# The importer wants a package of 800 MB for one call, tensor(x).numpy().
_STAND_IN = '''"""Stands in for PyTorch, of which the importer needs tensor(x).numpy() only."""
import numpy as np


class _Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})


class tensor:
    def __init__(self, value):
        self.value = np.asarray(value)

    def numpy(self):
        return self.value


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Anything(name, (), {})
'''


class Toolchain:
    """The installed tools. Raises Unavailable when they are not there."""

    def __init__(self) -> None:
        self._home = _folder()
        if not (self._home / "ready").exists():
            raise Unavailable(
                f"the vendor's tools are not in {self._home}; python -m tests.oracle.toolchain installs them"
            )

    def compile(
        self,
        model: Path,
        shapes: Sequence[Sequence[int]],
        *,
        quantize: str = "F32",
        options: str = "",
        table: str = "",
    ) -> Path:
        """The bmodel of an ONNX model, from the cache where it has been compiled before.

        quantize: F32, or INT8 with thresholds from two random inputs, which are beside it in .table. options:
        more words for the compiler. table: calibration for INT8, the text of one, instead of its own.
        Raises Refused with its last words when it does not compile the model.
        """
        key = hashlib.sha256(model.read_bytes())
        key.update(
            repr((VERSION, list(map(list, shapes)), quantize, options, *([table] * bool(table)))).encode()
        )
        done = self._home.parent / "bmodels" / f"{model.stem}_{key.hexdigest()[:16]}.bmodel"
        kept = [done] if quantize == "F32" else [done.with_suffix(".table"), done]
        if all(file.exists() for file in kept):
            return done
        done.parent.mkdir(exist_ok=True)
        shape_text = "[" + ",".join(str(list(s)).replace(" ", "") for s in shapes) + "]"
        name = f"net_{model.stem}"
        with tempfile.TemporaryDirectory(prefix="vendor") as scratch:
            here = Path(scratch)
            transform = f"--model_name {name} --input_shapes {shape_text} --mlir net.mlir --model_def {model}"
            self._run("model_transform", transform.split(), here)
            deploy = (
                f"--mlir net.mlir --quantize {quantize} --chip bm1684 --model net.bmodel --skip_validation"
            )
            words = [*deploy.split(), *options.split()]
            if quantize == "INT8" and table:
                (here / "table").write_text(table)
            elif quantize == "INT8":
                _random_inputs(model, shapes, here / "data")
                told = "net.mlir --dataset data --input_num 2 -o table"
                self._run("run_calibration", told.split(), here)
            if quantize == "INT8":
                words += ["--calibration_table", "table"]
            self._run("model_deploy", words, here)
            for file in kept:
                part = file.with_suffix(f"{file.suffix}.{os.getpid()}.part")
                shutil.copy(here / ("net.bmodel" if file == done else "table"), part)
                part.replace(file)
        return done

    def tool(self, words: Sequence[str], folder: Path) -> str:
        """What the vendor's model_tool prints. Refused when it ends with an error."""
        return self._run("model_tool", words, folder)

    def run(self, bmodel: Path, inputs: Mapping[str, Sequence[Array]]) -> dict[str, list[Array]]:
        """Outputs by net, in the types of the file, of the runtime over the functional model.

        Every net named in `inputs` runs once, on arrays in its order.
        """
        with tempfile.TemporaryDirectory(prefix="vendor") as scratch:
            given, made = Path(scratch, "given.npz"), Path(scratch, "made.npz")
            save_npz(given, {f"{n}|{i}": a for n, arrays in inputs.items() for i, a in enumerate(arrays)})
            child = Path(__file__).with_name("runtime_child.py")
            python = self._home / "bin" / "python"
            words = [str(child), str(bmodel.resolve()), str(given), str(made)]
            self._process([str(python), *words], Path(scratch), _RUN_SECONDS)
            with np.load(made) as arrays:
                count = {n: sum(key.rpartition("|")[0] == n for key in arrays) for n in inputs}
                return {n: [arrays[f"{n}|{i}"] for i in range(count[n])] for n in inputs}

    def _run(self, command: str, words: Sequence[str], folder: Path) -> str:
        return self._process([str(self._home / "bin" / command), *words], folder, _COMPILE_SECONDS)

    def _process(self, command: Sequence[str], folder: Path, seconds: float) -> str:
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        env["PATH"] = os.pathsep.join((str(self._home / "bin"), env.get("PATH", "")))
        env["PYTHONPATH"] = str(self._home / "stand_in")
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise Refused(f"{Path(command[0]).name} was not done after {seconds:.0f} s") from None
        if done.returncode:
            lines = done.stdout.strip().splitlines()
            wrong = [line for line in lines if "ASSERT" in line or "FATAL" in line or "rror" in line]
            told = " ".join(wrong[-2:] or lines[-2:])
            raise Refused(f"{Path(command[0]).name} ended with {done.returncode}: {told[:500]}")
        return done.stdout


def _folder() -> Path:
    return cache() / f"toolchain-{VERSION}"


def _random_inputs(model: Path, shapes: Sequence[Sequence[int]], folder: Path) -> None:
    """Two files with an array per input of the model."""
    graph = onnx.load(str(model), load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    names = [i.name for i in graph.input if i.name not in constants]
    folder.mkdir()
    for seed in range(2):
        rng = np.random.default_rng(seed)
        values = {n: rng.standard_normal(s).astype(np.float32) for n, s in zip(names, shapes, strict=True)}
        save_npz(folder / f"{seed}.npz", values)


def _python() -> str:
    """A Python 3.10 that runs. Raises Unavailable."""
    named = os.environ.get("TPULAYER_PYTHON310")
    versions = sorted(Path.home().glob(".pyenv/versions/3.10*/bin/python"))
    for candidate in [named] if named else ["python3.10", *map(str, versions)]:
        try:
            words = [candidate, "-c", "import sys; print(*sys.version_info[:2])"]
            said = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        if said.split() == ["3", "10"]:
            return candidate
    raise Unavailable("Python 3.10 is not here; TPULAYER_PYTHON310 can name one")


def install() -> Path:
    """Install the tools into the cache. Raises Unavailable when that does not work."""
    home = _folder()
    if (home / "ready").exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    pip = [str(home / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
    try:
        subprocess.run([_python(), "-m", "venv", str(home)], check=True, timeout=120)
        subprocess.run([*pip, f"{_NAME}[onnx]=={VERSION}", "psutil"], check=True, timeout=_INSTALL_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{PACKAGE} cannot be installed: {error}") from None
    # Its C library is older than what the system's other libraries may need.
    third_party = home / _SITE / _NAME / "lib" / "third_party"
    for name in ("libc.so.6", "libm.so.6", "libpthread.so.0", "libgthread-2.0.so.0"):
        (third_party / name).unlink(missing_ok=True)
    (home / "stand_in").mkdir()
    (home / "stand_in" / "torch.py").write_text(_STAND_IN)
    (home / "ready").touch()
    return home


if __name__ == "__main__":
    try:
        print(install())
    except Unavailable as why:
        sys.exit(str(why))
