"""Converting and running models with MindSpore Lite, with or without the delegate, in a child process."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from firmware_sim.errors import DeviceError, MissingError, ModelError, UsageError
from user_layers.files import replace_copy
from user_layers.mindir.types import TYPE_IDS
from user_layers.mindspore.layers import with_layers
from user_layers.mindspore.programs import Programs
from user_layers.spelling.foreign import Array

_RUN_SECONDS = 3600.0
_CONVERT_SECONDS = 600.0


@dataclass(frozen=True)
class Job:
    """One model to run. model: a .ms or .mindir file; inputs: by name; resize: shapes of inputs other than
    the model's. delegate: None for the framework's own kernels alone, else its configuration ("" for the
    usual one, "device=0,opt=2"). layers: types of its Custom primitives. repeat: how often, each time
    measured."""

    model: Path
    inputs: Mapping[str, Array]
    resize: Mapping[str, Sequence[int]] = field(default_factory=dict)
    delegate: str | None = None
    layers: Sequence[str] = ()
    threads: int = 1
    repeat: int = 1


@dataclass(frozen=True)
class Ran:
    """What came of a job. seconds: of each run. taken, kept: with a delegate, kind and name of each operation
    with the number of its partition, or with why the framework does it. counters: of the device."""

    outputs: Mapping[str, Array]
    seconds: tuple[float, ...]
    taken: tuple[tuple[str, str, int], ...] = ()
    kept: tuple[tuple[str, str, str], ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """How many runs of operations the delegate took."""
        return len({number for _, _, number in self.taken})


def run_jobs(programs: Programs, jobs: Sequence[Job]) -> list[Ran | str]:
    """Run models one after the other in one process; a text for each that failed.

    Errors: UsageError for names that the program cannot be told; DeviceError where the process ends before
    all jobs are done.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        words = [word for number, job in enumerate(jobs) for word in _words(job, number, folder)]
        (folder / "jobs").write_text("".join(f"{line}\n" for line in words))
        said = _call([str(programs.run), str(folder / "jobs")], programs, _RUN_SECONDS)
        found = _read(said.stdout, folder)
    if len(found) < len(jobs):
        tail = " / ".join(said.stderr.strip().splitlines()[-3:])
        raise DeviceError(
            f"MindSpore Lite ended with code {said.returncode} in job {len(found) + 1} of {len(jobs)}: {tail}"
        )
    return found


def convert(programs: Programs, models: Mapping[Path, Path]) -> list[bool]:
    """Convert .onnx or .tflite files (keys) into .ms or .mindir files (values) with the wheel's converter;
    whether each was. Errors: UsageError for other endings; MissingError for a runtime without a converter."""
    if programs.convert is None:
        raise MissingError(
            f"the MindSpore Lite in {programs.runtime.folder} has no converter",
            hint="give a .ms or .mindir file, or let the wheel's runtime convert",
        )
    with tempfile.TemporaryDirectory() as scratch:
        words = [str(programs.convert), ""]
        made: list[Path] = []
        layers: list[str] = []
        for number, (source, target) in enumerate(models.items()):
            kind, to = source.suffix[1:], target.suffix[1:]
            if kind not in ("onnx", "tflite") or to not in ("ms", "mindir"):
                raise UsageError(
                    f"{source} -> {target}: the converter makes .ms or .mindir of .onnx or .tflite"
                )
            made.append(Path(scratch) / f"{number}.{to}")
            renamed = Path(scratch) / f"{number}.onnx"
            told = with_layers(source, renamed, len(layers)) if kind == "onnx" else []
            layers += told
            words += [
                f"{kind}:{to}",
                str(renamed if told else source.absolute()),
                str(made[-1].with_suffix("")),
            ]
        if layers:
            words[1] = str(Path(scratch) / "layers")
            Path(words[1]).write_text("".join(f"{line}\n" for line in layers))
        said = _call(words, programs, _CONVERT_SECONDS).stderr.splitlines()
        done = [f"done {number}" in said for number in range(len(models))]
        for good, path, target in zip(done, made, models.values(), strict=True):
            if good:
                path.chmod(0o644)  # the converter leaves files that only their owner reads
                replace_copy(path, target)
    if len(models) > 1:  # its state after some models is not good for others: those are converted alone
        again = [
            (source, target) for good, (source, target) in zip(done, models.items(), strict=True) if not good
        ]
        mended = {source for source, target in again if convert(programs, {source: target})[0]}
        done = [good or source in mended for good, source in zip(done, models, strict=True)]
    return done


