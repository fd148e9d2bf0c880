"""What `tpulayer mindspore` does."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim.errors import DeviceError, ModelError, UsageError
from firmware_sim.isa import timing
from user_layers.bmrt.reference_data import load_npz, save_npz
from user_layers.mindir import read_model
from user_layers.mindir.work import macs
from user_layers.mindspore.programs import build_programs
from user_layers.mindspore.run import Job, Ran, converted, run_jobs
from user_layers.mindspore.wheel import find_runtime
from user_layers.onnx.command import parse_shapes
from user_layers.quantize.quality import compared
from user_layers.spelling.foreign import Array, ForeignModel

Say = Callable[[str], None]
_AIM = 1e-4  # of the largest value
_LEAST = 10.0  # dB, for models in 8 bits; two ways of rounding are 15 to 30 apart
_EQUAL = 999.0  # dB, for equal outputs: JSON has no infinity


@dataclass(frozen=True)
class RunOptions:
    """The options of `mindspore run`. resize: "x=2x3x8x8" texts; delegate: see TpuLayerDelegate's header;
    json: say all of it as one JSON object."""

    model: Path
    given: Path | None = None
    output: Path | None = None
    resize: Sequence[str] = ()
    delegate: str = ""
    report: bool = False
    json: bool = False
    repeat: int = 1


def setup(say: Say) -> int:
    """Fetch the runtime, build what stands around it, print where. Errors: MissingError, BuildError."""
    programs = build_programs(find_runtime())
    say(f"MindSpore Lite: {programs.runtime.folder}")
    say(f"delegate: {programs.library}")
    say(f"programs: {', '.join(str(path) for path in (programs.run, programs.convert) if path)}")
    say(f"to build one: {shlex.join(programs.command('SOURCE.cc', 'PROGRAM'))}")
    return 0


def run(options: RunOptions, say: Say) -> int:
    """Run a model with the framework's kernels and with the delegate, compare; exit code 1 where they differ
    or nothing ran on the TPU.

    An .onnx file is converted first. Its inputs are given in ONNX's order of axes, and the converter's model
    takes those with four axes with channels last: they are turned here.
    Errors: UsageError for inputs that do not fit or a file that is no .npz, ModelError for models that are
    none, DeviceError where the framework fails.
    """
    shapes = parse_shapes(options.resize, "--resize")
    given = None if options.given is None else load_npz(options.given, lambda _: None)
    programs = build_programs(find_runtime())
    turn = options.model.suffix == ".onnx"
    with tempfile.TemporaryDirectory() as scratch:
        model = converted(programs, options.model, Path(scratch))
        known = read_model(model)
        if turn:
            shapes = {name: _last(shape) for name, shape in shapes.items()}
            given = given and {name: _turned(array) for name, array in given.items()}
        inputs = _inputs(known, given, shapes, options.model)
        layers = custom_layers(known)
        job = Job(model, inputs, shapes, options.delegate, layers, repeat=options.repeat)
        # A model with layers of the user's runs nowhere else.
        found = run_jobs(programs, [job] if layers else [job, replace(job, delegate=None)])
    for one in found:
        if isinstance(one, str):
            raise DeviceError(f"{options.model}: {one}")
    ours, *plain = [one for one in found if isinstance(one, Ran)]
    if options.output is not None:
        save_npz(options.output, ours.outputs)
    work: Counter[str] = Counter()
    for operation in known.operations:
        work[operation.name] += macs(known, operation)  # conversions have the names of what they stand beside
    integers = any(tensor.scaled is not None for tensor in known.tensors.values())
    told = _result(plain[0] if plain else None, ours, work, integers)
    if options.json:
        say(json.dumps(told))
    else:
        _tell(told, options.report, say)
    return 0 if told["good"] else 1


def _sqnr(want: Array, got: Array) -> float:
    found = compared(want, got).sqnr
    return min(found, _EQUAL) if found == found else -_EQUAL


def difference(want: Mapping[str, Array], got: Mapping[str, Array]) -> float:
    """The largest difference of any output, as a part of that output's largest value; infinite where a
    NaN or an infinity is on one side alone."""
    return max(_relative(want[name], got[name]) for name in want)


def _result(plain: Ran | None, ours: Ran, work: Mapping[str, int], integers: bool) -> dict[str, Any]:
    """What came of a run. plain: without the delegate, None where the framework cannot; work: the
    multiplications of each operation; integers: whether the model computes in 8 bits, each side on its own
    grids."""
    outputs: list[dict[str, Any]] = [
        {
            "name": name,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "difference": None if plain is None else _relative(plain.outputs[name], array),
            "sqnr": _sqnr(plain.outputs[name], array) if plain is not None and integers else None,
        }
        for name, array in ours.outputs.items()
    ]
    if integers:
        near = all(one["sqnr"] is None or one["sqnr"] >= _LEAST for one in outputs)
    else:
        near = max((one["difference"] or 0.0 for one in outputs), default=0.0) <= _AIM
    return {
        "good": bool(ours.counters.get("runs")) and near,
        "outputs": outputs,
        "operations": len(ours.taken) + len(ours.kept),
        "taken": len(ours.taken),
        "macs": sum(work.values()),
        "taken_macs": sum(work.get(name, 0) for _, name, _ in ours.taken),
        "partitions": ours.partitions,
        "kept": [{"kind": kind, "name": name, "why": why} for kind, name, why in ours.kept],
        "counters": dict(ours.counters),
        "seconds": list(ours.seconds),
        "framework_seconds": None if plain is None else list(plain.seconds),
    }


def _tell(told: Mapping[str, Any], report: bool, say: Say) -> None:
    for one in told["outputs"]:
        name = f"{one['name']} {one['dtype']} {one['shape']}"
        if one["difference"] is None:
            say(f"{name}: not compared, MindSpore Lite has no kernel for the model's own layers")
        elif one["sqnr"] is not None:
            say(f"{name}: {one['sqnr']:.1f} dB of signal over what parts it from MindSpore Lite's integers")
        else:
            say(f"{name}: within {one['difference']:.1e} of the largest value of MindSpore Lite's kernels")
    say(f"TPU: {told['taken']} of {told['operations']} operations in {told['partitions']} partitions")
    if told["macs"]:
        say(f"{told['taken_macs'] / told['macs']:.1%} of {told['macs'] / 1e6:.3g} million multiplications")
    if report:
        for one in told["kept"]:
            say(f"stays: {one['kind']} {one['name']}: {one['why']}")
    count, seconds = told["counters"], told["seconds"]
    if not count.get("runs"):
        say("nothing of this model ran on the TPU")
        return
    modelled = count["ns"] / len(seconds) / 1e6
    say(
        f"{count['runs']} runs, {count['commands']} commands, {count['bytes_in']} bytes in, "
        f"{count['bytes_out']} bytes out; {modelled:.3f} ms a call ({timing.modelled()})"
    )
    wall = f"this machine: {min(seconds) * 1e3:.2f} ms a call"
    if told["framework_seconds"]:
        wall += f", with the framework's kernels on one thread {min(told['framework_seconds']) * 1e3:.2f} ms"
    say(wall)


def custom_layers(model: ForeignModel) -> list[str]:
    """The layers of the user's that a model's Custom primitives name."""
    types = (op.attributes.get("type") for op in model.operations if op.kind == "Custom")
    return sorted({name for name in types if isinstance(name, str) and name})


def _relative(want: Array, got: Array) -> float:
    if want.shape != got.shape:
        return float("inf")
    wanted, found = want.astype(np.float64), got.astype(np.float64)
    other = ~((wanted == found) | (np.isnan(wanted) & np.isnan(found)))
    if not other.any():
        return 0.0
    away = float(np.abs(wanted[other] - found[other]).max())  # NaN for one on one side
    largest = float(np.abs(wanted).max(where=np.isfinite(wanted), initial=1e-30))
    return away / largest if np.isfinite(away) else float("inf")


def _inputs(
    model: ForeignModel, given: Mapping[str, Array] | None, shapes: Mapping[str, Sequence[int]], path: Path
) -> dict[str, Array]:
    """An array for each input: those given, checked, or random ones."""
    rng = np.random.default_rng(0)
    found = {}
    for name in model.inputs:
        tensor = model.tensors[name]
        shape = tuple(shapes.get(name, tensor.shape))
        if len(shape) != len(tensor.shape) or min(shape, default=1) < 1:
            raise UsageError(
                f"--resize: the input {name!r} of {path} has {len(tensor.shape)} dimensions, such as "
                f"{list(tensor.shape)}; given is {list(shape)}"
            )
        if tensor.dtype is None:
            raise ModelError(f"{path}: its input {name} is not an array of numbers")
        if given is None:
            found[name] = random_array(rng, shape, tensor.dtype)
            continue
        if name not in given:
            raise UsageError(
                f"there is no array {name!r} in the inputs", hint=f"{path} takes {', '.join(model.inputs)}"
            )
        if given[name].shape != shape:
            raise UsageError(f"the input {name!r} has the shape {list(given[name].shape)}, not {list(shape)}")
        found[name] = given[name].astype(tensor.dtype)
    unknown = set(shapes) - set(model.inputs)
    if unknown:
        raise UsageError(f"--resize: {path} has no input {min(unknown)!r}")
    return found


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Seeded values that an input of this type may have."""
    if dtype.kind == "f":
        return rng.uniform(-1, 1, tuple(shape)).astype(dtype)
    return rng.integers(0, 2, tuple(shape)).astype(dtype)


def _last(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape with its second axis last, if it has four."""
    return (shape[0], shape[2], shape[3], shape[1]) if len(shape) == 4 else tuple(shape)


def _turned(array: Array) -> Array:
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if array.ndim == 4 else array
