"""What a pack runs: nets of bmodels on given inputs, with the emulator's outputs as what is expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from firmware_sim.device.api import Array, DeviceApi
from firmware_sim.errors import DeviceError, ModelError, UsageError
from user_layers.bmodel.directory import BMODEL, INPUT_REFERENCE, LAYERS, LAYERS_OF, OUTPUT_REFERENCE
from user_layers.bmodel.model import SUBNET_CPU, BModel
from user_layers.bmodel.read import read
from user_layers.bmrt.reference_data import References, nbytes, random_inputs
from user_layers.layer_nets import WHOLE, layers_mark
from user_layers.runtime import BModelRuntime
from user_layers.runtime.network import NetworkInfo, TensorInfo

Shape = tuple[int, ...]
KINDS = ("layer", "whole", "net")
"""What a run is: a layer by itself, the whole net layer by layer, the net as it was compiled."""


@dataclass(frozen=True)
class Given:
    """An input of a run, or what an output should be. room: bytes of device memory that it needs."""

    tensor: TensorInfo
    array: Array
    room: int


@dataclass(frozen=True)
class Run:
    """One launch. kind: one of KINDS."""

    kind: str
    net: str
    stage: int
    title: str
    inputs: tuple[Given, ...]
    outputs: tuple[Given, ...]


@dataclass(frozen=True)
class PackedModel:
    """A bmodel file, and what is run of it. dynamic: it needs a firmware of ours, as do parts of static nets
    that are dynamic."""

    path: Path
    runs: tuple[Run, ...]
    dynamic: bool


@dataclass(frozen=True)
class Collected:
    """All that a pack runs, in its order, and what its maker should know."""

    models: tuple[PackedModel, ...]
    notes: tuple[str, ...]


def collect(net: Path, device: DeviceApi) -> Collected:
    """The runs of a compiled folder, or of a bmodel file, with its layers where the folder has them.

    Inputs are those of the folder's reference data, else random ones; the emulator computes what is expected.
    Errors: UsageError for a path that is neither; ModelError for damaged or foreign files, and for nets that
    need the host; those of running.
    """
    if net.suffix == ".onnx":
        raise UsageError(
            f"{net} is a model, not a compiled net", hint=f"tpulayer compile {net} -o {net.stem} --layers"
        )
    path = net / BMODEL if net.is_dir() else net
    if not path.is_file():
        raise UsageError(f"{path} is not there", hint="give a folder that compiling wrote, or a bmodel file")
    model = read(path)
    _check(model, path)
    folder = path.parent if path.name == BMODEL else None
    notes: list[str] = []
    models: list[PackedModel] = []
    if folder is not None:
        models += _layers(folder, device, notes)
    models.append(_packed(path, model, device, folder, notes))
    return Collected(tuple(models), tuple(notes))


def _layers(folder: Path, device: DeviceApi, notes: list[str]) -> list[PackedModel]:
    path = folder / LAYERS / BMODEL
    if not path.is_file():
        notes.append(
            f"{folder} has no nets of single layers, so a difference can be told for whole outputs only; "
            "compile with layers=True, or --layers"
        )
        return []
    if not _made_together(folder):
        notes.append(f"{path} is left out: it was made with another {BMODEL}; compile again with layers")
        return []
    model = read(path)
    _check(model, path)
    return [_packed(path, model, device, path.parent, notes, apart=True)]


def _made_together(folder: Path) -> bool:
    try:
        return (folder / LAYERS / LAYERS_OF).read_text(errors="replace") == layers_mark(folder)
    except OSError:
        return False


def _check(model: BModel, path: Path) -> None:
    """What the vendor's runtime can run: no part on the host."""
    for net in model.nets:
        if any(subnet.mode == SUBNET_CPU for stage in net.stages for subnet in stage.subnets):
            raise ModelError(
                f"{path}: net {net.name!r} has a part that runs on the host, which the vendor's runtime does "
                "not know",
                hint="compile the model with --no-cpu, or the part of it that runs on the TPU",
            )