def converted(programs: Programs, model: Path, folder: Path) -> Path:
    """A model that the runtime takes: the file itself, or what the converter makes of it in the folder.
    Errors: UsageError for another ending, ModelError where it cannot be converted."""
    if model.suffix in (".ms", ".mindir"):
        return model
    if model.suffix not in (".onnx", ".tflite"):
        raise UsageError(f"{model}: expected a .ms, .mindir, .onnx or .tflite file")
    target = folder / f"{model.stem}.ms"
    if not convert(programs, {model: target})[0]:
        raise ModelError(
            f"MindSpore Lite's converter does not take {model}",
            hint="it wants attributes such as strides and dilations written out; GLOG_v=1 shows what it says",
        )
    return target


def _words(job: Job, number: int, folder: Path) -> list[str]:
    """The lines of a job; its inputs are written into the folder."""
    kind = job.model.suffix[1:]
    words = [f"model\t{job.model.absolute()}\t{kind}", f"threads\t{job.threads}", f"repeat\t{job.repeat}"]
    if job.delegate is not None:
        words.append(f"delegate\t{job.delegate or 'device=0'}")
    words += [f"layer\t{layer}" for layer in job.layers]
    words += [f"resize\t{name}\t{'x'.join(map(str, shape))}" for name, shape in job.resize.items()]
    for place, (name, array) in enumerate(job.inputs.items()):
        path = folder / f"{number}.{place}.in"
        path.write_bytes(np.ascontiguousarray(array).tobytes())
        words.append(f"input\t{name}\t{path}")
    odd = next((word for word in words if "\n" in word), None)
    if odd is not None:
        raise UsageError(f"a name or a path has a line break in it: {odd!r}")
    return [*words, f"go\t{folder / str(number)}"]


def _call(words: Sequence[str], programs: Programs, limit: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            env=programs.environment(),
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(f"MindSpore Lite did not end within {limit:.0f} s") from None
    except OSError as error:
        raise MissingError(
            f"{words[0]} cannot be run: {error.strerror}", hint="run `tpulayer mindspore setup` again"
        ) from None


class _Collected:
    """What the program says about one job, line by line."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.outputs: dict[str, Array] = {}
        self.seconds: list[float] = []
        self.taken: list[tuple[str, str, int]] = []
        self.kept: list[tuple[str, str, str]] = []
        self.counters: dict[str, int] = {}

    def line(self, words: Sequence[str]) -> None:
        if words[0] == "output":
            shape = () if words[3] == "scalar" else tuple(int(n) for n in words[3].split("x"))
            path = self.prefix.with_name(f"{self.prefix.name}.{len(self.outputs)}")
            self.outputs[words[1]] = np.fromfile(path, TYPE_IDS[int(words[2])]).reshape(shape)
        elif words[0] == "time":
            self.seconds.append(int(words[1]) / 1e9)
        elif words[:2] == ["note", "taken"]:
            self.taken.append((words[2], words[3], int(words[4])))
        elif words[:2] == ["note", "kept"]:
            self.kept.append((words[2], words[3], words[4]))
        elif words[:2] == ["note", "counter"]:
            self.counters[words[2]] = int(words[3])

    def result(self) -> Ran:
        return Ran(self.outputs, tuple(self.seconds), tuple(self.taken), tuple(self.kept), self.counters)


def _read(text: str, folder: Path) -> list[Ran | str]:
    found: list[Ran | str] = []
    now = _Collected(folder / "0")
    for line in text.splitlines():
        words = line.split("\t")
        if words[0] in ("end", "error"):
            found.append(now.result() if words[0] == "end" else words[1])
            now = _Collected(folder / str(len(found)))
        else:
            now.line(words)
    return found
