"""LiteRT with the TPU: its compiler plugin and dispatch library, models compiled ahead, models run."""

from __future__ import annotations

import importlib.metadata
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import CompileError, DeviceError, MissingError, UsageError
from firmware_sim.shown import count
from user_layers.delegates.build import Library, core_library, delegate_dir, framework_libraries
from user_layers.delegates.counters import Counters, read_counters
from user_layers.delegates.litert_shapes import reshaped
from user_layers.delegates.plan import plan
from user_layers.files import check_input, write_atomic
from user_layers.spelling.spell import title
from user_layers.tflite.read import read_tflite
from user_layers.tflite.spellings import TFLITE
from user_layers.toolchain.config import c_sources
from user_layers.toolchain.report import Reporter
from user_layers.toolkit import Toolkit

PLUGIN = "libLiteRtCompilerPlugin_TpuLayer.so"
DISPATCH = "libLiteRtDispatch_TpuLayer.so"
MANUFACTURER, SOC_MODEL = "TpuLayer", "BM1684"  # of the plugin, plugin.c
VERSIONS = ("2.2", "2.3")  # of LiteRT that have the tables in sdk/delegate/litert/include
LIMIT = 1800  # s for compiling a model ahead
_SELECTED = re.compile(
    r"Partitioned subgraph<\d+>, selected (\d+) ops, from a total of (\d+) ops\. resulted in (\d+)"
)
_TOLD = re.compile(r"^(tpulayer: .*|  hint: .*|ERROR: .*)$", re.MULTILINE)
Array = npt.NDArray[Any]


def litert_libraries(report: Reporter | None = None) -> Path:
    """The folder with compiler plugin and dispatch library, built if they are not there. BuildError."""
    folder = delegate_dir() / "litert"
    libraries = [
        Library(name, c_sources(folder / part), headers=(folder / "include",))
        for name, part in ((PLUGIN, "compiler"), (DISPATCH, "dispatch"))
    ]
    return framework_libraries("litert", libraries, report=report)


@dataclass(frozen=True)
class Ahead:
    """What compiling ahead made. selected: operations on the TPU, of `operations`, in so many partitions."""

    selected: int
    operations: int
    partitions: int

    def __str__(self) -> str:
        whole, parts = count(self.operations, "operation"), count(self.partitions, "partition")
        return f"{self.selected} of {whole} in {parts}"