def _packed(
    path: Path,
    model: BModel,
    device: DeviceApi,
    folder: Path | None,
    notes: list[str],
    *,
    apart: bool = False,
) -> PackedModel:
    """apart: its nets are single layers, and the whole."""
    runs: list[Run] = []
    with BModelRuntime(device) as runtime:
        runtime.load(model)
        infos = runtime.networks
        known = folder is not None and (folder / INPUT_REFERENCE).is_file()
        references = References(folder, infos, None) if folder is not None and known else None
        if references is None:
            notes.append(f"{path} has no reference data beside it: the inputs are random numbers")
        for index, info in enumerate(infos):
            for stage, shapes in enumerate(s.input_shapes for s in info.stages):
                given = references.inputs(index, stage, shapes) if references else random_inputs(info, shapes)
                kind = "net" if not apart else "whole" if info.name.startswith(f"{WHOLE} ") else "layer"
                run = _run(runtime, info, stage, given, kind)
                if references is not None:
                    _compare(references, index, run, folder, notes)
                runs.append(run)
                runs += _smaller(runtime, info, run)
    dynamic = any(subnet.is_dynamic for net in model.nets for stage in net.stages for subnet in stage.subnets)
    return PackedModel(path, tuple(runs), dynamic)


def _run(runtime: BModelRuntime, info: NetworkInfo, stage: int, given: Sequence[Array], kind: str) -> Run:
    got = runtime.launch(info.name, given, stage)
    return Run(
        kind,
        info.name,
        stage,
        info.name if len(info.stages) == 1 else f"{info.name}, stage {stage}",
        tuple(Given(t, a, _room(t, a.shape)) for t, a in zip(info.inputs, given, strict=True)),
        tuple(
            Given(t, a, _room(t, most))
            for t, a, most in zip(info.outputs, got, info.stages[stage].output_shapes, strict=True)
        ),
    )


def _room(tensor: TensorInfo, shape: Shape) -> int:
    """Bytes with which it may also lie in 2N or 4N: several batches to a word, the last word filled up."""
    size, batches = nbytes(tensor, shape), shape[0] if shape else 1
    words = -(-batches * tensor.dtype.itemsize // 4)
    return max(size, size // batches // tensor.dtype.itemsize * words * 4)


def _smaller(runtime: BModelRuntime, info: NetworkInfo, run: Run) -> list[Run]:
    """A dynamic net once more, with about half of each extent that may vary; none where its layers refuse."""
    shapes = [_halved(given.array.shape, info) for given in run.inputs]
    if all(shape == given.array.shape for shape, given in zip(shapes, run.inputs, strict=True)):
        return []
    parts = [
        g.array[tuple(slice(n) for n in shape)].copy() for g, shape in zip(run.inputs, shapes, strict=True)
    ]
    try:
        smaller = _run(runtime, info, run.stage, parts, run.kind)
    except (DeviceError, UsageError):
        return []
    return [replace(smaller, title=f"{run.title}, smaller inputs")]


def _halved(shape: Shape, info: NetworkInfo) -> Shape:
    def varies(axis: int) -> bool:
        return info.n_dynamic if axis == 0 else axis >= 2 and info.h_w_dynamic

    return tuple((n + 1) // 2 if varies(axis) else n for axis, n in enumerate(shape))


def _compare(references: References, index: int, run: Run, folder: Path | None, notes: list[str]) -> None:
    """The card is compared with the emulator; say so where the folder's own data is something else."""
    own = references.outputs(index, run.stage, [given.array for given in run.outputs])
    for given, array in zip(run.outputs, own, strict=True):
        if array.tobytes() != given.array.tobytes():
            notes.append(
                f"{given.tensor.name} of {run.title}: {folder}/{OUTPUT_REFERENCE} has other bits than the "
                "emulator, whose bits are what the pack expects"
            )