def compile_ahead(
    model: Path,
    out: Path,
    *,
    opt: int | None = None,
    operations: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Ahead:
    """Write a .tflite file whose partitions for the TPU are compiled, by LiteRT's own tool.

    opt: level of optimization, 0 to 2; operations: the most in a partition, 0 for any number; without them
    what TPULAYER_LITERT_OPT and TPULAYER_LITERT_OPERATIONS say. shapes: of inputs by name, where they are to
    be others than the file says.
    Errors: UsageError for a file that cannot be read or shapes that do not fit, MissingError without LiteRT,
    CompileError with what the tool and the plugin said; nothing is written then.
    """
    _check(model)
    tool = _wheel() / "tools" / "apply_plugin_main"
    if not tool.is_file():
        raise MissingError(f"LiteRT has no {tool.name} here", hint="its wheels for Linux on x86-64 have it")
    with tempfile.TemporaryDirectory() as folder:
        made, given = Path(folder, "out.tflite"), model
        if shapes:
            given = Path(folder, "in.tflite")
            given.write_bytes(reshaped(model, shapes))
        words = [
            str(tool),
            "--cmd=apply",
            f"--libs={litert_libraries()}",
            f"--soc_manufacturer={MANUFACTURER}",
            f"--soc_model={SOC_MODEL}",
            f"--model={given}",
            f"--o={made}",
        ]
        try:
            ran = subprocess.run(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=LIMIT,
                env={**os.environ, "TPULAYER_PYTHON": sys.executable, **_settings(opt, operations)},
            )
        except subprocess.TimeoutExpired:
            raise CompileError(f"{model}: LiteRT's tool took more than {LIMIT} s") from None
        text = ran.stdout.decode(errors="replace")
        if ran.returncode or not made.is_file():
            why = "\n".join(dict.fromkeys(_TOLD.findall(text))) or text[-2000:]
            raise CompileError(f"{model} cannot be compiled by LiteRT:\n{why}")
        write_atomic(out, made.read_bytes())
    found = [tuple(map(int, groups)) for groups in _SELECTED.findall(text)]
    return Ahead(*(sum(column) for column in zip(*found, strict=True))) if found else Ahead(0, 0, 0)


def _settings(opt: int | None, operations: int | None) -> dict[str, str]:
    """What the plugin reads (settings.c)."""
    told = {"TPULAYER_LITERT_OPT": opt, "TPULAYER_LITERT_OPERATIONS": operations}
    return {name: str(number) for name, number in told.items() if number is not None}


def left_on_cpu(model: Path, toolkit: Toolkit) -> list[str]:
    """A line for each operation that no TPU layer does, with the reason. Errors: as of `read_tflite`."""
    read = read_tflite(model)
    whys = plan(read, TFLITE, toolkit).reasons
    return [
        f"{title(read, operation)}: {why}"
        for operation, why in zip(read.operations, whys, strict=True)
        if why
    ]


def counters() -> Counters:
    """What the devices of this process have done for all its partitions."""
    return read_counters(core_library())


class LiteRtModel:
    """A .tflite file in LiteRT's CompiledModel on NPU | CPU, compiled when it is loaded or ahead of that.

    inputs, outputs: for the names of the first signature shape and type. said: what went wrong without being
    an error, for LiteRT then takes the CPU.
    Errors: UsageError for a file that cannot be read, MissingError without LiteRT, CompileError.
    """

    def __init__(self, path: Path, *, tpu: bool = True) -> None:
        _check(path)
        _wheel()
        with _quiet() as said:
            from ai_edge_litert.compiled_model import CompiledModel
            from ai_edge_litert.hardware_accelerator import HardwareAccelerator

            where = HardwareAccelerator.CPU
            if tpu:
                where |= HardwareAccelerator.NPU
            try:
                self._environment = litert_environment()
                self._model = CompiledModel.from_file(
                    str(path), hardware_accel=where, environment=self._environment
                )
                name = next(iter(self._model.get_signature_list()))
                self.inputs = _described(self._model.get_input_tensor_details(name))
                self.outputs = _described(self._model.get_output_tensor_details(name))
                self._fed = self._model.create_input_buffers(0)
                self._made = self._model.create_output_buffers(0)
            except Exception as error:
                raise CompileError(f"{path}: LiteRT does not load it: {error}\n{said()}".rstrip()) from None
            self.said = said()

    def close(self) -> None:
        """Give everything back; the model cannot be used any more."""
        with _quiet():
            for buffer in (*self._fed, *self._made):
                buffer.destroy()
            self._fed, self._made = [], []
            self._model.close()
            self._environment.close()

    def __enter__(self) -> LiteRtModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name. Errors: UsageError for inputs that do not fit, DeviceError if LiteRT fails."""
        if set(inputs) != set(self.inputs):
            raise UsageError(f"the inputs are {', '.join(inputs)}; the model has {', '.join(self.inputs)}")
        for name, (shape, _) in self.inputs.items():
            if inputs[name].shape != shape:
                raise UsageError(
                    f"input {name!r} has the shape {list(inputs[name].shape)}; the model takes {list(shape)}"
                )
        with _quiet() as said:
            try:
                for buffer, (name, (_, dtype)) in zip(self._fed, self.inputs.items(), strict=True):
                    given = np.ascontiguousarray(inputs[name], dtype)
                    buffer.write(given.reshape(-1).view(np.int8))  # it knows few types, but bytes
                self._model.run_by_index(0, self._fed, self._made)
                return {
                    name: buffer.read(math.prod(shape) * dtype.itemsize, np.int8).view(dtype).reshape(shape)
                    for buffer, (name, (shape, dtype)) in zip(self._made, self.outputs.items(), strict=True)
                }
            except Exception as error:
                raise DeviceError(f"LiteRT's run failed: {error}\n{said()}".rstrip()) from None


def litert_environment() -> Any:
    """A LiteRT Environment with this toolkit's plugin and dispatch library."""
    from ai_edge_litert.environment import Environment

    os.environ.setdefault("TPULAYER_PYTHON", sys.executable)  # of the compiler's process
    folder = str(litert_libraries())
    return Environment.create(compiler_plugin_path=folder, dispatch_library_path=folder)


def _check(path: Path) -> None:
    try:
        check_input(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def _described(details: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    return {
        name: (tuple(int(n) for n in one["shape"]), np.dtype(one["dtype"])) for name, one in details.items()
    }


def _wheel() -> Path:
    """The folder of LiteRT's package. MissingError also for a version that the libraries are not made for."""
    hint = 'pip install "tpulayer[litert]"'
    try:
        import ai_edge_litert
    except ImportError:
        raise MissingError("LiteRT is not installed", hint=hint) from None
    try:
        version = importlib.metadata.version("ai-edge-litert")
    except importlib.metadata.PackageNotFoundError:  # built by somebody: its tables' sizes are checked in C
        version = VERSIONS[0]
    if version.split(".")[:2] not in [known.split(".") for known in VERSIONS]:
        raise MissingError(
            f"LiteRT {version} is installed; its interface is not that of {' and '.join(VERSIONS)}",
            hint=hint,
        )
    return Path(next(iter(ai_edge_litert.__path__)))


class _Stderr:
    """Keeps what C libraries write to stderr while anybody looks; threads may look at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lookers = 0
        self._kept = self._old = -1

    def look(self) -> int:
        """Begin; the place behind what has been written so far."""
        with self._lock:
            if not self._lookers:
                sys.stderr.flush()
                with tempfile.TemporaryFile() as file:
                    self._kept = os.dup(file.fileno())
                self._old = os.dup(2)
                os.dup2(self._kept, 2)
            self._lookers += 1
            return os.fstat(self._kept).st_size

    def since(self, place: int) -> str:
        """What was written behind a place."""
        return os.pread(self._kept, 1 << 20, place).decode(errors="replace")

    def end(self) -> None:
        """Stop; the last one gives stderr back."""
        with self._lock:
            self._lookers -= 1
            if not self._lookers:
                os.dup2(self._old, 2)
                os.close(self._old)
                os.close(self._kept)


_STDERR = _Stderr()


@contextmanager
def _quiet() -> Iterator[Callable[[], str]]:
    """Keep LiteRT's log off stderr; the value gives the lines of it that are about errors."""
    place = _STDERR.look()
    try:
        yield lambda: "\n".join(dict.fromkeys(_TOLD.findall(_STDERR.since(place))))
    finally:
        _STDERR.end()
